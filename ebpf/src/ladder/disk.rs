//! The disk that followed reads go to, by the kernel's own counters.

use libbpf_rs::{MapCore, MapFlags};
use serde::Serialize;

use super::skeleton::LadderSkel;
use crate::refusal::OrRefused;
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

/// The disk of most followed reads, with what it counted between two looks; None where that is not known.
pub fn device(
    skeleton: &LadderSkel,
    opened: &Disks,
    closed: &Disks,
) -> Result<Option<FollowedDisk>, Failure> {
    let map = &skeleton.maps.devices;
    let mut most: Option<(u64, u64)> = None;
    for key in map.keys() {
        let values = map.lookup_percpu(&key, MapFlags::ANY).or_refused()?.unwrap_or_default();
        let followed = values.iter().map(|v| u64::from_ne_bytes(v[..8].try_into().unwrap())).sum();
        if most.is_none_or(|(_, before)| followed > before) {
            most = Some((u64::from_ne_bytes(key[..8].try_into().unwrap()), followed));
        }
    }
    let Some((number, followed)) = most else { return Ok(None) };
    let (major, minor) = ((number >> 32) as u32, number as u32);
    let (Some(before), Some(after)) = (opened.get(&(major, minor)), closed.get(&(major, minor))) else {
        return Ok(None);
    };
    let read = after.1.read.since(before.1.read);
    Ok(Some(FollowedDisk {
        major,
        minor,
        name: after.0.clone(),
        followed,
        reads: read.requests,
        read_ms: read.ms,
    }))
}
