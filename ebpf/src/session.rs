//! A program's life, the same for all: attach everything, open the gate, close it, read what was counted.
//!
//! Probes attach one by one, a tenth of a second apart: without the gate the first of them would count what the last
//! has not seen. The control protocol (`observer::control`) or `--seconds` says when it moves.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use std::{fs, io};

use clap::Args;
use serde::Serialize;

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

/// What a loaded program offers to the session.
pub trait Counting {
    fn set_gate(&mut self, open: bool);
    /// Called about every `slice` while the gate is open, for series by time.
    fn slice(&mut self) -> Result<(), Failure> {
        Ok(())
    }
}

/// What each result begins with.
#[derive(Clone, Copy, Serialize)]
pub struct MeasuredWindow {
    schema: u32,
    backend: &'static str,
    /// Its edges, CLOCK_MONOTONIC.
    pub start_ns: u64,
    pub end_ns: u64,
}

/// Runs the window. A signal (SIGINT, SIGTERM) ends it early, with what was counted.
pub fn run_window(
    options: &WindowOptions,
    slice: Duration,
    counting: &mut dyn Counting,
) -> Result<MeasuredWindow, Failure> {
    let mut control = Control::new(options.control)?;
    control.ready()?;
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
    control.closed(end_ns);
    Ok(MeasuredWindow { schema: crate::SCHEMA, backend: "co-re", start_ns, end_ns })
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
