//! The write path: each write of a process stage by stage, and its wait in the queue of writers by what leaders did.

mod pilot;
mod plan;
mod rows;
mod turns;

use std::collections::BTreeMap;
use std::mem::MaybeUninit;
use std::thread;
use std::time::{Duration, Instant};

use clap::{Args, ValueEnum};
use libbpf_rs::Link;
use libbpf_rs::skel::{Skel, SkelBuilder};
use serde::Serialize;

use crate::cost::MissedRuns;
use crate::histogram::read_counts;
use crate::kernel_flags::{RequestFlags, kernel_btf};
use crate::layout::names;
use crate::life::{Ended, Life};
use crate::needs::{self, Trial};
use crate::refusal::OrRefused;
use crate::session::{
    Counting, MeasuredWindow, WindowOptions, constants, run_window, set_gate, write_result,
};
use crate::uprobes::{self, ReturnOptions, Trap, Way};
use observer::{Failure, Process};
use pilot::WritePilot;
use plan::Watched;
use rows::RoleRows;
use skeleton::types::{counter as Counter, gate_state as Gate};
use turns::Turn;

skeleton!("writes");

const LOSSES: [&str; 10] = names!(
    loss[0..LOSSES]:
    LOST_THREAD LOST_WAIT LOST_CLOCK LOST_BIO NESTED ABANDONED TOO_DEEP UNSET GROUP_UNKNOWN OVERFLOW
);
/// At whether the process is still there.
const EACH_LOOK: Duration = Duration::from_millis(200);
const PILOT: Duration = Duration::from_secs(1);

#[derive(Clone, Copy, PartialEq, ValueEnum)]
enum Depth {
    /// All stages, where watching them takes no more than a fifth of a write; few otherwise
    Auto,
    /// All stages
    Full,
    /// The queue, stalls, and the log's write and sync calls
    Few,
}

#[derive(Args)]
pub struct WritesOptions {
    /// The process whose writes are followed
    #[arg(long)]
    pid: u32,
    /// Which stages are told apart
    #[arg(long, value_enum, default_value_t = Depth::Auto)]
    stages: Depth,
    /// Follow them even where the traps alone would cost more than 5 % of a CPU
    #[arg(long)]
    force: bool,
    /// Before the window, take so many turns with and without watching: by how much longer a write takes
    #[arg(long, default_value_t = 0, value_name = "N")]
    cost_turns: u32,
    /// Watch whoever sets the state of a writer, so that a wake-up begins there: 1 to 3 us of each write
    #[arg(long)]
    exact_wake_ups: bool,
    #[command(flatten)]
    returns: ReturnOptions,
    /// Rules that name the engine's functions: a built-in name or a file
    #[arg(long, default_value = "rocksdb", value_name = "NAME|FILE")]
    symbols: String,
    #[command(flatten)]
    window: WindowOptions,
}

#[derive(Serialize)]
struct WriteLadder {
    #[serde(flatten)]
    window: MeasuredWindow,
    pid: u32,
    /// Whether all stages are followed, or only the queue and the log's calls.
    full: bool,
    notes: Vec<String>,
    functions: Vec<Watched>,
    missing: Vec<String>,
    /// Whether whoever ends a wait was watched, so that the wake-up is apart.
    wake_ups: bool,
    uprobes: &'static str,
    trap: Trap,
    pilot: WritePilot,
    /// With and without watching, before the window.
    turns: Vec<Turn>,
    writes: u64,
    threads: u64,
    synced: u64,
    no_log: u64,
    joins: u64,
    groups: u64,
    grouped: u64,
    group_sizes: Vec<[u64; 2]>,
    roles: Vec<RoleRows>,
    losses: BTreeMap<&'static str, u64>,
    #[serde(flatten)]
    ended: Ended,
}

struct WritesCounter<'a, 'obj> {
    skeleton: &'a mut skeleton::WritesSkel<'obj>,
    missed: MissedRuns,
    life: Life<'a>,
}

impl<'a, 'obj> WritesCounter<'a, 'obj> {
    fn new(skeleton: &'a mut skeleton::WritesSkel<'obj>, process: &'a Process) -> Self {
        Self { skeleton, missed: MissedRuns::default(), life: Life::new(process, true) }
    }

    fn gate(&mut self, state: Gate) {
        set_gate!(self.skeleton, state.0 as i32);
    }
}

impl Counting for WritesCounter<'_, '_> {
    fn set_gate(&mut self, open: bool) {
        if open {
            self.missed.open(self.skeleton.object());
        }
        self.gate(if open { Gate::OPEN } else { Gate::SHUT });
        if !open {
            self.life.close();
        }
    }

    fn slice(&mut self) -> Result<(), Failure> {
        self.life.look();
        Ok(())
    }
}

/// All programs, with all stages.
pub fn trial(trial: &mut Trial) {
    let mut storage = MaybeUninit::uninit();
    let opened = Process::open(std::process::id())
        .and_then(|own| opened(&mut storage, &own, &plan::WritePlan::default(), Way::PLAIN, true));
    trial.way("writes", "", opened, skeleton::OBJECT);
}

/// Follows writes for the window and writes the JSON.
pub fn run(options: &WritesOptions) -> Result<(), Failure> {
    let process = Process::open(options.pid)?;
    let (way, trap) = uprobes::way_and_cost(options.returns)?;
    let plan = plan::find(options, way)?;
    let trap = trap.of(plan.left());
    let (pilot, full, notes) = pilot(options, &process, &plan, way, trap)?;
    let turns = turns::take(options.cost_turns, &process, &plan, way, full)?;
    let mut storage = MaybeUninit::uninit();
    let mut skeleton = loaded(&mut storage, &process, &plan, way, full)?;
    let _links = attached(&mut skeleton, &plan, way, options.pid, full)?;
    process.must_be_alive()?;
    let uprobes = uprobes::returns_by(plan.left());
    let mut counter = WritesCounter::new(&mut skeleton, &process);
    let window = run_window(&options.window, EACH_LOOK, &mut counter)?;
    let ended = counter.life.ended();
    let missed = counter.missed.until_now(counter.skeleton.object())?;
    let roles = rows::read(&skeleton)?;
    let counters = read_counts(&skeleton.maps.counters, 0, Counter::COUNTERS.0 as usize)?;
    let bss = skeleton.maps.bss_data.as_deref().expect("the program has variables");
    let mut losses: BTreeMap<_, _> = LOSSES.into_iter().zip(bss.losses).collect();
    losses.insert("missed", missed);
    let ladder = WriteLadder {
        window,
        pid: options.pid,
        full,
        notes,
        wake_ups: plan.state_seen(),
        functions: plan.watched,
        missing: plan.missing,
        uprobes,
        trap,
        pilot,
        turns,
        writes: counters[Counter::WRITES.0 as usize],
        threads: counters[Counter::THREADS.0 as usize],
        synced: counters[Counter::SYNCED.0 as usize],
        no_log: counters[Counter::NO_LOG.0 as usize],
        joins: counters[Counter::JOINS.0 as usize],
        groups: counters[Counter::GROUPS.0 as usize],
        grouped: counters[Counter::GROUPED.0 as usize],
        group_sizes: rows::group_sizes(&skeleton)?,
        roles,
        losses,
        ended,
    };
    write_result(&options.window, &ladder)
}

fn loaded<'obj>(
    storage: &'obj mut MaybeUninit<libbpf_rs::OpenObject>,
    process: &Process,
    plan: &plan::WritePlan,
    way: Way,
    full: bool,
) -> Result<skeleton::WritesSkel<'obj>, Failure> {
    needs::load("writes", opened(storage, process, plan, way, full)?, skeleton::OBJECT)
}

/// The programs, with what they are to know of the process.
fn opened<'obj>(
    storage: &'obj mut MaybeUninit<libbpf_rs::OpenObject>,
    process: &Process,
    plan: &plan::WritePlan,
    way: Way,
    full: bool,
) -> Result<skeleton::OpenWritesSkel<'obj>, Failure> {
    let mut open = skeleton::WritesSkelBuilder::default().open(storage).or_refused()?;
    let rodata = constants!(open, process.pid());
    rodata.few = u32::from(!full);
    rodata.state_offset = plan.state_offset;
    rodata.queue_within = u32::from(plan.queue_within);
    rodata.state_seen = u32::from(plan.state_seen());
    for (place, stage) in rodata.stages.iter_mut().zip(plan.stages(full).1) {
        *place = stage;
    }
    rodata.write_calls[..4].copy_from_slice(&[
        libc::SYS_write,
        libc::SYS_pwrite64,
        libc::SYS_writev,
        libc::SYS_pwritev,
    ]);
    rodata.sync_calls[..4].copy_from_slice(&[
        libc::SYS_fdatasync,
        libc::SYS_fsync,
        libc::SYS_sync_file_range,
        libc::SYS_msync,
    ]);
    rodata.sleep_calls[..2].copy_from_slice(&[libc::SYS_nanosleep, libc::SYS_clock_nanosleep]);
    let flags = RequestFlags::of(kernel_btf()?);
    let masks = flags.masks();
    rodata.preflush = masks.get("preflush").copied().unwrap_or(0);
    rodata.metadata = masks.get("meta").copied().unwrap_or(0);
    open.progs.waking.set_autoload(!plan.state_seen());
    uprobes::watch!(open, way, plan.left(), ["write", "join", "stage", "state"]);
    Ok(open)
}

/// All that watches writes in the window.
fn attached(
    skeleton: &mut skeleton::WritesSkel,
    plan: &plan::WritePlan,
    way: Way,
    pid: u32,
    full: bool,
) -> Result<Vec<Link>, Failure> {
    skeleton.attach().or_refused()?;
    let mut links = plan.attach_rest(skeleton, way, pid, full)?;
    links.extend(plan.attach_writes(skeleton, way, pid)?);
    Ok(links)
}

/// Counts writes for a second, watched at their own entry and return alone; decides whether all stages are followed.
fn pilot(
    options: &WritesOptions,
    process: &Process,
    plan: &plan::WritePlan,
    way: Way,
    trap: Trap,
) -> Result<(WritePilot, bool, Vec<String>), Failure> {
    let mut storage = MaybeUninit::uninit();
    let mut skeleton = loaded(&mut storage, process, plan, way, false)?;
    let links = plan.attach_writes(&mut skeleton, way, options.pid)?;
    let mut counter = WritesCounter::new(&mut skeleton, process);
    let begun = Instant::now();
    counter.gate(Gate::PILOT);
    thread::sleep(PILOT);
    counter.gate(Gate::SHUT);
    let seconds = begun.elapsed().as_secs_f64();
    drop(links);
    let counters = read_counts(&skeleton.maps.counters, 0, Counter::COUNTERS.0 as usize)?;
    let writes = counters[Counter::PILOT_WRITES.0 as usize];
    WritePilot::decide(options, seconds, writes, &rows::pilot(&skeleton)?, trap, plan.state_seen())
}
