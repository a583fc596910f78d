//! A benchmark that is counted, not timed: on the main thread, in phases of equally many operations, each a part of
//! callgrind's output.
//!
//! Everything is read once before, so that no phase fills a cache; the first phase is not counted, since it makes what
//! is made once. A command of the engine's is a part as well, with what its own threads do meanwhile.

use crate::callgrind;
use crate::engines::Store;
use crate::job::Job;
use crate::role::{Limit, Role};
use crate::tally::Finished;
use crate::values::Values;
use crate::worker::{Shared, Worker};
use observer::Failure;
use serde::Serialize;
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
    /// Whether it ran under valgrind; otherwise nothing was counted.
    pub counted: bool,
}

/// Runs `job.counted` + 1 of them. Usage error for a benchmark of several roles or threads, or one that time ends.
pub fn counted(
    job: &Job,
    name: &str,
    roles: &[Role],
    store: &dyn Store,
    values: &Values,
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
    let mut found = 0;
    for phase in 0..=phases {
        let finished = Finished::default();
        let part = CString::new(format!("{name} phase {phase}")).map_err(std::io::Error::from)?;
        let worker = Worker::new(&shared, &role, phase, job.seed + phase, &finished);
        let session = session.as_mut();
        let done = if phase == 0 {
            worker.run(session)?
        } else {
            worker.run_between(session, callgrind::begin, || callgrind::part_ends(&part))?
        };
        found += done.tally.found;
    }
    Ok(CountedOutcome {
        benchmark: name.to_owned(),
        phases,
        operations,
        found,
        counted: callgrind::is_here(),
    })
}

/// A command, as a part by its name.
pub fn counted_command(name: &str, store: &dyn Store) -> Option<Result<String, Failure>> {
    let part = CString::new(name).ok()?;
    callgrind::begin();
    let said = store.command(name);
    callgrind::part_ends(&part);
    said
}

fn wrong(name: &str, why: &str) -> Failure {
    Failure::usage(format!("--counted cannot be had of {name}: {why}"))
        .meaning("phases are equally many operations of one thread")
        .mend("--counted=3 --benchmarks=readrandom --reads=1000")
}
