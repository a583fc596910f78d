//! From maps to time: what every thread of the process did between the gate's edges.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use observer::states::OffCpu as State;
use recording::Kernel;
use serde::Serialize;

use super::chains;
use super::futex::{Callers, Futex, SEEN};
use super::raw::Key;
use super::skeleton::types::{end as End, stack as Stack, sum as Sum, thread as Thread};
use super::tasks::{Blocked, Task};

/// The process at both edges of the gate, and what was counted between them.
pub struct Window {
    pub pid: u32,
    pub opened: u64,
    pub closed: u64,
    /// Threads by /proc when the programs were attached, with what they were blocked in.
    pub attached: BTreeMap<u32, (Task, Blocked)>,
    pub at_open: BTreeMap<u32, Task>,
    pub at_close: BTreeMap<u32, Task>,
    pub threads: Vec<Thread>,
    pub ends: Vec<End>,
    /// Of all turns.
    pub stacks: Rc<BTreeMap<u64, Stack>>,
    pub callers: Callers,
}

/// A thread's part of the window.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Life {
    pub tid: u32,
    #[serde(serialize_with = "as_text")]
    pub comm: Vec<u8>,
    /// Within the window, CLOCK_MONOTONIC.
    pub start_ns: u64,
    pub end_ns: u64,
    /// From then to then, without what lies between turns.
    pub lived_ns: u64,
    /// Whether it began, and whether it ended, within the window.
    pub started: bool,
    pub ended: bool,
    /// From each switch-in to the next switch-out: with `off_ns`, all of its time.
    pub ran_ns: u64,
    /// By the scheduler (schedstat), which may count a thread as running from its wake-up on; None where it ended unseen.
    pub cpu_ns: Option<u64>,
    pub off_ns: BTreeMap<&'static str, u64>,
    pub voluntary: u32,
    pub involuntary: u32,
}

/// Time of one thread in one state at one place.
pub struct Row {
    pub key: Key,
    pub state: State,
    /// The thread was blocked there since before it was looked at: its stack is that of /proc.
    pub before: bool,
    pub sum: Sum,
}

fn as_text<S: serde::Serializer>(bytes: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&String::from_utf8_lossy(bytes))
}

impl Window {
    /// The addresses of a stack by its number; none where it is not kept.
    pub fn stack(&self, number: u64) -> &[u64] {
        self.stacks.get(&number).map_or(&[], |stack| &stack.addresses[..stack.depth as usize])
    }

    /// Adds what the threads that are off a CPU at the end have waited since, to the sums of what ended before.
    pub fn flush(&self, sums: &mut BTreeMap<Key, Sum>) {
        let mut add = |thread: &Thread, state: Option<State>, from: u64, to: u64| {
            let (from, to) = (from.max(self.opened), to.min(self.closed));
            if from < to {
                let sum = sums.entry(Key { state, ..thread.key() }).or_default();
                sum.ns += to - from;
                sum.count += 1;
            }
        };
        for thread in self.threads.iter().filter(|thread| thread.since > 0) {
            match (thread.key().state, thread.woken_at()) {
                (state @ Some(State::Preempted | State::Woken), _) | (state, None) => {
                    add(thread, state, thread.since, self.closed);
                }
                (state, Some(woken)) => {
                    add(thread, state, thread.since, woken);
                    add(thread, Some(State::Woken), woken, self.closed);
                }
            }
        }
        // What had no room among the sums: one stretch of each thread at most.
        for thread in self.threads.iter().chain(self.ends.iter().map(|end| &end.thread)) {
            if thread.before_ns > 0 {
                let sum = sums.entry(Key { tid: thread.tid, ..Key::default() }).or_default();
                sum.ns += thread.before_ns;
                sum.count += 1;
            }
        }
        // Threads that did nothing at all: no event told of them.
        for tid in self.at_close.keys() {
            let seen = self.threads.iter().any(|thread| thread.tid == *tid);
            if !seen && self.slept(*tid) && self.at_open.contains_key(tid) {
                let key = Key { tid: *tid, ..Key::default() };
                let sum = sums.entry(key).or_default();
                sum.ns += self.closed - self.opened;
                sum.count += 1;
            }
        }
    }

    /// Whether a thread was off its CPU when it was looked at first.
    fn slept(&self, tid: u32) -> bool {
        self.attached.get(&tid).is_some_and(|(task, _)| task.state != b'R')
    }

    /// Sums with their states, those told by a stack included.
    pub fn rows(&self, sums: BTreeMap<Key, Sum>, kernel: &Kernel) -> Vec<Row> {
        let tids = self.own_numbers();
        let rows = sums.into_iter().filter(|(_, sum)| sum.ns > 0 || sum.count > 0);
        rows.map(|(key, sum)| {
            let (state, before) = self.state(&key, &tids, kernel);
            Row { key, state, before, sum }
        })
        .collect()
    }

    /// What the process' threads call themselves: by that they are joined.
    fn own_numbers(&self) -> BTreeSet<u32> {
        let seen = self.threads.iter().chain(self.ends.iter().map(|end| &end.thread));
        let listed = self.attached.values().map(|(task, _)| task);
        let listed = listed.chain(self.at_open.values()).chain(self.at_close.values());
        seen.map(|thread| thread.own_number).chain(listed.map(|task| task.own_number)).collect()
    }

    fn state(&self, key: &Key, tids: &BTreeSet<u32>, kernel: &Kernel) -> (State, bool) {
        // The call tells; one that a signal broke off and restarted, or one of 32 bits, is known by its kernel stack alone.
        let asleep = |stack: &[u64], futex: &Futex| {
            if futex.how & SEEN != 0 || chains::is_futex(stack, kernel) {
                self.callers.state(futex, tids)
            } else {
                State::Sleep
            }
        };
        let Some(state) = key.state else {
            let known = self.attached.get(&key.tid);
            let stack = known.map_or(&[][..], |(_, blocked)| &blocked.kernel[..]);
            let state = match known.map(|(task, _)| task.state) {
                Some(b'R') => State::Preempted,
                Some(b'D') if chains::is_io(stack, kernel) => State::Io,
                Some(b'D') => State::Uninterruptible,
                Some(b'T' | b't') => State::Stopped,
                _ => asleep(stack, &known.map_or_else(Futex::default, |(_, blocked)| blocked.futex)),
            };
            return (state, true);
        };
        (if state == State::Sleep { asleep(self.stack(key.kernel), &key.futex) } else { state }, false)
    }

    /// What each thread did, in the order of tids.
    pub fn lives(&self, rows: &[Row]) -> Vec<Life> {
        let mut lives: Vec<Life> = Vec::new();
        let begin = |begun: u64| begun.max(self.opened);
        // The CPU time of a thread that was there at the opening counts from then.
        let cpu_before = |tid: u32, begun: u64| match self.at_open.get(&tid) {
            Some(task) if begun <= self.opened => task.cpu_ns,
            _ => 0,
        };
        let life = |thread: &Thread| Life {
            tid: thread.tid,
            comm: thread.name(),
            start_ns: begin(thread.begun),
            end_ns: self.closed,
            started: thread.begun > self.opened,
            ran_ns: thread.ran_ns,
            voluntary: thread.voluntary,
            involuntary: thread.involuntary,
            ..Life::default()
        };
        for end in self.ends.iter().filter(|end| end.at > self.opened) {
            let before = cpu_before(end.thread.tid, end.thread.begun);
            let cpu_ns = Some(end.cpu_ns.saturating_sub(before));
            lives.push(Life { end_ns: end.at.min(self.closed), ended: true, cpu_ns, ..life(&end.thread) });
        }
        for thread in &self.threads {
            let before = cpu_before(thread.tid, thread.begun);
            let now = self.at_close.get(&thread.tid);
            let cpu_ns = now.map(|task| task.cpu_ns.saturating_sub(before));
            let comm = now.map_or_else(|| thread.name(), |task| task.comm.clone());
            // Since it got its CPU, where it has one at the end.
            let still = if thread.since == 0 { self.closed.saturating_sub(begin(thread.got)) } else { 0 };
            lives.push(Life { comm, cpu_ns, ran_ns: thread.ran_ns + still, ..life(thread) });
        }
        for (tid, task) in &self.at_close {
            if let (false, Some(before)) = (lives.iter().any(|l| l.tid == *tid), self.at_open.get(tid)) {
                lives.push(Life {
                    tid: *tid,
                    comm: task.comm.clone(),
                    start_ns: self.opened,
                    end_ns: self.closed,
                    // It kept its CPU all the time, or it kept waiting: that is a row then.
                    ran_ns: if self.slept(*tid) { 0 } else { self.closed - self.opened },
                    cpu_ns: Some(task.cpu_ns.saturating_sub(before.cpu_ns)),
                    ..Life::default()
                });
            }
        }
        for row in rows {
            if let Some(life) = lives.iter_mut().find(|life| life.tid == row.key.tid) {
                *life.off_ns.entry(row.state.name()).or_default() += row.sum.ns;
            }
        }
        for life in &mut lives {
            life.lived_ns = life.end_ns - life.start_ns;
        }
        lives.sort_by_key(|life| (life.tid, life.start_ns));
        lives
    }

    /// Whether a thread that was there when `before` closed is there at our opening.
    fn has_still(&self, before: &Self, tid: u32) -> bool {
        let [then, now] =
            [before.at_close.get(&tid), self.at_open.get(&tid)].map(|task| task.map(|task| task.start_ticks));
        then.is_some() && then == now
    }
}

/// What each thread did in all turns together.
pub fn of_all(turns: &[(Window, Vec<Life>)]) -> Vec<Life> {
    let mut lives: Vec<Life> = Vec::new();
    for (number, (window, of_turn)) in turns.iter().enumerate() {
        for life in of_turn {
            let before = number.checked_sub(1).map(|before| &turns[before].0);
            let is_known = before.is_some_and(|before| !life.started && window.has_still(before, life.tid));
            match lives.iter_mut().rev().find(|known| is_known && known.tid == life.tid) {
                Some(known) => known.add(life),
                None => lives.push(life.clone()),
            }
        }
    }
    lives.sort_by_key(|life| (life.tid, life.start_ns));
    lives
}

impl Life {
    /// What the same thread did in a later turn.
    fn add(&mut self, later: &Self) {
        self.comm.clone_from(&later.comm);
        (self.end_ns, self.ended) = (later.end_ns, later.ended);
        self.lived_ns += later.lived_ns;
        self.ran_ns += later.ran_ns;
        self.cpu_ns = self.cpu_ns.zip(later.cpu_ns).map(|(before, after)| before + after);
        for (state, ns) in &later.off_ns {
            *self.off_ns.entry(state).or_default() += ns;
        }
        self.voluntary += later.voluntary;
        self.involuntary += later.involuntary;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A turn at whose edges thread 7 was there, which began at these ticks; None: it was not.
    fn turn(opened: u64, at_open: Option<u64>, at_close: Option<u64>) -> Window {
        let task =
            |start_ticks| Task { comm: Vec::new(), own_number: 7, state: b'S', cpu_ns: 0, start_ticks };
        let there = |ticks: Option<u64>| ticks.map(|ticks| (7, task(ticks))).into_iter().collect();
        Window {
            pid: 7,
            opened,
            closed: opened + 10,
            attached: BTreeMap::new(),
            at_open: there(at_open),
            at_close: there(at_close),
            threads: Vec::new(),
            ends: Vec::new(),
            stacks: Rc::default(),
            callers: Callers::default(),
        }
    }

    fn life(start_ns: u64, end_ns: u64, started: bool) -> Life {
        Life {
            tid: 7,
            start_ns,
            end_ns,
            lived_ns: end_ns - start_ns,
            started,
            cpu_ns: Some(1),
            ..Life::default()
        }
    }

    #[test]
    fn a_thread_of_several_turns_has_one_life_and_another_of_its_number_its_own() {
        let turns = [
            (turn(100, Some(1), Some(1)), vec![life(100, 110, false)]),
            (turn(200, Some(1), None), vec![Life { ended: true, ..life(200, 205, false) }]),
            (turn(300, Some(2), Some(2)), vec![life(300, 310, false)]),
            (
                turn(400, Some(2), Some(3)),
                vec![Life { ended: true, ..life(400, 404, false) }, life(406, 410, true)],
            ),
            (turn(500, Some(3), Some(3)), vec![Life { cpu_ns: None, ..life(500, 510, false) }]),
        ];
        let found: Vec<_> = of_all(&turns)
            .into_iter()
            .map(|one| (one.start_ns, one.end_ns, one.lived_ns, one.started, one.ended, one.cpu_ns))
            .collect();
        let expected = [
            (100, 205, 15, false, true, Some(2)),
            (300, 404, 14, false, true, Some(2)),
            (406, 510, 14, true, false, None),
        ];
        assert_eq!(found, expected);
    }
}
