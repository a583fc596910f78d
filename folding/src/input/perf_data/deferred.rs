//! Samples that wait for the user's side of their chains.
//!
//! With `perf record --call-graph fp,defer` (Linux 6.19) the kernel walks a user's stack once, when the thread is about to leave
//! the kernel. All samples since it entered have the number of that walk, the cookie, in place of the user's side.

use crate::intern::IntMap;
use std::collections::BTreeMap;

/// Bytes of samples that may wait; walks are made when a thread leaves the kernel, which is soon.
const MOST: usize = 64 << 20;

/// A sample's record, the events that it weighs of, and how much of each.
pub struct WaitingSample {
    pub misc: u16,
    pub body: Vec<u8>,
    pub shares: Vec<(usize, Option<u64>)>,
}

impl WaitingSample {
    fn size(&self) -> usize {
        size_of::<Self>() + self.body.len() + size_of_val(&self.shares[..])
    }
}

#[derive(Default)]
pub struct DeferredSamples {
    /// By cookie.
    waiting: BTreeMap<u64, Vec<WaitingSample>>,
    /// The cookie that each thread waits for.
    cookies: IntMap<i32, u64>,
    /// Bytes that wait.
    bytes: usize,
}

impl DeferredSamples {
    /// Takes a sample. Gives those of the same thread whose walk was lost, as the thread has left the kernel since, or all,
    /// where too many wait.
    pub fn wait(&mut self, thread: i32, cookie: u64, sample: WaitingSample) -> Vec<WaitingSample> {
        self.bytes += sample.size();
        if self.bytes > MOST {
            let mut all = self.take_all();
            all.push(sample);
            return all;
        }
        let before = self.cookies.insert(thread, cookie).filter(|&before| before != cookie);
        self.waiting.entry(cookie).or_default().push(sample);
        before.map_or_else(Vec::new, |before| self.take(before))
    }

    /// The samples that waited for this walk.
    pub fn take(&mut self, cookie: u64) -> Vec<WaitingSample> {
        let taken = self.waiting.remove(&cookie).unwrap_or_default();
        self.bytes -= taken.iter().map(WaitingSample::size).sum::<usize>();
        taken
    }

    pub fn take_all(&mut self) -> Vec<WaitingSample> {
        self.bytes = 0;
        self.cookies.clear();
        std::mem::take(&mut self.waiting).into_values().flatten().collect()
    }
}
