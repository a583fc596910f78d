//! Samples like those before: who took them, and which event, was worked out already.

use crate::collector::{Options, Weight};
use crate::weights::SampleWeight;
use perfdata::reader::sample::SampleRecord;
use std::num::NonZeroU64;

/// Threads that are remembered.
const THREADS: usize = 64;

/// What the collector said of the last sample of a thread.
#[derive(Clone, Copy)]
struct CachedContext {
    generation: u64,
    event: usize,
    pid: Option<i32>,
    tid: Option<i32>,
    slice: Option<u64>,
    context: KnownContext,
}

/// The number of a context, and of the totals of its event.
#[derive(Clone, Copy)]
pub struct KnownContext {
    pub context: u32,
    pub totals: usize,
}

/// Contexts by thread.
pub struct ContextCache {
    last: [Option<CachedContext>; THREADS],
    generation: u64,
    weight: Weight,
    slice: Option<NonZeroU64>,
    /// Each sample's time is asked for.
    by_time: bool,
}

impl Default for ContextCache {
    fn default() -> Self {
        Self { last: [None; THREADS], generation: 0, weight: Weight::default(), slice: None, by_time: false }
    }
}

impl ContextCache {
    pub fn reset(&mut self, options: &Options) {
        self.invalidate();
        (self.weight, self.slice) = (options.weight, options.slice);
        self.by_time = options.time.is_some() || !options.skip_time.is_empty() || options.intervals.is_some();
    }

    /// Contexts remembered so far are void: maps, commands or numbers changed.
    pub fn invalidate(&mut self) {
        self.generation += 1;
    }

    pub fn weighed(&self, sample: &SampleRecord) -> SampleWeight {
        SampleWeight::new(self.weight, sample.period)
    }

    /// The context of a sample, if one like it was seen.
    pub fn find(&self, event: usize, sample: &SampleRecord) -> Option<KnownContext> {
        let last = self.last[slot(sample)].as_ref()?;
        let same = last.generation == self.generation
            && last.event == event
            && (last.pid, last.tid) == (sample.pid, sample.tid)
            && self.slice.is_none_or(|length| sample.time.map(|time| time / length) == last.slice);
        same.then_some(last.context)
    }

    pub fn remember(
        &mut self,
        event: usize,
        sample: &SampleRecord,
        slice: Option<u64>,
        context: KnownContext,
    ) {
        if !self.by_time {
            let SampleRecord { pid, tid, .. } = *sample;
            let generation = self.generation;
            self.last[slot(sample)] = Some(CachedContext { generation, event, pid, tid, slice, context });
        }
    }
}

fn slot(sample: &SampleRecord) -> usize {
    sample.tid.unwrap_or(0) as usize % THREADS
}
