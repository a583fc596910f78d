//! Statistics of a run and its cost, as JSON.

use crate::sampler::Callgraph;
use crate::tracer::PATIENCE;
use serde::{Serialize, Serializer};
use std::collections::BTreeMap;

/// Durations in ns.
#[derive(Default)]
pub struct Durations(Vec<u32>);

impl Durations {
    pub fn push(&mut self, ns: u64) {
        self.0.push(u32::try_from(ns).unwrap_or(u32::MAX));
    }

    pub fn summary(&self) -> Summary {
        let mut sorted = self.0.clone();
        sorted.sort_unstable();
        let n = sorted.len();
        // The nearest rank: one of the values.
        let at = |share: f64| match n {
            0 => 0,
            _ => sorted[((share * n as f64).ceil() as usize).clamp(1, n) - 1],
        };
        let total: u64 = sorted.iter().map(|&ns| u64::from(ns)).sum();
        Summary {
            n: n as u64,
            total_ns: total,
            mean_ns: total.checked_div(n as u64).unwrap_or(0),
            p50_ns: at(0.5),
            p90_ns: at(0.9),
            p99_ns: at(0.99),
            max_ns: at(1.0),
        }
    }
}

#[derive(Serialize, Debug, PartialEq, Eq)]
pub struct Summary {
    pub n: u64,
    pub total_ns: u64,
    pub mean_ns: u64,
    pub p50_ns: u32,
    pub p90_ns: u32,
    pub p99_ns: u32,
    pub max_ns: u32,
}

#[derive(Serialize, Clone, Copy, Default)]
pub struct Tally {
    pub samples: u64,
    pub weight_ns: u64,
}

impl Tally {
    pub fn add(&mut self, weight: u64) {
        self.samples += 1;
        self.weight_ns += weight;
    }
}

#[derive(Serialize, Default)]
pub struct Thread {
    pub tid: i32,
    /// Its last name, bytes that are no UTF-8 replaced.
    pub name: String,
    pub samples: u64,
    pub weight_ns: u64,
    /// By state: R, S, D, T, ?
    pub states: BTreeMap<char, Tally>,
}

/// Where threads waited: state, kernel function, system call.
#[derive(Serialize)]
pub struct WaitPoint {
    pub state: char,
    pub wchan: String,
    pub syscall: i64,
    #[serde(flatten)]
    pub tally: Tally,
}

/// Incomplete samples, by reason.
#[derive(Serialize, Default)]
pub struct Lacking {
    /// The thread ended before it stopped.
    pub ended: u64,
    /// It did not stop before the end; its kernel side is there.
    pub did_not_stop: u64,
    /// Another tracer had it, or it may not be traced.
    pub refused: u64,
    /// It was in a system call that would reveal a stop.
    pub left_alone: u64,
    /// It ran between the snapshot and its stop: it counts as running, without kernel frames.
    pub moved: u64,
}

/// The result of all rounds.
#[derive(Default, Serialize)]
pub struct Outcome {
    /// CLOCK_MONOTONIC
    pub start_ns: u64,
    pub end_ns: u64,
    /// Each from its beginning to its end, where it took turns.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub turns: Vec<(u64, u64)>,
    /// `time`, `signal`, `closed`, `target ended`
    pub end: &'static str,
    pub rounds: u64,
    /// Rounds skipped because the one before took too long.
    pub late_rounds: u64,
    /// From the last moment at which no thread was seen stopped until the thread was released; stops that we did not
    /// request, too.
    #[serde(serialize_with = "summarised")]
    pub held: Durations,
    /// From when a thread was asked to stop until it was released: what it lost at most. The same as `held`
    /// if the stop came late, as after a wait for a disk.
    #[serde(serialize_with = "summarised")]
    pub stop: Durations,
    pub lacking: Lacking,
    /// Whether it ran before the target's threads.
    #[serde(skip)]
    pub ahead: bool,
}

fn summarised<S: Serializer>(durations: &Durations, serializer: S) -> Result<S::Ok, S::Error> {
    durations.summary().serialize(serializer)
}

impl Outcome {
    /// A thread was asked to stop at `asked`, stopped at `since` or later, and was released at `released`, all
    /// CLOCK_MONOTONIC ns: how long it was held, and how long the stop took from the request on.
    ///
    /// One that stopped late waited for a disk or a CPU until then, not for us.
    pub fn record_stop(&mut self, requested: u64, since: u64, released: u64) -> (u64, u64) {
        let late = since.saturating_sub(requested) > PATIENCE.as_nanos() as u64;
        let (held, stop) = (released - since.max(requested), released - if late { since } else { requested });
        self.held.push(held);
        self.stop.push(stop);
        (held, stop)
    }
}

#[derive(Serialize)]
pub struct Stats {
    pub schema: u32,
    pub sampler: &'static str,
    pub pid: i32,
    pub event: &'static str,
    pub hz: f64,
    pub callgraph: Callgraph,
    pub stack_bytes: usize,
    #[serde(flatten)]
    pub outcome: Outcome,
    #[serde(flatten)]
    pub tally: Tally,
    pub states: BTreeMap<char, Tally>,
    pub threads: Vec<Thread>,
    pub places: Vec<WaitPoint>,
    /// CPU time of this program while it sampled.
    pub cpu_ns: u64,
    pub notes: Vec<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_values_that_were_seen() {
        let mut durations = Durations::default();
        assert_eq!(durations.summary().n, 0);
        for ns in (1..=1000).rev() {
            durations.push(ns);
        }
        durations.push(u64::MAX);
        let summary = durations.summary();
        assert_eq!((summary.n, summary.p50_ns, summary.p99_ns, summary.max_ns), (1001, 501, 991, u32::MAX));
    }

    #[test]
    fn a_stop_lasts_from_when_it_may_have_begun() {
        let mut outcome = Outcome::default();
        let ms = 1_000_000;
        // PendingStop at 10 ms, it ran on at 10.5 ms; nobody looked again until 3,010 ms.
        assert_eq!(
            outcome.record_stop(10 * ms, 10 * ms + ms / 2, 3010 * ms),
            (2999 * ms + ms / 2, 3000 * ms)
        );
        // It came back from a disk after 5 s, and 1 ms later it was let go.
        assert_eq!(outcome.record_stop(10 * ms, 5010 * ms, 5011 * ms), (ms, ms));
        // Last seen to run before it was asked to stop.
        assert_eq!(outcome.record_stop(10 * ms, 9 * ms, 11 * ms), (ms, ms));
        assert_eq!((outcome.held.summary().n, outcome.stop.summary().max_ns), (3, 3_000_000_000));
    }
}
