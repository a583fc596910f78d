//! What is seen of a thread from the request to stop until it has stopped: one look if it stops at once, one look in
//! each round while it waits for a disk.

use crate::machine::{self, Place, Registers, entered_at};
use crate::target::Look;
use recording::{Mapping, parse};
use std::sync::Arc;

/// What of a thread's user side was taken.
pub enum User {
    /// Addresses, innermost first; it may be none.
    Chain(Vec<u64>),
    /// Registers of `machine::MASK`, and the stack from the stack pointer on.
    Copied { registers: [u64; machine::COUNT], stack: Vec<u8> },
}

/// A sample of the round that is not written yet: nothing is written while a thread is stopped.
pub struct Taken {
    pub look: Arc<Look>,
    pub time: u64,
    pub period: u64,
    /// R, S, D, T or ?: what the sample counts as.
    pub state: u8,
    pub syscall: i64,
    /// The samples of a thread that waited for several rounds share what was copied when it had stopped.
    pub user: Arc<User>,
    pub held_ns: u64,
    pub stop_ns: u64,
}

/// What a round found, passed from the sampling thread to the writing one: a write may wait for a disk, and a thread of
/// the target may be stopped meanwhile.
pub struct Round {
    /// CLOCK_MONOTONIC ns
    pub time: u64,
    /// Code that was not there before, with its build id.
    pub mappings: Vec<(Mapping, Option<Vec<u8>>)>,
    pub taken: Vec<Taken>,
}

struct Seen {
    look: Arc<Look>,
    time: u64,
    period: u64,
}

/// Where a thread was blocked and stopped by us.
pub type Blocked = Option<(Place, Arc<Look>)>;

/// A thread that was asked to stop.
pub struct Asked {
    /// The first before it was asked.
    seen: Vec<Seen>,
    /// When it was asked.
    pub at: u64,
}

impl Asked {
    pub fn new(look: Look, time: u64, period: u64, at: u64) -> Self {
        Self { seen: vec![Seen { look: Arc::new(look), time, period }], at }
    }

    /// It has not stopped yet.
    pub fn see(&mut self, look: Look, time: u64, period: u64) {
        // Its wait has ended, and it stopped a moment ago.
        let look = if look.stat.state == b't' { with_state(look, b'R') } else { look };
        let look = match self.seen.last() {
            Some(last) if *last.look == look => Arc::clone(&last.look),
            _ => Arc::new(look),
        };
        self.seen.push(Seen { look, time, period });
    }

    /// Its samples if it never stopped: its kernel stack, and where it entered the kernel.
    pub fn unstopped(self) -> impl Iterator<Item = Taken> {
        self.seen.into_iter().map(|Seen { look, time, period }| unstopped(look, time, period))
    }

    /// Its samples now that it has stopped, and whether it ran between a look and the stop.
    ///
    /// blocked: where it was at its last sample; where it is at this one
    /// held_ns, stop_ns: of the one stop that there was
    pub fn stopped(
        self,
        registers: &Registers,
        user: User,
        blocked: &mut Blocked,
        (held_ns, stop_ns): (u64, u64),
    ) -> (Vec<Taken>, bool) {
        let user = Arc::new(user);
        let mut any_moved = false;
        let place = registers.place;
        let sample = |(index, seen): (usize, Seen)| {
            let Seen { mut look, time, period } = seen;
            let woken = look.stat.state == b'R' && registers.restarts();
            // A wait for a disk is not ended by the stop that was asked for.
            let by_us = |before: &Look| index == 0 || before.stat.state == b'S';
            let before = blocked.take().filter(|(at, before)| woken && *at == place && by_us(before));
            if let Some((_, before)) = before {
                // Woken by this stop or by our last one, it has not run since, so it is where it was.
                let stat = parse::Stat { state: before.stat.state, ..look.stat.clone() };
                look = Arc::new(Look { stat, ..(*before).clone() });
            }
            let there = |call: parse::Syscall| call.sp == place.sp && entered_at(place.pc, call.pc);
            let moved = look.blocked() && !look.syscall.is_some_and(there);
            *blocked = (look.blocked() && !moved).then(|| (place, Arc::clone(&look)));
            let mut state = shown_state(look.stat.state);
            if moved {
                any_moved = true;
                state = b'R';
                look = Arc::new(Look { kernel: Vec::new(), wchan: Vec::new(), ..(*look).clone() });
            }
            let syscall = look.syscall.filter(|_| !moved).map_or(registers.syscall, |call| call.number);
            let (held_ns, stop_ns) = if index == 0 { (held_ns, stop_ns) } else { (0, 0) };
            Taken { look, time, period, state, syscall, user: Arc::clone(&user), held_ns, stop_ns }
        };
        let taken = self.seen.into_iter().enumerate().map(sample).collect();
        (taken, any_moved)
    }
}

/// A sample of a thread that was not stopped.
pub fn unstopped(look: Arc<Look>, time: u64, period: u64) -> Taken {
    let user = Arc::new(User::Chain(look.syscall.map(|call| call.pc).into_iter().collect()));
    let (state, syscall) = (shown_state(look.stat.state), look.syscall.map_or(-1, |call| call.number));
    Taken { look, time, period, state, syscall, user, held_ns: 0, stop_ns: 0 }
}

fn with_state(look: Look, state: u8) -> Look {
    Look { stat: parse::Stat { state, ..look.stat }, ..look }
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

    const PLACE: Place = Place { pc: 0x40_0000, sp: 0x7000, fp: 0 };

    fn look(state: u8) -> Look {
        let call = Syscall { number: 1, arguments: [0; 6], sp: PLACE.sp, pc: PLACE.pc };
        Look {
            tid: nix::unistd::Pid::from_raw(4711),
            stat: parse::Stat { comm: b"writer".to_vec(), state, parent: 1, start_ticks: 0 },
            kernel: Vec::new(),
            syscall: (state != b'R').then_some(call),
            wchan: Vec::new(),
            spared: false,
        }
    }

    /// The states and periods of the samples, once the thread has stopped in a call that returns `returns`.
    fn stopped(looks: &[u8], returns: i64, blocked: &mut Blocked) -> Vec<(char, u64)> {
        let mut asked = Asked::new(look(looks[0]), 100, 100, 100);
        for (&state, time) in looks[1..].iter().zip(2..) {
            asked.see(look(state), 100 * time, 100);
        }
        let registers = Registers { place: PLACE, values: [0; machine::COUNT], syscall: 1, returns };
        let (taken, moved) = asked.stopped(&registers, User::Chain(vec![PLACE.pc]), blocked, (7, 9));
        assert!(!moved && taken[0].held_ns == 7 && taken[1..].iter().all(|taken| taken.held_ns == 0));
        taken.iter().map(|taken| (char::from(taken.state), taken.period)).collect()
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
