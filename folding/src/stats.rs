//! What is known about a fold besides its stacks.

use crate::collector::{Samples, Weight};
use serde::Serialize;
use std::borrow::Cow;
use std::fmt::Write as _;

/// The unit of folded text, which has no place for one.
pub const UNSTATED: &str = "unstated";

const SHOWN_LINES: usize = 3;
const SHOWN_BYTES: usize = 160;
const SHOWN_NOTES: usize = 8;
/// Bytes of a stack that perf copies at most: the length of a record has 16 bits.
const MOST_COPIED: u64 = 65_528;

/// The totals of one event of the input.
#[derive(Clone, Debug, Serialize)]
pub struct EventTotals {
    #[serde(rename = "event")]
    pub name: String,
    #[serde(skip)]
    pub raw: Vec<u8>,
    #[serde(skip)]
    pub selected: bool,
    pub samples: u64,
    pub weight: u128,
    #[serde(skip)]
    pub without_period: u64,
    /// The part of the input it was first seen in.
    #[serde(skip)]
    pub part: u64,
}

impl EventTotals {
    pub fn new(raw: &[u8], selected: bool, part: u64) -> Self {
        let name =
            if raw.is_empty() { "[unknown]".into() } else { String::from_utf8_lossy(raw).into_owned() };
        Self { name, raw: raw.to_vec(), selected, samples: 0, weight: 0, without_period: 0, part }
    }
}

impl EventTotals {
    /// One sample; its weight may be unknown.
    pub fn count(&mut self, weight: Option<u64>) {
        self.samples += 1;
        self.weight = self.weight.saturating_add(u128::from(weight.unwrap_or(0)));
        self.without_period += u64::from(weight.is_none());
    }

    pub fn absorb(&mut self, other: &Self) {
        self.samples += other.samples;
        self.weight = self.weight.saturating_add(other.weight);
        self.without_period += other.without_period;
        self.part = self.part.min(other.part);
    }
}

/// Copied user stacks (`perf record --call-graph dwarf`) that go on where their copy ends: what their samples weigh.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct CutCopies {
    /// As much was copied as was asked for.
    pub by_size: u128,
    /// The kernel stopped sooner: it copies with page faults off, so a page that is not in memory ends the copy. One in
    /// the middle of a stack may never have been written to.
    pub by_page: u128,
    /// Bytes that were asked for, the most if there are several events.
    pub bytes: u64,
}

impl CutCopies {
    /// A sample of which `filled` bytes were copied, and the stack goes on.
    pub fn count(&mut self, weight: u64, filled: usize, bytes: u64) {
        let sum = if (filled as u64) < bytes { &mut self.by_page } else { &mut self.by_size };
        *sum = sum.saturating_add(weight.into());
        self.bytes = self.bytes.max(bytes);
    }

    pub fn absorb(&mut self, other: Self) {
        self.by_size = self.by_size.saturating_add(other.by_size);
        self.by_page = self.by_page.saturating_add(other.by_page);
        self.bytes = self.bytes.max(other.bytes);
    }

    /// What to do about it, where it is more than a hundredth of the weight.
    fn warnings(&self, weight: u128) -> impl Iterator<Item = String> {
        let larger = match self.bytes {
            ..MOST_COPIED => {
                let twice = self.bytes.saturating_mul(2).clamp(8192, MOST_COPIED);
                format!("perf record --call-graph dwarf,{twice}")
            }
            _ => "perf copies no more; frame pointers (perf record -g) have no such limit".to_owned(),
        };
        let by_size = format!("have stacks longer than the {} bytes copied of them: {larger}", self.bytes);
        let by_page = "have stacks whose copy ends at a page never written to, where the kernel stops: \
             read the stacks once before recording (stacksampler --pid PID --seconds 1 -o /dev/null)";
        [(self.by_size, by_size), (self.by_page, by_page.to_owned())]
            .into_iter()
            .filter(move |(part, _)| part.saturating_mul(100) > weight)
            .map(move |(part, text)| format!("samples of {} of the weight {text}", percent(part, weight)))
    }
}

/// The statistics file (`--stats`), field by field.
#[derive(Clone, Debug, Serialize)]
pub struct Stats {
    pub schema: u32,
    pub event: Option<String>,
    /// What the weights are: `ns`, `cycles`, `instructions`, `events`, or `samples` with `--weight count`.
    pub unit: Cow<'static, str>,
    pub samples: u64,
    pub weight: u128,
    pub unique_stacks: u64,
    /// `PERF_RECORD_LOST` and its like, and the samples they stand for.
    pub lost_records: u64,
    pub lost_samples: u64,
    /// Lines that are nothing perf script is known to print.
    pub dropped_lines: u64,
    pub dropped_first: Vec<String>,
    /// The parts of the input they stood in.
    #[serde(skip)]
    pub dropped_parts: Vec<u64>,
    /// Samples whose chain did not reach the start of its thread.
    pub incomplete_samples: u64,
    pub incomplete_weight: u128,
    /// Weight whose leaf frame has no symbol.
    pub unresolved_weight: u128,
    pub cut_copies: CutCopies,
    /// Chains as long as the kernel's limit, whose root is therefore missing.
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
    /// Why the input counts as cut short, if it does.
    pub truncated_input: Option<String>,
    /// Files whose symbols could not be used, and why.
    pub notes: Vec<String>,
}

/// The range that holds both.
pub fn widest(a: Option<(u64, u64)>, b: Option<(u64, u64)>) -> Option<(u64, u64)> {
    match (a, b) {
        (Some(a), Some(b)) => Some((a.0.min(b.0), a.1.max(b.1))),
        (a, b) => a.or(b),
    }
}

impl Default for Stats {
    fn default() -> Self {
        Self {
            schema: 1,
            event: None,
            unit: Cow::Borrowed("events"),
            samples: 0,
            weight: 0,
            unique_stacks: 0,
            lost_records: 0,
            lost_samples: 0,
            dropped_lines: 0,
            dropped_first: Vec::new(),
            dropped_parts: Vec::new(),
            incomplete_samples: 0,
            incomplete_weight: 0,
            unresolved_weight: 0,
            cut_copies: CutCopies::default(),
            truncated_chains: 0,
            largest_sample_weight: 0,
            period_min: None,
            period_max: None,
            filtered_samples: 0,
            filtered_weight: 0,
            unmatched_filters: Vec::new(),
            other_events: Vec::new(),
            truncated_input: None,
            notes: Vec::new(),
        }
    }
}

impl Stats {
    /// These samples are folded; their weight may be their number or their periods.
    pub fn count(&mut self, samples: &Samples) {
        self.samples += samples.count;
        self.weight = self.weight.saturating_add(samples.weight);
        self.largest_sample_weight = self.largest_sample_weight.max(samples.largest);
        let mine = self.period_min.zip(self.period_max);
        (self.period_min, self.period_max) = widest(mine, samples.periods).unzip();
    }

    /// Samples of the folded event that a filter left out.
    pub fn filter(&mut self, weight: u128, samples: u64) {
        self.filtered_weight = self.filtered_weight.saturating_add(weight);
        self.filtered_samples = self.filtered_samples.saturating_add(samples);
    }

    pub fn dropped(&mut self, line: &[u8], part: u64) {
        self.dropped_lines += 1;
        if self.dropped_first.len() < SHOWN_LINES {
            let shown = &line[..line.len().min(SHOWN_BYTES)];
            self.dropped_first.push(String::from_utf8_lossy(shown).into_owned());
            self.dropped_parts.push(part);
        }
    }

    /// Adds what was counted in other parts of the same input.
    pub fn absorb(&mut self, other: Self) {
        self.samples = self.samples.saturating_add(other.samples);
        self.weight = self.weight.saturating_add(other.weight);
        self.lost_records += other.lost_records;
        self.lost_samples = self.lost_samples.saturating_add(other.lost_samples);
        self.dropped_lines += other.dropped_lines;
        self.incomplete_samples += other.incomplete_samples;
        self.incomplete_weight += other.incomplete_weight;
        self.unresolved_weight += other.unresolved_weight;
        self.cut_copies.absorb(other.cut_copies);
        self.truncated_chains += other.truncated_chains;
        self.largest_sample_weight = self.largest_sample_weight.max(other.largest_sample_weight);
        self.period_min = self.period_min.into_iter().chain(other.period_min).min();
        self.period_max = self.period_max.max(other.period_max);
        self.filter(other.filtered_weight, other.filtered_samples);
        self.truncated_input = self.truncated_input.take().or(other.truncated_input);
        let lines = |stats: &mut Self| {
            let lines = std::mem::take(&mut stats.dropped_first);
            std::mem::take(&mut stats.dropped_parts).into_iter().zip(lines).collect::<Vec<_>>()
        };
        let mut other = Self {
            dropped_first: other.dropped_first,
            dropped_parts: other.dropped_parts,
            ..Self::default()
        };
        let mut dropped = lines(self);
        dropped.extend(lines(&mut other));
        dropped.sort_by_key(|(part, _)| *part);
        dropped.truncate(SHOWN_LINES);
        (self.dropped_parts, self.dropped_first) = dropped.into_iter().unzip();
    }

    pub fn set_event(&mut self, event: Option<String>, weight: Weight) {
        self.unit = Cow::Borrowed(match weight {
            Weight::Count => "samples",
            Weight::Period => unit(event.as_deref().unwrap_or("")),
        });
        self.event = event;
    }

    /// What weights have to have in common to be added or compared; [`UNSTATED`] if nobody told.
    pub fn event_and_unit(&self) -> String {
        if self.unit == UNSTATED {
            return UNSTATED.to_owned();
        }
        let event = self.event.as_deref().unwrap_or("event not told");
        format!("{event} ({})", self.unit)
    }

    /// A few lines for the terminal; what deserves attention begins with `WARNING`.
    pub fn summary(&self) -> String {
        let mut text = String::new();
        let event = self.event.as_deref().unwrap_or("no event");
        let _ = writeln!(
            text,
            "stackfold: {event}: {} samples, weight {} {}, {} stacks",
            self.samples, self.weight, self.unit, self.unique_stacks
        );
        let _ = writeln!(
            text,
            "  {} incomplete, {} unresolved (of weight); {} lost samples",
            percent(self.incomplete_weight, self.weight),
            percent(self.unresolved_weight, self.weight),
            self.lost_samples
        );
        for other in &self.other_events {
            let _ = writeln!(
                text,
                "  left out: {}: {} samples, weight {}",
                other.name, other.samples, other.weight
            );
        }
        if self.filtered_samples > 0 {
            let _ = writeln!(
                text,
                "  filtered: {} samples, weight {}",
                self.filtered_samples, self.filtered_weight
            );
        }
        for note in self.notes.iter().take(SHOWN_NOTES) {
            let _ = writeln!(text, "  note: {}", note.escape_debug());
        }
        if self.notes.len() > SHOWN_NOTES {
            let _ = writeln!(text, "  and {} more notes (--stats has them)", self.notes.len() - SHOWN_NOTES);
        }
        for warning in self.warnings() {
            let _ = writeln!(text, "  WARNING: {warning}");
        }
        text
    }

    fn warnings(&self) -> Vec<String> {
        let mut warnings = Vec::new();
        if self.lost_records > 0 {
            warnings.push(format!(
                "perf lost {} samples ({} records): record with a larger buffer (perf record -m) or a lower -F",
                self.lost_samples, self.lost_records
            ));
        }
        if self.dropped_lines > 0 {
            let mut lines = format!("{} lines not understood and dropped; the first:", self.dropped_lines);
            for line in &self.dropped_first {
                let _ = write!(lines, "\n    {}", line.escape_debug());
            }
            warnings.push(lines);
        }
        for filter in &self.unmatched_filters {
            warnings.push(format!("no stack has the frame of {filter}"));
        }
        if self.truncated_chains > 0 {
            warnings.push(format!(
                "{} call chains are at the limit of 127 frames, their roots are missing: \
                 sysctl kernel.perf_event_max_stack, and perf script --max-stack",
                self.truncated_chains
            ));
        }
        warnings.extend(self.cut_copies.warnings(self.weight));
        let largest = u128::from(self.largest_sample_weight);
        if self.samples > 100 && largest.saturating_mul(20) > self.weight {
            warnings.push(format!(
                "one sample holds {} of the weight ({largest} of {}): shares are not to be trusted; \
                 record with a fixed period (perf record -c)",
                percent(largest, self.weight),
                self.weight
            ));
        }
        if let Some(why) = &self.truncated_input {
            warnings.push(format!("the input is cut short ({why}); what came before is folded"));
        }
        warnings
    }
}

fn percent(part: u128, whole: u128) -> String {
    if whole == 0 {
        return "-".to_owned();
    }
    format!("{:.2} %", 100.0 * part as f64 / whole as f64)
}

/// The unit of an event's period.
pub fn unit(event: &str) -> &'static str {
    // PMU events may carry the PMU's name: `cpu_core/cycles/`.
    let name = event.split_once('/').map_or(event, |(_, rest)| rest);
    if ["cpu-clock", "task-clock", "wall-clock"].iter().any(|clock| event.starts_with(clock)) {
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

    fn one(weight: u64) -> Samples {
        Samples {
            comm: 0,
            slice: None,
            weight: weight.into(),
            count: 1,
            largest: weight,
            periods: Some((weight, weight)),
        }
    }

    #[test]
    fn units_follow_the_event() {
        for (event, expected) in [
            ("cpu-clock", "ns"),
            ("cpu-clock:u", "ns"),
            ("task-clock:ppp", "ns"),
            ("wall-clock", "ns"),
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

    #[test]
    fn one_heavy_sample_is_loud_only_among_many() {
        let mut stats = Stats::default();
        for _ in 0..100 {
            stats.count(&one(1));
        }
        assert!(!stats.summary().contains("one sample"));
        stats.count(&one(6));
        assert!(stats.summary().contains("WARNING: one sample holds 5.66 % of the weight (6 of 106)"));
    }
}
