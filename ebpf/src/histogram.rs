//! The log-linear buckets of `bpf/common.h`, as user space sees them.

use std::os::fd::AsRawFd;
use std::thread;
use std::time::Duration;

use libbpf_rs::{MapCore, MapFlags, libbpf_sys};
use serde::Serialize;

use crate::layout::{Plain, read};
use crate::refusal::OrRefused;
use observer::Failure;

const SUB_BITS: u32 = 5;
const SUB: u64 = 1 << SUB_BITS;
const MAX_EXPONENT: u32 = 36;
/// Buckets of one histogram; the same as in `bpf/common.h`.
pub const BUCKETS: usize = ((MAX_EXPONENT - SUB_BITS + 2) as usize) * SUB as usize;
/// Between two looks at the rows after the window, where one was not whole, and how many there are at most.
const SETTLE: Duration = Duration::from_millis(5);
const SETTLE_LOOKS: u32 = 200;

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

impl Histogram {
    /// Adds one CPU's `[count, ns, least, most]`.
    pub fn add(&mut self, [count, ns, least, most]: [u64; 4]) {
        if count > 0 {
            self.least_ns = if self.count == 0 { least } else { self.least_ns.min(least) };
            self.count += count;
            self.sum_ns += ns;
            self.most_ns = self.most_ns.max(most);
        }
    }

    /// The least duration of the bucket that this share of all durations reaches into; 0 where there are none.
    pub fn quantile(&self, share: f64) -> u64 {
        let all: u64 = self.buckets.iter().map(|bucket| bucket[2]).sum();
        let mut seen = 0;
        for [low, _, count] in &self.buckets {
            seen += count;
            if seen as f64 >= share * all as f64 {
                return *low;
            }
        }
        0
    }
}

/// `rows` rows of `bpf/rows.h` from `first` on, each with the ns that the programs themselves ran in it.
pub fn read_rows_and_own(
    map: &impl MapCore,
    first: usize,
    rows: usize,
) -> Result<Vec<(Histogram, u64)>, Failure> {
    let found: Vec<Vec<[u64; 5 + BUCKETS]>> = read_all(map, first, rows)?;
    let of_row = |cpus: &Vec<[u64; 5 + BUCKETS]>| {
        let mut counts = [0u64; BUCKETS];
        let (mut histogram, mut own_ns) = (Histogram::default(), 0);
        for [count, ns, least_flipped, most, own, buckets @ ..] in cpus {
            histogram.add([*count, *ns, !least_flipped, *most]);
            own_ns += own;
            for (count, added) in counts.iter_mut().zip(buckets) {
                *count += added;
            }
        }
        histogram.buckets = sparse(&counts);
        (histogram, own_ns)
    };
    Ok(found.iter().map(of_row).collect())
}

/// The rows of `bpf/histogram.h`: its maps `histogram` and `sums`, and how many rows they have.
pub fn read_rows(
    histogram: &impl MapCore,
    sums: &impl MapCore,
    rows: usize,
) -> Result<Vec<Histogram>, Failure> {
    let counts = read_counts(histogram, 0, rows * BUCKETS)?;
    let sums: Vec<Vec<[u64; 4]>> = read_all(sums, 0, rows)?;
    let rows = counts.chunks(BUCKETS).zip(&sums).map(|(counts, sums)| {
        let mut row = Histogram { buckets: sparse(counts), ..Default::default() };
        for sum in sums {
            row.add(*sum);
        }
        row
    });
    Ok(rows.collect())
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

/// `slots` slots from `first` on of a per-CPU array of u64, each added up over the CPUs.
pub fn read_counts(map: &impl MapCore, first: usize, slots: usize) -> Result<Vec<u64>, Failure> {
    let values: Vec<Vec<u64>> = read_all(map, first, slots)?;
    Ok(values.iter().map(|cpus| cpus.iter().sum()).collect())
}

/// What `look` reads once no program counts any more: one that was preempted when the gate closed continues when its thread
/// has a CPU again. begun, whole: counters of what was begun to be counted, and of what is
pub fn settled<T>(
    counters: &impl MapCore,
    [begun, whole]: [u32; 2],
    look: impl Fn() -> Result<T, Failure>,
) -> Result<T, Failure> {
    let counter = |which: u32| Ok::<u64, Failure>(read_counts(counters, which as usize, 1)?[0]);
    for _ in 0..SETTLE_LOOKS {
        let before = counter(whole)?;
        let found = look()?;
        if counter(begun)? == before {
            return Ok(found);
        }
        thread::sleep(SETTLE);
    }
    look()
}

/// `slots` slots from `first` on of a per-CPU array, in order: the value on each CPU. One system call where the kernel
/// can (Linux 5.14), one a slot elsewhere.
pub fn read_all<T: Plain>(map: &impl MapCore, first: usize, slots: usize) -> Result<Vec<Vec<T>>, Failure> {
    let one = (map.value_size() as usize).next_multiple_of(8);
    let per_slot = one * libbpf_rs::num_possible_cpus().or_refused()?;
    let mut keys = vec![0u32; slots];
    let mut values = vec![0u8; slots * per_slot];
    let mut count = slots as u32;
    // The batch begins after the key that is given.
    let mut before = (first as u32).wrapping_sub(1);
    let mut after = 0u32;
    // SAFETY: keys and values hold `count` entries of the map's sizes, and all of it outlives the call.
    let code = unsafe {
        libbpf_sys::bpf_map_lookup_batch(
            map.as_fd().as_raw_fd(),
            if first == 0 { std::ptr::null_mut() } else { (&raw mut before).cast() },
            (&raw mut after).cast(),
            keys.as_mut_ptr().cast(),
            values.as_mut_ptr().cast(),
            &raw mut count,
            std::ptr::null(),
        )
    };
    // ENOENT: the end of the map has been reached.
    let whole = count as usize == slots && (code == 0 || code == -libc::ENOENT);
    if whole && keys.first() == Some(&(first as u32)) {
        return Ok(values.chunks(per_slot).map(|slot| slot.chunks(one).map(read).collect()).collect());
    }
    let singly = first as u32..(first + slots) as u32;
    singly
        .map(|key| {
            let values = map.lookup_percpu(&key.to_ne_bytes(), MapFlags::ANY).or_refused()?;
            Ok(values.unwrap_or_default().iter().map(|value| read(value)).collect())
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quantile_is_where_its_bucket_begins() {
        let buckets = vec![[10, 20, 98], [20, 30, 1], [900, 1000, 1]];
        let histogram = Histogram { count: 100, buckets, ..Default::default() };
        let quantiles = [0.5, 0.98, 0.99, 1.0].map(|share| histogram.quantile(share));
        assert_eq!(quantiles, [10, 10, 20, 900]);
        assert_eq!(Histogram::default().quantile(0.98), 0);
    }

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
