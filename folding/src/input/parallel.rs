//! The text of perf script, folded by several threads.
//!
//! The input is cut where the reader has no sample open anyway, so each part folds by itself and nothing
//! depends on which thread took it: stacks add up, and what has an order (the first lines dropped, the first
//! event seen) carries the number of its part. What depends on all that came before stays in order: until
//! headers are known to have a time or an event one thread reads alone, and what follows the last cut waits
//! until all else is folded.

mod file;
mod stream;

use super::lines::{BLOCK, LineReader};
use super::perf_script::PerfScript;
use crate::collector::{Collector, Options};
use crate::error::Error;
use crate::threads;
use std::fs::File;
use std::io::Read;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Bytes of a file that one thread takes at once.
const PART: u64 = 1 << 20;

/// What a thread reads: one part after the other, each to its end.
trait InputPart: Read {
    /// Goes to the next part, if there is one.
    fn next_part(&mut self) -> bool;

    /// Its number, in the order of the input.
    fn number(&self) -> u64;

    /// Whether the sample that is open at the end of the part goes on behind it.
    fn sample_continues(&self) -> bool;

    /// Ends the input for all threads.
    fn stop(&mut self);
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // A thread that panicked is found out when it is joined.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

struct Worker<P> {
    lines: LineReader<P>,
    reader: PerfScript,
    collector: Collector,
}

impl<P: InputPart> Worker<P> {
    fn new(part: P, block: usize, reader: PerfScript, options: &Options) -> Self {
        let lines = LineReader::with_block(part, block).keeping_unended_rest();
        Self { lines, reader, collector: Collector::new(options.clone()) }
    }

    /// Folds one part. False: there is none left.
    fn step(&mut self) -> Result<bool, Error> {
        if !self.lines.input().next_part() {
            return Ok(false);
        }
        self.lines.resume();
        self.collector.begin_part(self.lines.input().number());
        let taken = self.reader.take(&mut self.lines, &mut self.collector);
        let part = self.lines.input();
        if taken.is_err() {
            part.stop();
            taken?;
        }
        if !part.sample_continues() {
            self.reader.end(&mut self.collector);
        }
        Ok(true)
    }

    fn run(mut self) -> Result<WorkerResult, Error> {
        while self.step()? {}
        Ok(WorkerResult { reader: self.reader, collector: self.collector, rest: self.lines.rest().to_vec() })
    }
}

/// What a thread has when no part is left.
struct WorkerResult {
    reader: PerfScript,
    collector: Collector,
    /// The beginning of a line longer than a read; only the thread that holds the end of the input has one.
    rest: Vec<u8>,
}

/// Folds all parts but what follows the last cut; `part` gives what each thread reads.
fn fold<P: InputPart>(
    options: &Options,
    threads: usize,
    block: usize,
    part: impl Fn(usize) -> P + Sync,
) -> Result<Vec<WorkerResult>, Error> {
    let mut first = Worker::new(part(0), block, PerfScript::default(), options);
    while !first.reader.knows_headers() && first.step()? {}
    let spare = |thread| Worker::new(part(thread), block, PerfScript::knowing_headers(), options);
    let spare = &spare;
    let others = (1..threads).map(|thread| move || spare(thread).run());
    let (first, others) = threads::beside("text", others, || first.run());
    [first].into_iter().chain(others).collect()
}

/// Folds what follows the last cut, in which the thread `holder` has a sample open, and puts all together.
fn finish<R: Read>(
    mut done: Vec<WorkerResult>,
    holder: usize,
    rest: impl FnOnce(Vec<u8>) -> R,
    failure: impl FnOnce() -> Option<String>,
) -> Result<Collector, Error> {
    let objects = done.iter().any(|one| one.reader.saw_objects());
    let WorkerResult { mut reader, mut collector, rest: begun } = done.swap_remove(holder);
    reader.set_saw_objects(objects);
    collector.begin_part(u64::MAX);
    let mut lines = LineReader::new(rest(begun));
    reader.take(&mut lines, &mut collector)?;
    reader.end(&mut collector);
    for other in done {
        collector.absorb(other.collector);
    }
    if let Some(why) = failure().or_else(|| lines.failure()) {
        collector.cut_short(format!("reading failed: {why}"));
    }
    Ok(collector)
}

/// Folds the text of perf script with so many threads; the result is the same for any number.
pub fn read(input: &mut (dyn Read + Send), options: &Options, threads: usize) -> Result<Collector, Error> {
    read_in_parts(input, options, threads, BLOCK)
}

/// The same in parts of about so many bytes; the result is the same for any.
pub fn read_in_parts(
    input: &mut (dyn Read + Send),
    options: &Options,
    threads: usize,
    block: usize,
) -> Result<Collector, Error> {
    let shared = stream::SharedInput::new(input);
    let done = fold(options, threads, block, |thread| stream::StreamPart::new(&shared, thread))?;
    let stream::StreamEnd { holder, carry, failure } = stream::SharedInput::end(shared);
    finish(done, holder, |rest| std::io::Cursor::new([rest, carry].concat()), || failure)
}

/// Folds a file with so many threads, each reading its parts by itself; the result is the same as that of [`read`].
pub fn read_file(file: &File, options: &Options, threads: usize) -> Result<Collector, Error> {
    read_file_in_parts(file, options, threads, PART, BLOCK)
}

/// The same in parts of about so many bytes, in reads of so many; the result is the same for any.
pub fn read_file_in_parts(
    file: &File,
    options: &Options,
    threads: usize,
    part: u64,
    block: usize,
) -> Result<Collector, Error> {
    let parts = file::FileParts::new(file, part);
    let done = fold(options, threads, block, |_| file::FilePart::new(&parts))?;
    // No part ends within a sample.
    finish(done, 0, |_| parts.rest(), || parts.failure())
}
