//! The process to be sampled, and what /proc says of it and of its threads.

use crate::calls;
use nix::errno::Errno;
use nix::fcntl::{AtFlags, OFlag, openat, readlinkat};
use nix::sys::stat::Mode;
use nix::unistd::Pid;
use observer::{Failure, Process};
use recording::parse::{self, KernelFrame, Mapping, Stat, Syscall};
use std::fs::File;
use std::io::Read;

/// Tries for a thread that is changing its state.
const SNAPSHOT_TRIES: usize = 3;

pub struct Target {
    pub pid: Pid,
    /// A thread through which memory is read: nothing can be read through a first thread that has ended.
    holder: Pid,
    process: Process,
}

/// The state of a thread before it was asked to stop.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Snapshot {
    pub tid: Pid,
    pub stat: Stat,
    /// The kernel stack of a blocked thread, leaf first.
    pub kernel: Vec<KernelFrame>,
    pub syscall: Option<Syscall>,
    /// The kernel function it waits in, empty if none or unknown.
    pub wchan: Vec<u8>,
    /// The program would notice a stop, so it is not stopped.
    pub left_alone: bool,
}

impl Snapshot {
    /// Whether it waits for something: blocked, not stopped, not on its way out.
    pub fn blocked(&self) -> bool {
        matches!(self.stat.state, b'S' | b'D' | b'I')
    }
}

impl Target {
    pub fn open(pid: i64) -> Result<Self, Failure> {
        let process = Process::open(u32::try_from(pid).map_err(|_| Process::none(pid))?)?;
        let pid = Pid::from_raw(process.pid() as i32);
        let mut target = Self { pid, holder: pid, process };
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
        if let Some(tracer) = parse::status(&status, "TracerPid").filter(|&tracer| tracer != "0") {
            let traced = Failure::host(format!("process {pid} is traced by process {tracer} already"));
            return Err(traced
                .meaning("a thread has one tracer at a time (gdb, strace, another sampler)")
                .mend(format!("end process {tracer} first")));
        }
        let Some(maps) = self.maps() else { return Err(self.not_permitted()) };
        let Some(code) = maps.iter().find(|map| map.executable) else {
            return Err(Failure::usage(format!("process {pid} has no memory of its own")).meaning(
                "it is a kernel thread, has ended, or is just being started; there are no user stacks",
            ));
        };
        // The same permission as ptrace's, Yama's rules included.
        match crate::stack::read(self.holder, code.range.start, &mut [0]) {
            0 => Err(self.not_permitted()),
            _ => Ok(()),
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
        Failure::host(format!("process {pid} may not be traced")).meaning(meaning).mend(mend)
    }

    /// Its threads now; empty once the process has ended.
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

    /// Empty without memory; `None` without the rights.
    pub fn maps(&mut self) -> Option<Vec<Mapping>> {
        let mut maps = self.maps_of(self.pid)?;
        for thread in self.threads() {
            if !maps.is_empty() {
                break;
            }
            maps = self.maps_of(thread).unwrap_or_default();
        }
        Some(maps)
    }

    fn maps_of(&mut self, thread: Pid) -> Option<Vec<Mapping>> {
        self.holder = thread;
        match self.read(&format!("task/{thread}/maps")) {
            Ok(text) => Some(parse::maps(&text)),
            Err(Errno::ESRCH) => Some(Vec::new()),
            Err(_) => None,
        }
    }

    /// The thread that the process's memory is read through; as of the last `maps`.
    pub fn holder(&self) -> Pid {
        self.holder
    }

    /// `None`: the thread has ended.
    pub fn snapshot(&self, tid: Pid) -> Option<Snapshot> {
        let mut snapshot = self.read_snapshot(tid);
        for _ in 0..SNAPSHOT_TRIES {
            match &snapshot {
                // It woke up meanwhile: its state and its call do not belong together.
                Some(seen) if seen.blocked() && seen.syscall.is_none() => snapshot = self.read_snapshot(tid),
                _ => break,
            }
        }
        snapshot
    }

    fn read_snapshot(&self, tid: Pid) -> Option<Snapshot> {
        let stat = parse::stat(&self.read(&format!("task/{tid}/stat")).ok()?)?;
        if matches!(stat.state, b'Z' | b'X') {
            return None;
        }
        let mut snapshot =
            Snapshot { tid, stat, kernel: Vec::new(), syscall: None, wchan: Vec::new(), left_alone: false };
        if snapshot.blocked() {
            let part = |name: &str| self.read(&format!("task/{tid}/{name}")).unwrap_or_default();
            snapshot.kernel = parse::kernel_stack(&part("stack"));
            snapshot.syscall = parse::syscall(&part("syscall"));
            snapshot.wchan = part("wchan");
            if snapshot.wchan == b"0" {
                snapshot.wchan.clear();
            }
            let shows = |call: &Syscall| {
                let is_socket = |descriptor| self.is_socket(tid, descriptor);
                calls::reveals_stop(call, snapshot.stat.state == b'S', is_socket, || self.is_filtered(tid))
            };
            snapshot.left_alone = snapshot.syscall.as_ref().is_some_and(shows);
        }
        Some(snapshot)
    }

    fn is_socket(&self, tid: Pid, descriptor: u64) -> bool {
        let path = format!("task/{tid}/fd/{descriptor}");
        let file = readlinkat(self.process.directory(), path.as_str());
        file.is_ok_and(|name| name.as_encoded_bytes().starts_with(b"socket:"))
    }

    /// Whether seccomp filters a thread's system calls.
    pub fn is_filtered(&self, tid: Pid) -> bool {
        let status = self.read(&format!("task/{tid}/status")).unwrap_or_default();
        parse::status(&status, "Seccomp").is_some_and(|mode| mode != "0")
    }

    fn read(&self, name: &str) -> Result<Vec<u8>, Errno> {
        let file = openat(self.process.directory(), name, OFlag::O_RDONLY | OFlag::O_CLOEXEC, Mode::empty())?;
        let mut text = Vec::new();
        let error = |error: std::io::Error| Errno::from_raw(error.raw_os_error().unwrap_or(0));
        File::from(file).read_to_end(&mut text).map_err(error)?;
        Ok(text)
    }
}
