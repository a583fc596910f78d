//! A thread between the request to stop and its stop: one snapshot if it stops at once, one in each round while it waits
//! for a disk.

use crate::machine::{self, Position, Registers, entered_at};
use crate::target::Snapshot;
use recording::{Mapping, parse};
use std::sync::Arc;

/// The user side of a sample.
pub enum User {
    /// Addresses, innermost first; may be empty.
    Chain(Vec<u64>),
    /// Registers of `machine::MASK`, and the stack from the stack pointer on.
    Copied { registers: [u64; machine::COUNT], stack: Vec<u8> },
}

/// A sample that is not written yet: nothing is written while a thread is stopped.
pub struct ThreadSample {
    pub snapshot: Arc<Snapshot>,
    pub time: u64,
    pub period: u64,
    /// R, S, D, T or ?: the state that the sample counts for.
    pub state: u8,
    pub syscall: i64,
    /// The samples of a thread that waited for several rounds share what was copied when it had stopped.
    pub user: Arc<User>,
    pub held_ns: u64,
    pub stop_ns: u64,
}

/// The samples of a round, passed from the sampling thread to the writing one: a write may wait for a disk, and a thread
/// of the target may be stopped meanwhile.
pub struct Round {
    /// CLOCK_MONOTONIC ns
    pub time: u64,
    /// Code mapped since the last round, with its build id.
    pub mappings: Vec<(Mapping, Option<Vec<u8>>)>,
    pub samples: Vec<ThreadSample>,
}

struct Observation {
    snapshot: Arc<Snapshot>,
    time: u64,
    period: u64,
}

/// Where a thread was blocked when we stopped it.
pub type Blocked = Option<(Position, Arc<Snapshot>)>;

/// A thread that was asked to stop.
pub struct PendingStop {
    /// The first is from before the request.
    observations: Vec<Observation>,
    /// When the stop was requested.
    pub at: u64,
}

impl PendingStop {
    pub fn new(snapshot: Snapshot, time: u64, period: u64, at: u64) -> Self {
        Self { observations: vec![Observation { snapshot: Arc::new(snapshot), time, period }], at }
    }

    /// Adds a snapshot of the thread, which has not stopped yet.
    pub fn observe(&mut self, snapshot: Snapshot, time: u64, period: u64) {
        // It woke up and stopped a moment ago.
        let snapshot = if snapshot.stat.state == b't' { with_state(snapshot, b'R') } else { snapshot };
        let snapshot = match self.observations.last() {
            Some(last) if *last.snapshot == snapshot => Arc::clone(&last.snapshot),
            _ => Arc::new(snapshot),
        };
        self.observations.push(Observation { snapshot, time, period });
    }

    /// The samples of a thread that never stopped: its kernel stack, and where it entered the kernel.
    pub fn unstopped(self) -> impl Iterator<Item = ThreadSample> {
        self.observations
            .into_iter()
            .map(|Observation { snapshot, time, period }| unstopped(snapshot, time, period))
    }

    /// The samples of a thread that has stopped, and whether it ran between a snapshot and the stop.
    ///
    /// blocked: where it was at its last sample; replaced by where it is now
    /// held_ns, stop_ns: of the stop
    pub fn stopped(
        self,
        registers: &Registers,
        user: User,
        blocked: &mut Blocked,
        (held_ns, stop_ns): (u64, u64),
    ) -> (Vec<ThreadSample>, bool) {
        let user = Arc::new(user);
        let mut any_moved = false;
        let position = registers.position;
        let sample = |(index, observation): (usize, Observation)| {
            let Observation { mut snapshot, time, period } = observation;
            let woken = snapshot.stat.state == b'R' && registers.restarts();
            // The request to stop does not end a wait for a disk.
            let by_us = |before: &Snapshot| index == 0 || before.stat.state == b'S';
            let before = blocked.take().filter(|(at, before)| woken && *at == position && by_us(before));
            if let Some((_, before)) = before {
                // Woken by this stop or by our last one, it has not run since, so it is where it was.
                let stat = parse::Stat { state: before.stat.state, ..snapshot.stat.clone() };
                snapshot = Arc::new(Snapshot { stat, ..(*before).clone() });
            }
            let waits_here =
                |call: parse::Syscall| call.sp == position.sp && entered_at(position.pc, call.pc);
            let moved = snapshot.blocked() && !snapshot.syscall.is_some_and(waits_here);
            *blocked = (snapshot.blocked() && !moved).then(|| (position, Arc::clone(&snapshot)));
            let mut state = shown_state(snapshot.stat.state);
            if moved {
                any_moved = true;
                state = b'R';
                snapshot =
                    Arc::new(Snapshot { kernel: Vec::new(), wchan: Vec::new(), ..(*snapshot).clone() });
            }
            let syscall = snapshot.syscall.filter(|_| !moved).map_or(registers.syscall, |call| call.number);
            let (held_ns, stop_ns) = if index == 0 { (held_ns, stop_ns) } else { (0, 0) };
            ThreadSample { snapshot, time, period, state, syscall, user: Arc::clone(&user), held_ns, stop_ns }
        };
        let samples = self.observations.into_iter().enumerate().map(sample).collect();
        (samples, any_moved)
    }
}

/// A sample of a thread that was not stopped.
pub fn unstopped(snapshot: Arc<Snapshot>, time: u64, period: u64) -> ThreadSample {
    let user = Arc::new(User::Chain(snapshot.syscall.map(|call| call.pc).into_iter().collect()));
    let (state, syscall) =
        (shown_state(snapshot.stat.state), snapshot.syscall.map_or(-1, |call| call.number));
    ThreadSample { snapshot, time, period, state, syscall, user, held_ns: 0, stop_ns: 0 }
}

fn with_state(snapshot: Snapshot, state: u8) -> Snapshot {
    Snapshot { stat: parse::Stat { state, ..snapshot.stat }, ..snapshot }
}

fn shown_state(state: u8) -> u8 {
    match state {
        b'R' | b'S' | b'D' => state,
        b'T' | b't' => b'T',
        _ => b'?',
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use recording::parse::Syscall;

    const POSITION: Position = Position { pc: 0x40_0000, sp: 0x7000, fp: 0 };

    fn snapshot(state: u8) -> Snapshot {
        let call = Syscall { number: 1, arguments: [0; 6], sp: POSITION.sp, pc: POSITION.pc };
        Snapshot {
            tid: nix::unistd::Pid::from_raw(4711),
            stat: parse::Stat { comm: b"writer".to_vec(), state, parent: 1, start_ticks: 0 },
            kernel: Vec::new(),
            syscall: (state != b'R').then_some(call),
            wchan: Vec::new(),
            left_alone: false,
        }
    }

    /// The states and periods of the samples, once the thread has stopped in a call that returns `returns`.
    fn stopped(looks: &[u8], returns: i64, blocked: &mut Blocked) -> Vec<(char, u64)> {
        let mut pending = PendingStop::new(snapshot(looks[0]), 100, 100, 100);
        for (&state, time) in looks[1..].iter().zip(2..) {
            pending.observe(snapshot(state), 100 * time, 100);
        }
        let registers = Registers { position: POSITION, values: [0; machine::COUNT], syscall: 1, returns };
        let (samples, moved) = pending.stopped(&registers, User::Chain(vec![POSITION.pc]), blocked, (7, 9));
        assert!(!moved && samples[0].held_ns == 7 && samples[1..].iter().all(|sample| sample.held_ns == 0));
        samples.iter().map(|sample| (char::from(sample.state), sample.period)).collect()
    }

    #[test]
    fn each_look_counts_as_what_it_saw() {
        let seen = stopped(b"DDRDt", 4096, &mut None);
        assert_eq!(seen, [('D', 100), ('D', 100), ('R', 100), ('D', 100), ('R', 100)]);
    }

    #[test]
    fn who_was_woken_by_a_stop_counts_as_what_it_was() {
        let mut blocked = None;
        assert_eq!(stopped(b"SRR", -512, &mut blocked), [('S', 100); 3]);
        assert_eq!(stopped(b"R", -512, &mut blocked), [('S', 100)]);
        // Its call ended by itself.
        assert_eq!(stopped(b"R", 1, &mut blocked), [('R', 100)]);
        assert!(blocked.is_none());
    }
}
