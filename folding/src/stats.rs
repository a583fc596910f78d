//! What is known about a fold besides its stacks.

mod summary;

use crate::error::Error;
use crate::events::EventTotals;
use crate::options::Weight;
use crate::unwind::StackEnd;
use crate::weights::{SampleTotals, Tally};
use serde::{Serialize, Serializer};
use std::borrow::Cow;

/// The unit of folded text, which has no place for one.
pub const UNSTATED: &str = "unstated";

const SCHEMA: u32 = 1;
const SHOWN_LINES: usize = 3;
const SHOWN_BYTES: usize = 160;
const SHOWN_KINDS: usize = 8;

/// Copied user stacks (`perf record --call-graph dwarf`) that were not unwound to their beginning: what their samples weigh.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct CutCopies {
    /// As much was copied as was asked for.
    pub by_size: u128,
    /// The kernel stopped sooner: it copies with page faults off, so a page that is not in memory ends the copy. One in
    /// the middle of a stack may never have been written to.
    pub by_page: u128,
    /// They end in code that no unwind table describes.
    pub by_code: u128,
    /// Bytes that were asked for, the most if there are several events.
    pub bytes: u64,
}

impl CutCopies {
    /// A sample of which `filled` bytes were copied, and whose stack continues.
    pub fn count(&mut self, weight: u64, end: StackEnd, filled: usize, bytes: u64) {
        let sum = match end {
            StackEnd::NoTable => &mut self.by_code,
            StackEnd::BehindCopy if (filled as u64) < bytes => &mut self.by_page,
            StackEnd::BehindCopy => &mut self.by_size,
        };
        *sum = sum.saturating_add(weight.into());
        self.bytes = self.bytes.max(bytes);
    }

    pub fn absorb(&mut self, other: Self) {
        self.by_size = self.by_size.saturating_add(other.by_size);
        self.by_page = self.by_page.saturating_add(other.by_page);
        self.by_code = self.by_code.saturating_add(other.by_code);
        self.bytes = self.bytes.max(other.bytes);
    }
}

/// A frame in which incomplete chains end, and what these weigh.
#[derive(Clone, Debug, Serialize)]
pub struct CutAt {
    pub frame: String,
    pub weight: u128,
}

/// The statistics file (`--stats`), field by field.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Stats {
    pub schema: u32,
    pub event: Option<String>,
    /// What the weights are: `ns`, `cycles`, `instructions`, `events`, or `samples` with `--weight count`.
    pub unit: Cow<'static, str>,
    pub samples: u64,
    pub weight: u128,
    pub unique_stacks: u64,
    /// `PERF_RECORD_LOST` and its like, and the lost samples they report.
    pub lost_records: u64,
    pub lost_samples: u64,
    /// Lines that are nothing perf script is known to print.
    pub dropped_lines: u64,
    /// The first of them, each with the number of the part of the input that held it.
    #[serde(serialize_with = "without_parts")]
    pub dropped_first: Vec<(u64, String)>,
    /// Samples whose chain did not reach the start of its thread.
    pub incomplete_samples: u64,
    pub incomplete_weight: u128,
    /// The frames in which most of these end: the outermost of each that has a name.
    pub cut_at: Vec<CutAt>,
    /// Samples whose chain went on beyond the start of its thread, where it was cut.
    pub beyond_start_samples: u64,
    pub beyond_start_weight: u128,
    /// Weight whose leaf frame has no symbol.
    pub unresolved_weight: u128,
    pub cut_copies: CutCopies,
    /// Recorded chains as long as the kernel's limit, whose root is therefore missing.
    pub truncated_chains: u64,
    pub largest_sample_weight: u64,
    pub period_min: Option<u64>,
    pub period_max: Option<u64>,
    /// Samples of the event that a filter left out, and their weight.
    pub filtered_samples: u64,
    pub filtered_weight: u128,
    /// Frames named in an option that no stack has.
    pub unmatched_filters: Vec<String>,
    /// Events that `--event` left out.
    pub other_events: Vec<EventTotals>,
    /// Records of kinds that are not known, and the first of the kinds.
    pub unknown_records: u64,
    pub unknown_kinds: Vec<u32>,
    /// Samples of a recording that could not be taken apart, or are of no event of it; each is a dropped line too.
    pub broken_samples: u64,
    /// More weight or samples than can be counted.
    #[serde(skip)]
    pub overflow: bool,
    /// Why the input counts as cut short, if it does.
    pub truncated_input: Option<String>,
    /// Files whose symbols could not be used, and why.
    pub notes: Vec<String>,
}

impl Stats {
    /// These samples are folded; their weight may be their number or their periods.
    pub fn count(&mut self, samples: &SampleTotals) {
        self.take(samples.tally);
        let (shortest, longest) = samples.periods().unzip();
        self.widen_periods(shortest, longest);
    }

    fn widen_periods(&mut self, shortest: Option<u64>, longest: Option<u64>) {
        self.period_min = self.period_min.into_iter().chain(shortest).min();
        self.period_max = self.period_max.max(longest);
    }

    /// So much is folded.
    pub fn take(&mut self, tally: Tally) {
        let (weight, too_much) = self.weight.overflowing_add(tally.weight);
        let (samples, too_many) = self.samples.overflowing_add(tally.samples);
        (self.weight, self.samples) = (weight, samples);
        self.overflow |= too_much || too_many;
    }

    /// A record of a kind that is not known.
    pub fn unknown(&mut self, kind: u32) {
        self.unknown_records += 1;
        if self.unknown_kinds.len() < SHOWN_KINDS && !self.unknown_kinds.contains(&kind) {
            self.unknown_kinds.push(kind);
        }
    }

    /// Samples of the folded event that a filter left out.
    pub fn filter(&mut self, tally: Tally) {
        let (sum, too_much) = self.filtered_weight.overflowing_add(tally.weight);
        self.filtered_weight = sum;
        self.overflow |= too_much;
        self.filtered_samples = self.filtered_samples.saturating_add(tally.samples);
    }

    pub fn dropped<L: AsRef<[u8]>>(&mut self, line: impl FnOnce() -> L, part: u64) {
        self.dropped_lines += 1;
        if self.dropped_first.len() < SHOWN_LINES {
            let line = line();
            let shown = &line.as_ref()[..line.as_ref().len().min(SHOWN_BYTES)];
            self.dropped_first.push((part, String::from_utf8_lossy(shown).into_owned()));
        }
    }

    /// Adds what was counted in other parts of the same input.
    pub fn absorb(&mut self, other: Self) {
        self.take(Tally { weight: other.weight, samples: other.samples });
        self.overflow |= other.overflow;
        self.unknown_records += other.unknown_records;
        self.unknown_kinds.extend(other.unknown_kinds);
        self.unknown_kinds.sort_unstable();
        self.unknown_kinds.dedup();
        self.unknown_kinds.truncate(SHOWN_KINDS);
        self.broken_samples += other.broken_samples;
        self.lost_records += other.lost_records;
        self.lost_samples = self.lost_samples.saturating_add(other.lost_samples);
        self.dropped_lines += other.dropped_lines;
        self.incomplete_samples += other.incomplete_samples;
        self.incomplete_weight += other.incomplete_weight;
        self.beyond_start_samples += other.beyond_start_samples;
        self.beyond_start_weight += other.beyond_start_weight;
        self.unresolved_weight += other.unresolved_weight;
        self.cut_copies.absorb(other.cut_copies);
        self.truncated_chains += other.truncated_chains;
        self.widen_periods(other.period_min, other.period_max);
        self.filter(Tally { weight: other.filtered_weight, samples: other.filtered_samples });
        self.truncated_input = self.truncated_input.take().or(other.truncated_input);
        self.dropped_first.extend(other.dropped_first);
        self.dropped_first.sort_by_key(|(part, _)| *part);
        self.dropped_first.truncate(SHOWN_LINES);
    }

    pub fn set_event(&mut self, event: Option<String>, weight: Weight) {
        let (unit, largest) = match weight {
            Weight::Count => ("samples", u64::from(self.samples > 0)),
            Weight::Period => (unit(event.as_deref().unwrap_or("")), self.period_max.unwrap_or(0)),
        };
        (self.schema, self.event, self.unit, self.largest_sample_weight) =
            (SCHEMA, event, unit.into(), largest);
    }

    /// Shares of a sum that could not be counted would be wrong.
    pub fn refuse_overflow(&self) -> Result<(), Error> {
        if !self.overflow {
            return Ok(());
        }
        Err(Error::usage(
            "the weights add up to 2^128 or more, or the samples to 2^64: nothing larger is counted, and shares would be \
             wrong; divide the weights of each input by the same number",
        ))
    }

    /// Whether all of the input was understood.
    pub fn is_whole(&self) -> bool {
        self.losses().is_empty()
    }
}

fn without_parts<S: Serializer>(lines: &[(u64, String)], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(lines.iter().map(|(_, line)| line))
}

/// The unit of an event's period.
pub fn unit(event: &str) -> &'static str {
    // PMU events may carry the PMU's name: `cpu_core/cycles/`.
    let name = event.split_once('/').map_or(event, |(_, rest)| rest);
    if ["cpu-clock", "task-clock", "wall-clock", "offcpu-time"].iter().any(|clock| event.starts_with(clock)) {
        "ns"
    } else if name.starts_with("cycles") || name.starts_with("cpu-cycles") || name.starts_with("ref-cycles") {
        "cycles"
    } else if name.starts_with("instructions") {
        "instructions"
    } else {
        "events"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_follow_the_event() {
        for (event, expected) in [
            ("cpu-clock", "ns"),
            ("cpu-clock:u", "ns"),
            ("task-clock:ppp", "ns"),
            ("wall-clock", "ns"),
            ("offcpu-time", "ns"),
            ("cycles:ppp", "cycles"),
            ("cpu_core/cycles/", "cycles"),
            ("instructions:u", "instructions"),
            ("page-faults", "events"),
            ("sched:sched_switch", "events"),
            ("", "events"),
        ] {
            assert_eq!(unit(event), expected, "{event}");
        }
    }
}
