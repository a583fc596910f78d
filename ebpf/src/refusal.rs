//! What the kernel refused, in libbpf's words and ours.

use std::sync::{Mutex, PoisonError};

use libbpf_rs::{ErrorKind, PrintLevel};
use observer::Failure;

/// What libbpf said last, for the words of an error: it prints what the kernel's error number cannot say.
static SAID: Mutex<Vec<String>> = Mutex::new(Vec::new());
const LINES_KEPT: usize = 3;

/// Keeps libbpf's warnings for our own errors instead of printing them.
pub fn keep_libbpf_words() {
    libbpf_rs::set_print(Some((PrintLevel::Warn, |_, words| {
        let words = words.trim().trim_start_matches("libbpf: ").replace('\n', " ");
        // Since Linux 5.11 that limit has no effect; the other line repeats the first.
        if words.contains("MEMLOCK") || words.contains("ulimit") || words.contains("skeleton") {
            return;
        }
        let mut said = SAID.lock().unwrap_or_else(PoisonError::into_inner);
        said.push(words);
        let extra = said.len().saturating_sub(LINES_KEPT);
        said.drain(..extra);
    })));
}

/// Results of libbpf's, whose errors are the host's.
pub trait OrRefused<T> {
    /// A host error with what libbpf said of it.
    fn or_refused(self) -> Result<T, Failure>;
}

impl<T> OrRefused<T> for libbpf_rs::Result<T> {
    fn or_refused(self) -> Result<T, Failure> {
        self.map_err(|error| refusal(&error))
    }
}

fn refusal(error: &libbpf_rs::Error) -> Failure {
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
    Failure::host(words)
}
