//! Chains as they were recorded, and how much each weighs.

use crate::collector::Samples;
use crate::intern::{Interner, Tag};
use std::hint::black_box;

/// Samples that are looked up together.
const TOGETHER: usize = 32;

/// What a sample weighs.
#[derive(Clone, Copy, Debug)]
pub struct Weighed {
    pub weight: u64,
    pub period: Option<u64>,
}

/// What the samples of one recorded chain weigh together.
#[derive(Clone, Copy)]
pub struct Tally {
    weight: u128,
    count: u64,
    largest: u64,
    /// The shortest and the longest period; the other way round if there was none.
    periods: (u64, u64),
}

impl Tally {
    const NOTHING: Self = Self { weight: 0, count: 0, largest: 0, periods: (u64::MAX, 0) };

    fn add(&mut self, sample: Weighed) {
        self.weight = self.weight.saturating_add(sample.weight.into());
        self.count += 1;
        self.largest = self.largest.max(sample.weight);
        if let Some(period) = sample.period {
            self.periods = (self.periods.0.min(period), self.periods.1.max(period));
        }
    }

    pub fn samples(&self, comm: u32, slice: Option<u64>) -> Samples {
        let Self { weight, count, largest, periods } = *self;
        let periods = (periods.0 <= periods.1).then_some(periods);
        Samples { comm, slice, weight, count, largest, periods }
    }
}

/// Different chains, by their contexts: addresses and marks, 8 bytes each.
#[derive(Default)]
pub struct Recorded {
    chains: Interner<u8>,
    tallies: Vec<Tally>,
    /// Samples that are not looked up yet, and their chains.
    waiting: Vec<Waiting>,
    waiting_bytes: Vec<u8>,
    ids: Vec<u32>,
}

struct Waiting {
    tag: Tag,
    context: u32,
    /// The end of its chain.
    end: usize,
    sample: Weighed,
}

impl Recorded {
    pub fn count(&mut self, context: u32, chain: &[u8], sample: Weighed) {
        self.waiting_bytes.extend_from_slice(chain);
        let end = self.waiting_bytes.len();
        self.waiting.push(Waiting { tag: Tag::of(context, chain), context, end, sample });
        if self.waiting.len() >= TOGETHER {
            self.look_up();
        }
    }

    /// Bytes of the different chains.
    pub fn bytes(&self) -> usize {
        self.chains.arena_len()
    }

    /// The chains, and what each weighs.
    pub fn counted(mut self) -> (Interner<u8>, Vec<Tally>) {
        self.look_up();
        (self.chains, self.tallies)
    }

    fn look_up(&mut self) {
        let Self { chains, tallies, waiting, waiting_bytes, ids } = self;
        chains.fetch(waiting.iter().map(|waiting| waiting.tag), ids);
        black_box(
            ids.iter().filter_map(|&id| tallies.get(id as usize)).fold(0, |sum, tally| sum ^ tally.count),
        );
        let mut start = 0;
        for Waiting { tag, context, end, sample } in waiting.drain(..) {
            let (id, new) = chains.intern_tagged(tag, context, &waiting_bytes[start..end]);
            start = end;
            if new {
                tallies.push(Tally::NOTHING);
            }
            if let Some(tally) = tallies.get_mut(id as usize) {
                tally.add(sample);
            }
        }
        waiting_bytes.clear();
    }
}
