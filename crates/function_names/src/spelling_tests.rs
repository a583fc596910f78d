use super::*;

fn text(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).expect("test names are text")
}

fn args(name: &str) -> String {
    text(tidy(name.as_bytes(), Tidy::Args))
}

fn templates(name: &str) -> String {
    text(tidy(name.as_bytes(), Tidy::Templates))
}

fn path(name: &str) -> String {
    text(bare(name.as_bytes()).path)
}

#[test]
fn only_the_last_argument_list_is_cut() {
    assert_eq!(args("f(int)"), "f");
    assert_eq!(args("ns::C::get(std::map<int, int> const&, void (*)(char)) const"), "ns::C::get");
    assert_eq!(args("C::move(int) &&"), "C::move");
    assert_eq!(args("C::get() const &"), "C::get");
    assert_eq!(args("std::function<void ()>::operator()(int) const"), "std::function<void ()>::operator()");
    assert_eq!(args("std::function<void ()>::operator()"), "std::function<void ()>::operator()");
    assert_eq!(args("foo<(E)0>::bar"), "foo<(E)0>::bar");
    assert_eq!(args("foo<(E)0>::bar(int)"), "foo<(E)0>::bar");
    assert_eq!(args("f(int)::{lambda(int)#1}::operator()(int) const"), "f(int)::{lambda(int)#1}::operator()");
    assert_eq!(args("void f<int>(int)"), "f<int>");
    assert_eq!(args("f(int) [clone .cold]"), "f");
    assert_eq!(args("f(int) const [clone .part.0] [clone .cold]"), "f");
    assert_eq!(args("f(int) (.isra.0)"), "f (.isra.0)");
}

#[test]
fn what_a_template_returns_is_cut_with_its_arguments() {
    assert_eq!(args("DataBlockIter* ns::Table::New<ns::Iter>(int) const"), "ns::Table::New<ns::Iter>");
    assert_eq!(args("DataBlockIter* ns::Table::New<ns::Iter>"), "ns::Table::New<ns::Iter>");
    assert_eq!(args("std::enable_if<is<A, B>::value, void>::type ns::f<A>"), "ns::f<A>");
    assert_eq!(
        args("unsigned long const& (anonymous namespace)::max<int>"),
        "(anonymous namespace)::max<int>"
    );
    assert_eq!(args("std::ostream& operator<< <char>"), "operator<< <char>");
    assert_eq!(args("long ns::f<A>(A) [clone .isra.0]"), "ns::f<A>");
    assert_eq!(args("X::operator bool"), "X::operator bool");
    // No names of templates: what comes first is no type.
    assert_eq!(args("non-virtual thunk to C::f"), "non-virtual thunk to C::f");
    assert_eq!(args("JS:*run <anonymous>"), "JS:*run <anonymous>");
    assert_eq!(args("py::find:<frozen importlib._bootstrap>"), "py::find:<frozen importlib._bootstrap>");
    assert_eq!(
        args("<alloc::vec::Vec<T> as core::ops::Index<I>>"),
        "<alloc::vec::Vec<T> as core::ops::Index<I>>"
    );
}

#[test]
fn scopes_in_round_brackets_stay() {
    assert_eq!(args("(anonymous namespace)::f"), "(anonymous namespace)::f");
    assert_eq!(args("(anonymous namespace)::f(int)"), "(anonymous namespace)::f");
    assert_eq!(args("rocksdb::(anonymous namespace)"), "rocksdb::(anonymous namespace)");
    assert_eq!(args("main.(*T)"), "main.(*T)");
    assert_eq!(args("main.(*T).Get"), "main.(*T).Get");
    assert_eq!(args("LazyCompile:*run (node.js:123)"), "LazyCompile:*run (node.js:123)");
    assert_eq!(args("(x)"), "(x)");
}

#[test]
fn operators_keep_their_sign() {
    for op in [
        "X::operator->",
        "X::operator->*",
        "X::operator()",
        "operator<",
        "operator<<",
        "operator>>",
        "operator<=>",
    ] {
        assert_eq!(args(op), op);
        assert_eq!(args(&format!("{op}(A const&, B<C>)")), op);
        assert_eq!(templates(&format!("ns::T<int>::{op}(A)")), format!("ns::T::{op}"));
    }
    assert_eq!(args("operator<< <char>(S&, char)"), "operator<< <char>");
    assert_eq!(templates("operator<< <char>(S&, char)"), "operator<<");
    assert_eq!(args("operator\"\" _kb(unsigned long long)"), "operator\"\" _kb");
    assert_eq!(args("operator new[](unsigned long)"), "operator new[]");
}

#[test]
fn versions_and_offsets_go_but_plt_and_clones_stay() {
    assert_eq!(args("clock_gettime@@GLIBC_2.17"), "clock_gettime");
    assert_eq!(args("cfree@GLIBC_2.2.5"), "cfree");
    assert_eq!(args("x@plt"), "x@plt");
    assert_eq!(args("ns::It<ns::V>::get(ns::Slice const&)@plt"), "ns::It<ns::V>::get@plt");
    assert_eq!(args("f.isra.0"), "f.isra.0");
    assert_eq!(cut_offset(b"leaf+0x1f"), b"leaf");
    assert_eq!(cut_offset(b"operator+"), b"operator+");
    assert_eq!(cut_offset(b"a+b"), b"a+b");
    assert_eq!(text(tidy(b"f(int)@@V", Tidy::None)), "f(int)@@V");
}

#[test]
fn separators_inside_a_name_are_replaced() {
    assert_eq!(args("Lorg/foo;.call(Lx;)V"), "Lorg/foo:.call(Lx:)V");
    assert_eq!(text(tidy(b"a;b", Tidy::None)), "a:b");
}

#[test]
fn templates_are_cut_at_every_depth() {
    assert_eq!(templates("B::Retrieve<rocksdb::Block, (R)0>(int) const"), "B::Retrieve");
    assert_eq!(
        templates("A<B<C>, D<(a>b)>>::f<int>"),
        "A<B<C>, D<(a>b)>>::f<int>".replace("<B<C>, D<(a>b)>>", "").replace("<int>", "")
    );
    assert_eq!(templates("<T as Trait>::f"), "<T as Trait>::f");
    assert_eq!(templates("f()::<lambda(int)>::operator()"), "f()::<lambda(int)>::operator()");
    assert_eq!(templates("unbalanced<int"), "unbalanced<int");
    assert_eq!(templates("std::enable_if<"), "std::enable_if<");
}

#[test]
fn bare_names_lose_all_that_rules_do_not_compare() {
    assert_eq!(path("rocksdb::DBImpl::Get"), "rocksdb::DBImpl::Get");
    assert_eq!(path("my_rocksdb::DBImpl::Get(rocksdb::ReadOptions const&) const"), "rocksdb::DBImpl::Get");
    assert_eq!(path("ext4_file_read_iter.isra.0_[k]"), "ext4_file_read_iter");
    assert_eq!(path("org.rocksdb.RocksDB.get_[0]"), path("org.rocksdb.RocksDB.get_[1]"));
    assert_eq!(path("org.rocksdb.RocksDB.get_[1]"), "org.rocksdb.RocksDB.get");
    assert!(bare(b"schedule_[k]").kernel);
    assert!(!bare(b"schedule").kernel);
    assert_eq!(path("f.constprop.0.isra.1"), "f");
    assert_eq!(path("f(int) [clone .part.0] [clone .cold]"), "f");
    assert_eq!(path("__tls_get_addr@plt"), "__tls_get_addr");
    assert_eq!(path("pthread_mutex_lock@@GLIBC_2.2.5"), "pthread_mutex_lock");
    assert_eq!(
        path(
            "rocksdb::DataBlockIter* rocksdb::BlockBasedTable::NewDataBlockIterator<rocksdb::DataBlockIter>"
        ),
        "rocksdb::BlockBasedTable::NewDataBlockIterator"
    );
    assert_eq!(
        path(
            "std::enable_if<((rocksdb::Block_kData::kCacheEntryRole)==((rocksdb::CacheEntryRole)13))||true, rocksdb::Status>::type rocksdb::BlockBasedTable::GetDataBlockFromCache<rocksdb::Block_kData>(rocksdb::Slice const&) const"
        ),
        "rocksdb::BlockBasedTable::GetDataBlockFromCache"
    );
    assert_eq!(
        path(
            "non-virtual thunk to rocksdb::(anonymous namespace)::BytewiseComparatorImpl::Compare(rocksdb::Slice const&) const"
        ),
        "rocksdb::(anonymous namespace)::BytewiseComparatorImpl::Compare"
    );
    assert_eq!(path("operator new(unsigned long)"), "operator new");
    assert_eq!(path("void* operator new(unsigned long)"), "operator new");
    assert_eq!(path("S::operator bool() const"), "S::operator bool");
    assert_eq!(path("std::enable_if<"), "std::enable_if<");
}

#[test]
fn streams_have_one_name_whoever_demangled_it() {
    let long = "std::basic_ostream<char, std::char_traits<char> >";
    assert_eq!(args("std::ostream::flush()"), format!("{long}::flush"));
    assert_eq!(args("std::operator<< <std::ostream>(int)"), format!("std::operator<< <{long}>"));
    for name in ["my::std::ostream::flush", "std::ostreambuf", "std::ostream_iterator<int>::x", "ostream"] {
        assert_eq!(args(name), name);
    }
}
