//! Run-queue latency of a process's threads, and their context switches.

use std::collections::BTreeMap;
use std::mem::MaybeUninit;
use std::time::Duration;

use clap::Args;
use libbpf_rs::Link;
use libbpf_rs::skel::{Skel, SkelBuilder};
use serde::Serialize;

use crate::histogram::{Histogram, read_rows};
use crate::layout::{clear, names};
use crate::needs::{self, Trial};
use crate::refusal::OrRefused;
use crate::session::{
    Counting, MeasuredWindow, TurnOptions, WindowOptions, constants, link_tracepoints, run_turns, set_gate,
    write_result,
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
    turns: TurnOptions,
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

struct RunqlatCounter<'a, 'obj> {
    skeleton: &'a mut skeleton::RunqlatSkel<'obj>,
    /// Until its first turn.
    process: Option<Process>,
    links: Vec<Link>,
}

impl Counting for RunqlatCounter<'_, '_> {
    fn set_gate(&mut self, open: bool) {
        set_gate!(self.skeleton, i32::from(open));
    }

    fn link(&mut self) -> Result<(), Failure> {
        clear(&self.skeleton.maps.threads);
        self.links = link_tracepoints(self.skeleton.object())?;
        self.process.take().map_or(Ok(()), |process| process.must_be_alive())
    }

    fn unlink(&mut self) -> Result<(), Failure> {
        self.links.clear();
        Ok(())
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
    let mut counter = RunqlatCounter { skeleton: &mut skeleton, process: Some(process), links: Vec::new() };
    let window = run_turns(&options.window, &options.turns, Duration::from_secs(1), &mut counter)?;
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
