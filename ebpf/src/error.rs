//! What ends a program early: its words and the exit code they deserve.

use std::fmt;
use std::sync::{Mutex, PoisonError};

use libbpf_rs::{ErrorKind, PrintLevel};

/// What libbpf said last, for the words of an error: it prints what the kernel's error number cannot say.
static SAID: Mutex<Vec<String>> = Mutex::new(Vec::new());
const LINES_KEPT: usize = 3;

/// Keeps libbpf's warnings for our own errors instead of printing them.
pub fn keep_libbpf_words() {
    libbpf_rs::set_print(Some((PrintLevel::Warn, |_, words| {
        let words = words.trim().trim_start_matches("libbpf: ").replace('\n', " ");
        // Since Linux 5.11 that limit has no part in it; the other says nothing that the first line has not.
        if words.contains("MEMLOCK") || words.contains("ulimit") || words.contains("skeleton") {
            return;
        }
        let mut said = SAID.lock().unwrap_or_else(PoisonError::into_inner);
        said.push(words);
        let extra = said.len().saturating_sub(LINES_KEPT);
        said.drain(..extra);
    })));
}

/// An error with its exit code: 1 measured but wrong, 2 bad usage, 3 this host cannot.
#[derive(Debug)]
pub struct Failure {
    pub exit_code: u8,
    words: String,
}

impl Failure {
    pub fn measurement(words: impl Into<String>) -> Self {
        Self { exit_code: 1, words: words.into() }
    }

    pub fn usage(words: impl Into<String>) -> Self {
        Self { exit_code: 2, words: words.into() }
    }

    pub fn host(words: impl Into<String>) -> Self {
        Self { exit_code: 3, words: words.into() }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.words)
    }
}

impl From<std::io::Error> for Failure {
    fn from(error: std::io::Error) -> Self {
        Self::measurement(error.to_string())
    }
}

impl From<libbpf_rs::Error> for Failure {
    fn from(error: libbpf_rs::Error) -> Self {
        let mut words = format!("the kernel refused a program: {error:#}");
        if error.kind() == ErrorKind::PermissionDenied {
            // SAFETY: a system call without arguments.
            words += if unsafe { libc::geteuid() } == 0 {
                "; as root this means a container without CAP_BPF, or a kernel locked down against this kind of program"
            } else {
                "; loading takes CAP_BPF and CAP_PERFMON: run it as root"
            };
        }
        let said = std::mem::take(&mut *SAID.lock().unwrap_or_else(PoisonError::into_inner));
        if !said.is_empty() {
            words += &format!(" (libbpf: {})", said.join("; "));
        }
        Self::host(words)
    }
}
