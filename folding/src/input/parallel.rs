//! The text of perf script, folded by several threads.
//!
//! The input is cut where the reader has no sample open anyway, so each part folds by itself and nothing
//! depends on which thread took it: stacks add up, and what has an order (the first lines dropped, the first
//! event seen) carries the number of its part. What depends on all that came before stays in order: until
//! headers are known to have a time or an event one thread reads alone, and what follows the last cut waits
//! until all else is folded.

use super::lines::{BLOCK, Lines};
use super::perf_script::{PerfScript, last_cut};
use crate::collector::{Collector, Options};
use crate::error::Error;
use std::io::{self, ErrorKind, Read};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The input, and what no part has taken yet.
struct Shared<'i> {
    input: &'i mut (dyn Read + Send),
    /// Read already, but behind the last cut.
    carry: Vec<u8>,
    parts: u64,
    at_end: bool,
    failure: Option<String>,
    /// The thread whose sample goes on in what is left at the end.
    holder: Option<usize>,
}

impl Shared<'_> {
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

/// Reads one part; `Ok(0)` is its end.
struct Part<'s, 'i> {
    shared: &'s Mutex<Shared<'i>>,
    /// Held until the part has an end, so that what follows goes to the same thread.
    lock: Option<MutexGuard<'s, Shared<'i>>>,
    thread: usize,
    number: u64,
    /// The input ended before the part did.
    holds_the_end: bool,
}

fn lock<'s, 'i>(shared: &'s Mutex<Shared<'i>>) -> MutexGuard<'s, Shared<'i>> {
    // A thread that panicked is found out when it is joined.
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Part<'_, '_> {
    /// Goes to the next part, if there is one.
    fn begin(&mut self) -> bool {
        let mut shared = lock(self.shared);
        if shared.at_end {
            return false;
        }
        self.number = shared.parts;
        shared.parts += 1;
        self.lock = Some(shared);
        true
    }

    /// Leaves nothing to anybody.
    fn stop(&mut self) {
        let mut shared = self.lock.take().unwrap_or_else(|| lock(self.shared));
        shared.at_end = true;
        shared.carry.clear();
    }
}

impl Read for Part<'_, '_> {
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
            shared.holder = Some(self.thread);
            self.holds_the_end = true;
        } else if cut.is_none() {
            self.lock = Some(shared);
        }
        Ok(end)
    }
}

struct Worker<'s, 'i> {
    lines: Lines<Part<'s, 'i>>,
    reader: PerfScript,
    collector: Collector,
}

impl<'s, 'i> Worker<'s, 'i> {
    fn new(
        shared: &'s Mutex<Shared<'i>>,
        thread: usize,
        block: usize,
        reader: PerfScript,
        options: &Options,
    ) -> Self {
        let part = Part { shared, lock: None, thread, number: 0, holds_the_end: false };
        Self {
            lines: Lines::with_block(part, block).leaving_rest(),
            reader,
            collector: Collector::new(options.clone()),
        }
    }

    /// Folds one part. False: there is none left.
    fn step(&mut self) -> Result<bool, Error> {
        if !self.lines.input().begin() {
            return Ok(false);
        }
        self.lines.go_on();
        self.collector.at_part(self.lines.input().number);
        let taken = self.reader.take(&mut self.lines, &mut self.collector);
        let part = self.lines.input();
        if taken.is_err() {
            part.stop();
            taken?;
        }
        if !part.holds_the_end {
            self.reader.end(&mut self.collector);
        }
        Ok(true)
    }

    fn run(mut self) -> Result<Done, Error> {
        while self.step()? {}
        Ok(Done { reader: self.reader, collector: self.collector, rest: self.lines.rest().to_vec() })
    }
}

/// What a thread has when no part is left.
struct Done {
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
    let shared = Shared { input, carry: Vec::new(), parts: 0, at_end: false, failure: None, holder: None };
    let shared = Mutex::new(shared);
    let mut first = Worker::new(&shared, 0, block, PerfScript::default(), options);
    while !first.reader.knows_headers() && first.step()? {}
    let spare = |thread| Worker::new(&shared, thread, block, PerfScript::knowing_headers(), options);
    let done: Vec<_> = std::thread::scope(|scope| {
        let others: Vec<_> = (1..threads).map(|thread| scope.spawn(move || spare(thread).run())).collect();
        let mut done = vec![first.run()];
        for other in others {
            done.push(other.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        }
        done
    });
    let mut done = done.into_iter().collect::<Result<Vec<_>, Error>>()?;

    let shared = shared.into_inner().unwrap_or_else(PoisonError::into_inner);
    let objects = done.iter().any(|one| one.reader.saw_objects());
    let Done { mut reader, mut collector, mut rest } = done.swap_remove(shared.holder.unwrap_or(0));
    rest.extend_from_slice(&shared.carry);
    reader.objects_seen(objects);
    collector.at_part(u64::MAX);
    reader.take(&mut Lines::new(&rest[..]), &mut collector)?;
    reader.end(&mut collector);
    for other in done {
        collector.absorb(other.collector);
    }
    if let Some(why) = shared.failure {
        collector.cut_short(format!("reading failed: {why}"));
    }
    Ok(collector)
}
