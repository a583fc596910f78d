//! What the kernel refused, in libbpf's words and ours.

use std::fs;
use std::io::Write as _;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use libbpf_rs::{ErrorKind, PrintLevel};
use observer::Failure;

/// What libbpf said last, for the words of an error: it prints what the kernel's error number cannot say.
static SAID: Mutex<Vec<String>> = Mutex::new(Vec::new());
const LINES_KEPT: usize = 3;

/// In what libbpf says, before the verifier's log.
const LOG_BEGINS: &str = "BEGIN PROG LOAD LOG";
/// Lines of it that follow the reason.
const AFTER_THE_REASON: [&str; 6] =
    ["processed ", "verification time", "stack depth", "max_states", "-- END", "peak_states"];

/// Keeps libbpf's warnings for our own errors instead of printing them.
pub fn keep_libbpf_words() {
    libbpf_rs::set_print(Some((PrintLevel::Warn, |_, words| {
        let words = words.trim().trim_start_matches("libbpf: ").to_owned();
        // Since Linux 5.11 that limit has no effect; the other line repeats the first.
        let empty = ["MEMLOCK", "ulimit", "skeleton"].iter().any(|word| words.contains(word));
        if empty && !words.contains(LOG_BEGINS) {
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
    let said = std::mem::take(&mut *SAID.lock().unwrap_or_else(PoisonError::into_inner));
    if let Some(log) = said.iter().rev().find(|words| words.contains(LOG_BEGINS)) {
        return refused_by_verifier(log);
    }
    let mut words = format!("the kernel refused a program: {error:#}");
    if !said.is_empty() {
        words += &format!(" (libbpf: {})", said.join("; ").replace('\n', " "));
    }
    if error.kind() == ErrorKind::PermissionDenied {
        // SAFETY: a system call without arguments.
        words += if unsafe { libc::geteuid() } == 0 {
            "; as root this means a container without CAP_BPF, or a kernel locked down against this kind of program"
        } else {
            "; loading takes CAP_BPF and CAP_PERFMON: run it as root"
        };
    }
    Failure::host(words)
}

/// The kernel's verifier does not follow a program, which is no lack of rights, whatever the error's number: the last line
/// of its log says why, and all of it goes to a file.
fn refused_by_verifier(log: &str) -> Failure {
    let program = log.split('\'').nth(1).unwrap_or("a program");
    let last = log
        .lines()
        .map(str::trim)
        .rfind(|line| !AFTER_THE_REASON.iter().any(|begin| line.starts_with(begin)));
    let release = release();
    let failure = Failure::host(format!(
        "the verifier of this kernel ({release}) refused the program {program}: {}",
        last.unwrap_or("it did not say why")
    ))
    .meaning("this program was not tried on this kernel; it is no lack of rights");
    match keep(log) {
        Ok(path) => failure.mend(format!(
            "ioflame doctor   (what this kernel can run); the verifier's log: {}",
            path.display()
        )),
        Err(_) => failure.mend("ioflame doctor   (what this kernel can run)"),
    }
}

/// A new file for the log.
fn keep(log: &str) -> std::io::Result<PathBuf> {
    let path = std::env::temp_dir().join(format!("ioflame-verifier-{}.log", std::process::id()));
    fs::File::create_new(&path)?.write_all(log.as_bytes())?;
    Ok(path)
}

/// The running kernel's, as `uname -r` says it.
pub fn release() -> String {
    let found = nix::sys::utsname::uname();
    found.map_or_else(|_| "unknown".to_owned(), |found| found.release().to_string_lossy().into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_line_of_the_verifier_is_quoted() {
        let log = "prog 'query_entry': -- BEGIN PROG LOAD LOG --\n0: R1=ctx()\n; row->buckets[bucket] += 1;\n\
                   R0 unbounded memory access, make sure to bounds check\nprocessed 812 insns (limit 1000000)\n\
                   -- END PROG LOAD LOG --";
        let words = refused_by_verifier(log).to_string();
        assert!(words.contains(
            "refused the program query_entry: R0 unbounded memory access, make sure to bounds check\n"
        ));
        assert!(!words.contains("CAP_BPF") && words.lines().all(|line| line.len() < 300), "{words}");
        let path = words.rsplit(' ').next().unwrap();
        assert_eq!(fs::read_to_string(path).unwrap(), log);
        fs::remove_file(path).unwrap();
    }
}
