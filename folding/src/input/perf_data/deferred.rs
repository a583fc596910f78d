//! Samples that wait for the user's side of their chains.
//!
//! With `perf record --call-graph fp,defer` (Linux 6.19) the kernel walks a user's stack once, when the thread is about to leave
//! the kernel. All samples since it entered have the number of that walk, the cookie, in place of the user's side.

use crate::intern::IntMap;
use std::collections::BTreeMap;

/// A sample's record, the events that it weighs of, and how much of each.
pub struct WaitingSample {
    pub misc: u16,
    pub body: Vec<u8>,
    pub shares: Vec<(usize, Option<u64>)>,
}

#[derive(Default)]
pub struct DeferredSamples {
    /// By cookie.
    waiting: BTreeMap<u64, Vec<WaitingSample>>,
    /// The cookie that each thread waits for.
    cookies: IntMap<i32, u64>,
}

impl DeferredSamples {
    /// Takes a sample. Gives those of the same thread whose walk was lost, as the thread has left the kernel since.
    pub fn wait(&mut self, thread: i32, cookie: u64, sample: WaitingSample) -> Vec<WaitingSample> {
        let before = self.cookies.insert(thread, cookie).filter(|&before| before != cookie);
        self.waiting.entry(cookie).or_default().push(sample);
        before.map_or_else(Vec::new, |before| self.take(before))
    }

    /// The samples that waited for this walk.
    pub fn take(&mut self, cookie: u64) -> Vec<WaitingSample> {
        self.waiting.remove(&cookie).unwrap_or_default()
    }

    pub fn take_all(&mut self) -> Vec<WaitingSample> {
        std::mem::take(&mut self.waiting).into_values().flatten().collect()
    }
}
