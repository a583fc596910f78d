//! The latency ladder: one query in N of a process from its first instruction through the block layer and back.

use std::collections::{BTreeMap, BTreeSet};
use std::mem::MaybeUninit;
use std::path::PathBuf;
use std::time::Duration;
use std::{fs, thread};

use clap::{Args, ValueEnum};
use libbpf_rs::skel::{OpenSkel, Skel, SkelBuilder};
use libbpf_rs::{Link, MapCore, MapFlags};
use serde::Serialize;

use crate::histogram::{BUCKETS, Histogram, read_all, read_counts, sparse, words};
use crate::refusal::OrRefused;
use crate::session::{Counting, WindowOptions, constants, run_window, write_result};
use crate::symbols::{self, Function, ROCKSDB, Rule, Rules};
use crate::uprobes::{self, MOST_FUNCTIONS, Trap, Way};
use observer::{Failure, Process};

#[allow(clippy::all, clippy::pedantic, dead_code, unused_imports)]
mod skeleton {
    include!(concat!(env!("OUT_DIR"), "/ladder.skel.rs"));
}

/// In the order of `enum point` in `bpf/ladder.bpf.c`: stage N ends at point N + 1.
const STAGES: [&str; 10] =
    ["get_pre", "rdr_pre", "sys_pre", "queue", "device", "wake", "runq", "sys_post", "rdr_post", "get_post"];
/// In the order of `enum class`.
const CLASSES: [&str; 8] =
    ["one_read", "no_read", "several", "no_request", "foreign", "awake", "uring", "disorder"];
/// Of `struct row`, before its buckets.
const ROW_FIELDS: usize = 5;
const ROWS: usize = STAGES.len() + CLASSES.len() + 1;
/// In the order of `enum counter`; the first three are no losses.
const COUNTERS: [&str; 11] = [
    "queries",
    "followed",
    "threads",
    "lost_thread",
    "lost_request",
    "lost_device",
    "nested",
    "abandoned",
    "requeued",
    "overflow",
    "async_calls",
];
const NO_LOSSES: usize = 3;
/// Between two looks at the rows after the window, and how many there are at most.
const SETTLE: Duration = Duration::from_millis(5);
const SETTLE_LOOKS: u32 = 200;

#[derive(Args)]
pub struct Options {
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
    /// How returns are trapped (default: session where the kernel has it)
    #[arg(long, value_enum)]
    uprobes: Option<WayName>,
    /// Longest that a trial waits for the engine's functions to be called, in seconds
    #[arg(long, default_value_t = 1.0)]
    trial: f64,
    /// Rules that name the engine's functions, instead of those for RocksDB
    #[arg(long, value_name = "FILE")]
    symbols: Option<PathBuf>,
    #[command(flatten)]
    window: WindowOptions,
}

#[derive(Clone, Copy, PartialEq, ValueEnum)]
enum Start {
    /// At the query where its function is found and called, at the read call otherwise
    Auto,
    /// At the query, or not at all
    Query,
    /// At the read call: no uprobes
    Syscall,
}

#[derive(Clone, Copy, ValueEnum)]
enum WayName {
    Session,
    Pair,
}

#[derive(Serialize)]
struct Watched {
    name: String,
    file: String,
    /// Of a trial before the window.
    calls: u64,
    /// Its entry is single-stepped.
    stepped: bool,
}

#[derive(Serialize)]
struct Stage {
    name: &'static str,
    #[serde(flatten)]
    histogram: Histogram,
    /// What the programs themselves ran within the stage, summed over all.
    own_ns: u64,
}

/// The disk that most followed reads went to, by its counters in /proc/diskstats at the window's edges.
#[derive(Serialize)]
struct Device {
    major: u32,
    minor: u32,
    name: String,
    followed: u64,
    reads: u64,
    read_ms: u64,
}

#[derive(Serialize)]
struct Ladder {
    backend: &'static str,
    pid: u32,
    start_ns: u64,
    end_ns: u64,
    sample: u32,
    /// `query` or `syscall`.
    start: &'static str,
    /// Why it starts at the read call, and other things to know.
    notes: Vec<String>,
    query: Vec<Watched>,
    reader: Vec<Watched>,
    uprobes: Option<Way>,
    trap: Option<Trap>,
    queries: u64,
    followed: u64,
    threads: u64,
    stages: Vec<Stage>,
    classes: Vec<Stage>,
    outside: Stage,
    device: Option<Device>,
    losses: BTreeMap<&'static str, u64>,
    /// The process ended before the window did.
    process_ended: bool,
}

/// What the uprobes go to.
struct Plan {
    way: Way,
    trap: Trap,
    query: Vec<(Function, u64)>,
    reader: Vec<(Function, u64)>,
}

type Disks = BTreeMap<(u32, u32), (String, u64, u64)>;

struct Counter<'a, 'obj> {
    skeleton: &'a mut skeleton::LadderSkel<'obj>,
    opened: Disks,
    closed: Disks,
    process: &'a Process,
    process_ended: bool,
}

impl Counting for Counter<'_, '_> {
    fn set_gate(&mut self, open: bool) {
        if open {
            self.opened = disks();
        }
        if let Some(bss) = self.skeleton.maps.bss_data.as_deref_mut() {
            bss.gate = i32::from(open);
        }
        if !open {
            self.closed = disks();
            self.process_ended = self.process.has_ended();
        }
    }

    fn slice(&mut self) -> Result<(), Failure> {
        Ok(())
    }
}

/// Follows queries for the window and writes the JSON.
pub fn run(options: &Options) -> Result<(), Failure> {
    let process = Process::open(options.pid)?;
    let mut notes = Vec::new();
    let plan = plan(options, &mut notes)?;
    let with_reader = plan.as_ref().is_some_and(|plan| !plan.reader.is_empty());
    let mut storage = MaybeUninit::uninit();
    let mut open = skeleton::LadderSkelBuilder::default().open(&mut storage).or_refused()?;
    let rodata = constants!(open, process.pid());
    rodata.sample = options.sample;
    rodata.with_query = i32::from(plan.is_some());
    rodata.with_reader = i32::from(with_reader);
    // A read without a position is of a pipe or a socket more often than of a file; within a query it is of a file.
    let positioned = [libc::SYS_pread64, libc::SYS_preadv, libc::SYS_preadv2];
    rodata.read_calls[..3].copy_from_slice(&positioned);
    if plan.is_some() {
        rodata.read_calls[3..].copy_from_slice(&[libc::SYS_read, libc::SYS_readv]);
    }
    rodata.async_calls = [libc::SYS_io_uring_enter, libc::SYS_io_submit];
    if let Some(plan) = &plan {
        uprobes::enable(open.open_object_mut(), "query", plan.way);
        if with_reader {
            uprobes::enable(open.open_object_mut(), "reader", plan.way);
        }
    }
    let mut skeleton = open.load().or_refused()?;
    skeleton.attach().or_refused()?;
    let _links = match &plan {
        Some(plan) => attach(&mut skeleton, plan, options.pid)?,
        None => Vec::new(),
    };
    process.must_be_alive()?;
    let mut counter = Counter {
        skeleton: &mut skeleton,
        opened: Disks::new(),
        closed: Disks::new(),
        process: &process,
        process_ended: false,
    };
    let (start_ns, end_ns) = run_window(&options.window, Duration::from_secs(1), &mut counter)?;
    let process_ended = counter.process_ended;
    let device = device(counter.skeleton, &counter.opened, &counter.closed)?;
    let counters = read_counts(&skeleton.maps.counters, 0, COUNTERS.len())?;
    let mut rows = read_settled(&skeleton)?.into_iter();
    let stages: Vec<Stage> =
        named(&STAGES, &mut rows).into_iter().filter(|stage| stage.histogram.count > 0).collect();
    let classes = named(&CLASSES, &mut rows);
    let outside = named(&["outside"], &mut rows).pop().expect("the last row");
    let ladder = Ladder {
        backend: "co-re",
        pid: options.pid,
        start_ns,
        end_ns,
        sample: options.sample,
        start: if plan.is_some() { "query" } else { "syscall" },
        notes,
        query: plan.as_ref().map(|plan| watched(&plan.query)).unwrap_or_default(),
        reader: plan.as_ref().map(|plan| watched(&plan.reader)).unwrap_or_default(),
        uprobes: plan.as_ref().map(|plan| plan.way),
        trap: plan.as_ref().map(|plan| plan.trap),
        queries: counters[0],
        followed: counters[1],
        threads: counters[2],
        stages,
        classes,
        outside,
        device,
        losses: COUNTERS.into_iter().zip(counters).skip(NO_LOSSES).collect(),
        process_ended,
    };
    write_result(&options.window, &ladder)
}

/// Which functions to watch; None where the ladder starts at the read call, with the reason in `notes`.
fn plan(options: &Options, notes: &mut Vec<String>) -> Result<Option<Plan>, Failure> {
    if options.start == Start::Syscall {
        return Ok(None);
    }
    let rules = match &options.symbols {
        None => symbols::parse_rules(ROCKSDB)?,
        Some(path) => symbols::parse_rules(
            &fs::read_to_string(path)
                .map_err(|error| Failure::usage(format!("--symbols {}: {error}", path.display())))?,
        )?,
    };
    let way = options.uprobes.map(|way| match way {
        WayName::Session => Way::Session,
        WayName::Pair => Way::Pair,
    });
    let (way, trap) = uprobes::way_and_cost(way)?;
    match find_query(options, &rules, way)? {
        Ok(query) => {
            let reader =
                if options.no_reader { Vec::new() } else { find_reader(options, &rules, way, notes)? };
            Ok(Some(Plan { way, trap, query, reader }))
        }
        Err(why) if options.start == Start::Query => Err(Failure::measurement(why)),
        Err(why) => {
            notes.push(format!("the ladder starts at the read call: {why}"));
            Ok(None)
        }
    }
}

/// The functions that are a query's outermost call, with their calls in a trial; or why there are none.
fn find_query(
    options: &Options,
    rules: &Rules,
    way: Way,
) -> Result<Result<Vec<(Function, u64)>, String>, Failure> {
    let all: Vec<Rule> = rules.query.iter().chain(&rules.other).cloned().collect();
    let (found, searched) = symbols::find(options.pid, &all)?;
    let queries = rules.query.len();
    if !found.iter().any(|(rule, _)| *rule < queries) {
        let names: Vec<&str> = rules.query.iter().map(|rule| rule.prefix.as_str()).collect();
        let stripped = match searched.stripped.as_slice() {
            [] => String::new(),
            files => format!("; without any symbols: {}", files.join(", ")),
        };
        return Ok(Err(format!(
            "none of the {} files that {} has mapped names a query of {} ({}...)){stripped}",
            searched.files,
            symbols::executable(options.pid),
            rules.engine,
            names.join("...), "),
        )));
    }
    let found: Vec<(usize, Function)> = found.into_iter().take(MOST_FUNCTIONS).collect();
    let functions: Vec<Function> = found.iter().map(|(_, function)| function.clone()).collect();
    let calls = uprobes::trial(options.pid, &functions, way, Duration::from_secs_f64(options.trial))?;
    let outer = |rule: usize| -> Vec<(Function, u64)> {
        let of_rule = found.iter().zip(&calls).filter(|((of, _), calls)| *of == rule && calls.outer > 0);
        of_rule.map(|((_, function), calls)| (function.clone(), calls.outer)).collect()
    };
    if let Some(rule) = (0..queries).find(|rule| !outer(*rule).is_empty()) {
        return Ok(Ok(outer(rule)));
    }
    let there: Vec<String> = functions
        .iter()
        .zip(&found)
        .filter(|(_, (rule, _))| *rule < queries)
        .map(|(function, _)| format!("{} in {}", function.name, function.shown))
        .collect();
    let mut others: Vec<&str> = (queries..all.len())
        .filter(|rule| !outer(*rule).is_empty())
        .map(|rule| all[rule].name.as_str())
        .collect();
    others.dedup();
    let instead = if others.is_empty() {
        "nor any other query that we know".to_owned()
    } else {
        format!("but {} was", others.join(" and "))
    };
    Ok(Err(format!("not called within {} s: {}; {instead}", options.trial, there.join(", "))))
}

fn find_reader(
    options: &Options,
    rules: &Rules,
    way: Way,
    notes: &mut Vec<String>,
) -> Result<Vec<(Function, u64)>, Failure> {
    let (found, _) = symbols::find(options.pid, &rules.reader)?;
    let functions: Vec<Function> =
        found.into_iter().map(|(_, function)| function).take(MOST_FUNCTIONS).collect();
    if functions.is_empty() {
        let names: Vec<&str> = rules.reader.iter().map(|rule| rule.name.as_str()).collect();
        notes.push(format!("no stages of the file reader: no mapped file names {}", names.join(" or ")));
        return Ok(Vec::new());
    }
    let calls = uprobes::trial(options.pid, &functions, way, Duration::from_secs_f64(options.trial))?;
    if calls.iter().all(|calls| calls.outer == 0) {
        notes.push(format!(
            "the file reader was not called within {} s: all of its overloads are watched",
            options.trial
        ));
        return Ok(functions.into_iter().map(|function| (function, 0)).collect());
    }
    let called = functions.into_iter().zip(calls).filter(|(_, calls)| calls.outer > 0);
    Ok(called.map(|(function, calls)| (function, calls.outer)).collect())
}

fn attach(skeleton: &mut skeleton::LadderSkel, plan: &Plan, pid: u32) -> Result<Vec<Link>, Failure> {
    let functions = |watched: &[(Function, u64)]| {
        watched.iter().map(|(function, _)| function.clone()).collect::<Vec<_>>()
    };
    let mut links = uprobes::attach(skeleton.object_mut(), "query", plan.way, pid, &functions(&plan.query))?;
    links.extend(uprobes::attach(skeleton.object_mut(), "reader", plan.way, pid, &functions(&plan.reader))?);
    Ok(links)
}

fn watched(functions: &[(Function, u64)]) -> Vec<Watched> {
    let one = |(function, calls): &(Function, u64)| Watched {
        name: function.name.clone(),
        file: function.shown.clone(),
        calls: *calls,
        stepped: function.stepped,
    };
    functions.iter().map(one).collect()
}

fn named(names: &[&'static str], rows: &mut impl Iterator<Item = (Histogram, u64)>) -> Vec<Stage> {
    names.iter().zip(rows).map(|(name, (histogram, own_ns))| Stage { name, histogram, own_ns }).collect()
}

/// The rows once nothing counts any more: a program that was preempted when the gate closed goes on when its thread has a
/// CPU again, and until then some stages hold one query more than others.
fn read_settled(skeleton: &skeleton::LadderSkel) -> Result<Vec<(Histogram, u64)>, Failure> {
    let mut before = read_rows(skeleton)?;
    for _ in 0..SETTLE_LOOKS {
        thread::sleep(SETTLE);
        let now = read_rows(skeleton)?;
        let counts = |rows: &[(Histogram, u64)]| rows.iter().map(|row| row.0.count).collect::<Vec<_>>();
        let stages: BTreeSet<u64> =
            now[..STAGES.len()].iter().map(|row| row.0.count).filter(|count| *count > 0).collect();
        if stages.len() <= 1 && counts(&before) == counts(&now) {
            return Ok(now);
        }
        before = now;
    }
    Ok(before)
}

/// Every row: its histogram, and the programs' own time in it.
fn read_rows(skeleton: &skeleton::LadderSkel) -> Result<Vec<(Histogram, u64)>, Failure> {
    let rows = read_all(&skeleton.maps.rows, 0, ROWS)?;
    Ok(rows
        .iter()
        .map(|values| {
            let (mut counts, mut own) = (vec![0u64; BUCKETS], 0);
            let mut histogram = Histogram::default();
            for value in values {
                let [count, ns, least, most, own_ns] = words::<ROW_FIELDS>(value);
                histogram.add([count, ns, least, most]);
                own += own_ns;
                for (count, added) in counts.iter_mut().zip(words::<BUCKETS>(&value[ROW_FIELDS * 8..])) {
                    *count += added;
                }
            }
            histogram.buckets = sparse(&counts);
            (histogram, own)
        })
        .collect())
}

fn device(
    skeleton: &skeleton::LadderSkel,
    opened: &Disks,
    closed: &Disks,
) -> Result<Option<Device>, Failure> {
    let map = &skeleton.maps.devices;
    let mut most: Option<(u64, u64)> = None;
    for key in map.keys() {
        let values = map.lookup_percpu(&key, MapFlags::ANY).or_refused()?.unwrap_or_default();
        let followed = values.iter().map(|v| u64::from_ne_bytes(v[..8].try_into().unwrap())).sum();
        if most.is_none_or(|(_, before)| followed > before) {
            most = Some((u64::from_ne_bytes(key[..8].try_into().unwrap()), followed));
        }
    }
    let Some((number, followed)) = most else { return Ok(None) };
    let (major, minor) = ((number >> 32) as u32, number as u32);
    let (Some(before), Some(after)) = (opened.get(&(major, minor)), closed.get(&(major, minor))) else {
        return Ok(None);
    };
    Ok(Some(Device {
        major,
        minor,
        name: after.0.clone(),
        followed,
        reads: after.1 - before.1,
        read_ms: after.2.wrapping_sub(before.2),
    }))
}

/// Name, reads completed and milliseconds that they took, of every disk.
fn disks() -> Disks {
    let text = fs::read_to_string("/proc/diskstats").unwrap_or_default();
    let line = |line: &str| {
        let fields: Vec<&str> = line.split_ascii_whitespace().collect();
        let number = |n: usize| fields.get(n)?.parse::<u64>().ok();
        let key = (number(0)? as u32, number(1)? as u32);
        Some((key, ((*fields.get(2)?).to_owned(), number(3)?, number(6)?)))
    };
    text.lines().filter_map(line).collect()
}
