//! What the programs themselves cost: runs and time by the kernel's own account, and runs it had to leave out.

use std::fs::File;
use std::mem::size_of;
use std::os::fd::FromRawFd;
use std::time::{Duration, Instant};

use libbpf_rs::{AsRawLibbpf, libbpf_sys};
use serde::Serialize;

use observer::Failure;

/// The kernel's account itself costs each run of a program some 70 ns, and several programs run for each request. This
/// much of a window is enough to measure.
const ACCOUNTED: Duration = Duration::from_secs(1);

/// The kernel counts time and runs of programs while this has the file; no sysctl is changed.
pub struct Accounting {
    file: Option<File>,
    opened: Option<Instant>,
    before: Vec<ProgramCost>,
    accounted: Vec<ProgramCost>,
    /// Of turns that have ended.
    missed: Vec<u64>,
    /// That programs had reported when the account ended.
    requests: u64,
}

impl Accounting {
    /// Begins, where the kernel lets us (`CAP_SYS_ADMIN`); without it runs and times stay 0.
    pub fn begin(object: &libbpf_rs::Object) -> Result<Self, Failure> {
        // SAFETY: a system call without pointers; a descriptor it returns is ours.
        let fd = unsafe { libbpf_sys::bpf_enable_stats(libbpf_sys::BPF_STATS_RUN_TIME) };
        let file = (fd >= 0).then(|| unsafe { File::from_raw_fd(fd) });
        let before = program_costs(object)?;
        let missed = vec![0; before.len()];
        Ok(Self { file, opened: None, before, accounted: Vec::new(), missed, requests: 0 })
    }

    /// Runs before the window do not count.
    pub fn open(&mut self, object: &libbpf_rs::Object) {
        if let Ok(costs) = program_costs(object) {
            self.before = costs;
        }
        self.opened = Some(Instant::now());
    }

    /// Ends the account once it is long enough. requests: of the window until now
    pub fn look(
        &mut self,
        object: &libbpf_rs::Object,
        requests: impl FnOnce() -> Result<u64, Failure>,
    ) -> Result<(), Failure> {
        if self.file.is_some() && self.opened.is_some_and(|opened| opened.elapsed() >= ACCOUNTED) {
            self.end(object, requests()?)?;
        }
        Ok(())
    }

    /// The window ends, or a turn: what is accounted is of the first alone. requests: until now
    pub fn close(
        &mut self,
        object: &libbpf_rs::Object,
        requests: impl FnOnce() -> Result<u64, Failure>,
    ) -> Result<(), Failure> {
        if self.file.is_some() {
            self.end(object, requests()?)?;
        }
        let turn = self.since(object)?;
        for (sum, turn) in self.missed.iter_mut().zip(turn) {
            *sum += turn.missed;
        }
        self.opened = None;
        Ok(())
    }

    fn end(&mut self, object: &libbpf_rs::Object, requests: u64) -> Result<(), Failure> {
        self.accounted = self.since(object)?;
        self.requests = requests;
        self.file = None;
        Ok(())
    }

    fn since(&self, object: &libbpf_rs::Object) -> Result<Vec<ProgramCost>, Failure> {
        let mut costs = program_costs(object)?;
        for (cost, before) in costs.iter_mut().zip(&self.before) {
            cost.runs -= before.runs;
            cost.ns -= before.ns;
            cost.missed -= before.missed;
        }
        Ok(costs)
    }

    /// What each program has cost in the window, by the requests of the part that was accounted. requests: of all of it
    pub fn costs(mut self, object: &libbpf_rs::Object, requests: u64) -> Result<Vec<ProgramCost>, Failure> {
        if self.opened.is_some() {
            self.close(object, || Ok(requests))?;
        }
        let scale = requests as f64 / self.requests.max(1) as f64;
        let scaled = |n: u64| (n as f64 * scale).round() as u64;
        for (cost, missed) in self.accounted.iter_mut().zip(self.missed) {
            (cost.runs, cost.ns, cost.missed) = (scaled(cost.runs), scaled(cost.ns), missed);
        }
        Ok(self.accounted)
    }
}

/// One program's account.
#[derive(Clone, Debug, Serialize)]
pub struct ProgramCost {
    pub name: String,
    pub runs: u64,
    pub ns: u64,
    /// Runs left out in the whole window because the program was already running on that CPU: events that it has not
    /// seen.
    pub missed: u64,
}

/// The end of the name of a program that does what another one has left out (`bpf/requests.h`).
pub const AGAIN: &str = "_again";

/// Events that programs have missed, but for those that have a second one: what both missed is a request without a start
/// or an end, and is tallied as that.
pub fn missed_events(costs: &[ProgramCost]) -> u64 {
    let has_second =
        |one: &ProgramCost| costs.iter().any(|cost| cost.name.strip_suffix(AGAIN) == Some(&one.name));
    let alone = costs.iter().filter(|cost| !cost.name.ends_with(AGAIN) && !has_second(cost));
    alone.map(|cost| cost.missed).sum()
}

/// Runs of an object's programs that the kernel left out in a window, for those that nothing else is accounted of.
#[derive(Default)]
pub struct MissedRuns {
    before: u64,
    /// Of turns that have ended.
    turns: u64,
}

impl MissedRuns {
    pub fn open(&mut self, object: &libbpf_rs::Object) {
        self.before = missed(object).unwrap_or(0);
    }

    /// A turn ends, and what was missed in it.
    pub fn close(&mut self, object: &libbpf_rs::Object) {
        self.turns += missed(object).unwrap_or(self.before) - self.before;
    }

    /// In the turns that were closed.
    pub fn of_turns(&self) -> u64 {
        self.turns
    }

    pub fn until_now(&self, object: &libbpf_rs::Object) -> Result<u64, Failure> {
        Ok(missed(object)? - self.before)
    }
}

fn missed(object: &libbpf_rs::Object) -> Result<u64, Failure> {
    Ok(missed_events(&program_costs(object)?))
}

/// The account of every loaded program of an object.
fn program_costs(object: &libbpf_rs::Object) -> Result<Vec<ProgramCost>, Failure> {
    let mut costs = Vec::new();
    for program in object.progs() {
        // SAFETY: the program lives as long as its object.
        let fd = unsafe { libbpf_sys::bpf_program__fd(program.as_libbpf_object().as_ptr()) };
        if fd < 0 {
            continue; // not loaded
        }
        let mut info = libbpf_sys::bpf_prog_info::default();
        let mut size = size_of::<libbpf_sys::bpf_prog_info>() as u32;
        // SAFETY: info and size outlive the call, and size is that of info.
        let code = unsafe { libbpf_sys::bpf_prog_get_info_by_fd(fd, &raw mut info, &raw mut size) };
        if code != 0 {
            return Err(Failure::measurement(format!(
                "the kernel keeps no account of a program: {}",
                std::io::Error::last_os_error()
            )));
        }
        costs.push(ProgramCost {
            name: program.name().to_string_lossy().into_owned(),
            runs: info.run_cnt,
            ns: info.run_time_ns,
            missed: info.recursion_misses,
        });
    }
    Ok(costs)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_second_program_has_done_is_not_missed() {
        let cost = |name: &str, missed| ProgramCost { name: name.to_owned(), runs: 0, ns: 0, missed };
        let pairs =
            [cost("io_start", 78), cost("io_start_again", 1), cost("io_done_again", 9), cost("io_done", 0)];
        assert_eq!(missed_events(&pairs), 0);
        assert_eq!(missed_events(&[cost("rq_merge", 2), cost("io_done", 3)]), 5);
    }
}
