//! The threads of a process as /proc shows them at one moment.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use observer::Process;
use recording::Kernel;
use recording::parse;

use super::futex::{Callers, Futex};

/// A thread by /proc: its name, its number in its own pid namespace, state letter and CPU time (schedstat, ns).
#[derive(Clone, Debug)]
pub struct Task {
    pub comm: Vec<u8>,
    pub own_number: u32,
    pub state: u8,
    pub cpu_ns: u64,
    /// When it began, in ticks after boot.
    pub start_ticks: u64,
}

/// The threads that are there now, by tid; none when the process is gone.
pub fn tasks(process: &Process) -> BTreeMap<u32, Task> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(process.path("task")).into_iter().flatten().flatten() {
        let tid = entry.file_name().to_str().and_then(|name| name.parse().ok());
        // A thread may end while it is looked at.
        if let Some((tid, task)) = tid.and_then(|tid| Some((tid, task(&entry.path())?))) {
            found.insert(tid, task);
        }
    }
    found
}

fn task(path: &Path) -> Option<Task> {
    let stat = parse::stat(&fs::read(path.join("stat")).ok()?)?;
    // One that has ended and was not reaped yet is no thread any more.
    if matches!(stat.state, b'Z' | b'X') {
        return None;
    }
    let schedstat = fs::read_to_string(path.join("schedstat")).ok()?;
    let cpu_ns = schedstat.split_whitespace().next()?.parse().ok()?;
    let status = fs::read(path.join("status")).ok()?;
    let own_number = parse::status(&status, "NSpid")?.split_ascii_whitespace().last()?.parse().ok()?;
    Some(Task { comm: stat.comm, own_number, state: stat.state, cpu_ns, start_ticks: stat.start_ticks })
}

/// Where a thread is blocked, as far as /proc tells: kernel frames, leaf first, the user address it entered from, and the
/// futex that it waits in.
#[derive(Clone, Debug, Default)]
pub struct Blocked {
    pub kernel: Vec<u64>,
    pub user: Vec<u64>,
    pub futex: Futex,
}

pub fn blocked(process: &Process, tid: u32, kernel: &Kernel, callers: &Callers) -> Blocked {
    let read = |name: &str| fs::read(process.path(&format!("task/{tid}/{name}"))).unwrap_or_default();
    let frames = parse::kernel_stack(&read("stack"));
    let addresses = frames.iter().map_while(|frame| Some(kernel.address_of(&frame.function)? + frame.offset));
    Blocked {
        kernel: addresses.collect(),
        user: parse::syscall(&read("syscall")).map(|call| call.pc).into_iter().collect(),
        futex: callers.blocked(process, tid),
    }
}
