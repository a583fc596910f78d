//! A block device, by the numbers and the names the kernel gives it.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use serde::Serialize;

use observer::Failure;

/// A whole disk or a partition.
#[derive(Clone, Debug, Serialize)]
pub struct Device {
    pub major: u32,
    pub minor: u32,
    pub name: String,
    pub partition: bool,
    /// It has no requests of its own (device mapper, md, zram): bios pass through it or end in it.
    pub bio_based: bool,
}

/// What /proc/diskstats counted for one group of operations; time in ms from a request's start to its end.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct DiskCount {
    pub requests: u64,
    pub merged: u64,
    pub sectors: u64,
    pub ms: u64,
}

/// /proc/diskstats of a device; Documentation/admin-guide/iostats.rst.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct DiskCounts {
    pub read: DiskCount,
    pub write: DiskCount,
    pub discard: DiskCount,
    pub flush: DiskCount,
}

impl Device {
    /// The device `MAJOR:MINOR`.
    pub fn find(text: &str) -> Result<Self, Failure> {
        let numbers: Option<(u32, u32)> =
            text.split_once(':').and_then(|(a, b)| Some((a.parse().ok()?, b.parse().ok()?)));
        let (major, minor) =
            numbers.ok_or_else(|| Failure::usage(format!("--device {text} is not MAJOR:MINOR")))?;
        let folder = PathBuf::from(format!("/sys/dev/block/{major}:{minor}"));
        let path = folder
            .canonicalize()
            .map_err(|_| Failure::usage(format!("--device {text}: the kernel knows no such block device")))?;
        let partition = path.join("partition").exists();
        let disk =
            if partition { path.parent().map(PathBuf::from).unwrap_or_default() } else { path.clone() };
        Ok(Self {
            major,
            minor,
            name: path.file_name().unwrap_or_default().to_string_lossy().into_owned(),
            partition,
            bio_based: !disk.join("mq").exists(),
        })
    }

    /// What /proc/diskstats says now; None where it has no line for this device.
    pub fn counts(&self) -> Option<DiskCounts> {
        Some(disks().get(&(self.major, self.minor))?.1)
    }
}

/// Name and counters of block devices, by major and minor number.
pub type Disks = BTreeMap<(u32, u32), (String, DiskCounts)>;

/// Every line of /proc/diskstats.
pub fn disks() -> Disks {
    let text = fs::read_to_string("/proc/diskstats").unwrap_or_default();
    text.lines().filter_map(disk).collect()
}

/// A line: numbers, name, and 11 to 17 counters, as kernels came to have them.
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
    pub fn since(self, before: Self) -> Self {
        Self {
            requests: self.requests.wrapping_sub(before.requests),
            merged: self.merged.wrapping_sub(before.merged),
            sectors: self.sectors.wrapping_sub(before.sectors),
            ms: self.ms.wrapping_sub(before.ms),
        }
    }
}

impl DiskCounts {
    pub fn since(self, before: Self) -> Self {
        Self {
            read: self.read.since(before.read),
            write: self.write.since(before.write),
            discard: self.discard.since(before.discard),
            flush: self.flush.since(before.flush),
        }
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
