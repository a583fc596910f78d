//! What the statistics say in words.

use super::{CutCopies, Stats};
use crate::terminal;
use std::fmt::Write as _;

const SHOWN_NOTES: usize = 8;
/// Bytes of a stack that can be asked of perf, which rounds them down to a multiple of 8: the length of a record has 16 bits.
const MOST_ASKED: u64 = 65_528;
/// What the rest of a record needs of those: the kernel copies less (65,280 are usual), whatever was asked for.
const REST_OF_RECORD: u64 = 1024;

impl CutCopies {
    /// What to do about it, where it is more than a hundredth of the weight.
    fn warnings(&self, weight: u128) -> impl Iterator<Item = String> {
        let larger = match self.bytes {
            bytes if bytes < MOST_ASKED - REST_OF_RECORD => {
                let twice = bytes.saturating_mul(2).clamp(8192, MOST_ASKED);
                format!("perf record --call-graph dwarf,{twice}")
            }
            _ => "perf copies no more; frame pointers (perf record -g) have no such limit".to_owned(),
        };
        let by_size = format!("have stacks longer than the {} bytes copied of them: {larger}", self.bytes);
        let by_page = "have stacks whose copy ends at a page never written to, where the kernel stops: \
             read the stacks once before recording (stacksampler --pid PID --seconds 1 -o /dev/null)";
        let by_code = "have stacks that end in code without unwind tables. Code made at run time: perf record -k 1, let the \
             program write a jitdump, and add its tables to the recording (perf inject -j -i perf.data -o injected.data); a \
             file without: frame pointers (perf record -g)";
        let texts =
            [(self.by_size, by_size), (self.by_page, by_page.to_owned()), (self.by_code, by_code.to_owned())];
        texts
            .into_iter()
            .filter(move |(part, _)| part.saturating_mul(100) > weight)
            .map(move |(part, text)| format!("samples of {} of the weight {text}", percent(part, weight)))
    }
}

impl Stats {
    /// A few lines for the terminal; what deserves attention begins with `WARNING`.
    pub fn summary(&self) -> String {
        let mut text = String::new();
        let event = terminal::name(self.event.as_deref().unwrap_or("no event"));
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
        if self.beyond_start_samples > 0 {
            let beyond = percent(self.beyond_start_weight, self.weight);
            let _ = writeln!(
                text,
                "  {beyond} of the weight has chains that went on beyond the start of their thread, and were cut there"
            );
        }
        for other in &self.other_events {
            let _ = writeln!(
                text,
                "  left out: {}: {} samples, weight {}",
                terminal::name(&other.name),
                other.tally.samples,
                other.tally.weight
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
            let _ = writeln!(text, "  note: {}", terminal::name(note));
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
            for (_, line) in &self.dropped_first {
                let _ = write!(lines, "\n    {}", terminal::name(line));
            }
            warnings.push(lines);
        }
        for filter in &self.unmatched_filters {
            warnings.push(format!("no stack has the frame of {}", terminal::name(filter)));
        }
        if self.truncated_chains > 0 {
            warnings.push(format!(
                "{} call chains are at the limit of frames (127 by default), their roots are missing: \
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
        warnings.extend(self.losses());
        warnings
    }

    /// What is missing of the input, for which the exit code is 1.
    pub fn losses(&self) -> Vec<String> {
        let mut losses = Vec::new();
        if self.unknown_records > 0 {
            let kinds: Vec<String> = self.unknown_kinds.iter().map(u32::to_string).collect();
            losses.push(format!(
                "{} records are of kinds that stackfold does not know (kind {}), and what they held is missing, samples \
                 perhaps: the recording is damaged, or of a perf newer than 6.19. Does perf read it? \
                 perf script | stackfold",
                self.unknown_records,
                kinds.join(", ")
            ));
        }
        if self.broken_samples > 0 {
            losses.push(format!(
                "{} samples could not be read, or are of no event of the recording, and their weight is missing: the \
                 recording is damaged",
                self.broken_samples
            ));
        }
        if let Some(why) = &self.truncated_input {
            losses.push(format!("the input is cut short ({why}); the rest is folded"));
        }
        losses
    }
}

fn percent(part: u128, whole: u128) -> String {
    if whole == 0 {
        return "-".to_owned();
    }
    format!("{:.2} %", 100.0 * part as f64 / whole as f64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::Weight;
    use crate::unwind::StackEnd;
    use crate::weights::{SampleTotals, SampleWeight};

    #[test]
    fn larger_copies_are_advised_as_long_as_perf_makes_some() {
        let advice = |bytes| {
            let mut cut = CutCopies::default();
            cut.count(1, StackEnd::BehindCopy, bytes as usize, bytes);
            cut.warnings(1).next().unwrap()
        };
        assert!(advice(32_768).ends_with("perf record --call-graph dwarf,65528"), "{}", advice(32_768));
        // What perf stores of 65,528.
        assert!(advice(65_280).contains("perf copies no more"), "{}", advice(65_280));
    }

    fn one(weight: u64) -> SampleTotals {
        SampleWeight::new(Weight::Period, Some(weight)).into()
    }

    #[test]
    fn one_heavy_sample_is_loud_only_among_many() {
        let mut stats = Stats::default();
        for _ in 0..100 {
            stats.count(&one(1));
        }
        stats.set_event(None, Weight::Period);
        assert!(!stats.summary().contains("one sample"));
        stats.count(&one(6));
        stats.set_event(None, Weight::Period);
        assert!(stats.summary().contains("WARNING: one sample holds 5.66 % of the weight (6 of 106)"));
    }
}
