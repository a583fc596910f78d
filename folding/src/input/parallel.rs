//! The text of perf script, folded by several threads.
//!
//! The input is cut where the reader has no sample open anyway, so each part folds by itself and nothing
//! depends on which thread took it: stacks add up, and what has an order (the first lines dropped, the first
//! event seen) carries the number of its part. What depends on all that came before stays in order: until
//! headers are known to have a time or an event one thread reads alone, and what follows the last cut waits
//! until all else is folded.

use super::lines::{BLOCK, LineReader};
use super::perf_script::{PerfScript, last_cut};
use crate::collector::{Collector, Options};
use crate::error::Error;
use crate::threads;
use std::io::{self, Cursor, ErrorKind, Read};
use std::sync::{Mutex, MutexGuard, PoisonError};

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // A thread that panicked is found out when it is joined.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

struct Worker<'s, 'i> {
    lines: LineReader<InputPart<'s, 'i>>,
    reader: PerfScript,
    collector: Collector,
}

impl<'s, 'i> Worker<'s, 'i> {
    fn new(part: InputPart<'s, 'i>, block: usize, reader: PerfScript, options: &Options) -> Self {
        let lines = LineReader::with_block(part, block).keeping_unended_rest();
        Self { lines, reader, collector: Collector::new(options.clone()) }
    }

    /// Folds one part. False: there is none left.
    fn step(&mut self) -> Result<bool, Error> {
        if !self.lines.input().next_part() {
            return Ok(false);
        }
        self.lines.resume();
        self.collector.begin_part(self.lines.input().number);
        let taken = self.reader.take(&mut self.lines, &mut self.collector);
        let part = self.lines.input();
        if taken.is_err() {
            part.stop();
            taken?;
        }
        if !part.holds_the_end {
            self.reader.end_part(&mut self.collector);
        }
        Ok(true)
    }

    fn run(mut self) -> Result<WorkerResult, Error> {
        while self.step()? {}
        Ok(WorkerResult { reader: self.reader, collector: self.collector, rest: self.lines.rest().to_vec() })
    }
}

/// What a thread has when all parts are read.
struct WorkerResult {
    reader: PerfScript,
    collector: Collector,
    /// The beginning of a line longer than a read; only the thread that holds the end of the input has one.
    rest: Vec<u8>,
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
    let shared = SharedInput::new(input);
    let mut done = fold(&shared, options, threads, block)?;
    let SharedInput { carry, failure, holder, .. } =
        shared.into_inner().unwrap_or_else(PoisonError::into_inner);
    let objects = done.iter().any(|one| one.reader.saw_objects());
    // What follows the last cut, in which one thread has a sample open.
    let WorkerResult { mut reader, mut collector, rest } = done.swap_remove(holder);
    reader.set_saw_objects(objects);
    collector.begin_part(u64::MAX);
    reader.take(&mut LineReader::new(Cursor::new([rest, carry].concat())), &mut collector)?;
    reader.end(&mut collector)?;
    for other in done {
        reader.clock.absorb(other.reader.clock);
        collector.absorb(other.collector);
    }
    reader.clock.refuse_differences(options)?;
    if let Some(why) = failure {
        collector.cut_short(format!("reading failed: {why}"));
    }
    Ok(collector)
}

/// Folds all parts but what follows the last cut.
fn fold(
    shared: &Mutex<SharedInput>,
    options: &Options,
    threads: usize,
    block: usize,
) -> Result<Vec<WorkerResult>, Error> {
    let part = |thread| InputPart::new(shared, thread);
    let mut first = Worker::new(part(0), block, PerfScript::default(), options);
    while !first.reader.knows_headers() && first.step()? {}
    let spare = |thread| Worker::new(part(thread), block, PerfScript::knowing_headers(), options);
    let spare = &spare;
    let others = (1..threads).map(|thread| move || spare(thread).run());
    let (first, others) = threads::beside("text", others, |_| first.run());
    [first].into_iter().chain(others).collect()
}

/// The input, and what was read of it beyond the parts so far.
struct SharedInput<'i> {
    input: &'i mut (dyn Read + Send),
    /// Read already, but behind the last cut.
    carry: Vec<u8>,
    parts: u64,
    at_end: bool,
    failure: Option<String>,
    /// The thread whose last sample continues in what is left at the end.
    holder: usize,
}

impl<'i> SharedInput<'i> {
    fn new(input: &'i mut (dyn Read + Send)) -> Mutex<Self> {
        Mutex::new(Self { input, carry: Vec::new(), parts: 0, at_end: false, failure: None, holder: 0 })
    }

    /// Fills `out` from the carry and the input; less than all of it only at the end.
    fn fill(&mut self, out: &mut [u8]) -> usize {
        let mut n = self.carry.len().min(out.len());
        out[..n].copy_from_slice(&self.carry[..n]);
        self.carry.drain(..n);
        while n < out.len() && !self.at_end {
            match self.input.read(&mut out[n..]) {
                Ok(0) => self.at_end = true,
                Ok(more) => n += more,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => {
                    self.at_end = true;
                    self.failure = Some(error.to_string());
                }
            }
        }
        n
    }
}

/// What a thread reads: one part after the other, each to its end, which is `Ok(0)`.
struct InputPart<'s, 'i> {
    shared: &'s Mutex<SharedInput<'i>>,
    /// Held until the part has an end, so that what follows goes to the same thread.
    lock: Option<MutexGuard<'s, SharedInput<'i>>>,
    thread: usize,
    /// In the order of the input.
    number: u64,
    /// The input ended before the part did: its last sample continues behind it.
    holds_the_end: bool,
}

impl<'s, 'i> InputPart<'s, 'i> {
    fn new(shared: &'s Mutex<SharedInput<'i>>, thread: usize) -> Self {
        Self { shared, lock: None, thread, number: 0, holds_the_end: false }
    }

    /// Goes to the next part, if there is one.
    fn next_part(&mut self) -> bool {
        let mut shared = lock(self.shared);
        if shared.at_end {
            return false;
        }
        self.number = shared.parts;
        shared.parts += 1;
        self.lock = Some(shared);
        true
    }

    /// Ends the input for all threads.
    fn stop(&mut self) {
        let mut shared = self.lock.take().unwrap_or_else(|| lock(self.shared));
        shared.at_end = true;
        shared.carry.clear();
    }
}

impl Read for InputPart<'_, '_> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let Some(mut shared) = self.lock.take() else { return Ok(0) };
        let n = shared.fill(out);
        let cut = last_cut(&out[..n]);
        let end = cut.unwrap_or_else(|| match memchr::memrchr(b'\n', &out[..n]) {
            Some(feed) => feed + 1,
            None if shared.at_end => 0,
            None => n,
        });
        // What `fill` left of the carry comes behind what is put back here.
        shared.carry.splice(..0, out[end..n].iter().copied());
        if cut.is_none() && shared.at_end {
            shared.holder = self.thread;
            self.holds_the_end = true;
        } else if cut.is_none() {
            self.lock = Some(shared);
        }
        Ok(end)
    }
}
