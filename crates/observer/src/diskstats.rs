//! /proc/diskstats; Documentation/admin-guide/iostats.rst of the kernel.

use serde::Serialize;
use std::collections::BTreeMap;

/// What /proc/diskstats counted for one group of operations; time in ms from a request's start to its end.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct DiskCount {
    pub requests: u64,
    pub merged: u64,
    pub sectors: u64,
    pub ms: u64,
}

/// All groups of a device.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct DiskCounts {
    pub read: DiskCount,
    pub write: DiskCount,
    pub discard: DiskCount,
    pub flush: DiskCount,
}

/// Name and counters of block devices, by major and minor number.
pub type Disks = BTreeMap<(u32, u32), (String, DiskCounts)>;

/// Every line of /proc/diskstats.
pub fn disks() -> Disks {
    let text = std::fs::read_to_string("/proc/diskstats").unwrap_or_default();
    text.lines().filter_map(disk).collect()
}

/// A line: numbers, name, and 11 to 17 counters, more in newer kernels.
fn disk(line: &str) -> Option<((u32, u32), (String, DiskCounts))> {
    let words: Vec<&str> = line.split_ascii_whitespace().collect();
    let [major, minor, name, counters @ ..] = &words[..] else { return None };
    let field = |n: usize| counters.get(n).and_then(|word| word.parse().ok()).unwrap_or(0);
    let group = |at: usize| DiskCount {
        requests: field(at),
        merged: field(at + 1),
        sectors: field(at + 2),
        ms: field(at + 3),
    };
    let counts = DiskCounts {
        read: group(0),
        write: group(4),
        discard: group(11),
        flush: DiskCount { requests: field(15), ms: field(16), ..Default::default() },
    };
    Some(((major.parse().ok()?, minor.parse().ok()?), ((*name).to_owned(), counts)))
}

impl DiskCount {
    fn with(self, other: Self, each: fn(u64, u64) -> u64) -> Self {
        Self {
            requests: each(self.requests, other.requests),
            merged: each(self.merged, other.merged),
            sectors: each(self.sectors, other.sectors),
            ms: each(self.ms, other.ms),
        }
    }

    pub fn since(self, before: Self) -> Self {
        self.with(before, u64::wrapping_sub)
    }
}

impl DiskCounts {
    fn with(self, other: Self, each: fn(u64, u64) -> u64) -> Self {
        Self {
            read: self.read.with(other.read, each),
            write: self.write.with(other.write, each),
            discard: self.discard.with(other.discard, each),
            flush: self.flush.with(other.flush, each),
        }
    }

    pub fn since(self, before: Self) -> Self {
        self.with(before, u64::wrapping_sub)
    }

    pub fn plus(self, more: Self) -> Self {
        self.with(more, u64::wrapping_add)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_as_many_counters_as_its_kernel_knows() {
        let old = disk("   8       1 sda1 5 6 7 8 9 10 11 12 0 14 15").unwrap();
        assert_eq!(old.0, (8, 1));
        let (name, counts) = old.1;
        assert_eq!(name, "sda1");
        let read = counts.read;
        assert_eq!((read.requests, read.merged, read.sectors, read.ms), (5, 6, 7, 8));
        assert_eq!((counts.write.requests, counts.write.ms), (9, 12));
        assert_eq!((counts.discard.requests, counts.flush.requests), (0, 0));
        let new = disk("254 0 vda 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17").unwrap().1.1;
        assert_eq!(
            (new.discard.requests, new.discard.ms, new.flush.requests, new.flush.ms),
            (12, 15, 16, 17)
        );
        assert!(disk("").is_none() && disk("8 x sda 1").is_none());
    }
}
