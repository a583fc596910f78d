//! Request attribution: every request that ended in the window, with its file and its thread.

mod ended;
mod reasons;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fs;
use std::mem::MaybeUninit;
use std::path::PathBuf;
use std::thread;
use std::time::Duration;

use clap::Args;
use libbpf_rs::btf::types::Struct;
use libbpf_rs::skel::{OpenSkel, Skel, SkelBuilder};
use libbpf_rs::{MapCore, RingBuffer, RingBufferBuilder};
use observer::{Failure, Process};
use recording::Kernel;
use serde::Serialize;

use crate::cost::{Accounting, ProgramCost, missed_events};
use crate::device::{BIOS_ALONE, Device, DiskWindow, Follow, GateEdges, look_at};
use crate::kernel_flags::{Events, RequestFlags, kernel_btf};
use crate::layout::{entries, names, plain};
use crate::mapped_code::MappedCode;
use crate::needs::{self, Trial};
use crate::refusal::OrRefused;
use crate::session::{
    Counting, MeasuredWindow, WindowOptions, constants, run_window, set_gate, write_result, write_whole,
};
use crate::targets::{TargetOptions, choose_programs, with_start_times};
use ended::{EndedRequests, OperationTotal, SeenFile, SeenThread};

skeleton!("requests");
plain!(file_key, flight, path, stack);

const OPERATIONS: [&str; 5] = names!(operation[0..OPERATIONS]: READ WRITE FLUSH DISCARD OTHER);
const FOUND: [&str; 6] = names!(found[0..FOUNDS]: CACHED DIRECT FILE_SYSTEM NO_DATA SWAP NOT_FOUND);
const SUBMITTERS: [&str; 3] = names!(submitter[0..SUBMITTERS]: OTHERS PROCESS KERNEL);
/// The tallies: what was lost, and what merely happened.
const LOSSES: [&str; 9] = names!(tally[0..REQUEUED]:
    LOST_START LOST_RECORD LOST_NAME LOST_DIRECT LOST_STACK NO_STACK NO_START NO_END NEGATIVE);
const FACTS: [&str; 3] = names!(tally[9..TALLIES]: REQUEUED MERGED HELD_BACK);
/// Writes and discards are fewer, and each is larger.
const OTHERS_MORE_OFTEN: u32 = 8;
const SETTLE: Duration = Duration::from_millis(100);
/// How often the ring is emptied: of 16 MiB, which are 149,000 requests.
const EMPTY_EVERY: Duration = Duration::from_millis(50);

#[derive(Args)]
pub struct RequestsOptions {
    #[command(flatten)]
    targets: TargetOptions,
    /// A disk or partition, `MAJOR:MINOR`
    #[arg(long)]
    device: String,
    /// Where the requests go, one row each
    #[arg(long, value_name = "FILE")]
    rows: PathBuf,
    /// Take the stack of one in N reads of the first process, of its other requests of one in N / 8; 0: of none
    #[arg(long, value_name = "N", default_value_t = 0)]
    reasons: u32,
    /// Where the stacks go, as perf.data
    #[arg(long, value_name = "FILE")]
    recording: Option<PathBuf>,
    /// Requests that are kept at most; the others are counted by operation alone
    #[arg(long, value_name = "N", default_value_t = 4_000_000)]
    most: usize,
    /// Bytes of the ring and entries of the maps, to see them overflow
    #[arg(long, hide = true)]
    map_entries: Option<u32>,
    #[command(flatten)]
    window: WindowOptions,
}

/// `ground.results.requests.Requests`.
#[derive(Serialize)]
struct TracedRequests<'a> {
    #[serde(flatten)]
    window: MeasuredWindow,
    how: String,
    device: Device,
    pids: &'a [u32],
    children: bool,
    reasons: u32,
    operations: [&'static str; OPERATIONS.len()],
    found: [&'static str; FOUND.len()],
    submitters: [&'static str; SUBMITTERS.len()],
    flags: BTreeMap<&'a str, u32>,
    totals: BTreeMap<&'static str, OperationTotal>,
    rows: u64,
    files: Vec<SeenFile>,
    threads: Vec<SeenThread>,
    losses: BTreeMap<&'static str, u64>,
    facts: BTreeMap<&'static str, u64>,
    diskstats: Option<DiskWindow>,
    costs: Vec<ProgramCost>,
}

struct RequestsCounter<'a, 'obj> {
    skeleton: &'a mut skeleton::RequestsSkel<'obj>,
    ring: RingBuffer<'a>,
    device: &'a Device,
    edges: GateEdges,
    accounting: Accounting,
    ended: &'a RefCell<EndedRequests>,
}

impl Counting for RequestsCounter<'_, '_> {
    fn set_gate(&mut self, open: bool) {
        if open {
            self.accounting.open(self.skeleton.object());
        }
        self.edges.take(self.device, open, || set_gate!(self.skeleton, i32::from(open)));
    }

    fn slice(&mut self) -> Result<(), Failure> {
        self.ring.consume().or_refused()?;
        self.accounting.look(self.skeleton.object(), || Ok(self.ended.borrow().seen()))
    }
}

/// Follows the requests of the window, and writes the JSON and the rows.
pub fn run(options: &RequestsOptions) -> Result<(), Failure> {
    let device = Device::find(&options.device)?;
    let processes = with_start_times(&options.targets.processes()?);
    let btf = kernel_btf()?;
    let events = Events::of_this_kernel()?;
    events.must_tell_partitions(&device)?;
    let direct = DirectCalls {
        have_event: events.direct_calls,
        are_known: btf.type_by_name::<Struct>("iomap_dio").is_some(),
    };
    let flags = RequestFlags::of(btf);
    let mut storage = MaybeUninit::uninit();
    let mut open = opened(&mut storage, &device, options.targets.pids[0], options.targets.children)?;
    let rodata = open.maps.rodata_data.as_deref_mut().expect("the program has constants");
    rodata.meta_flag = flags.masks().get("meta").copied().unwrap_or(0);
    rodata.swap_flag = flags.masks().get("swap").copied().unwrap_or(0);
    rodata.page_shift = page_size().trailing_zeros();
    rodata.stack_each_read = options.reasons;
    rodata.stack_each_other = options.reasons.div_ceil(OTHERS_MORE_OFTEN);
    if let Some(entries) = options.map_entries {
        open.maps.records.set_max_entries(entries).or_refused()?;
        open.maps.names.set_max_entries(entries).or_refused()?;
    }
    let mut skeleton = needs::load("requests", open, skeleton::OBJECT)?;
    skeleton.attach().or_refused()?;
    let enter = |started: &[(u32, u64)]| {
        options.targets.enter(&skeleton.maps.targets, &skeleton.maps.target_groups, started)
    };
    enter(&processes)?;
    // Children that came while we attached.
    enter(&options.targets.still_running(&processes))?;
    measure(options, &device, &flags, direct, &mut skeleton)
}

/// pid: whose stacks are taken
fn opened<'obj>(
    storage: &'obj mut MaybeUninit<libbpf_rs::OpenObject>,
    device: &Device,
    pid: u32,
    children: bool,
) -> Result<skeleton::OpenRequestsSkel<'obj>, Failure> {
    let direct_calls = Events::of_this_kernel()?.direct_calls;
    let mut open = skeleton::RequestsSkelBuilder::default().open(storage).or_refused()?;
    let way = Follow::of(device)?;
    let rodata = constants!(open, pid);
    look_at!(rodata, device, way);
    rodata.direct_by_bio = u32::from(!direct_calls);
    choose_programs(open.open_object_mut(), children, |name| {
        if name == "direct_begins" { direct_calls } else { way.programs().contains(&name) }
    })?;
    Ok(open)
}

/// Of disks and of devices without requests, all programs.
pub fn trial(trial: &mut Trial) {
    for (name, bio_based) in [("requests", false), ("bios", true)] {
        let mut storage = MaybeUninit::uninit();
        let opened = opened(&mut storage, &Device { bio_based, ..Device::default() }, 0, true);
        trial.way("requests", name, opened, skeleton::OBJECT);
    }
}

fn measure(
    options: &RequestsOptions,
    device: &Device,
    flags: &RequestFlags,
    direct: DirectCalls,
    skeleton: &mut skeleton::RequestsSkel,
) -> Result<(), Failure> {
    let accounting = Accounting::begin(skeleton.object())?;
    let process = options.recording.as_ref().map(|_| Process::open(options.targets.pids[0])).transpose()?;
    let mut code = process.as_ref().map(MappedCode::of);
    let preflush = flags.masks().get("preflush").copied().unwrap_or(0);
    let ended = RefCell::new(EndedRequests::new(options.most, preflush));
    let (window, diskstats, accounting) = {
        let mut builder = RingBufferBuilder::new();
        let keep = |bytes: &[u8]| {
            ended.borrow_mut().add(&crate::layout::read(bytes));
            0
        };
        builder.add(&skeleton.maps.records, keep).or_refused()?;
        let ring = builder.build().or_refused()?;
        let mut counter = RequestsCounter {
            skeleton: &mut *skeleton,
            ring,
            device,
            edges: GateEdges::default(),
            accounting,
            ended: &ended,
        };
        // What was under way while we attached has ended by then; what takes longer is counted as `no_start`.
        thread::sleep(SETTLE);
        let window = run_window(&options.window, EMPTY_EVERY, &mut counter)?;
        (window, DiskWindow::between(counter.edges), counter.accounting)
    };
    let ended = ended.into_inner();
    if let Some(code) = &mut code {
        code.update();
    }
    let maps = &skeleton.maps;
    let bss = maps.bss_data.as_deref().expect("the program has variables");
    let mut losses: BTreeMap<_, _> = LOSSES.into_iter().zip(bss.tallies).collect();
    let mut facts: BTreeMap<_, _> =
        FACTS.into_iter().zip(bss.tallies[LOSSES.len()..].iter().copied()).collect();
    let costs = accounting.costs(skeleton.object(), ended.seen())?;
    losses.insert("missed", missed_events(&costs));
    losses.insert("lost_process", bss.targets_lost);
    losses.insert("not_kept", ended.not_kept);
    facts.insert("processes_ended", bss.targets_ended);
    // Under way when the window closed; on an idle device, requests whose end was never seen.
    facts.insert("unfinished", maps.flights.keys().count() as u64);
    facts.insert("flushing_writes", ended.flushing_writes);
    facts.insert("direct_calls_seen", u64::from(direct.are_seen()));
    write_whole(&options.rows, |path| fs::write(path, &ended.rows))?;
    if let (Some(path), Some(code)) = (&options.recording, &code) {
        let stacks = entries(&maps.stacks)?.into_iter().collect();
        let (pid, window) = (options.targets.pids[0], window.clone());
        let given = reasons::Given { pid, window, stacks, mappings: &code.seen };
        write_whole(path, |partial| {
            reasons::write_recording(partial, &given, &ended.stacks, &Kernel::running())
        })?;
    }
    let result = TracedRequests {
        window,
        how: how(Follow::of(device)?, direct),
        device: device.clone(),
        pids: &options.targets.pids,
        children: options.targets.children,
        reasons: options.reasons,
        operations: OPERATIONS,
        found: FOUND,
        submitters: SUBMITTERS,
        flags: flags.masks(),
        rows: ended.kept(),
        files: ended.files(entries(&maps.names)?),
        threads: ended.threads(),
        totals: OPERATIONS.into_iter().zip(ended.totals).collect(),
        losses,
        facts,
        diskstats,
        costs,
    };
    write_result(&options.window, &result)
}

/// How the file of direct IO can be found on this kernel.
#[derive(Clone, Copy)]
struct DirectCalls {
    /// An event tells of each (Linux 6.6).
    have_event: bool,
    /// Their structure is, which the bios that they make point to.
    are_known: bool,
}

impl DirectCalls {
    fn are_seen(self) -> bool {
        self.have_event || self.are_known
    }
}

fn how(way: Follow, direct: DirectCalls) -> String {
    let mut how = format!("tp_btf {}", way.events());
    if direct.have_event {
        how += ", iomap_dio_rw_begin";
    }
    if way == Follow::Bio {
        how += &format!(": {BIOS_ALONE}");
    }
    if !direct.are_seen() {
        how += "; this kernel does not show the files of direct IO";
    }
    how
}

fn page_size() -> u64 {
    // SAFETY: a system call without pointers.
    unsafe { libc::sysconf(libc::_SC_PAGESIZE) as u64 }
}
