//! A process, held on to: when it has ended, whoever is given its number later is not taken for it.

use std::fs::{self, File};
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use crate::Failure;

/// After its functions were probed.
const SOON: Duration = Duration::from_secs(2);

pub struct Process {
    pid: u32,
    directory: File,
    handle: OwnedFd,
}

impl Process {
    /// Usage error where there is no such process, or the number is that of a thread.
    pub fn open(pid: u32) -> Result<Self, Failure> {
        let none = || Self::none(pid);
        let directory = File::open(format!("/proc/{pid}")).map_err(|_| none())?;
        // SAFETY: a system call without pointers; a descriptor that it returns is ours.
        let handle = unsafe { libc::syscall(libc::SYS_pidfd_open, pid as libc::pid_t, 0) };
        if handle < 0 {
            let error = io::Error::last_os_error();
            let leader = leader(&directory).filter(|&leader| leader != pid);
            return Err(leader.map_or_else(
                || match error.raw_os_error() {
                    Some(libc::ESRCH | libc::EINVAL | libc::ENOENT) => none(),
                    _ => Failure::host(format!(
                        "pidfd_open of process {pid}: {error} (Linux 5.3 and newer have it)"
                    )),
                },
                |leader| {
                    Failure::usage(format!("{pid} is a thread of process {leader}"))
                        .mend(format!("--pid {leader}"))
                },
            ));
        }
        // SAFETY: as above; nothing else has it.
        let process = Self { pid, directory, handle: unsafe { OwnedFd::from_raw_fd(handle as i32) } };
        // Directory and handle may be of two processes; one that is there still has had the number all the time.
        if process.has_ended() || fs::read(process.path("stat")).is_err() {
            return Err(none());
        }
        Ok(process)
    }

    /// What is said of a number that no process has.
    pub fn none(pid: impl std::fmt::Display) -> Failure {
        Failure::usage(format!("there is no process {pid}")).mend("--pid <a running process; see ps>")
    }

    /// Its number. What is read of it by number may be another's: see `path`.
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// `/proc/PID`; reads below it fail once the process is gone.
    pub fn directory(&self) -> &File {
        &self.directory
    }

    /// A path to `name` below that directory.
    pub fn path(&self, name: &str) -> PathBuf {
        PathBuf::from(format!("/proc/self/fd/{}/{name}", self.directory.as_raw_fd()))
    }

    /// Whether its last thread has ended, zombie or not.
    pub fn has_ended(&self) -> bool {
        let mut poll = libc::pollfd { fd: self.handle.as_raw_fd(), events: libc::POLLIN, revents: 0 };
        // SAFETY: one valid entry, and no waiting.
        unsafe { libc::poll(&raw mut poll, 1, 0) > 0 }
    }

    /// Seconds since `probed`, when its functions were, if it has ended soon after: it may have ended for that.
    pub fn ended_soon(&self, probed: Instant) -> Option<f64> {
        let after = probed.elapsed();
        (after <= SOON && self.has_ended()).then_some(after.as_secs_f64())
    }

    /// Measurement error if it has ended: programs that were given its number may see another process.
    pub fn must_be_alive(&self) -> Result<(), Failure> {
        if self.has_ended() {
            return Err(Failure::measurement(format!("process {} ended before it was measured", self.pid)));
        }
        Ok(())
    }
}

/// The process that a thread belongs to.
fn leader(directory: &File) -> Option<u32> {
    let text = fs::read(format!("/proc/self/fd/{}/status", directory.as_raw_fd())).ok()?;
    let text = String::from_utf8_lossy(&text).into_owned();
    text.lines().find_map(|line| line.strip_prefix("Tgid:")?.trim().parse().ok())
}

#[cfg(test)]
mod tests {
    use super::Process;
    use std::process::{Command, Stdio};

    #[test]
    fn a_process_that_has_ended_is_gone_for_good() {
        let mut child = Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
        let process = Process::open(child.id()).unwrap();
        assert!(!process.has_ended() && process.must_be_alive().is_ok());
        assert!(process.path("maps").exists());
        drop(child.stdin.take());
        child.wait().unwrap();
        assert!(process.has_ended() && process.must_be_alive().is_err());
        assert!(std::fs::read(process.path("maps")).is_err());
        let failure = Process::open(child.id()).err().unwrap();
        assert_eq!(failure.exit_code, 2);
        assert!(failure.to_string().starts_with(&format!("there is no process {}", child.id())));
    }

    #[test]
    fn a_thread_is_no_process() {
        let (send, receive) = std::sync::mpsc::channel();
        let (end, wait) = std::sync::mpsc::channel::<()>();
        let thread = std::thread::spawn(move || {
            let path = std::fs::read_link("/proc/thread-self").unwrap();
            send.send(path.file_name().unwrap().to_str().unwrap().parse().unwrap()).unwrap();
            wait.recv().ok();
        });
        let failure = Process::open(receive.recv().unwrap()).err().unwrap();
        assert!(failure.to_string().contains(&format!("--pid {}", std::process::id())), "{failure}");
        drop(end);
        thread.join().unwrap();
    }
}
