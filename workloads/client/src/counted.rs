//! A benchmark that is counted, not timed: on the main thread, in phases of equally many operations, each a part of
//! callgrind's output, or a reading of the processor's counters.
//!
//! Everything is read once before, so that no phase fills a cache; the first phase is not counted, since it makes what
//! is made once. A command of the engine's is a part as well, with what its own threads do meanwhile.

use crate::callgrind;
use crate::engines::Store;
use crate::job::Job;
use crate::processor::Processor;
use crate::role::{Limit, Role};
use crate::tally::Finished;
use crate::values::Values;
use crate::worker::{Shared, Worker};
use observer::Failure;
use serde::Serialize;
use std::collections::BTreeMap;
use std::ffi::CString;

/// The closing line.
#[derive(Serialize, Debug)]
pub struct CountedOutcome {
    pub benchmark: String,
    /// Those that were counted: one more was run before them.
    pub phases: u64,
    /// Of each phase.
    pub operations: u64,
    /// Of all phases, the first included.
    pub found: u64,
    /// Whether it ran under valgrind or had counters; otherwise nothing was counted.
    pub counted: bool,
    /// By the processor's counters: of each phase, by event.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub events: BTreeMap<String, Vec<u64>>,
}

/// Counts from `begin` to `end`.
pub enum Counter<'a> {
    Callgrind,
    Processor(&'a Processor),
}

impl Counter<'_> {
    fn begin(&self) -> Result<Vec<u64>, Failure> {
        match self {
            Self::Callgrind => {
                callgrind::begin();
                Ok(Vec::new())
            }
            Self::Processor(processor) => processor.read(),
        }
    }

    fn end(&self, part: &CString) -> Result<Vec<u64>, Failure> {
        match self {
            Self::Callgrind => {
                callgrind::part_ends(part);
                Ok(Vec::new())
            }
            Self::Processor(processor) => processor.read(),
        }
    }

    fn is_active(&self) -> bool {
        matches!(self, Self::Processor(_)) || callgrind::is_active()
    }

    /// Adds the difference of two readings to the counts of each event.
    fn record(&self, events: &mut BTreeMap<String, Vec<u64>>, before: &[u64], after: &[u64]) {
        if let Self::Processor(processor) = self {
            for ((name, before), after) in processor.names().zip(before).zip(after) {
                events.entry(name.to_owned()).or_default().push(after - before);
            }
        }
    }
}

/// Runs `job.counted` + 1 of them. Usage error for a benchmark of several roles or threads, or one that time ends.
pub fn counted(
    job: &Job,
    name: &str,
    roles: &[Role],
    store: &dyn Store,
    values: &Values,
    counter: &Counter<'_>,
) -> Result<CountedOutcome, Failure> {
    let phases = job.counted;
    let [role] = roles else { return Err(wrong(name, "it has readers and writers")) };
    let operations = match role.operations {
        Limit::EachThread(operations) => operations,
        Limit::AllThreads(all) => all / (phases + 1),
        Limit::Time => return Err(wrong(name, "it ends by time: give --reads or --writes")),
    };
    if role.threads != 1 {
        return Err(wrong(name, &format!("it has {} threads", role.threads)));
    }
    if operations == 0 {
        return Err(wrong(name, "a phase would have no operation: more --num"));
    }
    let mut session = store.session()?;
    let mut first = job.batch_of_keys(false)?[0];
    first.set(0);
    session.scan(first.bytes(), usize::try_from(job.keys).unwrap_or(usize::MAX), false)?;
    let role = Role { operations: Limit::EachThread(operations), rate: 0.0, ..role.clone() };
    let shared = Shared::new(job, values);
    let (mut found, mut events) = (0, BTreeMap::new());
    for phase in 0..=phases {
        let finished = Finished::default();
        let part = CString::new(format!("{name} phase {phase}")).map_err(std::io::Error::from)?;
        let worker = Worker::new(&shared, &role, phase, job.seed + phase, &finished);
        let session = session.as_mut();
        let done = if phase == 0 {
            worker.run(session)?
        } else {
            let (mut before, mut after) = (Ok(Vec::new()), Ok(Vec::new()));
            let done =
                worker.run_between(session, || before = counter.begin(), || after = counter.end(&part))?;
            counter.record(&mut events, &before?, &after?);
            done
        };
        found += done.tally.found;
    }
    Ok(CountedOutcome {
        benchmark: name.to_owned(),
        phases,
        operations,
        found,
        counted: counter.is_active(),
        events,
    })
}

/// Runs a command as a part of its own; the processor's counts are a closing line behind the engine's output. None for a
/// command that the engine lacks.
pub fn counted_command(
    name: &str,
    store: &dyn Store,
    counter: &Counter<'_>,
) -> Option<Result<String, Failure>> {
    let part = CString::new(name).ok()?;
    let before = counter.begin();
    let output = store.command(name)?;
    let after = counter.end(&part);
    Some(output.and_then(|output| {
        let mut events = BTreeMap::new();
        counter.record(&mut events, &before?, &after?);
        if events.is_empty() {
            return Ok(output);
        }
        let benchmark = name.to_owned();
        let outcome = CountedOutcome { benchmark, phases: 1, operations: 1, found: 0, counted: true, events };
        Ok(format!("{output}\n{}", serde_json::to_string(&outcome).map_err(std::io::Error::from)?))
    }))
}

fn wrong(name: &str, why: &str) -> Failure {
    Failure::usage(format!("--counted cannot be had of {name}: {why}"))
        .meaning("phases are equally many operations of one thread")
        .mend("--counted=3 --benchmarks=readrandom --reads=1000")
}
