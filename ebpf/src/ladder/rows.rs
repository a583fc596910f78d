//! The rows that the programs count into, once they rest.

use serde::Serialize;

use super::skeleton::types::{counter as Counter, part, point};
use super::skeleton::{self, LadderSkel};
use crate::histogram::{Histogram, read_rows_and_own, settled};
use crate::layout::names;
use observer::Failure;

/// In the order of `enum point` in `bpf/ladder.h`: stage N ends at point N + 1.
const STAGES: [&str; point::POINTS.0 as usize - 1] =
    ["get_pre", "rdr_pre", "sys_pre", "queue", "device", "wake", "runq", "sys_post", "rdr_post", "get_post"];
const CLASSES: [&str; 7] =
    names!(class[0..CLASSES]: ONE_READ NO_READ SEVERAL NO_REQUEST FOREIGN AWAKE DISORDER);
/// In the order of `enum part` there.
const PARTS: [&str; part::PARTS.0 as usize] =
    ["before", "reader", "call", THROTTLE, "queue", "device", "wake", "runq", "sleep", "between", "after"];
/// Of a process without an IO limit no query has it.
const THROTTLE: &str = "throttle";
/// Where the rows of parts begin.
const PARTS_AT: usize = STAGES.len() + CLASSES.len() + 1;
const ROWS: usize = PARTS_AT + 2 * PARTS.len();

#[derive(Serialize)]
pub struct Stage {
    name: &'static str,
    #[serde(flatten)]
    histogram: Histogram,
    /// What the programs themselves ran within the stage, summed over all.
    own_ns: u64,
}

impl Stage {
    pub fn count(&self) -> u64 {
        self.histogram.count
    }
}

/// The rows of a ladder.
pub struct Rows {
    /// Those that some query was in.
    pub stages: Vec<Stage>,
    pub classes: Vec<Stage>,
    pub outside: Stage,
    /// Of queries of class `several`, and of `foreign`; None where there was none.
    pub several: Option<Vec<Stage>>,
    pub foreign: Option<Vec<Stage>>,
}

/// The rows, once no program counts any more: until then some stages hold one query more than others.
pub fn read(skeleton: &LadderSkel) -> Result<Rows, Failure> {
    let counted = [Counter::COUNTING.0, Counter::COUNTED_WHOLE.0];
    let maps = &skeleton.maps;
    let mut rows = settled(&maps.counters, counted, || read_rows_and_own(&maps.rows, 0, ROWS))?.into_iter();
    let mut stages = named(&STAGES, &mut rows);
    stages.retain(|stage| stage.histogram.count > 0);
    let classes = named(&CLASSES, &mut rows);
    let outside = named(&["outside"], &mut rows).pop().expect("the last row");
    let [several, foreign] = [(); 2].map(|()| {
        let mut parts = named(&PARTS, &mut rows);
        parts.retain(|one| one.name != THROTTLE || one.histogram.sum_ns > 0);
        Some(parts).filter(|parts| parts.iter().any(|stage| stage.count() > 0))
    });
    Ok(Rows { stages, classes, outside, several, foreign })
}

fn named(names: &[&'static str], rows: &mut impl Iterator<Item = (Histogram, u64)>) -> Vec<Stage> {
    names.iter().zip(rows).map(|(name, (histogram, own_ns))| Stage { name, histogram, own_ns }).collect()
}
