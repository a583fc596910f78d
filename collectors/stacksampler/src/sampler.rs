//! Rounds over all threads of the target: look, stop, copy, let go; one thread at a time.

use crate::asked::{Asked, Blocked, Round, Taken, User, unstopped};
use crate::calls;
use crate::machine;
use crate::own_thread;
use crate::stack::{self, Window};
use crate::stats::Outcome;
use crate::target::Target;
use crate::tracer::{Event, PATIENCE, Refusal, Tracer};
use libc::c_int;
use nix::unistd::Pid;
use observer::Failure;
use observer::clock;
use observer::control::End;
use recording::{Mapping, Modules};
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::mpsc::{SyncSender, TrySendError};
use std::time::{Duration, Instant};

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

    /// Bytes of stack that are read at once.
    fn reads_at_most(self, stack_bytes: usize) -> usize {
        match self {
            Self::Fp => stack::CHUNK,
            Self::Dwarf => stack_bytes,
        }
    }
}

pub struct Plan {
    pub hz: f64,
    pub seconds: Option<f64>,
    pub callgraph: Callgraph,
    pub stack_bytes: usize,
    pub turns: bool,
}

/// A thread's last sample.
#[derive(Default)]
struct Last {
    time: u64,
    blocked: Blocked,
}

pub struct Sampler<'a> {
    plan: &'a Plan,
    target: &'a mut Target,
    tracer: Tracer,
    modules: Modules,
    asked: HashMap<Pid, Asked>,
    /// Each thread when it was sampled last.
    last: HashMap<Pid, Last>,
    mappings: Vec<(Mapping, Option<Vec<u8>>)>,
    taken: Vec<Taken>,
    rounds: SyncSender<Round>,
    /// Where the next stack goes. Made before a thread stops: who writes, and has no priority, may be in the allocator.
    buffer: Vec<u8>,
    unknown_code: bool,
    /// When the turn began.
    begun: u64,
    outcome: Outcome,
}

impl<'a> Sampler<'a> {
    /// rounds: who writes what was found
    pub fn new(plan: &'a Plan, target: &'a mut Target, tracer: Tracer, rounds: SyncSender<Round>) -> Self {
        Self {
            plan,
            target,
            tracer,
            modules: Modules::default(),
            asked: HashMap::new(),
            last: HashMap::new(),
            mappings: Vec::new(),
            taken: Vec::new(),
            rounds,
            buffer: vec![0; plan.callgraph.reads_at_most(plan.stack_bytes)],
            unknown_code: false,
            begun: 0,
            outcome: Outcome::default(),
        }
    }

    /// Samples until the time is over, a signal or an order comes, or the target ends.
    pub fn run(mut self) -> Result<Outcome, Failure> {
        self.read_maps();
        self.tracer.control.ready()?;
        loop {
            let turn = own_thread::traces(|ahead| {
                self.outcome.ahead = ahead;
                self.turn()
            })?;
            turn?;
            self.tracer.control.closed(self.outcome.end_ns);
            if !self.plan.turns || !self.tracer.control.again() {
                return Ok(self.outcome);
            }
        }
    }

    /// Samples from now on; nothing of what was before counts.
    fn turn(&mut self) -> Result<(), Failure> {
        self.tracer.sample_here();
        self.last.clear();
        let start = clock::now_ns();
        self.tracer.control.opened(start);
        self.begun = start;
        if self.outcome.start_ns == 0 {
            self.outcome.start_ns = start;
        }
        let interval = 1e9 / self.plan.hz;
        let end = self.plan.seconds.map_or(u64::MAX, |seconds| start + (seconds * 1e9) as u64);
        let mut jitter = Jitter(start | 1);
        let mut slot = 0_u64;
        self.outcome.end = loop {
            // Somewhere within its interval: what the target does in step with a clock is seen in all its parts.
            let tick = start + ((slot as f64 + jitter.next()) * interval) as u64;
            self.attend_until(tick.min(end));
            match self.tracer.control.end() {
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
            self.hand_over(round)?;
            let slots_begun = ((clock::now_ns() - start) as f64 / interval) as u64;
            self.outcome.late_rounds += slots_begun.saturating_sub(slot + 1);
            slot = slots_begun.max(slot + 1);
        };
        self.outcome.end_ns = clock::now_ns();
        if self.plan.turns {
            self.outcome.turns.push((start, self.outcome.end_ns));
        }
        for asked in std::mem::take(&mut self.asked).into_values() {
            let before = self.taken.len();
            self.taken.extend(asked.unstopped());
            self.outcome.lacking.did_not_stop += (self.taken.len() - before) as u64;
        }
        self.hand_over(self.outcome.end_ns)
    }

    /// Sees to threads that stop late, until then.
    fn attend_until(&mut self, ns: u64) {
        let deadline = Instant::now() + Duration::from_nanos(ns.saturating_sub(clock::now_ns()));
        while clock::now_ns() < ns && self.tracer.control.end().is_none() {
            let event = self.tracer.wait(deadline);
            self.see_to(event);
        }
    }

    /// Handles the threads that have stopped by now.
    fn attend(&mut self) {
        loop {
            match self.tracer.now() {
                Event::Nothing => return,
                event => self.see_to(event),
            }
        }
    }

    fn see_to(&mut self, event: Event) {
        match event {
            Event::Stopped(thread, signal) => self.copy(thread, signal),
            Event::Gone(thread) => self.gone(thread),
            Event::Nothing => {}
        }
    }

    /// False when no thread lives: a process that nobody has waited for is still listed.
    fn round(&mut self, threads: &[Pid], started: u64) -> Result<bool, Failure> {
        let mut alive = false;
        let refused_before = self.outcome.lacking.refused;
        self.last.retain(|thread, _| threads.contains(thread));
        let ended: Vec<Pid> = self.asked.keys().filter(|thread| !threads.contains(thread)).copied().collect();
        ended.into_iter().for_each(|thread| self.gone(thread));
        for &thread in threads {
            if self.tracer.control.end().is_some() {
                return Ok(true);
            }
            self.attend();
            alive |= self.sample(thread, started);
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
        let Some(look) = self.target.look(thread) else { return false };
        let time = clock::now_ns();
        let born = || clock::of_boot_ticks(look.stat.start_ticks).max(self.begun).min(started);
        let period = time.saturating_sub(self.last.get(&thread).map_or_else(born, |last| last.time));
        if let Some(asked) = self.asked.get_mut(&thread) {
            self.last.entry(thread).or_default().time = time;
            asked.see(look, time, period);
            return true;
        }
        if look.spared {
            self.outcome.lacking.left_alone += 1;
            self.last.entry(thread).or_default().time = time;
            self.taken.push(unstopped(Arc::new(look), time, period));
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
                self.taken.push(unstopped(Arc::new(look), time, period));
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
            self.asked.insert(thread, Asked::new(look, time, period, at));
        }
        let deadline = Instant::now() + PATIENCE;
        loop {
            let event = self.tracer.wait_for_stop(deadline);
            self.see_to(event);
            match event {
                Event::Nothing => return true,
                Event::Stopped(other, _) | Event::Gone(other) if other != thread => {}
                _ => return true,
            }
        }
    }

    /// Its samples count, although it never stopped.
    fn gone(&mut self, thread: Pid) {
        if let Some(asked) = self.asked.remove(&thread) {
            self.outcome.lacking.ended += 1;
            self.taken.extend(asked.unstopped());
        }
    }

    /// Copies what is wanted of a stopped thread, and releases it. Every instruction between the first line and
    /// `release` is time that the target loses.
    fn copy(&mut self, thread: Pid, signal: c_int) {
        // Not since now: another thread may have been handled first.
        let since = self.tracer.nobody_stood_ns();
        let Some(asked) = self.asked.remove(&thread) else {
            // The number was given to another process's thread between the look and the seizure, or the thread has
            // become its process's first one (execve).
            self.tracer.release(thread, signal);
            self.outcome.stood(since, since, clock::now_ns());
            return;
        };
        let registers = machine::registers(thread).map(|registers| self.begun_anew(thread, registers));
        let found = registers.map(|registers| (self.user(thread, &registers), registers));
        self.tracer.release(thread, signal);
        let times = self.outcome.stood(asked.at, since, clock::now_ns());
        self.buffer.resize(self.plan.callgraph.reads_at_most(self.plan.stack_bytes), 0);
        let Ok((user, registers)) = found else {
            // Killed while it was stopped.
            self.outcome.lacking.ended += 1;
            self.taken.extend(asked.unstopped());
            return;
        };
        self.unknown_code |= !self.modules.is_code(registers.place.pc);
        let last = self.last.entry(thread).or_default();
        let (taken, moved) = asked.stopped(&registers, user, &mut last.blocked, times);
        self.outcome.lacking.moved += u64::from(moved);
        self.taken.extend(taken);
    }

    /// Makes sure that the call which the thread returns from does not show the stop.
    fn begun_anew(&self, thread: Pid, registers: machine::Registers) -> machine::Registers {
        let filtered = || self.target.is_filtered(thread);
        let returns = calls::begun_anew(registers.syscall, registers.returns, filtered);
        match returns.filter(|&value| machine::set_returns(thread, value).is_ok()) {
            Some(returns) => machine::Registers { returns, ..registers },
            None => registers,
        }
    }

    fn user(&mut self, thread: Pid, registers: &machine::Registers) -> User {
        let place = registers.place;
        match self.plan.callgraph {
            Callgraph::Fp => {
                let mut memory = Window::new(thread, &mut self.buffer[..stack::CHUNK], place.sp);
                let modules = &self.modules;
                User::Chain(stack::frame_pointers(place, &mut memory, |address| modules.is_code(address)))
            }
            Callgraph::Dwarf => {
                let mut stack = std::mem::take(&mut self.buffer);
                let have = stack::read(thread, place.sp, &mut stack);
                stack.truncate(have);
                User::Copied { registers: registers.values, stack }
            }
        }
    }

    fn hand_over(&mut self, time: u64) -> Result<(), Failure> {
        if std::mem::take(&mut self.unknown_code) {
            self.read_maps();
        }
        let (mappings, taken) = (std::mem::take(&mut self.mappings), std::mem::take(&mut self.taken));
        let mut round = Round { time, mappings, taken };
        loop {
            round = match self.rounds.try_send(round) {
                Ok(()) => return Ok(()),
                Err(TrySendError::Full(round)) => round,
                // Why is said where it could not be written.
                Err(TrySendError::Disconnected(_)) => {
                    return Err(Failure::measurement("nobody writes the samples any more"));
                }
            };
            std::thread::sleep(PATIENCE / 4);
            self.attend();
        }
    }

    fn read_maps(&mut self) {
        let Some(maps) = self.target.maps() else { return };
        self.mappings.extend(self.modules.update(self.target.holder(), &maps));
    }
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
