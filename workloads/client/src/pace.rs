//! A rate that is held: every operation has a moment before which it does not begin.

use crate::clock;
use std::sync::atomic::{AtomicBool, Ordering};

/// No sleep is longer, so that the end of a run is not slept through.
const LONGEST_SLEEP_NS: u64 = 50_000_000;

/// One thread's share of a rate. What was late is caught up with, so that the rate holds over any longer time.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    /// Between two operations; 0 for as fast as they go.
    interval_ns: f64,
    begun_ns: u64,
    done: u64,
    due_ns: u64,
}

impl Pace {
    /// rate: operations a second of this thread, 0 for no limit; begun: when the first may begin
    pub fn new(rate: f64, begun_ns: u64) -> Self {
        Self { interval_ns: if rate > 0.0 { 1e9 / rate } else { 0.0 }, begun_ns, done: 0, due_ns: 0 }
    }

    /// When the last operation that was waited for was to begin, by the rate; None where none is held.
    pub fn due_ns(&self) -> Option<u64> {
        (self.interval_ns > 0.0).then_some(self.due_ns)
    }

    /// Waits until the next `operations` may begin. False where `over` came first.
    pub fn wait(&mut self, operations: u64, over: &AtomicBool) -> bool {
        if self.interval_ns > 0.0 {
            let due = self.begun_ns + (self.done as f64 * self.interval_ns) as u64;
            self.due_ns = due;
            self.done += operations;
            let mut now = clock::now_ns();
            while now < due {
                if over.load(Ordering::Relaxed) {
                    return false;
                }
                clock::sleep_until(due.min(now + LONGEST_SLEEP_NS));
                now = clock::now_ns();
            }
        }
        true
    }
}
