//! The disk that followed reads go to, by the kernel's own counters.

use serde::Serialize;

use super::skeleton::LadderSkel;
use crate::layout::entries_of_cpus;
use observer::Failure;
use observer::diskstats::Disks;

/// The disk that most followed reads went to, by its counters in /proc/diskstats at the window's edges.
#[derive(Serialize)]
pub struct FollowedDisk {
    major: u32,
    minor: u32,
    name: String,
    followed: u64,
    reads: u64,
    read_ms: u64,
}

/// The disk of most followed reads, with what it counted between two looks each; None where that is not known.
pub fn device(skeleton: &LadderSkel, turns: &[(Disks, Disks)]) -> Result<Option<FollowedDisk>, Failure> {
    let mut most: Option<(u64, u64)> = None;
    for (number, values) in entries_of_cpus::<u64, u64>(&skeleton.maps.devices)? {
        let followed = values.iter().sum();
        if most.is_none_or(|(_, before)| followed > before) {
            most = Some((number, followed));
        }
    }
    let Some((number, followed)) = most else { return Ok(None) };
    let (major, minor) = ((number >> 32) as u32, number as u32);
    let mut disk = FollowedDisk { major, minor, name: String::new(), followed, reads: 0, read_ms: 0 };
    for (opened, closed) in turns {
        let (Some(before), Some(after)) = (opened.get(&(major, minor)), closed.get(&(major, minor))) else {
            return Ok(None);
        };
        let read = after.1.read.since(before.1.read);
        disk.name.clone_from(&after.0);
        disk.reads += read.requests;
        disk.read_ms += read.ms;
    }
    Ok(Some(disk))
}
