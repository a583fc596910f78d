//! Mangled names made readable, in the form `perf script` prints: no arguments, no return type.

mod gnu_spelling;
mod template_lambdas;

use cpp_demangle::{DemangleOptions, DemangleWrite, ParseOptions, Symbol};
use std::borrow::Cow;

/// Names longer than this are left as they are; a demangled name can be far longer than the mangled one.
const LONGEST: usize = 16 << 10;
const LONGEST_READABLE: usize = 256 << 10;
/// How many times as long as mangled names readable ones are, most of them at most.
const READABLE: usize = 8;
const RECURSION: u32 = 96;

fn is_mangled(name: &[u8]) -> bool {
    let begins = name.starts_with(b"_Z") || name.starts_with(b"_R") || name.starts_with(b"_GLOBAL_");
    begins && name.len() <= LONGEST
}

/// The readable form of a C++ or Rust name; any other name unchanged.
pub fn demangle(name: &[u8]) -> Cow<'_, [u8]> {
    if !is_mangled(name) {
        return Cow::Borrowed(name);
    }
    if let Some(function) = name.strip_suffix(b"@plt") {
        return Cow::Owned([&demangle(function), &b"@plt"[..]].concat());
    }
    rust(name).or_else(|| cpp(name)).map_or(Cow::Borrowed(name), |readable| Cow::Owned(readable.into_bytes()))
}

/// `_R...`, and `_ZN...17h<hash>E` without the hash.
fn rust(name: &[u8]) -> Option<String> {
    let text = std::str::from_utf8(name).ok()?;
    let demangled = rustc_demangle::try_demangle(text).ok()?;
    Some(format!("{demangled:#}"))
}

/// A name of C++ with its arguments.
pub fn with_arguments(name: &str) -> Option<String> {
    is_mangled(name.as_bytes()).then(|| limited(name.as_bytes(), DemangleOptions::new()))?
}

fn limited(name: &[u8], form: DemangleOptions) -> Option<String> {
    let limits = ParseOptions::default().recursion_limit(RECURSION);
    let symbol = Symbol::new_with_options(name, &limits).ok()?;
    let mut readable = Limited(String::with_capacity(name.len() * READABLE));
    symbol.structured_demangle(&mut readable, &form.recursion_limit(RECURSION)).ok()?;
    Some(readable.0)
}

fn cpp(name: &[u8]) -> Option<String> {
    let without_arguments = |name: &[u8]| limited(name, DemangleOptions::new().no_params().no_return_type());
    let name = function_names::cut_version(name);
    without_arguments(name).map(|readable| gnu_spelling::spell(&readable)).or_else(|| {
        let (plain, heads) = template_lambdas::take_heads(name)?;
        Some(template_lambdas::put_heads(&gnu_spelling::spell(&without_arguments(&plain)?), &heads))
    })
}

/// Text that refuses to grow without end: a short mangled name can have a readable form of gigabytes.
struct Limited(String);

impl DemangleWrite for Limited {
    fn write_string(&mut self, part: &str) -> std::fmt::Result {
        if self.0.len() + part.len() > LONGEST_READABLE {
            return Err(std::fmt::Error);
        }
        self.0.push_str(part);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each argument is a pair of the one before: 400 bytes are terabytes.
    #[test]
    fn a_name_that_would_fill_all_memory_stays_as_it_is() {
        let number = |n: u32| char::from_digit(n, 36).expect("a digit").to_ascii_uppercase();
        let pairs: String = (0..35).map(|n| format!("S_IS{0}_S{0}_E", number(n))).collect();
        let name = format!("_Z1fSt4pairIiiE{pairs}");
        assert_eq!((with_arguments(&name), &*demangle(name.as_bytes())), (None, &b"f"[..]));
        let few = with_arguments(&name[.."_Z1fSt4pairIiiES_IS0_S0_E".len()]);
        assert_eq!(
            few.as_deref(),
            Some("f(std::pair<int, int>, std::pair<std::pair<int, int>, std::pair<int, int> >)")
        );
    }

    #[test]
    fn readable_names_have_no_arguments() {
        for (mangled, readable) in [
            ("_ZN7rocksdb6DBImpl3GetERKNS_11ReadOptionsE", "rocksdb::DBImpl::Get"),
            ("_ZN12_GLOBAL__N_14leafEi", "(anonymous namespace)::leaf"),
            ("_ZN3PtrptEv", "Ptr::operator->"),
            ("_ZN3FooclEv", "Foo::operator()"),
            ("_RNvCs1234_7mycrate3foo", "mycrate::foo"),
            ("_ZN4core3fmt5Write9write_fmt17h0123456789abcdefE", "core::fmt::Write::write_fmt"),
            ("_ZN3Foo1fEi@plt", "Foo::f@plt"),
            ("main", "main"),
            ("_ZN7rocksdb10autovectorIiLm8EE5clearEv", "rocksdb::autovector<int, 8ul>::clear"),
            ("_ZN1fIFivEE1gEv", "f<int ()>::g"),
            ("_ZN6engineli6_turnsEy", "engine::operator\"\" _turns"),
            ("_Zli3_kbPKcm", "operator\"\" _kb"),
            ("_Znonsense", "_Znonsense"),
            ("_ZNSo5flushEv@@GLIBCXX_3.4", "std::basic_ostream<char, std::char_traits<char> >::flush"),
            // Lambdas, and what qualifies them.
            ("_ZZ4mainENKUliE3_clEi", "main::{lambda(int)#5}::operator()"),
            ("_ZNK1XcvKiEv", "X::operator int const"),
            (
                "_ZZ4mainENKUlDpT0_E0_clILi3EJiiEEEDaS0_",
                "main::{lambda((auto:2)...)#2}::operator()<3, int, int>",
            ),
            (
                "_ZZZ4mainENKUliE6_clEiENKUliE_clEi",
                "main::{lambda(int)#8}::operator()(int) const::{lambda(int)#1}::operator()",
            ),
            // Packs of nothing.
            ("_Z4packI3FooJEEiT_DpT0_", "pack<Foo>"),
            ("_Z4packI6HolderIJEEJEEiT_DpT0_", "pack<Holder<>>"),
            ("_ZNK6HolderIJEE3getEv", "Holder<>::get"),
            ("_ZSt7forwardIDnEOT_RNSt16remove_referenceIS0_E4typeE", "std::forward<decltype(nullptr)>"),
            // Template parameters of a lambda.
            ("_Z4callIZ4workiEUlTyT_E0_EiS0_", "call<work(int)::{lambda<typename $T0>($T0)#2}>"),
            ("_ZNK3varMUlTyT_E_clIiEEDaS0_", "var::{lambda<typename $T0>($T0)#1}::operator()<int>"),
            (
                "_ZZ4workiENKUlTniTpTyDpT0_E_clILi3EJiiEEEDaS0_",
                "work(int)::{lambda<int $N0, typename... $T1>(($T1)...)#1}::operator()<3, int, int>",
            ),
            (
                "_ZZ4workiENKUlTtTpTyETyT0_PT_IJS_EEE_clISt6vectoriEEDaS_S2_",
                "work(int)::{lambda<template<typename...> class $TT0, typename $T1>($T1, $TT0<$T1>*)#1}::operator()<std::vector, int>",
            ),
            // Pointers to members, and members of what a template has as its argument.
            (
                "_ZNSt17_Function_handlerIFvvESt5_BindIFMN7rocksdb18WriteableCacheFileEFvvEPS3_EEE9_M_invokeERKSt9_Any_data",
                "std::_Function_handler<void (), std::_Bind<void (rocksdb::WriteableCacheFile::*(rocksdb::WriteableCacheFile*))()> >::_M_invoke",
            ),
            (
                "_ZNSt6thread11_State_implINS_8_InvokerISt5tupleIJMN7rocksdb13CompactionJobEFvPNS4_18SubcompactionStateEEPS4_S6_EEEEED0Ev",
                "std::thread::_State_impl<std::thread::_Invoker<std::tuple<void (rocksdb::CompactionJob::*)(rocksdb::CompactionJob::SubcompactionState*), rocksdb::CompactionJob*, rocksdb::CompactionJob::SubcompactionState*> > >::~_State_impl",
            ),
            (
                "_ZN7rocksdb10ManagedPtrINS_10Compressor11WorkingAreaES1_XadL_ZNS1_18ReleaseWorkingAreaEPS2_EEED1Ev",
                "rocksdb::ManagedPtr<rocksdb::Compressor::WorkingArea, rocksdb::Compressor, &rocksdb::Compressor::ReleaseWorkingArea>::~ManagedPtr",
            ),
        ] {
            assert_eq!(String::from_utf8_lossy(&demangle(mangled.as_bytes())), readable);
        }
    }
}
