//! A program's life, the same for all: attach everything, open the gate, close it, read what was counted.
//!
//! With `--seconds` the window is ours. With `--control IN,OUT`, two open file descriptors, it is the caller's: `ready` on
//! OUT once every probe is attached, then `open` and `close` on IN, each answered by its CLOCK_MONOTONIC time in ns; end
//! of file ends the program. Probes attach one by one, a tenth of a second apart: without the gate the first of them would
//! count what the last has not seen.

use std::io::{BufRead, Write};
use std::os::fd::FromRawFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use std::{fs, io, thread};

use clap::Args;
use serde::Serialize;

use observer::Failure;

#[derive(Args)]
pub struct WindowOptions {
    /// Seconds to count for
    #[arg(long, default_value_t = 10.0, conflicts_with = "control")]
    seconds: f64,
    /// Take `open` and `close` from one file descriptor and answer on another instead
    #[arg(long, value_name = "IN,OUT", value_parser = parse_control)]
    control: Option<(i32, i32)>,
    /// Where the JSON goes (default: standard output)
    #[arg(short, long)]
    output: Option<PathBuf>,
}

/// What a loaded program offers to the session.
pub trait Counting {
    fn set_gate(&mut self, open: bool);
    /// Called about every `slice` while the gate is open, for series by time.
    fn slice(&mut self) -> Result<(), Failure>;
}

/// CLOCK_MONOTONIC in ns: the time base of bpf_ktime_get_ns.
pub fn now_ns() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` outlives the call, and CLOCK_MONOTONIC is always there.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Runs the window; its edges in ns (monotonic). A signal (SIGINT, SIGTERM) ends it early, with what was counted.
pub fn run_window(
    options: &WindowOptions,
    slice: Duration,
    counting: &mut dyn Counting,
) -> Result<(u64, u64), Failure> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP] {
        signal_hook::flag::register(signal, Arc::clone(&stop))?;
    }
    // SAFETY: the caller passed these descriptors to us and nothing else here uses them.
    let (orders, mut answers) = match options.control {
        Some((orders, answers)) => unsafe {
            (Some(read_orders(fs::File::from_raw_fd(orders))), Some(fs::File::from_raw_fd(answers)))
        },
        None => (None, None),
    };
    let mut answer = |words: &str| match &mut answers {
        // In one write: a reader may look at it as soon as there is anything.
        Some(file) => file.write_all(format!("{words}\n").as_bytes()),
        None => Ok(()),
    };
    if let Some(orders) = &orders {
        answer("ready")?;
        if !wait_for(orders, "open", &stop) {
            return Err(Failure::measurement("the window was never opened"));
        }
    }
    let start = now_ns();
    counting.set_gate(true);
    answer(&start.to_string())?;
    let begun = Instant::now();
    let mut next = slice;
    loop {
        if stop.load(Ordering::Relaxed) {
            break;
        }
        let done = match &orders {
            // End of file closes the window too.
            Some(orders) => !matches!(orders.try_recv(), Err(std::sync::mpsc::TryRecvError::Empty)),
            None => begun.elapsed().as_secs_f64() >= options.seconds,
        };
        if done {
            break;
        }
        if begun.elapsed() >= next {
            counting.slice()?;
            next += slice;
        }
        thread::sleep(Duration::from_millis(2));
    }
    counting.set_gate(false);
    let end = now_ns();
    counting.slice()?;
    answer(&end.to_string())?;
    Ok((start, end))
}

fn parse_control(text: &str) -> Result<(i32, i32), String> {
    let parts = text.split_once(',').and_then(|(a, b)| Some((a.parse().ok()?, b.parse().ok()?)));
    parts.ok_or_else(|| "two file descriptors, IN,OUT".to_owned())
}

fn read_orders(file: fs::File) -> std::sync::mpsc::Receiver<String> {
    let (send, receive) = std::sync::mpsc::channel();
    thread::spawn(move || {
        for line in io::BufReader::new(file).lines() {
            let Ok(line) = line else { break };
            if send.send(line).is_err() {
                break;
            }
        }
    });
    receive
}

fn wait_for(orders: &std::sync::mpsc::Receiver<String>, wanted: &str, stop: &AtomicBool) -> bool {
    while !stop.load(Ordering::Relaxed) {
        match orders.recv_timeout(Duration::from_millis(20)) {
            Ok(order) if order == wanted => return true,
            Ok(_) => {}
            Err(std::sync::mpsc::RecvTimeoutError::Timeout) => {}
            Err(std::sync::mpsc::RecvTimeoutError::Disconnected) => return false,
        }
    }
    false
}

/// Writes the result whole or not at all.
pub fn write_result(options: &WindowOptions, result: &impl Serialize) -> Result<(), Failure> {
    let text = serde_json::to_string(result).map_err(|error| Failure::measurement(error.to_string()))?;
    match &options.output {
        None => Ok(writeln!(io::stdout(), "{text}")?),
        Some(path) => {
            let partial = path.with_extension("part");
            fs::write(&partial, text + "\n").map_err(|error| unwritable(path, &error))?;
            fs::rename(&partial, path).map_err(|error| unwritable(path, &error))
        }
    }
}

fn unwritable(path: &Path, error: &io::Error) -> Failure {
    Failure::usage(format!("{} cannot be written to: {error}", path.display()))
}

/// Device and inode of our pid namespace, by which the kernel numbers processes for us.
pub fn pid_namespace() -> Result<(u64, u64), Failure> {
    use std::os::linux::fs::MetadataExt;
    let namespace = fs::metadata("/proc/self/ns/pid")?;
    Ok((namespace.st_dev(), namespace.st_ino()))
}

/// The constants of an open skeleton, with those that every program has (`bpf/common.h`) filled in; each skeleton has a
/// type of its own for them. pid: the process, 0 for programs that keep a set of them
macro_rules! constants {
    ($open:expr, $pid:expr) => {{
        let (pidns_dev, pidns_ino) = $crate::session::pid_namespace()?;
        let rodata = $open.maps.rodata_data.as_deref_mut().expect("the program has constants");
        rodata.pidns_dev = pidns_dev;
        rodata.pidns_ino = pidns_ino;
        rodata.target_tgid = $pid;
        rodata
    }};
}
pub(crate) use constants;
