//! The process to be sampled, and what /proc says of it and of its threads.

use crate::machine::NOT_RESTARTED;
use nix::errno::Errno;
use nix::fcntl::{AtFlags, OFlag, openat};
use nix::sys::stat::Mode;
use nix::unistd::Pid;
use observer::{Failure, Process};
use recording::parse::{self, KernelFrame, Mapping, Stat, Syscall};
use std::fs::File;
use std::io::Read;

pub struct Target {
    pub pid: Pid,
    process: Process,
    buffer: Vec<u8>,
}

/// A thread as it was before it was asked to stop.
#[derive(Clone, Debug)]
pub struct Look {
    pub tid: Pid,
    pub stat: Stat,
    /// Of a blocked thread, leaf first.
    pub kernel: Vec<KernelFrame>,
    pub syscall: Option<Syscall>,
    /// The kernel function it waits in, empty if none or unknown.
    pub wchan: Vec<u8>,
}

impl Look {
    /// Whether it waits for something: blocked, not stopped, not on its way out.
    pub fn blocked(&self) -> bool {
        matches!(self.stat.state, b'S' | b'D' | b'I')
    }

    /// Whether it is not to be stopped, because the program would see an error from it.
    pub fn spared(&self) -> bool {
        self.blocked() && self.syscall.is_some_and(|call| NOT_RESTARTED.contains(&call.number))
    }
}

impl Target {
    pub fn open(pid: i32) -> Result<Self, Failure> {
        let number = u32::try_from(pid).map_err(|_| Failure::usage(format!("--pid {pid} is no process")))?;
        let process = Process::open(number)?;
        let mut target = Self { pid: Pid::from_raw(pid), process, buffer: Vec::new() };
        target.check()?;
        Ok(target)
    }

    /// Refuses what cannot be sampled, with the reason.
    fn check(&mut self) -> Result<(), Failure> {
        let pid = self.pid;
        let status = self.read("status").unwrap_or_default();
        if pid == Pid::this() {
            return Err(Failure::usage(format!("process {pid} is this sampler itself")));
        }
        if let Some(tracer) = status_number(&status, b"TracerPid").filter(|&tracer| tracer != 0) {
            return Err(Failure::host(format!(
                "process {pid} is traced by process {tracer} already\n  \
                 meaning: a thread has one tracer at a time (gdb, strace, another sampler)\n  \
                 to mend: end process {tracer} first"
            )));
        }
        match self.maps() {
            Some(maps) if maps.is_empty() => Err(Failure::usage(format!(
                "process {pid} has no memory of its own\n  meaning: it is a kernel thread, or has ended; there are no user stacks"
            ))),
            None => Err(self.not_permitted()),
            Some(maps) => {
                // The same permission as ptrace's, Yama's rules included.
                let mut byte = [0];
                let start = maps.iter().find(|map| map.executable).map_or(0, |map| map.range.start);
                match crate::stack::read(pid, start, &mut byte) {
                    0 => Err(self.not_permitted()),
                    _ => Ok(()),
                }
            }
        }
    }

    pub fn not_permitted(&self) -> Failure {
        let pid = self.pid;
        let scope = std::fs::read_to_string("/proc/sys/kernel/yama/ptrace_scope").unwrap_or_default();
        let user = nix::unistd::geteuid();
        let (meaning, mend) = match (scope.trim(), user.is_root()) {
            ("3", _) => (
                "kernel.yama.ptrace_scope is 3: nobody may trace until the next boot".to_owned(),
                String::new(),
            ),
            ("1", false) => (
                format!("user {user} may trace its own children only (kernel.yama.ptrace_scope=1)"),
                format!("sudo stacksampler --pid {pid} ...   (or: sudo sysctl kernel.yama.ptrace_scope=0)"),
            ),
            (_, true) => (
                "root without CAP_SYS_PTRACE here (a container?)".to_owned(),
                "docker run --cap-add SYS_PTRACE, or run it on the host".to_owned(),
            ),
            (_, false) => (
                format!("user {user} may trace its own processes only, and none that changed its rights"),
                format!("sudo stacksampler --pid {pid} ..."),
            ),
        };
        let mend = if mend.is_empty() { mend } else { format!("\n  to mend: {mend}") };
        Failure::host(format!("process {pid} may not be traced\n  meaning: {meaning}{mend}"))
    }

    /// The threads of now; empty once the process has ended.
    pub fn threads(&self) -> Vec<Pid> {
        let Ok(entries) = std::fs::read_dir(self.process.path("task")) else { return Vec::new() };
        let tid = |entry: std::fs::DirEntry| entry.file_name().to_str()?.parse().ok().map(Pid::from_raw);
        entries.filter_map(|entry| tid(entry.ok()?)).collect()
    }

    /// Whether `tid` is a thread of this process still, and not of another that came after it.
    pub fn owns(&self, tid: Pid) -> bool {
        let path = format!("task/{tid}");
        nix::sys::stat::fstatat(self.process.directory(), path.as_str(), AtFlags::empty()).is_ok()
    }

    pub fn maps(&mut self) -> Option<Vec<Mapping>> {
        self.read("maps").ok().map(|text| parse::maps(&text))
    }

    /// `None`: the thread has ended.
    pub fn look(&mut self, tid: Pid) -> Option<Look> {
        let stat = parse::stat(&self.read(&format!("task/{tid}/stat")).ok()?)?;
        if matches!(stat.state, b'Z' | b'X') {
            return None;
        }
        let mut look = Look { tid, stat, kernel: Vec::new(), syscall: None, wchan: Vec::new() };
        if look.blocked() {
            let mut part = |name: &str| self.read(&format!("task/{tid}/{name}")).unwrap_or_default();
            look.kernel = parse::kernel_stack(&part("stack"));
            look.syscall = parse::syscall(&part("syscall"));
            look.wchan = part("wchan");
            if look.wchan == b"0" {
                look.wchan.clear();
            }
        }
        Some(look)
    }

    fn read(&mut self, name: &str) -> Result<Vec<u8>, Errno> {
        let file = openat(self.process.directory(), name, OFlag::O_RDONLY | OFlag::O_CLOEXEC, Mode::empty())?;
        self.buffer.clear();
        let error = |error: std::io::Error| Errno::from_raw(error.raw_os_error().unwrap_or(0));
        File::from(file).read_to_end(&mut self.buffer).map_err(error)?;
        Ok(self.buffer.clone())
    }
}

/// The number behind `name:` in `/proc/PID/status`. The name of the process stands there too, but escaped.
fn status_number(text: &[u8], name: &[u8]) -> Option<i64> {
    let line =
        text.split(|&byte| byte == b'\n').find_map(|line| line.strip_prefix(name)?.strip_prefix(b":"))?;
    std::str::from_utf8(line.split(|&byte| byte == b' ').next()?).ok()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::status_number;

    #[test]
    fn a_number_of_the_status() {
        let text = b"Name:\tTracerPid:\\n9\nTracerPid:\t17\nUid:\t0\t0\t0\t0\n";
        assert_eq!(status_number(text, b"TracerPid"), Some(17));
        assert_eq!(status_number(text, b"None"), None);
    }
}
