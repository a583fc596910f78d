//! Whether a call chain reached the place where threads begin.
//!
//! A chain that did not was cut: by a missing frame pointer, by the size of the copied user stack, or by
//! the kernel's limit on frames. The rule:
//!
//! - a chain ends at the outermost function in which threads begin and whose caller can be none: its address is in no
//!   code (not mapped, a stack, the heap), or no call lies there. What is beyond is cut (`collector::beyond_start`), and
//!   the rest of the rule is for what remains;
//! - a chain with at least one user frame is complete if threads begin in the function of its outermost frame: that is
//!   said by the unwind tables of the file (`symbolize::unwind::ThreadStarts`), because the C libraries of many
//!   distributions have no names for it. Where there are none (text, code made at run time, Go), it is one of the
//!   names under which the C library, the dynamic linker or a language's run time starts a thread ([`USER`]);
//! - a chain of kernel frames only is complete if its outermost frame is a kernel thread's start, a system
//!   call's or an interrupt's entry, or the boot path ([`KERNEL`]);
//! - a chain without frames is incomplete, and so is one whose outermost frame has neither table nor name.

use crate::names::{cut_arguments, cut_version};

/// Where user threads begin; `*` matches any ending.
const USER: [&str; 11] = [
    "_start",
    "main",
    "clone*",
    "__clone*",
    "start_thread",
    "__libc_start*",
    "_dl_start_user",
    "thread_start",
    "runtime.goexit*",
    "runtime.mstart*",
    "runtime.rt0_go*",
];

/// Where kernel threads, system calls and interrupts begin, on x86-64 and arm64.
const KERNEL: [&str; 17] = [
    "ret_from_fork*",
    "entry_*",
    "asm_*",
    "secondary_startup*",
    "cpu_startup_entry",
    "common_startup_64",
    "start_secondary",
    "x86_64_start*",
    "start_kernel",
    "kthread",
    "el0t_*",
    "el1h_*",
    "el0_*",
    "el1_*",
    "__secondary_switched",
    "__primary_switched",
    "vectors",
];

/// What a frame's name says when it is the outermost one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Root {
    pub user: bool,
    pub kernel: bool,
}

/// What this name would say as the outermost frame.
pub fn root(symbol: &[u8]) -> Root {
    let name = cut_arguments(cut_version(symbol));
    Root { user: one_of(&USER, &name), kernel: one_of(&KERNEL, &name) }
}

fn one_of(patterns: &[&str], name: &[u8]) -> bool {
    patterns.iter().any(|pattern| match pattern.strip_suffix('*') {
        Some(prefix) => name.starts_with(prefix.as_bytes()),
        None => name == pattern.as_bytes(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn user_roots() {
        for name in [
            "_start",
            "main",
            "main(int, char**)",
            "clone",
            "clone3",
            "__clone3",
            "__clone",
            "start_thread",
            "__libc_start_main@@GLIBC_2.34",
            "__libc_start_call_main",
            "__libc_start_main_impl",
        ] {
            assert!(root(name.as_bytes()).user, "{name}");
        }
        for name in ["[unknown]", "domain", "mainloop", "rocksdb::DBImpl::Get", "restart_thread", ""] {
            assert_eq!(root(name.as_bytes()), Root::default(), "{name}");
        }
    }

    #[test]
    fn kernel_roots_are_not_user_roots() {
        for name in [
            "ret_from_fork_asm",
            "entry_SYSCALL_64_after_hwframe",
            "asm_sysvec_apic_timer_interrupt",
            "secondary_startup_64_no_verify",
            "el0t_64_sync",
        ] {
            assert_eq!(root(name.as_bytes()), Root { user: false, kernel: true }, "{name}");
        }
    }
}
