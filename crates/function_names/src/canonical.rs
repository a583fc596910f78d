//! The name that one function has in every build: what compilers, C++ libraries, allocators and kernels spell
//! differently is cut or written one way.

use crate::spelling::bare;

/// What the same function of another build is called as well: marks, clone suffixes, symbol versions, arguments and
/// template arguments are cut ([`bare`]), and the spellings below are one.
pub fn canonical(frame: &str) -> String {
    let name = bare(frame.as_bytes());
    let path = String::from_utf8_lossy(&name.path).into_owned();
    let path = if name.kernel { kernel(&path) } else { user(&path) };
    if name.kernel { path + "_[k]" } else { path }
}

fn user(path: &str) -> String {
    let mut name = lambdas(&without_tags(path));
    for inline in ["std::__cxx11::", "std::__1::", "std::__ndk1::", "std::__debug::"] {
        name = name.replace(inline, "std::");
    }
    for prefix in ["__GI_", "__libc_", "je_", "tc_", "mi_"] {
        if let Some(rest) = name.strip_prefix(prefix) {
            let allocates =
                ["malloc", "free", "calloc", "realloc", "memalign", "aligned_alloc", "posix_memalign"];
            if prefix == "__GI_" || allocates.contains(&rest) {
                return rest.to_owned();
            }
        }
    }
    name
}

/// System calls and entries have a spelling for each way in; `name` without its mark.
fn kernel(name: &str) -> String {
    for prefix in ["__x64_", "__ia32_", "__arm64_", "__se_", "__do_"] {
        if let Some(call) = name.strip_prefix(prefix) {
            if call.starts_with("sys_") {
                return call.to_owned();
            }
        }
    }
    for entry in ["entry_SYSCALL_64", "ret_from_fork", "el0t_64_sync", "el0_svc"] {
        if name.starts_with(entry) {
            return entry.to_owned();
        }
    }
    match name.strip_prefix("asm_") {
        Some(handler) if handler.starts_with("sysvec_") || handler.starts_with("exc_") => handler.to_owned(),
        _ => name.to_owned(),
    }
}

/// Without `[abi:cxx11]`.
fn without_tags(name: &str) -> String {
    let mut rest = name;
    let mut out = String::with_capacity(name.len());
    while let Some(start) = rest.find("[abi:") {
        let Some(length) = rest[start..].find(']') else { break };
        out.push_str(&rest[..start]);
        rest = &rest[start + length + 1..];
    }
    out + rest
}

/// `{lambda(int)#2}`, `'lambda1'(int)` and `$_2` as `{lambda}`: their numbers are those of the source's order.
fn lambdas(name: &str) -> String {
    let part = |part: &str| {
        let is_lambda = part.starts_with("{lambda")
            || part.starts_with("'lambda")
            || part.strip_prefix("$_").is_some_and(|rest| rest.bytes().all(|b| b.is_ascii_digit()));
        if is_lambda { "{lambda}".to_owned() } else { part.to_owned() }
    };
    if !name.contains("lambda") && !name.contains("$_") {
        return name.to_owned();
    }
    name.split("::").map(part).collect::<Vec<_>>().join("::")
}

#[cfg(test)]
mod tests {
    use super::canonical;

    #[test]
    fn spellings_of_builds_are_one_name() {
        for (name, wanted) in [
            ("rocksdb::Block::Get(rocksdb::Slice const&)", "rocksdb::Block::Get"),
            ("rocksdb::Block::Get.constprop.0", "rocksdb::Block::Get"),
            ("rocksdb::Block::Get.llvm.1234567", "rocksdb::Block::Get"),
            ("rocksdb::Block::Get_[i]", "rocksdb::Block::Get"),
            ("std::__cxx11::basic_string<char>::append", "std::basic_string::append"),
            ("std::__1::basic_string<char>::append", "std::basic_string::append"),
            ("name[abi:cxx11]", "name"),
            ("eng::run()::{lambda(int)#3}::operator()", "eng::run()::{lambda}::operator()"),
            ("eng::run()::$_2::operator()", "eng::run()::{lambda}::operator()"),
            ("je_malloc", "malloc"),
            ("__libc_malloc", "malloc"),
            ("__libc_pread", "__libc_pread"),
            ("mi_engine_step", "mi_engine_step"),
            ("__x64_sys_pread64_[k]", "sys_pread64_[k]"),
            ("entry_SYSCALL_64_after_hwframe_[k]", "entry_SYSCALL_64_[k]"),
            ("asm_sysvec_apic_timer_interrupt_[k]", "sysvec_apic_timer_interrupt_[k]"),
        ] {
            assert_eq!(canonical(name), wanted, "{name}");
        }
    }
}
