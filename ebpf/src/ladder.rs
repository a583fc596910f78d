//! The latency ladder: one query in N of a process from its first instruction through the block layer and back.

mod disk;
mod plan;
mod rows;

use std::collections::BTreeMap;
use std::mem::MaybeUninit;
use std::time::Duration;

use clap::{Args, ValueEnum};
use libbpf_rs::Link;
use libbpf_rs::skel::{Skel, SkelBuilder};
use serde::Serialize;

use crate::cost::MissedRuns;
use crate::histogram::read_counts;
use crate::layout::{clear, names};
use crate::life::{Ended, Life};
use crate::needs::{self, Trial};
use crate::queries::{FILE_CALLS, QueryOptions, READ, READ_CALLS};
use crate::refusal::OrRefused;
use crate::session::{
    Counting, MeasuredWindow, TurnOptions, WindowOptions, begin_requests, constants, link_tracepoints,
    run_turns, set_gate, unlink_at_once, write_result,
};
use crate::symbols::Function;
use crate::uprobes::{self, ReturnOptions, Trap, Way};
use disk::FollowedDisk;
use observer::diskstats::{Disks, disks};
use observer::{Failure, Process};
use plan::Plan;
use rows::Stage;
use skeleton::types::counter as Counter;

skeleton!("ladder");

const LOSSES: [&str; 10] = names!(
    loss[0..LOSSES]:
    LOST_THREAD LOST_REQUEST LOST_DEVICE NESTED ABANDONED REQUEUED OVERFLOW ASYNC_CALLS MISSED_IN BEYOND
);

/// At whether the process is still there.
const EACH_LOOK: Duration = Duration::from_millis(200);

#[derive(Clone, Copy, PartialEq, ValueEnum)]
enum Start {
    /// At the query where its function is found and called, at the read call otherwise
    Auto,
    /// At the query, or not at all
    Query,
    /// At the read call: no uprobes
    Syscall,
}

#[derive(Args)]
pub struct LadderOptions {
    /// The process whose queries are followed
    #[arg(long)]
    pid: u32,
    /// Follow one query in so many; the gaps are drawn at random
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    sample: u32,
    /// Where the ladder starts
    #[arg(long, value_enum, default_value_t = Start::Auto)]
    start: Start,
    /// Leave out the uprobes on the file reader: cheaper, and its two stages become part of the query's
    #[arg(long)]
    no_reader: bool,
    #[command(flatten)]
    returns: ReturnOptions,
    #[command(flatten)]
    queries: QueryOptions,
    #[command(flatten)]
    turns: TurnOptions,
    #[command(flatten)]
    window: WindowOptions,
}

#[derive(Serialize)]
struct Ladder {
    #[serde(flatten)]
    window: MeasuredWindow,
    pid: u32,
    sample: u32,
    /// `query` or `syscall`.
    start: &'static str,
    /// Why it starts at the read call, and other things to know.
    notes: Vec<String>,
    /// Of its queries; `read` where it starts at the read call.
    kind: String,
    query: Vec<Function>,
    reader: Vec<Function>,
    uprobes: Option<&'static str>,
    trap: Option<Trap>,
    queries: u64,
    followed: u64,
    threads: u64,
    stages: Vec<Stage>,
    classes: Vec<Stage>,
    outside: Stage,
    several: Option<ClassParts>,
    foreign: Option<ClassParts>,
    reader_calls: u64,
    /// Between a followed query and the thread's next one.
    outside_reads: u64,
    /// ns of followed queries that their thread had no CPU, and of these, that it could have run.
    without_cpu_ns: u64,
    run_queue_ns: u64,
    device: Option<FollowedDisk>,
    losses: BTreeMap<&'static str, u64>,
    #[serde(flatten)]
    ended: Ended,
}

/// Where threads were in queries of one class.
#[derive(Serialize)]
struct ClassParts {
    reads: u64,
    requests: u64,
    /// Of these, those that no wait ended with.
    not_waited: u64,
    parts: Vec<Stage>,
}

struct LadderCounter<'a, 'obj> {
    skeleton: &'a mut skeleton::LadderSkel<'obj>,
    process: &'a Process,
    plan: Option<&'a Plan>,
    links: Vec<Link>,
    opened: Disks,
    /// At both edges of each turn.
    disks: Vec<(Disks, Disks)>,
    missed: MissedRuns,
    life: Life<'a>,
}

impl Counting for LadderCounter<'_, '_> {
    fn set_gate(&mut self, open: bool) {
        if open {
            self.opened = disks();
            self.missed.open(self.skeleton.object());
        }
        set_gate!(self.skeleton, i32::from(open));
        if !open {
            self.disks.push((std::mem::take(&mut self.opened), disks()));
            self.missed.close(self.skeleton.object());
            self.life.close();
        }
    }

    fn link(&mut self) -> Result<(), Failure> {
        let first = self.disks.is_empty();
        if !first && self.process.has_ended() {
            // Its number may be another's by now.
            return Ok(());
        }
        clear(&self.skeleton.maps.flights);
        if let Some(bss) = self.skeleton.maps.bss_data.as_deref_mut() {
            bss.turn += 1;
        }
        self.links = link_tracepoints(self.skeleton.object())?;
        if let Some(plan) = self.plan {
            self.links.extend(plan.attach(self.skeleton, self.process.pid())?);
        }
        self.life.probed_again();
        if first { self.process.must_be_alive() } else { Ok(()) }
    }

    fn unlink(&mut self) -> Result<(), Failure> {
        unlink_at_once(&mut self.links);
        Ok(())
    }

    fn slice(&mut self) -> Result<(), Failure> {
        self.life.look();
        Ok(())
    }
}

/// All programs, for queries and the file reader.
pub fn trial(trial: &mut Trial) {
    let mut storage = MaybeUninit::uninit();
    let opened = open_for_trial(&mut storage);
    trial.way("ladder", "", opened, skeleton::OBJECT);
}

fn open_for_trial(
    storage: &mut MaybeUninit<libbpf_rs::OpenObject>,
) -> Result<skeleton::OpenLadderSkel<'_>, Failure> {
    let mut open = skeleton::LadderSkelBuilder::default().open(storage).or_refused()?;
    let rodata = constants!(open, 0);
    (rodata.with_query, rodata.with_reader) = (1, 1);
    begin_requests!(open);
    uprobes::watch!(open, Way::PLAIN, &[], ["query", "reader"]);
    Ok(open)
}

/// Follows queries for the window and writes the JSON.
pub fn run(options: &LadderOptions) -> Result<(), Failure> {
    let process = Process::open(options.pid)?;
    let mut notes = Vec::new();
    let plan = plan::choose(options, &mut notes)?;
    let with_reader = plan.as_ref().is_some_and(|plan| !plan.reader.is_empty());
    let mut storage = MaybeUninit::uninit();
    let mut open = skeleton::LadderSkelBuilder::default().open(&mut storage).or_refused()?;
    let rodata = constants!(open, process.pid());
    rodata.sample = options.sample;
    rodata.with_query = i32::from(plan.is_some());
    rodata.with_reader = i32::from(with_reader);
    rodata.read_calls = if plan.is_some() { READ_CALLS } else { FILE_CALLS };
    rodata.async_calls = [libc::SYS_io_uring_enter, libc::SYS_io_submit];
    begin_requests!(open);
    if let Some(plan) = &plan {
        let names = if with_reader { &["query", "reader"][..] } else { &["query"] };
        uprobes::watch!(open, plan.way, &plan.query, names);
    }
    let mut skeleton = needs::load("ladder", open, skeleton::OBJECT)?;
    let mut counter = LadderCounter {
        skeleton: &mut skeleton,
        process: &process,
        plan: plan.as_ref(),
        links: Vec::new(),
        opened: Disks::new(),
        disks: Vec::new(),
        missed: MissedRuns::default(),
        life: Life::new(&process, plan.is_some()),
    };
    let window = run_turns(&options.window, &options.turns, EACH_LOOK, &mut counter)?;
    let ended = counter.life.ended();
    let missed = counter.missed.of_turns();
    let device = disk::device(counter.skeleton, &counter.disks)?;
    let counters = read_counts(&skeleton.maps.counters, 0, Counter::COUNTERS.0 as usize)?;
    let rows = rows::read(&skeleton)?;
    let bss = skeleton.maps.bss_data.as_deref().expect("the program has variables");
    let mut losses: BTreeMap<_, _> = LOSSES.into_iter().zip(bss.losses).collect();
    losses.insert("missed", missed);
    let ladder = Ladder {
        window,
        pid: options.pid,
        sample: options.sample,
        start: if plan.is_some() { "query" } else { "syscall" },
        notes,
        kind: plan.as_ref().map_or_else(|| READ.to_owned(), |plan| plan.kind.clone()),
        query: plan.as_ref().map(|plan| plan.query.clone()).unwrap_or_default(),
        reader: plan.as_ref().map(|plan| plan.reader.clone()).unwrap_or_default(),
        uprobes: plan.as_ref().map(|plan| uprobes::returns_by(plan.query.iter().chain(&plan.reader))),
        trap: plan.as_ref().map(|plan| plan.trap.of(plan.query.iter().chain(&plan.reader))),
        queries: counters[Counter::QUERIES.0 as usize],
        followed: counters[Counter::FOLLOWED.0 as usize],
        threads: counters[Counter::THREADS.0 as usize],
        stages: rows.stages,
        classes: rows.classes,
        outside: rows.outside,
        several: rows.several.map(|parts| ClassParts {
            reads: counters[Counter::READS.0 as usize],
            requests: counters[Counter::REQUESTS_MADE.0 as usize],
            not_waited: counters[Counter::NOT_WAITED.0 as usize],
            parts,
        }),
        reader_calls: counters[Counter::READER_CALLS.0 as usize],
        outside_reads: counters[Counter::OUTSIDE_READS.0 as usize],
        without_cpu_ns: counters[Counter::WITHOUT_CPU.0 as usize],
        run_queue_ns: counters[Counter::RUN_QUEUE.0 as usize],
        // One read each, which is the class.
        foreign: rows.foreign.map(|parts| ClassParts {
            reads: parts[0].count(),
            requests: 0,
            not_waited: 0,
            parts,
        }),
        device,
        losses,
        ended,
    };
    write_result(&options.window, &ladder)
}
