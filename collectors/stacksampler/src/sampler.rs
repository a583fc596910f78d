//! Rounds over all threads of the target: snapshot, stop, copy, release; one thread at a time.

use crate::calls;
use crate::machine;
use crate::own_thread;
use crate::pending_stop::{Blocked, PendingStop, Round, ThreadSample, User, unstopped};
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
use serde::Serialize;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::mpsc::{SyncSender, TrySendError};
use std::time::{Duration, Instant};

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Callgraph {
    /// Follow the frame pointers while the thread is stopped
    Fp,
    /// Copy registers and stack; stackfold unwinds them with the files' own tables
    Dwarf,
}

impl Callgraph {
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
struct LastSample {
    time: u64,
    blocked: Blocked,
}

pub struct Sampler<'a> {
    plan: &'a Plan,
    target: &'a mut Target,
    tracer: Tracer,
    modules: Modules,
    pending: HashMap<Pid, PendingStop>,
    /// Each thread when it was sampled last.
    last: HashMap<Pid, LastSample>,
    mappings: Vec<(Mapping, Option<Vec<u8>>)>,
    samples: Vec<ThreadSample>,
    rounds: SyncSender<Round>,
    /// For the next stack. Allocated before a thread stops: the writing thread, which has no priority, may hold the
    /// allocator's lock.
    buffer: Vec<u8>,
    unknown_code: bool,
    /// When the turn began.
    begun: u64,
    outcome: Outcome,
}

impl<'a> Sampler<'a> {
    /// rounds: to the thread that writes
    pub fn new(plan: &'a Plan, target: &'a mut Target, tracer: Tracer, rounds: SyncSender<Round>) -> Self {
        Self {
            plan,
            target,
            tracer,
            modules: Modules::default(),
            pending: HashMap::new(),
            last: HashMap::new(),
            mappings: Vec::new(),
            samples: Vec::new(),
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
            // At a random point of its interval, so that work in step with a clock is sampled in all its parts.
            let tick = start + ((slot as f64 + jitter.next()) * interval) as u64;
            self.handle_stops_until(tick.min(end));
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
            self.send_round(round)?;
            let slots_begun = ((clock::now_ns() - start) as f64 / interval) as u64;
            self.outcome.late_rounds += slots_begun.saturating_sub(slot + 1);
            slot = slots_begun.max(slot + 1);
        };
        self.outcome.end_ns = clock::now_ns();
        if self.plan.turns {
            self.outcome.turns.push((start, self.outcome.end_ns));
        }
        for pending in std::mem::take(&mut self.pending).into_values() {
            let before = self.samples.len();
            self.samples.extend(pending.unstopped());
            self.outcome.lacking.did_not_stop += (self.samples.len() - before) as u64;
        }
        self.send_round(self.outcome.end_ns)
    }

    /// Handles threads that stop late, until `ns`.
    fn handle_stops_until(&mut self, ns: u64) {
        let deadline = Instant::now() + Duration::from_nanos(ns.saturating_sub(clock::now_ns()));
        while clock::now_ns() < ns && self.tracer.control.end().is_none() {
            let event = self.tracer.wait(deadline);
            self.handle(event);
        }
    }

    /// Handles the threads that have stopped by now.
    fn handle_stops(&mut self) {
        loop {
            match self.tracer.poll() {
                Event::Nothing => return,
                event => self.handle(event),
            }
        }
    }

    fn handle(&mut self, event: Event) {
        match event {
            Event::Stopped(thread, signal) => self.copy(thread, signal),
            Event::Ended(thread) => self.thread_ended(thread),
            Event::Nothing => {}
        }
    }

    /// False when no thread is alive: a process that nobody has waited for is still listed.
    fn round(&mut self, threads: &[Pid], started: u64) -> Result<bool, Failure> {
        let mut alive = false;
        let refused_before = self.outcome.lacking.refused;
        self.last.retain(|thread, _| threads.contains(thread));
        let ended: Vec<Pid> =
            self.pending.keys().filter(|thread| !threads.contains(thread)).copied().collect();
        ended.into_iter().for_each(|thread| self.thread_ended(thread));
        for &thread in threads {
            if self.tracer.control.end().is_some() {
                return Ok(true);
            }
            self.handle_stops();
            alive |= self.sample(thread, started);
        }
        self.outcome.rounds += 1;
        let refused = self.outcome.lacking.refused - refused_before;
        if self.outcome.rounds == 1 && refused == threads.len() as u64 {
            return Err(self.target.not_permitted());
        }
        Ok(alive)
    }

    /// False when the thread ended before its snapshot.
    fn sample(&mut self, thread: Pid, started: u64) -> bool {
        let Some(snapshot) = self.target.snapshot(thread) else { return false };
        let time = clock::now_ns();
        let born = || clock::of_boot_ticks(snapshot.stat.start_ticks).max(self.begun).min(started);
        let period = time.saturating_sub(self.last.get(&thread).map_or_else(born, |last| last.time));
        if let Some(pending) = self.pending.get_mut(&thread) {
            self.last.entry(thread).or_default().time = time;
            pending.observe(snapshot, time, period);
            return true;
        }
        if snapshot.left_alone {
            self.outcome.lacking.left_alone += 1;
            self.last.entry(thread).or_default().time = time;
            self.samples.push(unstopped(Arc::new(snapshot), time, period));
            return true;
        }
        match self.tracer.seize(thread) {
            Ok(()) => {}
            Err(Refusal::Ended) => {
                self.outcome.lacking.ended += 1;
                return true;
            }
            Err(Refusal::NotPermitted) => {
                self.outcome.lacking.refused += 1;
                self.last.entry(thread).or_default().time = time;
                self.samples.push(unstopped(Arc::new(snapshot), time, period));
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
            self.pending.insert(thread, PendingStop::new(snapshot, time, period, at));
        }
        let deadline = Instant::now() + PATIENCE;
        loop {
            let event = self.tracer.wait_for_stop(deadline);
            self.handle(event);
            match event {
                Event::Nothing => return true,
                Event::Stopped(other, _) | Event::Ended(other) if other != thread => {}
                _ => return true,
            }
        }
    }

    /// The samples of a thread that ended before it stopped count all the same.
    fn thread_ended(&mut self, thread: Pid) {
        if let Some(pending) = self.pending.remove(&thread) {
            self.outcome.lacking.ended += 1;
            self.samples.extend(pending.unstopped());
        }
    }

    /// Copies the user side of a stopped thread and releases it. The target loses the time from the first line to
    /// `release`.
    fn copy(&mut self, thread: Pid, signal: c_int) {
        // Not now: another thread may have been handled first.
        let since = self.tracer.none_stopped_ns();
        let Some(pending) = self.pending.remove(&thread) else {
            // Its number went to a thread of another process between the snapshot and the seizure, or the thread has
            // become the first of its process (execve).
            self.tracer.release(thread, signal);
            self.outcome.record_stop(since, since, clock::now_ns());
            return;
        };
        let registers = machine::registers(thread).map(|registers| self.restart_call(thread, registers));
        let copied = registers.map(|registers| (self.user(thread, &registers), registers));
        self.tracer.release(thread, signal);
        let times = self.outcome.record_stop(pending.at, since, clock::now_ns());
        self.buffer.resize(self.plan.callgraph.reads_at_most(self.plan.stack_bytes), 0);
        let Ok((user, registers)) = copied else {
            // Killed while it was stopped.
            self.outcome.lacking.ended += 1;
            self.samples.extend(pending.unstopped());
            return;
        };
        self.unknown_code |= !self.modules.is_code(registers.position.pc);
        let last = self.last.entry(thread).or_default();
        let (samples, moved) = pending.stopped(&registers, user, &mut last.blocked, times);
        self.outcome.lacking.moved += u64::from(moved);
        self.samples.extend(samples);
    }

    /// Makes the kernel restart a call whose result would reveal the stop.
    fn restart_call(&self, thread: Pid, registers: machine::Registers) -> machine::Registers {
        let filtered = || self.target.is_filtered(thread);
        let returns = calls::restart_result(registers.syscall, registers.returns, filtered);
        match returns.filter(|&value| machine::set_returns(thread, value).is_ok()) {
            Some(returns) => machine::Registers { returns, ..registers },
            None => registers,
        }
    }

    fn user(&mut self, thread: Pid, registers: &machine::Registers) -> User {
        let position = registers.position;
        match self.plan.callgraph {
            Callgraph::Fp => {
                let mut memory = Window::new(thread, &mut self.buffer[..stack::CHUNK], position.sp);
                let modules = &self.modules;
                User::Chain(stack::frame_pointers(position, &mut memory, |address| modules.is_code(address)))
            }
            Callgraph::Dwarf => {
                let mut stack = std::mem::take(&mut self.buffer);
                let have = stack::read(thread, position.sp, &mut stack);
                stack.truncate(have);
                User::Copied { registers: registers.values, stack }
            }
        }
    }

    fn send_round(&mut self, time: u64) -> Result<(), Failure> {
        if std::mem::take(&mut self.unknown_code) {
            self.read_maps();
        }
        let (mappings, samples) = (std::mem::take(&mut self.mappings), std::mem::take(&mut self.samples));
        let mut round = Round { time, mappings, samples };
        loop {
            round = match self.rounds.try_send(round) {
                Ok(()) => return Ok(()),
                Err(TrySendError::Full(round)) => round,
                // The writing thread reports the reason.
                Err(TrySendError::Disconnected(_)) => {
                    return Err(Failure::measurement("nobody writes the samples any more"));
                }
            };
            std::thread::sleep(PATIENCE / 4);
            self.handle_stops();
        }
    }

    fn read_maps(&mut self) {
        let Some(maps) = self.target.maps() else { return };
        self.mappings.extend(self.modules.update(self.target.holder(), &maps));
    }
}

/// Numbers from 0.25 to 0.75 (xorshift): enough to fall out of step with any clock.
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
