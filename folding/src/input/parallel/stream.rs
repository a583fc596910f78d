//! Parts of an input that can only be read in order, a pipe above all: one thread reads at a time.

use super::{InputPart, lock};
use crate::input::perf_script::last_cut;
use std::io::{self, ErrorKind, Read};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The input, and what no part has taken yet.
pub struct SharedInput<'i> {
    input: &'i mut (dyn Read + Send),
    /// Read already, but behind the last cut.
    carry: Vec<u8>,
    parts: u64,
    at_end: bool,
    failure: Option<String>,
    /// The thread whose sample goes on in what is left at the end.
    holder: Option<usize>,
}

/// What is left when all parts are taken.
pub struct StreamEnd {
    pub holder: usize,
    pub carry: Vec<u8>,
    pub failure: Option<String>,
}

impl<'i> SharedInput<'i> {
    pub fn new(input: &'i mut (dyn Read + Send)) -> Mutex<Self> {
        let (carry, failure, holder) = (Vec::new(), None, None);
        Mutex::new(Self { input, carry, parts: 0, at_end: false, failure, holder })
    }

    pub fn end(shared: Mutex<Self>) -> StreamEnd {
        let Self { carry, failure, holder, .. } = shared.into_inner().unwrap_or_else(PoisonError::into_inner);
        StreamEnd { holder: holder.unwrap_or(0), carry, failure }
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

/// Reads one part; `Ok(0)` is its end.
pub struct StreamPart<'s, 'i> {
    shared: &'s Mutex<SharedInput<'i>>,
    /// Held until the part has an end, so that what follows goes to the same thread.
    lock: Option<MutexGuard<'s, SharedInput<'i>>>,
    thread: usize,
    number: u64,
    /// The input ended before the part did.
    holds_the_end: bool,
}

impl<'s, 'i> StreamPart<'s, 'i> {
    pub fn new(shared: &'s Mutex<SharedInput<'i>>, thread: usize) -> Self {
        Self { shared, lock: None, thread, number: 0, holds_the_end: false }
    }
}

impl InputPart for StreamPart<'_, '_> {
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

    fn number(&self) -> u64 {
        self.number
    }

    fn sample_continues(&self) -> bool {
        self.holds_the_end
    }

    fn stop(&mut self) {
        let mut shared = self.lock.take().unwrap_or_else(|| lock(self.shared));
        shared.at_end = true;
        shared.carry.clear();
    }
}

impl Read for StreamPart<'_, '_> {
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
