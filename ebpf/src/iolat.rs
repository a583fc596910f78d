//! IO latency of one block device, by operation and owner, its queue apart from the device.

use std::collections::BTreeMap;
use std::mem::MaybeUninit;
use std::time::Duration;

use clap::Args;
use libbpf_rs::skel::{OpenSkel, Skel, SkelBuilder};
use libbpf_rs::{MapCore, MapFlags};
use serde::Serialize;

use crate::error::Failure;
use crate::histogram::{BUCKETS, Histogram, read_all, read_counts, sparse};
use crate::session::{Counting, WindowOptions, pid_namespace, run_window, write_result};

#[allow(clippy::all, clippy::pedantic, dead_code, unused_imports)]
mod skeleton {
    include!(concat!(env!("OUT_DIR"), "/iolat.skel.rs"));
}

const OPERATIONS: [&str; 4] = ["read", "write", "flush", "other"];
const OWNERS: [&str; 2] = ["others", "process"];
const STAGES: [&str; 3] = ["queue", "device", "total"];
const LOSSES: [&str; 6] = ["lost_start", "lost_kind", "no_start", "negative", "overflow", "requeued"];

#[derive(Args)]
pub struct Options {
    /// The process whose requests are told apart from everybody else's
    #[arg(long)]
    pid: u32,
    /// A whole disk, `MAJOR:MINOR`
    #[arg(long)]
    device: String,
    #[command(flatten)]
    window: WindowOptions,
}

/// One operation of one owner, with its time in the queue, at the device, and both together.
#[derive(Serialize)]
struct Row {
    operation: &'static str,
    owner: &'static str,
    queue: Histogram,
    device: Histogram,
    total: Histogram,
}

/// Requests of one operation, flags (`cmd_flags` without the operation) and size.
#[derive(Serialize)]
struct Kind {
    operation: u32,
    flags: u32,
    bytes: u32,
    owner: &'static str,
    count: u64,
    total_ns: u64,
}

/// What reads took within one slice of the window, for a heat map.
#[derive(Serialize)]
struct Slice {
    end_ns: u64,
    reads: Vec<[u64; 3]>,
}

#[derive(Serialize)]
struct Result_ {
    backend: &'static str,
    device: String,
    pid: u32,
    start_ns: u64,
    end_ns: u64,
    rows: Vec<Row>,
    kinds: Vec<Kind>,
    slices: Vec<Slice>,
    losses: BTreeMap<&'static str, u64>,
}

struct Counter<'a, 'obj> {
    skeleton: &'a mut skeleton::IolatSkel<'obj>,
    before: Vec<u64>,
    slices: Vec<Slice>,
}

impl Counting for Counter<'_, '_> {
    fn set_gate(&mut self, open: bool) {
        if let Some(bss) = self.skeleton.maps.bss_data.as_deref_mut() {
            bss.gate = i32::from(open);
        }
    }

    fn slice(&mut self) -> Result<(), Failure> {
        let counts = read_counts(
            &self.skeleton.maps.histogram,
            OPERATIONS.len() * OWNERS.len() * STAGES.len() * BUCKETS,
        )?;
        let mut reads = vec![0u64; BUCKETS];
        for owner in 0..OWNERS.len() {
            let total = row(0, owner, 2) * BUCKETS;
            for (sum, count) in reads.iter_mut().zip(&counts[total..total + BUCKETS]) {
                *sum += count;
            }
        }
        let delta: Vec<u64> = reads.iter().zip(&self.before).map(|(now, before)| now - before).collect();
        self.slices.push(Slice { end_ns: crate::session::now_ns(), reads: sparse(&delta) });
        self.before = reads;
        Ok(())
    }
}

fn row(operation: usize, owner: usize, stage: usize) -> usize {
    (operation * OWNERS.len() + owner) * STAGES.len() + stage
}

/// Counts for the window and writes the JSON.
pub fn run(options: &Options) -> Result<(), Failure> {
    let (major, minor) = parse_device(&options.device)?;
    let (pidns_dev, pidns_ino) = pid_namespace()?;
    let mut storage = MaybeUninit::uninit();
    let mut open = skeleton::IolatSkelBuilder::default().open(&mut storage)?;
    let rodata = open.maps.rodata_data.as_deref_mut().expect("the program has constants");
    rodata.pidns_dev = pidns_dev;
    rodata.pidns_ino = pidns_ino;
    rodata.target_tgid = options.pid;
    rodata.device_major = major;
    rodata.device_minor = minor;
    let mut skeleton = open.load()?;
    skeleton.attach()?;
    let mut counter = Counter { skeleton: &mut skeleton, before: vec![0; BUCKETS], slices: Vec::new() };
    let (start_ns, end_ns) = run_window(&options.window, Duration::from_secs(1), &mut counter)?;
    let slices = counter.slices;
    let counts =
        read_counts(&skeleton.maps.histogram, OPERATIONS.len() * OWNERS.len() * STAGES.len() * BUCKETS)?;
    let sums = read_all(&skeleton.maps.sums, OPERATIONS.len() * OWNERS.len() * STAGES.len())?;
    let histogram = |slot: usize| {
        let mut histogram = Histogram {
            buckets: sparse(&counts[slot * BUCKETS..(slot + 1) * BUCKETS]),
            ..Default::default()
        };
        histogram.least_ns = u64::MAX;
        for value in &sums[slot] {
            let field = |n: usize| u64::from_ne_bytes(value[n * 8..n * 8 + 8].try_into().unwrap());
            if field(0) > 0 {
                histogram.count += field(0);
                histogram.sum_ns += field(1);
                histogram.least_ns = histogram.least_ns.min(field(2));
                histogram.most_ns = histogram.most_ns.max(field(3));
            }
        }
        if histogram.count == 0 {
            histogram.least_ns = 0;
        }
        histogram
    };
    let mut rows = Vec::new();
    for (o, operation) in OPERATIONS.into_iter().enumerate() {
        for (w, owner) in OWNERS.into_iter().enumerate() {
            let stages =
                STAGES.map(|stage| histogram(row(o, w, STAGES.iter().position(|s| *s == stage).unwrap())));
            let [queue, device, total] = stages;
            if total.count > 0 {
                rows.push(Row { operation, owner, queue, device, total });
            }
        }
    }
    let kinds = read_kinds(&skeleton)?;
    let lost = read_counts(&skeleton.maps.losses, LOSSES.len())?;
    let result = Result_ {
        backend: "co-re",
        device: options.device.clone(),
        pid: options.pid,
        start_ns,
        end_ns,
        rows,
        kinds,
        slices,
        losses: LOSSES.into_iter().zip(lost).collect(),
    };
    write_result(&options.window, &result)
}

fn read_kinds(skeleton: &skeleton::IolatSkel) -> Result<Vec<Kind>, Failure> {
    let map = &skeleton.maps.kinds;
    let mut kinds = Vec::new();
    for key in map.keys() {
        let Some(values) = map.lookup_percpu(&key, MapFlags::ANY)? else { continue };
        let word = |n: usize| u32::from_ne_bytes(key[n * 4..n * 4 + 4].try_into().unwrap());
        let total = |n: usize| -> u64 {
            values.iter().map(|v| u64::from_ne_bytes(v[n * 8..n * 8 + 8].try_into().unwrap())).sum()
        };
        kinds.push(Kind {
            operation: word(0),
            flags: word(1),
            bytes: word(2),
            owner: OWNERS[word(3) as usize & 1],
            count: total(0),
            total_ns: total(2),
        });
    }
    kinds.sort_by_key(|kind| std::cmp::Reverse(kind.count));
    Ok(kinds)
}

fn parse_device(text: &str) -> Result<(u32, u32), Failure> {
    let parts = text.split_once(':').and_then(|(a, b)| Some((a.parse().ok()?, b.parse().ok()?)));
    parts.ok_or_else(|| Failure::usage(format!("--device {text} is not MAJOR:MINOR")))
}
