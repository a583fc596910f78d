//! Run-queue latency of a process's threads, and their context switches.

use std::collections::BTreeMap;
use std::mem::MaybeUninit;
use std::time::Duration;

use clap::Args;
use libbpf_rs::skel::{Skel, SkelBuilder};
use serde::Serialize;

use crate::histogram::{Histogram, read_rows};
use crate::layout::names;
use crate::needs::{self, Trial};
use crate::refusal::OrRefused;
use crate::session::{
    Counting, MeasuredWindow, WindowOptions, constants, run_window, set_gate, write_result,
};
use observer::{Failure, Process};

skeleton!("runqlat");

const KINDS: [&str; 3] = names!(kind[0..ROWS]: WOKEN PREEMPTED STARTED);
const LOSSES: [&str; 4] = names!(loss[0..LOSSES]: LOST_THREAD NO_START NEGATIVE OVERFLOW);

#[derive(Args)]
pub struct RunqlatOptions {
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
struct RunQueue {
    #[serde(flatten)]
    window: MeasuredWindow,
    pid: u32,
    /// From the wake-up, from being preempted, from the thread's creation; each until it has a CPU.
    waits: BTreeMap<&'static str, Histogram>,
    voluntary: u64,
    involuntary: u64,
    losses: BTreeMap<&'static str, u64>,
}

struct RunqlatCounter<'a, 'obj>(&'a mut skeleton::RunqlatSkel<'obj>);

impl Counting for RunqlatCounter<'_, '_> {
    fn set_gate(&mut self, open: bool) {
        set_gate!(self.0, i32::from(open));
    }
}

/// All programs.
pub fn trial(trial: &mut Trial) {
    let mut storage = MaybeUninit::uninit();
    let opened = opened(&mut storage, 0);
    trial.way("runqlat", "", opened, skeleton::OBJECT);
}

fn opened(
    storage: &mut MaybeUninit<libbpf_rs::OpenObject>,
    pid: u32,
) -> Result<skeleton::OpenRunqlatSkel<'_>, Failure> {
    let mut open = skeleton::RunqlatSkelBuilder::default().open(storage).or_refused()?;
    constants!(open, pid);
    Ok(open)
}

/// Counts for the window and writes the JSON.
pub fn run(options: &RunqlatOptions) -> Result<(), Failure> {
    let process = Process::open(options.pid)?;
    let mut storage = MaybeUninit::uninit();
    let mut open = opened(&mut storage, process.pid())?;
    if let Some(entries) = options.map_entries {
        open.maps.threads.set_max_entries(entries).or_refused()?;
    }
    let mut skeleton = needs::load("runqlat", open, skeleton::OBJECT)?;
    skeleton.attach().or_refused()?;
    process.must_be_alive()?;
    let window = run_window(&options.window, Duration::from_secs(1), &mut RunqlatCounter(&mut skeleton))?;
    let rows = read_rows(&skeleton.maps.histogram, &skeleton.maps.sums, KINDS.len())?;
    let bss = skeleton.maps.bss_data.as_deref().expect("the program has variables");
    let result = RunQueue {
        window,
        pid: options.pid,
        waits: KINDS.into_iter().zip(rows).collect(),
        voluntary: bss.voluntary,
        involuntary: bss.involuntary,
        losses: LOSSES.into_iter().zip(bss.losses).collect(),
    };
    write_result(&options.window, &result)
}
