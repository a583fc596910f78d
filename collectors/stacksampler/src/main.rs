//! Wall-clock samples of every thread of a process.
//!
//! ```text
//! Target (/proc) -> Tracer (seize, interrupt, release) -> stack -> Output (perf.data, JSON)
//! ```

mod calls;
mod machine;
mod output;
mod own_thread;
mod pending_stop;
mod sampler;
mod stack;
mod stats;
mod target;
mod tracer;

use clap::Parser;
use observer::Failure;
use observer::clock;
use observer::control::Pipes;
use output::Output;
use perfdata::writer::{LARGEST_STACK, Recording, Registers};
use recording::Kernel;
use sampler::{Callgraph, Plan, Sampler};
use stats::Stats;
use std::fs::{File, Permissions};
use std::io::Write;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::mpsc;
use target::Target;
use tracer::Tracer;

const ABOUT: &str = "\
EXAMPLES
  stacksampler --pid 4711 --seconds 10 -o pmp.data
  stacksampler --pid 4711 --hz 99 --callgraph fp --stats stats.json -o pmp.data
  stackfold --kernel pmp.data > pmp.folded        perf report -i pmp.data

Stops each thread alone, copies its registers and its stack, lets it go, and writes raw addresses with build ids as
perf.data; names are looked up later. The weight of a sample is the wall time since the thread's last one, in ns. The leaf
frame of each stack is the thread's state before the stop: running_[R], sleeping_[S], uninterruptible_[D], stopped_[T].
The kernel's side of a blocked thread comes from /proc/TID/stack (root only).

OVERHEAD
  A sampled thread loses the time from its stop to its release (`held` in the statistics), about 20 us; the others run on.
  At 10 Hz with 12 threads that is 0.02 % of each thread's time. This program itself takes about 100 us of CPU a thread
  and sample. Samples of different threads are not of one moment: right for a profile, wrong to prove a deadlock.
  A copied stack holds what the program had on it, keys and values too: --callgraph fp keeps addresses alone.

SAFETY
  However this program ends, SIGKILL included, the kernel resumes every thread. Threads that wait in a call which a
  stop would end or cut short (epoll_wait, io_uring_enter, io_getevents, accept, recv and send on any socket, a write to a
  pipe ...) are not stopped, nor those that sleep under seccomp: of them there is the kernel's side, and where they entered
  it. One that enters such a call in the moment before its stop begins it anew, unseen (x86-64; on arm64 it may return
  EINTR). A process that was stopped before stays stopped.
  The files are readable by their owner alone, whatever the umask.

Exit codes: 0 fine, 1 sampled but the files are not whole, 2 the request must change, 3 this host cannot.";

#[derive(Parser)]
#[command(name = "stacksampler", version, about, long_about = ABOUT)]
struct Args {
    /// The process
    #[arg(long, value_name = "PID")]
    pid: i64,
    /// Samples a second of each thread
    #[arg(long, default_value_t = 10.0, value_name = "HZ")]
    hz: f64,
    /// How long; without it until SIGINT, SIGTERM or the end of the process
    #[arg(long, value_name = "SECONDS")]
    seconds: Option<f64>,
    /// How callers are found
    #[arg(long, value_enum, default_value = "dwarf", value_name = "HOW")]
    callgraph: Callgraph,
    /// Bytes of stack to copy, with --callgraph dwarf
    #[arg(long, default_value_t = 16384, value_name = "BYTES")]
    stack_bytes: usize,
    /// The recording
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
    /// Write a line of JSON for each sample: state, wait channel, system call, stop
    #[arg(long, value_name = "FILE")]
    samples: Option<PathBuf>,
    /// Write statistics as JSON
    #[arg(long, value_name = "FILE")]
    stats: Option<PathBuf>,
    /// Take `open` and `close` from one file descriptor and answer on another
    #[arg(long, value_name = "IN,OUT")]
    control: Option<Pipes>,
    /// Be opened and closed again and again
    #[arg(long, requires = "control")]
    turns: bool,
}

/// Rounds that may wait to be written; beyond that, sampling waits.
const ROUNDS_AHEAD: usize = 32;

const LEFT_ALONE: &str =
    "threads in system calls whose callers would see a stop were not stopped (stacksampler --help)";

/// Weights are ns of wall time.
const EVENT: &str = "wall-clock";

fn main() -> ExitCode {
    match run(&Args::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            let _ = writeln!(std::io::stderr(), "stacksampler: {failure}");
            ExitCode::from(failure.exit_code)
        }
    }
}

fn run(args: &Args) -> Result<(), Failure> {
    check(args)?;
    let mut target = Target::open(args.pid)?;
    let tracer = Tracer::new(args.control)?;
    let kernel = Kernel::running();
    let lines = args.samples.as_deref().map(create).transpose()?;
    let stats_file = args.stats.as_deref().map(create).transpose()?;
    let copies = args.callgraph == Callgraph::Dwarf;
    let registers = copies.then_some(Registers(machine::MASK));
    let begun = clock::now_ns();
    let pid = target.pid.as_raw();
    let recording = Recording::create(create(&args.output)?, pid, &[EVENT], registers, &kernel, begun)
        .map_err(|error| unwritable(&args.output, &error))?;
    let mut output = Output::new(recording, lines, begun)?;
    let plan = Plan {
        hz: args.hz,
        seconds: args.seconds,
        callgraph: args.callgraph,
        stack_bytes: args.stack_bytes,
        turns: args.turns,
    };
    let cpu_before = clock::cpu_ns();
    // Who samples must not wait for a disk while a thread of the target is stopped.
    let (sender, rounds) = mpsc::sync_channel(ROUNDS_AHEAD);
    let sampler = Sampler::new(&plan, &mut target, tracer, sender);
    let outcome = std::thread::scope(|scope| {
        let sampling = own_thread::spawn(scope, || sampler.run())?;
        for round in rounds {
            output.round(&round, &kernel)?;
        }
        sampling.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })?;
    let cpu_ns = clock::cpu_ns() - cpu_before;
    let (states, total) = (output.states.clone(), output.total);
    let (threads, places) = output.finish(&kernel)?;
    let mut notes = Vec::new();
    if !kernel.known() {
        notes.push("kernel addresses are hidden (kernel.kptr_restrict): no kernel frames".to_owned());
    }
    if !outcome.ahead {
        notes.push("no real-time priority (needs root): on a busy host stops last longer".to_owned());
    }
    if outcome.lacking.left_alone > 0 {
        notes.push(LEFT_ALONE.to_owned());
    }
    let stats = Stats {
        schema: 1,
        sampler: "stacksampler",
        pid,
        event: EVENT,
        hz: args.hz,
        callgraph: args.callgraph,
        stack_bytes: if copies { args.stack_bytes } else { 0 },
        outcome,
        tally: total,
        states,
        threads,
        places,
        cpu_ns,
        notes,
    };
    if let Some(mut file) = stats_file {
        serde_json::to_writer_pretty(&mut file, &stats)
            .map_err(|error| Failure::measurement(format!("the statistics cannot be written: {error}")))?;
    }
    let outcome = &stats.outcome;
    match args.seconds {
        Some(seconds) if outcome.end == "signal" => Err(Failure::measurement(format!(
            "a signal ended it after {:.1} s of {seconds} s; what was sampled until then is in {}",
            (outcome.end_ns - outcome.start_ns) as f64 / 1e9,
            args.output.display()
        ))),
        _ => Ok(()),
    }
}

fn check(args: &Args) -> Result<(), Failure> {
    let wrong = |what: String, mend: &str| Err(Failure::usage(what).mend(mend));
    if !(args.hz > 0.0 && args.hz <= 1000.0) {
        return wrong(format!("--hz {} is out of range", args.hz), "--hz <0.1..1000>");
    }
    if args.seconds.is_some_and(|seconds| !(seconds > 0.0 && seconds <= 86_400.0)) {
        return wrong("--seconds is out of range".to_owned(), "--seconds <0.1..86400>");
    }
    if !(1024..=LARGEST_STACK).contains(&args.stack_bytes) || !args.stack_bytes.is_multiple_of(8) {
        return wrong(
            format!("--stack-bytes {} cannot be copied", args.stack_bytes),
            &format!("a multiple of 8 from 1024 to {LARGEST_STACK}"),
        );
    }
    Ok(())
}

/// A new or truncated file, readable by its owner alone: it holds copies of the target's stacks.
fn create(path: &Path) -> Result<File, Failure> {
    let open = || {
        let file = File::options().write(true).create(true).truncate(true).mode(0o600).open(path)?;
        // One that was there keeps its mode; a pipe or a device is not ours.
        if file.metadata()?.is_file() {
            file.set_permissions(Permissions::from_mode(0o600))?;
        }
        Ok(file)
    };
    open().map_err(|error| unwritable(path, &error))
}

fn unwritable(path: &Path, error: &std::io::Error) -> Failure {
    Failure::usage(format!("{} cannot be opened: {error}", path.display()))
}
