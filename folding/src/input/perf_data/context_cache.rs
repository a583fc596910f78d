//! Samples like those before: who took them, and which event, was worked out already.

use crate::collector::{Collector, Options, Weight};
use crate::events::EventTotals;
use crate::weights::SampleWeight;
use perfdata::reader::attr::Attr;
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
    context: u32,
}

/// Contexts by thread, and the samples that were not shown to the collector one by one.
pub struct ContextCache {
    last: [Option<CachedContext>; THREADS],
    generation: u64,
    /// By the number of the event.
    totals: Vec<EventTotals>,
    /// What was counted of events under names that they had before.
    renamed: Vec<EventTotals>,
    weight: Weight,
    slice: Option<NonZeroU64>,
    /// Each sample's time is asked for.
    by_time: bool,
}

impl Default for ContextCache {
    fn default() -> Self {
        Self {
            last: [None; THREADS],
            generation: 0,
            totals: Vec::new(),
            renamed: Vec::new(),
            weight: Weight::default(),
            slice: None,
            by_time: false,
        }
    }
}

impl ContextCache {
    pub fn reset(&mut self, attrs: &[Attr], options: &Options) {
        self.invalidate();
        // In a pipe, the name of an event may come after the event itself, or after samples of it.
        for (totals, attr) in
            self.totals.iter_mut().zip(attrs).filter(|(totals, attr)| totals.raw != attr.name)
        {
            let before = std::mem::replace(totals, EventTotals::new(&attr.name, true, (0, 0)));
            self.renamed.extend(Some(before).filter(|before| before.tally.samples > 0));
        }
        let more = attrs.iter().skip(self.totals.len());
        self.totals.extend(more.map(|attr| EventTotals::new(&attr.name, true, (0, 0))));
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

    /// The context of a sample, which is counted, if one like it was seen.
    pub fn find(&mut self, event: usize, sample: &SampleRecord, weighed: SampleWeight) -> Option<u32> {
        let last = self.last[slot(sample)].as_ref()?;
        let same = last.generation == self.generation
            && last.event == event
            && (last.pid, last.tid) == (sample.pid, sample.tid)
            && self.slice.is_none_or(|length| sample.time.map(|time| time / length) == last.slice);
        if !same {
            return None;
        }
        let context = last.context;
        self.totals.get_mut(event)?.count(weighed);
        Some(context)
    }

    pub fn remember(&mut self, event: usize, sample: &SampleRecord, slice: Option<u64>, context: u32) {
        if !self.by_time {
            let SampleRecord { pid, tid, .. } = *sample;
            let generation = self.generation;
            self.last[slot(sample)] = Some(CachedContext { generation, event, pid, tid, slice, context });
        }
    }

    /// Adds what was counted here to the collector's totals.
    pub fn report_totals(&mut self, collector: &mut Collector) {
        for totals in
            self.renamed.drain(..).chain(self.totals.drain(..)).filter(|totals| totals.tally.samples > 0)
        {
            collector.count_passed(&totals);
        }
    }
}

fn slot(sample: &SampleRecord) -> usize {
    sample.tid.unwrap_or(0) as usize % THREADS
}
