//! Records of single queries: each slow one of a window whole, some of the others beside them, and all of them counted.

mod counter;
mod encode;
mod file;
mod pilot;
mod raw;
mod sampling;
mod split;
mod wait_stacks;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::mem::MaybeUninit;
use std::path::PathBuf;
use std::thread;
use std::time::Duration;

use clap::{Args, ValueEnum};
use libbpf_rs::skel::{Skel, SkelBuilder};
use libbpf_rs::{MapCore, MapHandle, RingBufferBuilder};
use recording::Kernel;
use serde::Serialize;

use crate::histogram::Histogram;
use crate::layout::{entries, names};
use crate::life::{Ended, Life};
use crate::mapped_code::MappedCode;
use crate::needs::{self, Trial};
use crate::offcpu::futex::{Callers, know_callers};
use crate::offcpu::tasks;
use crate::queries::{FILE_CALLS, Queries, QueryOptions, READ, READ_CALLS};
use crate::refusal::OrRefused;
use crate::session::{
    Counting, MeasuredWindow, WindowOptions, begin_requests, constants, run_window, write_result, write_whole,
};
use crate::symbols::{Function, Rules};
use crate::uprobes::{self, ReturnOptions, Trap, Way};
use counter::{LINGER_STEP, RecordsCounter};
use observer::{Failure, Process};
use pilot::Pilot;
use raw::Received;
use sampling::Samples;
use skeleton::types::{counter as Counter, gate_state, limit, rows_of};
use wait_stacks::WaitClassifier;

skeleton!("records");

const LOSSES: [&str; 13] = names!(
    loss[0..LOSSES]:
    LOST_THREAD LOST_REQUEST LOST_SLOW LOST_OTHER LOST_STACK NO_STACK NESTED ABANDONED REQUEUED OVERTAKEN MISSED_IN
    OVERFLOW LOST_BESIDE
);
const EACH_READ: Duration = Duration::from_millis(50);

#[derive(Clone, Copy, PartialEq, ValueEnum)]
enum Keep {
    /// Those that are slow, and some of the others, drawn at random
    Slow,
    /// Every followed query
    All,
}

#[derive(Args)]
pub struct RecordsOptions {
    /// The process whose queries are followed
    #[arg(long)]
    pid: u32,
    /// Follow one query in so many; the gaps are drawn at random
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    sample: u32,
    /// A query of so many us is slow (default: the 95th percentile of a second before the window)
    #[arg(long, value_name = "US", value_parser = clap::value_parser!(u64).range(1..=1_000_000_000))]
    threshold_us: Option<u64>,
    /// Which records are kept
    #[arg(long, value_enum, default_value_t = Keep::Slow)]
    keep: Keep,
    /// How long the window will be, in seconds: about 2,000 queries that are not slow are kept of it
    #[arg(long, default_value_t = 20.0, value_name = "SECONDS")]
    expected: f64,
    /// Longest that queries under way at the window's end are waited for, in seconds
    #[arg(long, default_value_t = 2.0, value_name = "SECONDS")]
    linger: f64,
    /// Follow them even where the traps alone would cost more than 5 % of a CPU
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    returns: ReturnOptions,
    #[command(flatten)]
    queries: QueryOptions,
    /// Where the records go
    #[arg(long, value_name = "FILE")]
    records: PathBuf,
    /// Where the stacks of waits go, as perf.data
    #[arg(long, value_name = "FILE")]
    recording: PathBuf,
    /// Size of the ring that records go through, to see what happens when it is full: a power of two
    #[arg(long, hide = true, value_name = "BYTES")]
    ring_bytes: Option<u32>,
    #[command(flatten)]
    window: WindowOptions,
}

#[derive(Serialize)]
struct QueryRecords {
    #[serde(flatten)]
    window: MeasuredWindow,
    pid: u32,
    sample: u32,
    /// A query that took as long is kept for that; 0: all are.
    slow_ns: u64,
    /// Where one was asked for.
    threshold_ns: Option<u64>,
    /// Of the others one in so many was kept.
    one_in: u32,
    ring_bytes: u32,
    notes: Vec<String>,
    kind: String,
    query: Vec<Function>,
    uprobes: &'static str,
    trap: Trap,
    pilot: Pilot,
    queries: u64,
    followed: u64,
    threads: u64,
    /// All followed queries that ended.
    histogram: Histogram,
    own_ns: u64,
    slow: u64,
    kept: u64,
    /// Followed ones that had not ended `linger_ns` after the window.
    still_open: u64,
    linger_ns: u64,
    waits_beyond: u64,
    requests_beyond: u64,
    /// Records whose parts were more than the whole.
    uneven: u64,
    places: usize,
    losses: BTreeMap<&'static str, u64>,
    kernel_symbols: bool,
    #[serde(flatten)]
    ended: Ended,
}

/// All programs, for queries that are functions.
pub fn trial(trial: &mut Trial) {
    let mut storage = MaybeUninit::uninit();
    let opened = open_for_trial(&mut storage);
    trial.way("records", "", opened, skeleton::OBJECT);
}

fn open_for_trial(
    storage: &mut MaybeUninit<libbpf_rs::OpenObject>,
) -> Result<skeleton::OpenRecordsSkel<'_>, Failure> {
    let mut open = skeleton::RecordsSkelBuilder::default().open(storage).or_refused()?;
    constants!(open, 0);
    begin_requests!(open);
    uprobes::watch!(open, Way::PLAIN, &[], ["query"]);
    Ok(open)
}

/// Follows queries for the window; writes the records, the stacks of their waits and the JSON.
pub fn run(options: &RecordsOptions) -> Result<(), Failure> {
    let process = Process::open(options.pid)?;
    let rules = options.queries.rules()?.with_writes();
    let (way, trap) = uprobes::way_and_cost(options.returns)?;
    let Queries { kind, functions: query, notes: mut found_notes } = find_queries(options, &rules, way)?;
    let (calls_are_queries, uprobes, trap) =
        (query.is_empty(), uprobes::returns_by(query.iter()), trap.of(&query));
    let mut storage = MaybeUninit::uninit();
    let mut open = skeleton::RecordsSkelBuilder::default().open(&mut storage).or_refused()?;
    let callers = Callers::of(&process);
    let rodata = constants!(open, process.pid());
    rodata.sample = options.sample;
    rodata.read_calls = if calls_are_queries { FILE_CALLS } else { READ_CALLS };
    rodata.calls_are_queries = i32::from(calls_are_queries);
    know_callers!(rodata, callers);
    if let Some(bytes) = options.ring_bytes {
        open.maps.ring.set_max_entries(bytes).or_refused()?;
    }
    open.progs.syscall_exit.set_autoload(calls_are_queries);
    begin_requests!(open);
    if !calls_are_queries {
        uprobes::watch!(open, way, &query, ["query"]);
    }
    let mut skeleton = needs::load("records", open, skeleton::OBJECT)?;
    skeleton.attach().or_refused()?;
    let links = uprobes::attach(skeleton.object_mut(), "query", way, options.pid, &query)?;
    let samples = Samples::begin(&skeleton.progs.sample_running)?;
    process.must_be_alive()?;
    let received = RefCell::new(Received::default());
    let map = MapHandle::try_from(&skeleton.maps.ring).or_refused()?;
    let mut builder = RingBufferBuilder::new();
    builder
        .add(&map, |bytes| {
            received.borrow_mut().take(bytes);
            0
        })
        .or_refused()?;
    let mut counter = RecordsCounter::new(
        &mut skeleton,
        &process,
        Life::new(&process, !calls_are_queries),
        builder.build().or_refused()?,
    );
    let pilot = pilot::run(options, &mut counter, &query, trap)?;
    let (slow_ns, one_in, notes) = pilot.what_is_kept(options);
    found_notes.extend(notes);
    if let Some(bss) = counter.skeleton.maps.bss_data.as_deref_mut() {
        (bss.slow_ns, bss.one_in) = (slow_ns, one_in);
    }
    let kernel = Kernel::running();
    let tids = tasks::tasks(&process).into_values().map(|task| task.own_number).collect();
    let window = run_window(&options.window, EACH_READ, &mut counter)?;
    let (still_open, lingered) =
        counter.linger(Duration::try_from_secs_f64(options.linger).unwrap_or_default())?;
    counter.gate(gate_state::SHUT);
    let missed = counter.missed.until_now(counter.skeleton.object())?;
    drop((links, samples));
    // A program that was preempted continues when its thread has a CPU again.
    thread::sleep(LINGER_STEP);
    counter.slice()?;
    counter.code.update();
    let (histogram, own_ns) = counter.row(rows_of::ROW_WINDOW)?;
    let counters = counter.counters()?;
    let ended = counter.life.ended();
    let RecordsCounter { code: MappedCode { seen: mappings, .. }, clocks, .. } = counter;
    let stacks = entries(&skeleton.maps.stacks)?.into_iter().collect();
    let classifier = WaitClassifier { kernel, callers, tids, stacks };
    let received = received.take();
    let written = write_whole(&options.records, |partial| {
        encode::write_records(partial, clocks, &received, &classifier)
    })?;
    let places = &written.places;
    write_whole(&options.recording, |partial| {
        places.write(partial, options.pid, window.start_ns, &mappings, &classifier)
    })?;
    let bss = skeleton.maps.bss_data.as_deref().expect("the program has variables");
    let mut losses: BTreeMap<&'static str, u64> = LOSSES.into_iter().zip(bss.losses).collect();
    losses.insert("missed", missed);
    losses.insert("lost_memory", received.lost);
    losses.insert(
        "unread",
        counters[Counter::KEPT.0 as usize].saturating_sub(received.len() as u64 + received.lost),
    );
    let result = QueryRecords {
        window,
        pid: options.pid,
        sample: options.sample,
        slow_ns,
        threshold_ns: options.threshold_us.map(|us| us * 1000),
        one_in,
        ring_bytes: skeleton.maps.ring.max_entries(),
        notes: found_notes,
        kind,
        query,
        uprobes,
        trap,
        pilot,
        queries: counters[Counter::QUERIES.0 as usize],
        followed: counters[Counter::FOLLOWED.0 as usize],
        threads: counters[Counter::THREADS.0 as usize],
        histogram,
        own_ns,
        slow: counters[Counter::SLOW.0 as usize],
        kept: received.len() as u64,
        still_open,
        linger_ns: lingered.as_nanos() as u64,
        waits_beyond: written.waits_beyond,
        requests_beyond: written.requests_beyond,
        uneven: written.uneven,
        places: places.len(),
        losses,
        kernel_symbols: classifier.kernel.known(),
        ended,
    };
    write_result(&options.window, &result)
}

/// The functions whose calls are followed; none where each read call is.
fn find_queries(options: &RecordsOptions, rules: &Rules, way: Way) -> Result<Queries, Failure> {
    if options.queries.are_read_calls() {
        return Ok(Queries { kind: READ.to_owned(), functions: Vec::new(), notes: Vec::new() });
    }
    options.queries.find(options.pid, rules, way)?.map_err(|why| {
        Failure::measurement(format!("no query can be followed: {why}")).mend(
            "ioflame ebpf tail --query-symbol FUNCTION, ioflame attach --tail --count-symbol FUNCTION: one that runs \
             once a query; --kind read: each read call",
        )
    })
}

const _: () = assert!(limit::SPANS.0 == limit::WAITS.0 + limit::REQUESTS.0 + limit::SAMPLES.0);
