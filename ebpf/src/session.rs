//! A program's life, the same for all: attach everything, open the gate, close it, read what was counted.
//!
//! Probes attach one by one, a tenth of a second apart: without the gate the first of them would count what the last
//! has not seen. The control protocol (`observer::control`) or `--seconds` says when it moves.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use std::{fs, io, thread};

use clap::Args;
use libbpf_rs::{Link, Object, ProgramType};
use serde::Serialize;

use crate::refusal::OrRefused;
use observer::Failure;
use observer::clock::now_ns;
use observer::control::{Control, Pipes};

#[derive(Args)]
pub struct WindowOptions {
    /// Seconds to count for
    #[arg(long, default_value_t = 10.0, conflicts_with = "control")]
    seconds: f64,
    /// Take `open` and `close` from one file descriptor and answer on another instead
    #[arg(long, value_name = "IN,OUT")]
    control: Option<Pipes>,
    /// Where the JSON goes (default: standard output)
    #[arg(short, long)]
    output: Option<PathBuf>,
}

#[derive(Args)]
pub struct TurnOptions {
    /// Be opened and closed again and again; no probe is in place in between
    #[arg(long, requires = "control")]
    turns: bool,
}

/// What a loaded program offers to the session.
pub trait Counting {
    fn set_gate(&mut self, open: bool);
    /// Puts its probes in place, before each turn; what was seen before counts for nothing.
    fn link(&mut self) -> Result<(), Failure> {
        Ok(())
    }
    /// Takes them away, after it.
    fn unlink(&mut self) -> Result<(), Failure> {
        Ok(())
    }
    /// Called about every `slice` while the gate is open, for series by time.
    fn slice(&mut self) -> Result<(), Failure> {
        Ok(())
    }
}

/// What each result begins with.
#[derive(Clone, Serialize)]
pub struct MeasuredWindow {
    schema: u32,
    backend: &'static str,
    /// Its edges, CLOCK_MONOTONIC.
    pub start_ns: u64,
    pub end_ns: u64,
    /// Those of each turn; none where it was one window.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub turns: Vec<(u64, u64)>,
}

impl MeasuredWindow {
    fn new((start_ns, end_ns): (u64, u64), turns: Vec<(u64, u64)>) -> Self {
        Self { schema: crate::SCHEMA, backend: "co-re", start_ns, end_ns, turns }
    }

    /// With the edges as the program itself knows them, to the ns that its accounts begin and end at.
    pub fn of_accounts(self, turns: Vec<(u64, u64)>) -> Self {
        let [Some(first), Some(last)] = [turns.first(), turns.last()] else { return self };
        let edges = (first.0, last.1);
        Self::new(edges, if self.turns.is_empty() { Vec::new() } else { turns })
    }
}

/// Runs the window, or one turn after the other. A signal (SIGINT, SIGTERM) ends it early, with what was counted.
pub fn run_turns(
    options: &WindowOptions,
    TurnOptions { turns }: &TurnOptions,
    slice: Duration,
    counting: &mut dyn Counting,
) -> Result<MeasuredWindow, Failure> {
    let mut control = Control::new(options.control)?;
    if !turns {
        counting.link()?;
        let edges = wait_and_count(options, &mut control, slice, counting)?;
        counting.unlink()?;
        return Ok(MeasuredWindow::new(edges, Vec::new()));
    }
    control.ready()?;
    let mut turns = Vec::new();
    loop {
        counting.link()?;
        let turn = count(options, &mut control, slice, counting)?;
        counting.unlink()?;
        control.closed(turn.1);
        turns.push(turn);
        if !control.again() {
            return Ok(MeasuredWindow::new((turns[0].0, turn.1), turns));
        }
    }
}

/// Runs the window. A signal (SIGINT, SIGTERM) ends it early, with what was counted.
pub fn run_window(
    options: &WindowOptions,
    slice: Duration,
    counting: &mut dyn Counting,
) -> Result<MeasuredWindow, Failure> {
    let edges = wait_and_count(options, &mut Control::new(options.control)?, slice, counting)?;
    Ok(MeasuredWindow::new(edges, Vec::new()))
}

fn wait_and_count(
    options: &WindowOptions,
    control: &mut Control,
    slice: Duration,
    counting: &mut dyn Counting,
) -> Result<(u64, u64), Failure> {
    control.ready()?;
    let edges = count(options, control, slice, counting)?;
    control.closed(edges.1);
    Ok(edges)
}

fn count(
    options: &WindowOptions,
    control: &mut Control,
    slice: Duration,
    counting: &mut dyn Counting,
) -> Result<(u64, u64), Failure> {
    let start_ns = now_ns();
    counting.set_gate(true);
    control.opened(start_ns);
    let begun = Instant::now();
    let seconds = Duration::try_from_secs_f64(options.seconds).ok().filter(|_| options.control.is_none());
    let last = seconds.and_then(|seconds| begun.checked_add(seconds));
    let mut next = begun + slice;
    while control.end_until(last.map_or(next, |last| last.min(next))).is_none()
        && last.is_none_or(|last| Instant::now() < last)
    {
        counting.slice()?;
        next += slice;
    }
    counting.set_gate(false);
    let end_ns = now_ns();
    counting.slice()?;
    Ok((start_ns, end_ns))
}

/// Writes the result whole or not at all.
pub fn write_result(options: &WindowOptions, result: &impl Serialize) -> Result<(), Failure> {
    let text = serde_json::to_string(result).map_err(|error| Failure::measurement(error.to_string()))?;
    match &options.output {
        None => Ok(writeln!(io::stdout(), "{text}")?),
        Some(path) => write_whole(path, |partial| fs::write(partial, text + "\n")),
    }
}

/// The file appears whole or not at all: what `write` left at the path that it is given.
pub fn write_whole<T>(path: &Path, write: impl FnOnce(&Path) -> io::Result<T>) -> Result<T, Failure> {
    let partial = path.with_extension("part");
    write(&partial)
        .and_then(|made| fs::rename(&partial, path).map(|()| made))
        .map_err(|error| Failure::usage(format!("{} cannot be written to: {error}", path.display())))
}

/// Device and inode of our pid namespace, by which the kernel numbers processes for us.
pub fn pid_namespace() -> Result<(u64, u64), Failure> {
    use std::os::linux::fs::MetadataExt;
    let namespace = fs::metadata("/proc/self/ns/pid")?;
    Ok((namespace.st_dev(), namespace.st_ino()))
}

/// Attaches, of an object's loaded programs, those that say themselves to which event.
pub fn link_tracepoints(object: &Object) -> Result<Vec<Link>, Failure> {
    let programs = object.progs_mut();
    let chosen = programs.filter(|one| one.autoload() && one.prog_type() == ProgramType::Tracing);
    chosen.map(|program| program.attach().or_refused()).collect()
}

/// Detaches. For each uprobe the kernel waits until no program runs any more: for all of them at the same time.
pub fn unlink_at_once(links: &mut Vec<Link>) {
    thread::scope(|scope| {
        for link in links.drain(..) {
            scope.spawn(move || drop(link));
        }
    });
}

/// The gate of a loaded skeleton.
macro_rules! set_gate {
    ($skeleton:expr, $value:expr) => {
        if let Some(bss) = $skeleton.maps.bss_data.as_deref_mut() {
            bss.gate = $value;
        }
    };
}
pub(crate) use set_gate;

/// The constants of an open skeleton, with those that every program has (`bpf/common.h`) filled in; each skeleton has a
/// type of its own for them. pid: the process, 0 for programs that keep a set of them
macro_rules! constants {
    ($open:expr, $pid:expr) => {{
        let (pidns_dev, pidns_ino) = $crate::session::pid_namespace()?;
        let rodata = $open.maps.rodata_data.as_deref_mut().expect("the program has constants");
        rodata.pidns_dev = pidns_dev;
        rodata.pidns_ino = pidns_ino;
        rodata.target_tgid = $pid;
        let events = $crate::kernel_flags::Events::of_this_kernel()?;
        rodata.switch_has_state = u32::from(events.switch_has_state);
        rodata.preemptible = u32::from(events.preemptible);
        rodata
    }};
}
pub(crate) use constants;

/// Of an open skeleton the program that begins requests where this kernel does (`bpf/first_bio.h`): `io_start` or
/// `got_request`.
macro_rules! begin_requests {
    ($open:expr) => {{
        let events = $crate::kernel_flags::Events::of_this_kernel()?;
        let rodata = $open.maps.rodata_data.as_deref_mut().expect("the program has constants");
        rodata.by_first_bio = u32::from(!events.io_start);
        rodata.queue_comes_first = u32::from(events.queue_comes_first);
        $open.progs.io_start.set_autoload(events.io_start);
        $open.progs.got_request.set_autoload(!events.io_start);
    }};
}
pub(crate) use begin_requests;
