//! Stretches of time of single threads, in groups: samples inside are weighed by group, others are left out.

use crate::error::Error;
use crate::intern::IntMap;
use std::collections::BTreeMap;
use std::path::Path;

/// From `begin` until before `end`, ns of the trace's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Interval {
    begin: u64,
    end: u64,
    group: u64,
}

/// By thread, in order of time; none overlaps another of its thread.
#[derive(Clone, Debug, Default)]
pub struct Intervals(IntMap<i64, Vec<Interval>>);

impl Intervals {
    /// Reads a file of lines `TID BEGIN END GROUP`, in any order.
    pub fn load(path: &Path) -> Result<Self, Error> {
        let text = std::fs::read_to_string(path).map_err(|error| Error::unreadable(path, &error))?;
        text.parse().map_err(|why| Error::usage(format!("--intervals {}: {why}", path.display())))
    }

    /// The group of a moment of a thread.
    pub fn group(&self, thread: i64, time: u64) -> Option<u64> {
        let intervals = self.0.get(&thread)?;
        let last = intervals[..intervals.partition_point(|one| one.begin <= time)].last()?;
        (time < last.end).then_some(last.group)
    }
}

impl std::str::FromStr for Intervals {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut threads = BTreeMap::<i64, Vec<Interval>>::new();
        for (line, number) in text.lines().zip(1..) {
            let numbers = line.split_ascii_whitespace().map(str::parse).collect::<Result<Vec<u64>, _>>();
            let Ok(&[thread, begin, end, group]) = numbers.as_deref() else {
                return Err(format!("line {number} is no TID BEGIN END GROUP, four whole numbers: {line}"));
            };
            let thread =
                i64::try_from(thread).map_err(|_| format!("line {number}: no thread is {thread}"))?;
            if begin > end {
                return Err(format!("line {number} ends before it begins: {line}"));
            }
            // An empty one holds no moment, wherever it lies.
            if begin < end {
                threads.entry(thread).or_default().push(Interval { begin, end, group });
            }
        }
        for (thread, intervals) in &mut threads {
            intervals.sort_unstable_by_key(|one| (one.begin, one.end));
            if let Some(both) = intervals.windows(2).find(|both| both[0].end > both[1].begin) {
                let (first, second) = (both[0], both[1]);
                return Err(format!(
                    "thread {thread} is in two intervals at {}: that of group {} and that of group {}",
                    second.begin, first.group, second.group
                ));
            }
        }
        Ok(Self(threads.into_iter().collect()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_makes_no_sense_is_refused() {
        for (text, why) in [
            ("7 1 2", "line 1 is no TID BEGIN END GROUP"),
            ("7 1 2 3\n7 x 2 3", "line 2 is no TID BEGIN END GROUP"),
            ("-7 1 2 3", "line 1 is no TID"),
            ("7 3 2 1", "line 1 ends before it begins"),
            (
                "7 1 3 1\n8 1 9 0\n7 2 4 2",
                "thread 7 is in two intervals at 2: that of group 1 and that of group 2",
            ),
        ] {
            assert!(text.parse::<Intervals>().unwrap_err().contains(why), "{text}");
        }
    }
}
