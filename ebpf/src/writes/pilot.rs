//! A second before the window: how many writes there are, how long they take, and what watching them would cost.

use observer::Failure;
use serde::Serialize;

use super::{Depth, WritesOptions};
use crate::histogram::Histogram;
use crate::uprobes::Trap;

/// Of a CPU, for the traps of writes.
const MOST_TRAPS: f64 = 0.05;
/// Of a write: above it the stages would tell of their probes.
const MOST_OF_WRITE: f64 = 0.20;
/// Functions with entry and return that a write goes through with all stages: a leader's are the write, queue,
/// preparation, log, memtable and end, and in its group it wakes; a follower's are fewer.
const FUNCTIONS_FULL: f64 = 6.0;
const FUNCTIONS_FEW: f64 = 2.0;
/// States that are set for each write.
const STATES: f64 = 1.5;
/// What one of the programs runs, ns.
const PROGRAM_NS: f64 = 200.0;

/// What that second told.
#[derive(Debug, Serialize)]
pub struct WritePilot {
    pub seconds: f64,
    pub writes_per_second: f64,
    pub mean_ns: f64,
    /// What watching takes of each write, predicted, ns.
    pub cost_ns: f64,
    /// Of a CPU, for all of them.
    pub cost_share: f64,
}

impl WritePilot {
    /// Chooses the stages, with the reason where they are not all. Refuses where even that would take too much.
    pub fn decide(
        options: &WritesOptions,
        seconds: f64,
        writes: u64,
        ended: &Histogram,
        trap: Trap,
        state_seen: bool,
    ) -> Result<(Self, bool, Vec<String>), Failure> {
        let rate = writes as f64 / seconds;
        let mean_ns = if ended.count > 0 { ended.sum_ns as f64 / ended.count as f64 } else { 0.0 };
        let both = trap.entry_ns + trap.return_ns + 2.0 * PROGRAM_NS;
        let states = if state_seen { STATES * (trap.entry_ns + PROGRAM_NS) } else { 0.0 };
        let full_ns = FUNCTIONS_FULL * both + states;
        let few_ns = FUNCTIONS_FEW * both + states;
        let dear = full_ns > MOST_OF_WRITE * mean_ns && ended.count > 0;
        let busy = rate * full_ns / 1e9 > MOST_TRAPS && !options.force;
        let full = options.stages == Depth::Full || (options.stages == Depth::Auto && !dear && !busy);
        let cost_ns = if full { full_ns } else { few_ns };
        let pilot =
            Self { seconds, writes_per_second: rate, mean_ns, cost_ns, cost_share: rate * cost_ns / 1e9 };
        if pilot.cost_share > MOST_TRAPS && !options.force {
            return Err(pilot.too_dear());
        }
        let mut notes = Vec::new();
        if options.stages == Depth::Auto && !full {
            notes.push(format!(
                "few stages: all of them would take {:.1} us of a write of {:.1} us, {:.0} % of a CPU",
                full_ns / 1e3,
                mean_ns / 1e3,
                100.0 * rate * full_ns / 1e9
            ));
        }
        Ok((pilot, full, notes))
    }

    fn too_dear(&self) -> Failure {
        Failure::measurement(format!(
            "watching {:.0} writes/s at {:.1} us each would take {:.0} % of a CPU",
            self.writes_per_second,
            self.cost_ns / 1e3,
            100.0 * self.cost_share
        ))
        .meaning(format!("more than {:.0} %: writes would be slower for it", 100.0 * MOST_TRAPS))
        .mend("ioflame ebpf writes --force, or a workload of fewer writes a second")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_says_what_it_would_take() {
        let pilot = WritePilot {
            seconds: 1.0,
            writes_per_second: 100_000.0,
            mean_ns: 20_000.0,
            cost_ns: 4000.0,
            cost_share: 0.4,
        };
        let words = pilot.too_dear().to_string();
        assert!(
            words.starts_with("watching 100000 writes/s at 4.0 us each would take 40 % of a CPU\n"),
            "{words}"
        );
    }
}
