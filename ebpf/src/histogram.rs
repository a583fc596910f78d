//! The log-linear buckets of `bpf/common.h`, as user space sees them.

use libbpf_rs::{MapCore, MapFlags};
use serde::Serialize;

use crate::error::Failure;

const SUB_BITS: u32 = 5;
const SUB: u64 = 1 << SUB_BITS;
const MAX_EXPONENT: u32 = 36;
/// Buckets of one histogram; the same as in `bpf/common.h`.
pub const BUCKETS: usize = ((MAX_EXPONENT - SUB_BITS + 2) as usize) * SUB as usize;

/// Durations in ns: their count and sum, the shortest and longest, and the buckets that hold any.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Histogram {
    pub count: u64,
    pub sum_ns: u64,
    pub least_ns: u64,
    pub most_ns: u64,
    /// `[low, high, count]`, low inclusive, high exclusive, in ns, ascending.
    pub buckets: Vec<[u64; 3]>,
}

/// The bounds of a bucket in ns: low inclusive, high exclusive.
pub fn bounds(bucket: usize) -> (u64, u64) {
    let bucket = bucket as u64;
    if bucket < SUB {
        return (bucket, bucket + 1);
    }
    let shift = bucket / SUB - 1;
    let low = (SUB + bucket % SUB) << shift;
    (low, low + (1 << shift))
}

/// `[low, high, count]` of the buckets that hold any.
pub fn sparse(counts: &[u64]) -> Vec<[u64; 3]> {
    let held = counts.iter().enumerate().filter(|(_, count)| **count > 0);
    held.map(|(bucket, count)| {
        let (low, high) = bounds(bucket);
        [low, high, *count]
    })
    .collect()
}

/// All slots of a per-CPU array of u64, added up over the CPUs.
pub fn read_counts(map: &impl MapCore, slots: usize) -> Result<Vec<u64>, Failure> {
    let mut counts = vec![0u64; slots];
    for (count, values) in counts.iter_mut().zip(read_all(map, slots)?) {
        *count = values.iter().map(|v| u64::from_ne_bytes(v[..8].try_into().unwrap())).sum();
    }
    Ok(counts)
}

/// Every slot of a per-CPU array, in order: its value on each CPU.
pub fn read_all(map: &impl MapCore, slots: usize) -> Result<Vec<Vec<Vec<u8>>>, Failure> {
    (0..slots as u32)
        .map(|key| Ok(map.lookup_percpu(&key.to_ne_bytes(), MapFlags::ANY)?.unwrap_or_default()))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_follow_one_another_and_none_is_wider_than_a_32nd() {
        let mut end = 0;
        for bucket in 0..BUCKETS {
            let (low, high) = bounds(bucket);
            assert_eq!(low, end);
            assert!(high - low == 1 || (high - low) * 32 <= low, "{low}..{high}");
            end = high;
        }
        assert_eq!(end, 1 << (MAX_EXPONENT + 1));
    }
}
