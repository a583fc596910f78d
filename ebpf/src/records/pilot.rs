//! A second before the window: what following would cost, and which queries are slow.

use std::thread;
use std::time::{Duration, Instant};

use observer::Failure;
use serde::Serialize;

use super::counter::RecordsCounter;
use super::skeleton::types::{counter as Counter, gate_state, rows_of};
use super::{Keep, RecordsOptions};
use crate::symbols::Function;
use crate::uprobes::Trap;

/// So many of the queries that are not slow are kept of a window, about.
const OTHERS: f64 = 2000.0;
const PILOT: Duration = Duration::from_secs(1);
/// With fewer in the pilot it is unknown how long slow ones take: without a threshold all are kept.
const FEW: u64 = 200;
/// Well below the percentile that is asked for, which may be shorter in the window than it was before.
const SLOW_SHARE: f64 = 0.95;
/// Of a CPU, for the traps of queries whether followed or not.
const MOST_TRAPS: f64 = 0.05;

/// What that second told.
#[derive(Debug, Serialize)]
pub struct Pilot {
    pub seconds: f64,
    pub queries_per_second: f64,
    /// Followed queries that ended in it.
    pub finished: u64,
    /// Of these the 95th percentile, ns.
    pub slow_ns: u64,
    /// Of a CPU, that the traps at the queries' entries and exits will take.
    pub trap_share: f64,
}

/// Counts queries for a second. Refuses where trapping them would take too much.
pub fn run(
    options: &RecordsOptions,
    counter: &mut RecordsCounter,
    query: &[Function],
    trap: Trap,
) -> Result<Pilot, Failure> {
    let begun = Instant::now();
    counter.gate(gate_state::PILOT);
    thread::sleep(PILOT);
    counter.gate(gate_state::SHUT);
    let seconds = begun.elapsed().as_secs_f64();
    let queries_per_second = counter.counters()?[Counter::PILOT_QUERIES.0 as usize] as f64 / seconds;
    let stepped = query.iter().any(|function| function.stepped);
    let trap_ns = match query {
        [] => 0.0, // read calls are followed without a trap
        _ => trap.return_ns + if stepped { trap.stepped_ns } else { trap.entry_ns },
    };
    let trap_share = queries_per_second * trap_ns / 1e9;
    if trap_share > MOST_TRAPS && !options.force {
        return Err(too_dear(queries_per_second, trap_ns, trap_share));
    }
    let (histogram, _) = counter.row(rows_of::ROW_PILOT)?;
    let slow_ns = histogram.quantile(SLOW_SHARE);
    Ok(Pilot { seconds, queries_per_second, finished: histogram.count, slow_ns, trap_share })
}

fn too_dear(queries_per_second: f64, trap_ns: f64, share: f64) -> Failure {
    Failure::measurement(format!(
        "trapping {queries_per_second:.0} queries/s at {:.2} us each would take {:.0} % of a CPU",
        trap_ns / 1e3,
        100.0 * share
    ))
    .meaning(format!(
        "more than {:.0} %: queries would be slower for it; each is trapped, even if few are followed",
        100.0 * MOST_TRAPS
    ))
    .mend("ioflame ebpf tail --force, or a workload of fewer queries a second")
}

impl Pilot {
    /// How long a slow query takes at least (ns), one in how many of the others is kept, and what is to be known of
    /// that.
    pub fn what_is_kept(&self, options: &RecordsOptions) -> (u64, u32, Vec<String>) {
        let slow_ns = match options.threshold_us {
            _ if options.keep == Keep::All => {
                return (0, 1, vec!["every followed query was kept".to_owned()]);
            }
            Some(us) => us * 1000,
            None if self.finished < FEW => {
                let seen =
                    format!("{} queries ended in the second before the window: all were kept", self.finished);
                return (0, 1, vec![seen]);
            }
            None => self.slow_ns,
        };
        (slow_ns, self.one_in(options.expected), Vec::new())
    }

    /// seconds: of the window
    fn one_in(&self, seconds: f64) -> u32 {
        (self.finished as f64 / self.seconds * seconds / OTHERS).round().clamp(1.0, 1e6) as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pilot(finished: u64) -> Pilot {
        Pilot { seconds: 1.0, queries_per_second: 0.0, finished, slow_ns: 400, trap_share: 0.0 }
    }

    #[test]
    fn about_two_thousand_of_a_window_are_kept() {
        assert_eq!([100, 1000, 12_000].map(|finished| pilot(finished).one_in(20.0)), [1, 10, 120]);
    }

    #[test]
    fn a_refusal_says_what_it_would_take() {
        let words = too_dear(200_000.0, 550.0, 0.11).to_string();
        assert!(
            words.starts_with("trapping 200000 queries/s at 0.55 us each would take 11 % of a CPU\n"),
            "{words}"
        );
    }
}
