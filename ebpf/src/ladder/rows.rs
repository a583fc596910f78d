//! The rows that the programs count into, once they rest.

use std::collections::BTreeSet;
use std::thread;
use std::time::Duration;

use serde::Serialize;

use super::skeleton::types::{point, row};
use super::skeleton::{self, LadderSkel};
use crate::histogram::{self, Histogram, read_all};
use crate::layout::{names, plain};
use observer::Failure;

/// In the order of `enum point` in `bpf/ladder.h`: stage N ends at point N + 1.
const STAGES: [&str; point::POINTS.0 as usize - 1] =
    ["get_pre", "rdr_pre", "sys_pre", "queue", "device", "wake", "runq", "sys_post", "rdr_post", "get_post"];
const CLASSES: [&str; 8] = names!(
    class[0..CLASSES]: ONE_READ NO_READ SEVERAL NO_REQUEST FOREIGN AWAKE URING DISORDER
);
const ROWS: usize = STAGES.len() + CLASSES.len() + 1;
/// Between two looks at the rows after the window, and how many there are at most.
const SETTLE: Duration = Duration::from_millis(5);
const SETTLE_LOOKS: u32 = 200;

plain!(row);

#[derive(Serialize)]
pub struct Stage {
    name: &'static str,
    #[serde(flatten)]
    histogram: Histogram,
    /// What the programs themselves ran within the stage, summed over all.
    own_ns: u64,
}

/// The rows of a ladder.
pub struct Rows {
    /// Those that some query was in.
    pub stages: Vec<Stage>,
    pub classes: Vec<Stage>,
    pub outside: Stage,
}

/// The rows once nothing counts any more: a program that was preempted when the gate closed goes on when its thread has a
/// CPU again, and until then some stages hold one query more than others.
pub fn read(skeleton: &LadderSkel) -> Result<Rows, Failure> {
    let mut rows = settled(skeleton)?.into_iter();
    let mut stages = named(&STAGES, &mut rows);
    stages.retain(|stage| stage.histogram.count > 0);
    let classes = named(&CLASSES, &mut rows);
    let outside = named(&["outside"], &mut rows).pop().expect("the last row");
    Ok(Rows { stages, classes, outside })
}

fn settled(skeleton: &LadderSkel) -> Result<Vec<(Histogram, u64)>, Failure> {
    let mut before = read_rows(skeleton)?;
    for _ in 0..SETTLE_LOOKS {
        thread::sleep(SETTLE);
        let now = read_rows(skeleton)?;
        let counts = |rows: &[(Histogram, u64)]| rows.iter().map(|row| row.0.count).collect::<Vec<_>>();
        let stages: BTreeSet<u64> =
            now[..STAGES.len()].iter().map(|row| row.0.count).filter(|count| *count > 0).collect();
        if stages.len() <= 1 && counts(&before) == counts(&now) {
            return Ok(now);
        }
        before = now;
    }
    Ok(before)
}

/// Every row: its histogram, and the programs' own time in it.
fn read_rows(skeleton: &LadderSkel) -> Result<Vec<(Histogram, u64)>, Failure> {
    let rows: Vec<Vec<row>> = read_all(&skeleton.maps.rows, 0, ROWS)?;
    Ok(rows
        .iter()
        .map(|cpus| {
            let of_cpu = |row: &row| ([row.count, row.ns, !row.least_flipped, row.most], row.buckets);
            (histogram::of_cpus(cpus.iter().map(of_cpu)), cpus.iter().map(|row| row.own_ns).sum())
        })
        .collect())
}

fn named(names: &[&'static str], rows: &mut impl Iterator<Item = (Histogram, u64)>) -> Vec<Stage> {
    names.iter().zip(rows).map(|(name, (histogram, own_ns))| Stage { name, histogram, own_ns }).collect()
}
