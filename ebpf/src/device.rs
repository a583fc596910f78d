//! A block device, by the numbers and the names the kernel gives it.

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
        let text = fs::read_to_string("/proc/diskstats").ok()?;
        let line = text.lines().find_map(|line| {
            let mut words = line.split_ascii_whitespace();
            let numbers = (words.next()?.parse(), words.next()?.parse());
            words.next()?;
            (numbers == (Ok(self.major), Ok(self.minor))).then(|| words.collect::<Vec<_>>())
        })?;
        let field = |n: usize| line.get(n).and_then(|word| word.parse().ok()).unwrap_or(0);
        let group = |at: usize| DiskCount {
            requests: field(at),
            merged: field(at + 1),
            sectors: field(at + 2),
            ms: field(at + 3),
        };
        Some(DiskCounts {
            read: group(0),
            write: group(4),
            discard: group(11),
            flush: DiskCount { requests: field(15), ms: field(16), ..Default::default() },
        })
    }
}

impl DiskCount {
    fn since(self, before: Self) -> Self {
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
