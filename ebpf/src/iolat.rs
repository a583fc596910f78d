//! IO latency of one block device, by operation and owner, its queue apart from the device.

use std::collections::BTreeMap;
use std::mem::MaybeUninit;
use std::thread;
use std::time::{Duration, Instant};

use clap::Args;
use libbpf_rs::skel::{OpenSkel, Skel, SkelBuilder};
use libbpf_rs::{Link, MapCore};
use serde::Serialize;

use crate::cost::{Accounting, ProgramCost, missed_events};
use crate::device::{BIOS_ALONE, Device, DiskWindow, Follow, GateEdges, look_at};
use crate::histogram::{BUCKETS, Histogram, read_counts, read_rows, sparse};
use crate::kernel_flags::{Events, RequestFlags, kernel_btf};
use crate::layout::{clear, entries_of_cpus, names, plain};
use crate::needs::{self, Trial};
use crate::refusal::OrRefused;
use crate::session::{
    Counting, MeasuredWindow, TurnOptions, WindowOptions, constants, link_tracepoints, run_turns, set_gate,
    write_result,
};
use crate::targets::{TargetOptions, choose_programs, with_start_times};
use observer::Failure;
use observer::clock::now_ns;
use skeleton::types::{kind, kind_sum, operation as Operation, stage as Stage};

skeleton!("iolat");
plain!(kind, kind_sum);

const OPERATIONS: [&str; 5] = names!(operation[0..OPERATIONS]: READ WRITE FLUSH DISCARD OTHER);
const OWNERS: [&str; 2] = names!(owner[0..OWNERS]: OTHERS PROCESS);
const STAGES: usize = Stage::STAGES.0 as usize;
const SLOTS: usize = OPERATIONS.len() * OWNERS.len() * STAGES;
/// The tallies: what was lost, and what merely happened.
const LOSSES: [&str; 6] = names!(tally[0..REQUEUED]: LOST_START LOST_KIND NO_START NO_END NEGATIVE OVERFLOW);
const FACTS: [&str; 3] = names!(tally[6..TALLIES]: REQUEUED MERGED HELD_BACK);
const SETTLE: Duration = Duration::from_millis(100);
const LOOK: Duration = Duration::from_millis(1);

#[derive(Args)]
pub struct IolatOptions {
    #[command(flatten)]
    targets: TargetOptions,
    /// A disk or partition, `MAJOR:MINOR`
    #[arg(long)]
    device: String,
    /// Milliseconds of one slice of the series by time
    #[arg(long, default_value_t = 250, value_parser = clap::value_parser!(u64).range(10..))]
    slice_ms: u64,
    /// Entries of the map of requests in flight, to see it overflow
    #[arg(long, hide = true)]
    map_entries: Option<u32>,
    #[command(flatten)]
    turns: TurnOptions,
    #[command(flatten)]
    window: WindowOptions,
}

fn how(way: Follow) -> String {
    let whole = "whole requests, as /proc/diskstats counts them";
    let what = match way {
        Follow::Request => format!(": {whole}"),
        Follow::Getrq => format!(" (before Linux 6.5 there is no block_io_start): {whole}"),
        Follow::Bio => format!(": {BIOS_ALONE}"),
    };
    format!("tp_btf {}{what}", way.events())
}

/// One operation of one owner, with its time in the queue, at the device, and both together.
#[derive(Serialize)]
struct OperationRow {
    operation: &'static str,
    owner: &'static str,
    queue: Histogram,
    device: Histogram,
    total: Histogram,
}

/// Requests of one operation, flags and size.
#[derive(Serialize)]
struct RequestKind {
    operation: &'static str,
    flags: Vec<String>,
    bytes: u32,
    owner: &'static str,
    count: u64,
    total_ns: u64,
}

/// What reads took that ended within one slice of the window, for a heat map.
#[derive(Serialize)]
struct Slice {
    end_ns: u64,
    process: Vec<[u64; 3]>,
    others: Vec<[u64; 3]>,
}

/// `ground.results.io_latency.IoLatency`.
#[derive(Serialize)]
struct Latency {
    #[serde(flatten)]
    window: MeasuredWindow,
    how: String,
    device: Device,
    pids: Vec<u32>,
    children: bool,
    rows: Vec<OperationRow>,
    kinds: Vec<RequestKind>,
    slices: Vec<Slice>,
    losses: BTreeMap<&'static str, u64>,
    facts: BTreeMap<&'static str, u64>,
    diskstats: Option<DiskWindow>,
    costs: Vec<ProgramCost>,
}

struct IolatCounter<'a, 'obj> {
    skeleton: &'a mut skeleton::IolatSkel<'obj>,
    device: &'a Device,
    targets: &'a TargetOptions,
    started: Vec<(u32, u64)>,
    links: Vec<Link>,
    /// That were under way at the end of a turn.
    unfinished: u64,
    before: [Vec<u64>; 2],
    slices: Vec<Slice>,
    edges: GateEdges,
    accounting: Option<Accounting>,
}

impl Counting for IolatCounter<'_, '_> {
    fn set_gate(&mut self, open: bool) {
        if let (true, Some(accounting)) = (open, &mut self.accounting) {
            accounting.open(self.skeleton.object());
        }
        self.edges.take(self.device, open, || set_gate!(self.skeleton, i32::from(open)));
    }

    fn link(&mut self) -> Result<(), Failure> {
        clear(&self.skeleton.maps.flights);
        self.links = link_tracepoints(self.skeleton.object())?;
        let maps = &self.skeleton.maps;
        let enter = |started: &[(u32, u64)]| self.targets.enter(&maps.targets, &maps.target_groups, started);
        let first = self.accounting.is_none();
        if first {
            enter(&self.started)?;
        }
        self.started = self.targets.still_running(&self.started);
        enter(&self.started)?;
        if first {
            // The kernel patches its own code for it, which takes milliseconds: before the window.
            self.accounting = Some(Accounting::begin(self.skeleton.object())?);
        }
        // What was under way while we attached has ended by then; what takes longer is counted as `no_start`.
        let linked = Instant::now();
        while !self.device.is_idle() && linked.elapsed() < SETTLE {
            thread::sleep(LOOK);
        }
        Ok(())
    }

    fn unlink(&mut self) -> Result<(), Failure> {
        let requests = || Ok(requests_in(&rows_of(self.skeleton)?));
        self.accounting.as_mut().map_or(Ok(()), |one| one.close(self.skeleton.object(), requests))?;
        self.links.clear();
        self.unfinished += self.skeleton.maps.flights.keys().count() as u64;
        Ok(())
    }

    fn slice(&mut self) -> Result<(), Failure> {
        let mut delta = |owner: usize| -> Result<Vec<[u64; 3]>, Failure> {
            let first = slot(Operation::READ.0 as usize, owner, Stage::TOTAL) * BUCKETS;
            let now = read_counts(&self.skeleton.maps.histogram, first, BUCKETS)?;
            let added: Vec<u64> =
                now.iter().zip(&self.before[owner]).map(|(now, before)| now - before).collect();
            self.before[owner] = now;
            Ok(sparse(&added))
        };
        let (others, process) = (delta(0)?, delta(1)?);
        self.slices.push(Slice { end_ns: now_ns(), process, others });
        let requests = || Ok(requests_in(&rows_of(self.skeleton)?));
        self.accounting.as_mut().map_or(Ok(()), |one| one.look(self.skeleton.object(), requests))
    }
}

fn slot(operation: usize, owner: usize, stage: Stage) -> usize {
    (operation * OWNERS.len() + owner) * STAGES + stage.0 as usize
}

/// Counts for the window and writes the JSON.
pub fn run(options: &IolatOptions) -> Result<(), Failure> {
    let device = Device::find(&options.device)?;
    let started = with_start_times(&options.targets.processes()?);
    Events::of_this_kernel()?.must_tell_partitions(&device)?;
    let mut storage = MaybeUninit::uninit();
    let mut open = opened(&mut storage, &device, options.targets.children)?;
    if let Some(entries) = options.map_entries {
        open.maps.flights.set_max_entries(entries).or_refused()?;
        open.maps.kinds.set_max_entries(entries).or_refused()?;
    }
    let mut skeleton = needs::load("iolat", open, skeleton::OBJECT)?;
    measure(options, &device, started, &mut skeleton)
}

fn opened<'obj>(
    storage: &'obj mut MaybeUninit<libbpf_rs::OpenObject>,
    device: &Device,
    children: bool,
) -> Result<skeleton::OpenIolatSkel<'obj>, Failure> {
    let mut open = skeleton::IolatSkelBuilder::default().open(storage).or_refused()?;
    let way = Follow::of(device)?;
    let rodata = constants!(open, 0);
    look_at!(rodata, device, way);
    rodata.issue_begins = rodata.by_first_bio;
    choose_programs(open.open_object_mut(), children, |name| way.programs().contains(&name))?;
    Ok(open)
}

/// Of disks and of devices without requests, all programs.
pub fn trial(trial: &mut Trial) {
    for (name, bio_based) in [("requests", false), ("bios", true)] {
        let mut storage = MaybeUninit::uninit();
        let opened = opened(&mut storage, &Device { bio_based, ..Device::default() }, true);
        trial.way("iolat", name, opened, skeleton::OBJECT);
    }
}

fn measure(
    options: &IolatOptions,
    device: &Device,
    started: Vec<(u32, u64)>,
    skeleton: &mut skeleton::IolatSkel,
) -> Result<(), Failure> {
    let mut counter = IolatCounter {
        skeleton,
        device,
        targets: &options.targets,
        started,
        links: Vec::new(),
        unfinished: 0,
        before: [vec![0; BUCKETS], vec![0; BUCKETS]],
        slices: Vec::new(),
        edges: GateEdges::default(),
        accounting: None,
    };
    let slice = Duration::from_millis(options.slice_ms);
    let window = run_turns(&options.window, &options.turns, slice, &mut counter)?;
    let IolatCounter { slices, edges: disk, accounting, unfinished, .. } = counter;
    let rows = rows_of(skeleton)?;
    let diskstats = DiskWindow::between(disk);
    let tallied = read_counts(&skeleton.maps.tallies, 0, LOSSES.len() + FACTS.len())?;
    let mut losses: BTreeMap<_, _> = LOSSES.into_iter().zip(tallied.iter().copied()).collect();
    let mut facts: BTreeMap<_, _> = FACTS.into_iter().zip(tallied[LOSSES.len()..].iter().copied()).collect();
    let costs = accounting.map_or(Ok(Vec::new()), |one| one.costs(skeleton.object(), requests_in(&rows)))?;
    losses.insert("missed", missed_events(&costs));
    if let Some(bss) = skeleton.maps.bss_data.as_deref() {
        losses.insert("lost_process", bss.targets_lost);
        facts.insert("processes_ended", bss.targets_ended);
    }
    // Under way when the window closed; on an idle device, requests whose end was never seen.
    facts.insert("unfinished", unfinished);
    let latency = Latency {
        window,
        how: how(Follow::of(device)?),
        device: device.clone(),
        pids: options.targets.pids.clone(),
        children: options.targets.children,
        rows,
        kinds: read_kinds(skeleton, &RequestFlags::of(kernel_btf()?))?,
        slices,
        losses,
        facts,
        diskstats,
        costs,
    };
    write_result(&options.window, &latency)
}

fn rows_of(skeleton: &skeleton::IolatSkel) -> Result<Vec<OperationRow>, Failure> {
    let counted = read_rows(&skeleton.maps.histogram, &skeleton.maps.sums, SLOTS)?;
    let mut rows = Vec::new();
    for (o, operation) in OPERATIONS.into_iter().enumerate() {
        for (w, owner) in OWNERS.into_iter().enumerate() {
            let [queue, device, total] =
                [Stage::QUEUE, Stage::DEVICE, Stage::TOTAL].map(|stage| counted[slot(o, w, stage)].clone());
            if total.count > 0 {
                rows.push(OperationRow { operation, owner, queue, device, total });
            }
        }
    }
    Ok(rows)
}

fn requests_in(rows: &[OperationRow]) -> u64 {
    rows.iter().map(|row| row.total.count).sum()
}

fn read_kinds(skeleton: &skeleton::IolatSkel, flags: &RequestFlags) -> Result<Vec<RequestKind>, Failure> {
    let found: Vec<(kind, Vec<kind_sum>)> = entries_of_cpus(&skeleton.maps.kinds)?;
    let kind = |(kind, sums): &(kind, Vec<kind_sum>)| RequestKind {
        operation: OPERATIONS[kind.operation as usize],
        flags: flags.names(kind.flags),
        bytes: kind.bytes,
        owner: OWNERS[kind.own as usize & 1],
        count: sums.iter().map(|sum| sum.count).sum(),
        total_ns: sums.iter().map(|sum| sum.total_ns).sum(),
    };
    let mut kinds: Vec<RequestKind> = found.iter().map(kind).collect();
    kinds.sort_by_key(|kind| std::cmp::Reverse(kind.count));
    Ok(kinds)
}
