//! Run-queue latency of a process's threads, and their context switches.

use std::collections::BTreeMap;
use std::mem::MaybeUninit;
use std::time::Duration;

use clap::Args;
use libbpf_rs::skel::{OpenSkel, Skel, SkelBuilder};
use serde::Serialize;

use crate::error::Failure;
use crate::histogram::{BUCKETS, Histogram, read_all, read_counts, sparse};
use crate::session::{Counting, WindowOptions, pid_namespace, run_window, write_result};
use crate::tasks;

#[allow(clippy::all, clippy::pedantic, dead_code, unused_imports)]
mod skeleton {
    include!(concat!(env!("OUT_DIR"), "/runqlat.skel.rs"));
}

const KINDS: [&str; 3] = ["woken", "preempted", "started"];
const LOSSES: [&str; 4] = ["lost_thread", "no_start", "negative", "overflow"];
/// The inode of the first pid namespace (PROC_PID_INIT_INO): there, pids are the kernel's own.
const FIRST_PID_NAMESPACE: u64 = 0xEFFF_FFFC;

#[derive(Args)]
pub struct Options {
    /// The process
    #[arg(long)]
    pid: u32,
    /// Entries of the map of threads, to see what happens when it is full
    #[arg(long, hide = true, value_name = "N")]
    map_entries: Option<u32>,
    #[command(flatten)]
    window: WindowOptions,
}

#[derive(Serialize)]
struct Result_ {
    backend: &'static str,
    pid: u32,
    start_ns: u64,
    end_ns: u64,
    /// From the wake-up, from being preempted, from the thread's creation; each until it has a CPU.
    waits: BTreeMap<&'static str, Histogram>,
    voluntary: u64,
    involuntary: u64,
    losses: BTreeMap<&'static str, u64>,
}

struct Counter<'a, 'obj>(&'a mut skeleton::RunqlatSkel<'obj>);

impl Counting for Counter<'_, '_> {
    fn set_gate(&mut self, open: bool) {
        if let Some(bss) = self.0.maps.bss_data.as_deref_mut() {
            bss.gate = i32::from(open);
        }
    }

    fn slice(&mut self) -> Result<(), Failure> {
        Ok(())
    }
}

/// Counts for the window and writes the JSON.
pub fn run(options: &Options) -> Result<(), Failure> {
    if tasks::tasks(options.pid).is_empty() {
        return Err(Failure::usage(format!("--pid {}: there is no such process", options.pid)));
    }
    let (pidns_dev, pidns_ino) = pid_namespace()?;
    let mut storage = MaybeUninit::uninit();
    let mut open = skeleton::RunqlatSkelBuilder::default().open(&mut storage)?;
    let rodata = open.maps.rodata_data.as_deref_mut().expect("the program has constants");
    rodata.pidns_dev = pidns_dev;
    rodata.pidns_ino = pidns_ino;
    rodata.target_tgid = options.pid;
    if pidns_ino == FIRST_PID_NAMESPACE {
        open.maps.bss_data.as_deref_mut().expect("the program has variables").global_tgid = options.pid;
    }
    if let Some(entries) = options.map_entries {
        open.maps.waits.set_max_entries(entries)?;
    }
    let mut skeleton = open.load()?;
    skeleton.attach()?;
    let (start_ns, end_ns) =
        run_window(&options.window, Duration::from_secs(1), &mut Counter(&mut skeleton))?;
    let counts = read_counts(&skeleton.maps.histogram, 0, KINDS.len() * BUCKETS)?;
    let sums = read_all(&skeleton.maps.sums, 0, KINDS.len())?;
    let mut waits = BTreeMap::new();
    for (slot, kind) in KINDS.into_iter().enumerate() {
        let buckets = sparse(&counts[slot * BUCKETS..(slot + 1) * BUCKETS]);
        waits.insert(kind, Histogram { buckets, ..totals(&sums[slot]) });
    }
    let bss = skeleton.maps.bss_data.as_deref().expect("the program has variables");
    let result = Result_ {
        backend: "co-re",
        pid: options.pid,
        start_ns,
        end_ns,
        waits,
        voluntary: bss.voluntary,
        involuntary: bss.involuntary,
        losses: LOSSES.into_iter().zip(bss.losses).collect(),
    };
    write_result(&options.window, &result)
}

/// Count, sum, shortest and longest over the CPUs.
fn totals(values: &[Vec<u8>]) -> Histogram {
    let mut total = Histogram::default();
    for value in values {
        let field = |n: usize| u64::from_ne_bytes(value[n * 8..n * 8 + 8].try_into().unwrap());
        if field(0) > 0 {
            total.least_ns = if total.count == 0 { field(2) } else { total.least_ns.min(field(2)) };
            total.count += field(0);
            total.sum_ns += field(1);
            total.most_ns = total.most_ns.max(field(3));
        }
    }
    total
}
