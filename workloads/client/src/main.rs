//! One client for several storage engines: the same keys, values and operations for each, timed by one clock.
//!
//! ```text
//! Flags -> Job (what is run) -> run: threads of readers and writers -> Session (an engine) -> Tally -> closing line
//! ```
//!
//! Flags have db_bench's names wherever it has one for the thing.

#[cfg(test)]
mod allocations;
mod callgrind;
mod clock;
mod counted;
mod distributions;
mod engines;
mod flags;
mod job;
mod keys;
mod pace;
mod processor;
mod rate_steps;
mod report;
mod role;
mod run;
mod tally;
mod values;
mod worker;

use counted::{Counter, counted, counted_command};
use engines::{NAMES, Store};
use flags::Flags;
use job::Job;
use observer::Failure;
use observer::control::Control;
use processor::Processor;
use role::Step;
use run::benchmark;
use serde_json::json;
use std::io::{Write, stderr, stdout};
use std::process::ExitCode;
use tally::Kind;
use values::Values;

const HELP: &str = "\
ioflame-client: the same operations for RocksDB, LevelDB and LMDB, timed by one clock

USAGE
  ioflame-client --engine=rocksdb|leveldb|lmdb|nothing --db=DIR --benchmarks=NAME,NAME... [--flag=value...]

Flags have db_bench's names; docs/client.md lists them. An example, a database of 1M keys and a second of reads:
  ioflame-client --engine=leveldb --db=/tmp/d --num=1000000 --benchmarks=fillseq,waitforcompaction,stats
  ioflame-client --engine=leveldb --db=/tmp/d --num=1000000 --use_existing_db=true --benchmarks=readrandom --duration=1

Exit codes: 0 fine, 1 an operation failed, 2 the flags must change, 3 this host cannot.";

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    if words.iter().any(|word| word == "--help") {
        let built: Vec<&str> = NAMES.iter().filter(|(_, built)| *built).map(|(name, _)| *name).collect();
        let printed = writeln!(stdout(), "{HELP}\nThis one was built with: {}", built.join(", "));
        return if printed.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE };
    }
    client(words).unwrap_or_else(|failure| exit_at_once(&failure));
    ExitCode::SUCCESS
}

fn client(words: Vec<String>) -> Result<(), Failure> {
    let flags = Flags::parse(words)?;
    let job = Job::read(&flags)?;
    let open = engines::engine(&flags, job.has_kind(Kind::MultiGet), &job.commands())?;
    // Before any thread is started, the engine's included: they inherit which signals are blocked.
    let mut control = Control::new(job.control)?;
    // Before any thread, too: counters count the threads that are started later.
    let ends_with_command = matches!(job.steps.last(), Some(Step::Command(_)));
    let counters = job.counted_events.as_deref().map(|names| Processor::open(names, ends_with_command));
    let processor = counters.transpose()?;
    let counter = processor.as_ref().map_or(Counter::Callgrind, Counter::Processor);
    let store = open()?;
    say(&json!({ "about": store.about() }).to_string());
    steps(&job, store.as_ref(), &mut control, &counter).unwrap_or_else(|failure| exit_at_once(&failure));
    Ok(())
}

fn steps(job: &Job, store: &dyn Store, control: &mut Control, counter: &Counter<'_>) -> Result<(), Failure> {
    let values = Values::new(job.compression_ratio, job.longest_value);
    let mut seed = job.seed;
    for step in &job.steps {
        match step {
            Step::Command(name) => {
                let output =
                    if job.counted > 0 { counted_command(name, store, counter) } else { store.command(name) };
                say(&output.expect("what an engine lacks is refused before it is opened")?);
            }
            Step::Benchmark { name, roles } if job.counted > 0 => {
                let outcome = counted(job, name, roles, store, &values, counter)?;
                say(&serde_json::to_string(&outcome).map_err(std::io::Error::from)?);
            }
            Step::Benchmark { name, roles } => {
                let outcome = benchmark(job, name, roles, store, &values, seed, control)?;
                seed += roles.iter().map(|role| role.threads).sum::<u64>();
                say(&serde_json::to_string(&outcome).map_err(std::io::Error::from)?);
            }
        }
    }
    Ok(())
}

/// Reports what failed and ends the program as a kill would, which every engine survives: one that could not write may
/// abort when it is closed, or when the process exits, and one that waits for room on the disk never returns.
fn exit_at_once(failure: &Failure) -> ! {
    let _ = writeln!(stderr(), "ioflame-client: error: {failure}");
    // SAFETY: nothing runs after it.
    unsafe { libc::_exit(i32::from(failure.exit_code)) }
}

/// Prints whole lines at once: a reader may follow the output.
fn say(text: &str) {
    let mut out = stdout().lock();
    if !text.is_empty() {
        let _ = writeln!(out, "{}", text.trim_end());
        let _ = out.flush();
    }
}
