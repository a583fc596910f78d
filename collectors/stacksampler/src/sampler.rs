//! Rounds over all threads of the target: look, stop, copy, let go; one thread at a time.

use crate::clock;
use crate::machine::{self, NOT_RESTARTED};
use crate::output::Output;
use crate::stack::{self, Window};
use crate::stats::{Durations, Lacking};
use crate::target::{Look, Target};
use crate::tracer::{End, Event, Refusal, Tracer};
use nix::sys::signal::Signal;
use nix::unistd::Pid;
use observer::Failure;
use recording::{Kernel, Modules, parse};
use std::collections::HashMap;
use std::time::{Duration, Instant};

/// A thread that takes longer to stop (it waits for a disk) is not waited for: it stops when it comes back, and is seen
/// to then at once.
const PATIENCE: Duration = Duration::from_millis(2);

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Callgraph {
    /// Follow the frame pointers while the thread stands still
    Fp,
    /// Copy registers and stack; stackfold unwinds them with the files' own tables
    Dwarf,
}

impl Callgraph {
    pub fn name(self) -> &'static str {
        match self {
            Self::Fp => "fp",
            Self::Dwarf => "dwarf",
        }
    }
}

pub struct Plan {
    pub hz: f64,
    pub seconds: Option<f64>,
    pub callgraph: Callgraph,
    pub stack_bytes: usize,
}

/// A thread that was asked to stop.
struct Asked {
    look: Look,
    time: u64,
    period: u64,
    at: u64,
}

/// A thread's last sample.
#[derive(Default)]
struct Last {
    time: u64,
    /// Where it was blocked, if it was, and stopped there by us.
    blocked: Option<(machine::Place, Look)>,
}

/// What of a thread's user side was taken.
pub enum User {
    /// Addresses, innermost first; it may be none.
    Chain(Vec<u64>),
    /// Registers of `machine::MASK`, and the stack from the stack pointer on.
    Copied { registers: Vec<u64>, stack: Vec<u8> },
}

/// A sample of the round that is not written yet: nothing is written while a thread stands still.
pub struct Taken {
    pub look: Look,
    pub time: u64,
    pub period: u64,
    /// R, S, D, T or ?: what the sample counts as.
    pub state: u8,
    pub syscall: i64,
    pub user: User,
    pub held_ns: u64,
    pub stop_ns: u64,
}

/// What a whole run of rounds was.
#[derive(Default)]
pub struct Outcome {
    pub start_ns: u64,
    pub end_ns: u64,
    pub end: &'static str,
    pub rounds: u64,
    pub late_rounds: u64,
    pub held: Durations,
    pub stop: Durations,
    pub lacking: Lacking,
}

pub struct Sampler<'a> {
    plan: &'a Plan,
    target: &'a mut Target,
    kernel: &'a Kernel,
    tracer: Tracer,
    modules: Modules,
    asked: HashMap<Pid, Asked>,
    /// Each thread when it was sampled last.
    last: HashMap<Pid, Last>,
    taken: Vec<Taken>,
    buffer: Vec<u8>,
    unknown_code: bool,
    outcome: Outcome,
}

impl<'a> Sampler<'a> {
    pub fn new(plan: &'a Plan, target: &'a mut Target, kernel: &'a Kernel, tracer: Tracer) -> Self {
        let buffer = vec![0; plan.stack_bytes.max(stack::CHUNK)];
        Self {
            plan,
            target,
            kernel,
            tracer,
            modules: Modules::default(),
            asked: HashMap::new(),
            last: HashMap::new(),
            taken: Vec::new(),
            buffer,
            unknown_code: false,
            outcome: Outcome::default(),
        }
    }

    /// Samples until the time is over, a signal or an order comes, or the target ends. `tell` is called with `ready`
    /// when all is prepared, with `open` when sampling begins, and with `close` when it has ended.
    pub fn run(mut self, output: &mut Output, mut tell: impl FnMut(&str)) -> Result<Outcome, Failure> {
        self.read_maps(clock::now_ns(), output)?;
        tell("ready");
        let opened = self.tracer.wait_for_open();
        let start = clock::now_ns();
        if opened {
            tell("open");
        }
        self.outcome.start_ns = start;
        let interval = 1e9 / self.plan.hz;
        let end = self.plan.seconds.map_or(u64::MAX, |seconds| start + (seconds * 1e9) as u64);
        let mut jitter = Jitter(start | 1);
        let mut slot = 0_u64;
        self.outcome.end = loop {
            // Somewhere within its interval: what the target does in step with a clock is seen in all its parts.
            let tick = start + ((slot as f64 + jitter.next()) * interval) as u64;
            self.attend_until(tick.min(end));
            match self.tracer.end() {
                Some(End::Signal) => break "signal",
                Some(End::Closed) => break "closed",
                None => {}
            }
            if clock::now_ns() >= end {
                break "time";
            }
            let threads = self.target.threads();
            if threads.is_empty() {
                break "target ended";
            }
            let round = clock::now_ns();
            if !self.round(&threads, if slot == 0 { start } else { round })? {
                break "target ended";
            }
            self.write(round, output)?;
            let slots_begun = ((clock::now_ns() - start) as f64 / interval) as u64;
            self.outcome.late_rounds += slots_begun.saturating_sub(slot + 1);
            slot = slots_begun.max(slot + 1);
        };
        self.outcome.end_ns = clock::now_ns();
        tell("close");
        for asked in std::mem::take(&mut self.asked).into_values() {
            self.outcome.lacking.did_not_stop += 1;
            self.take_unstopped(asked.look, asked.time, asked.period);
        }
        self.write(self.outcome.end_ns, output)?;
        Ok(self.outcome)
    }

    /// Sees to threads that stop late, until then.
    fn attend_until(&mut self, ns: u64) {
        let deadline = Instant::now() + Duration::from_nanos(ns.saturating_sub(clock::now_ns()));
        while clock::now_ns() < ns && self.tracer.end().is_none() {
            match self.tracer.wait(deadline) {
                Event::Stopped(thread, signal) => self.copy(thread, signal),
                Event::Gone(thread) => self.gone(thread),
                Event::Nothing => {}
            }
        }
    }

    /// False when no thread lives: a process that nobody has waited for is still listed.
    fn round(&mut self, threads: &[Pid], started: u64) -> Result<bool, Failure> {
        let mut alive = false;
        let refused_before = self.outcome.lacking.refused;
        self.last.retain(|thread, _| threads.contains(thread));
        for &thread in threads {
            if self.tracer.end().is_some() {
                return Ok(true);
            }
            alive |= self.asked.contains_key(&thread) || self.sample(thread, started);
        }
        self.outcome.rounds += 1;
        let refused = self.outcome.lacking.refused - refused_before;
        if self.outcome.rounds == 1 && refused == threads.len() as u64 {
            return Err(self.target.not_permitted());
        }
        Ok(alive)
    }

    /// False when the thread has ended before it could be looked at.
    fn sample(&mut self, thread: Pid, started: u64) -> bool {
        let Some(look) = self.target.look(thread) else {
            self.outcome.lacking.ended += 1;
            return false;
        };
        let time = clock::now_ns();
        let born = || clock::of_boot_ticks(look.stat.start_ticks).max(self.outcome.start_ns).min(started);
        let period = time.saturating_sub(self.last.get(&thread).map_or_else(born, |last| last.time));
        if look.spared() {
            self.outcome.lacking.left_alone += 1;
            self.last.entry(thread).or_default().time = time;
            self.take_unstopped(look, time, period);
            return true;
        }
        match self.tracer.seize(thread) {
            Ok(()) => {}
            Err(Refusal::Gone) => {
                self.outcome.lacking.ended += 1;
                return true;
            }
            Err(Refusal::NotPermitted) => {
                self.outcome.lacking.refused += 1;
                self.last.entry(thread).or_default().time = time;
                self.take_unstopped(look, time, period);
                return true;
            }
        }
        let ours = self.target.owns(thread);
        let at = clock::now_ns();
        if self.tracer.interrupt(thread).is_err() {
            self.outcome.lacking.ended += 1;
            return true;
        }
        if ours {
            self.last.entry(thread).or_default().time = time;
            self.asked.insert(thread, Asked { look, time, period, at });
        }
        let deadline = Instant::now() + PATIENCE;
        loop {
            match self.tracer.wait_for_stop(deadline) {
                Event::Stopped(stopped, signal) => {
                    self.copy(stopped, signal);
                    if stopped == thread {
                        return true;
                    }
                }
                Event::Gone(gone) => {
                    self.gone(gone);
                    if gone == thread {
                        return true;
                    }
                }
                Event::Nothing => return true,
            }
        }
    }

    fn gone(&mut self, thread: Pid) {
        self.outcome.lacking.ended += u64::from(self.asked.remove(&thread).is_some());
    }

    /// Copies what is wanted of a thread that stands still, and lets it go. Every instruction between the first line and
    /// `release` is time that the target loses.
    fn copy(&mut self, thread: Pid, signal: Option<Signal>) {
        let seen = clock::now_ns();
        let Some(asked) = self.asked.remove(&thread) else {
            // A number that was given to another process's thread between the look and the seizure.
            self.tracer.release(thread, signal);
            return;
        };
        let registers = machine::registers(thread);
        let user = match &registers {
            Err(_) => User::Chain(Vec::new()),
            Ok(registers) => self.user(registers),
        };
        self.tracer.release(thread, signal);
        let released = clock::now_ns();
        let Ok(registers) = registers else {
            self.outcome.lacking.ended += 1;
            return;
        };
        let Asked { mut look, time, period, at } = asked;
        self.unknown_code |= !self.modules.is_code(registers.place.pc);
        let place = (registers.place.sp, registers.place.pc);
        let last = &mut self.last.entry(thread).or_default().blocked;
        if let Some((_, before)) = last.take_if(|(before, _)| {
            look.stat.state == b'R' && registers.restarts() && *before == registers.place
        }) {
            // Woken by our last stop, it has not run since, so it is where it was.
            look = Look { stat: parse::Stat { state: before.stat.state, ..look.stat }, ..before };
        }
        let moved = look.blocked() && look.syscall.is_none_or(|call| (call.sp, call.pc) != place);
        let mut state = shown_state(look.stat.state);
        *last = (look.blocked() && !moved).then(|| (registers.place, look.clone()));
        if moved {
            self.outcome.lacking.moved += 1;
            state = b'R';
            look.kernel.clear();
            look.wchan.clear();
        }
        let syscall = match look.syscall.filter(|_| !moved) {
            Some(call) => call.number,
            None => registers.syscall,
        };
        let (held_ns, stop_ns) = (released - seen, released - at);
        self.outcome.held.push(held_ns);
        // A thread that waited for a disk was not stopped by us while it did.
        self.outcome.stop.push(if look.stat.state == b'D' { held_ns } else { stop_ns });
        self.taken.push(Taken { look, time, period, state, syscall, user, held_ns, stop_ns });
    }

    fn user(&mut self, registers: &machine::Registers) -> User {
        let place = registers.place;
        match self.plan.callgraph {
            Callgraph::Fp => {
                let mut memory = Window::new(self.target.pid, &mut self.buffer[..stack::CHUNK], place.sp);
                let modules = &self.modules;
                User::Chain(stack::frame_pointers(place, &mut memory, |address| modules.is_code(address)))
            }
            Callgraph::Dwarf => {
                let buffer = &mut self.buffer[..self.plan.stack_bytes];
                let have = stack::read(self.target.pid, place.sp, buffer);
                User::Copied { registers: registers.values.clone(), stack: buffer[..have].to_vec() }
            }
        }
    }

    /// A sample of a thread that was not stopped: its kernel side, and where it entered the kernel.
    fn take_unstopped(&mut self, look: Look, time: u64, period: u64) {
        let user = User::Chain(look.syscall.map(|call| call.pc).into_iter().collect());
        let (state, syscall) = (shown_state(look.stat.state), look.syscall.map_or(-1, |call| call.number));
        self.taken.push(Taken { look, time, period, state, syscall, user, held_ns: 0, stop_ns: 0 });
    }

    fn write(&mut self, round: u64, output: &mut Output) -> Result<(), Failure> {
        if std::mem::take(&mut self.unknown_code) {
            self.read_maps(round, output)?;
        }
        for taken in self.taken.drain(..) {
            output.sample(&taken, self.kernel)?;
        }
        Ok(())
    }

    fn read_maps(&mut self, time: u64, output: &mut Output) -> Result<(), Failure> {
        let Some(maps) = self.target.maps() else { return Ok(()) };
        for (map, build_id) in self.modules.update(self.target.pid, &maps) {
            output.mapping(&map, build_id.as_deref(), time)?;
        }
        Ok(())
    }
}

fn shown_state(state: u8) -> u8 {
    match state {
        b'R' | b'S' | b'D' => state,
        b'T' | b't' => b'T',
        _ => b'?',
    }
}

/// What is said of system calls that are left alone.
pub fn left_alone_note() -> String {
    format!(
        "threads in a system call that a stop would end with an error ({} are known) were not stopped",
        NOT_RESTARTED.len()
    )
}

/// Numbers from 0.25 to 0.75 (xorshift): enough to leave step with any clock.
struct Jitter(u64);

impl Jitter {
    fn next(&mut self) -> f64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        0.25 + 0.5 * ((self.0 >> 11) as f64 / (1_u64 << 53) as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_spread_over_their_interval() {
        let mut jitter = Jitter(1);
        let numbers: Vec<f64> = (0..10_000).map(|_| jitter.next()).collect();
        assert!(numbers.iter().all(|n| (0.25..0.75).contains(n)));
        let mean = numbers.iter().sum::<f64>() / 1e4;
        assert!((mean - 0.5).abs() < 0.01, "{mean}");
    }
}
