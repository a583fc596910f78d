//! Chains as they were recorded, counted.
//!
//! Nearly every sample repeats a chain that was seen, and comparing it with that one takes as long as reading it did. So
//! chains are told apart by a hash alone, 96 bits of XXH3: of 100 million different chains two have the same one with a
//! probability of less than 1e-12.

use super::chains::SampleWeight;
use crate::collector::Samples;
use crate::intern::SPREAD;
use crate::runs::Runs;
use xxhash_rust::xxh3::xxh3_128;

/// What the samples of one chain weigh together.
#[derive(Clone, Copy)]
pub struct ChainTotals {
    weight: u128,
    count: u64,
    largest: u64,
    /// The shortest and the longest period; the other way round if there was none.
    periods: (u64, u64),
}

impl ChainTotals {
    const NOTHING: Self = Self { weight: 0, count: 0, largest: 0, periods: (u64::MAX, 0) };

    fn add(&mut self, sample: SampleWeight) {
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

/// A chain in one context, and what it weighs.
struct Counted {
    chain: u32,
    context: u32,
    tally: ChainTotals,
}

/// Samples that are looked up together.
const GROUP: usize = 32;

/// A sample that waits to be counted.
struct Waiting {
    hash: u128,
    context: u32,
    /// Where its chain ends.
    end: usize,
    sample: SampleWeight,
}

/// Samples that wait to be counted, with their chains.
#[derive(Default)]
pub struct Batch {
    waiting: Vec<Waiting>,
    /// Their chains, one behind the other.
    chains: Vec<u8>,
}

impl Batch {
    /// Takes a sample in a context.
    #[inline]
    pub fn take(&mut self, context: u32, chain: &[u8], sample: SampleWeight) {
        self.chains.extend_from_slice(chain);
        self.waiting.push(Waiting { hash: xxh3_128(chain), context, end: self.chains.len(), sample });
    }

    pub fn len(&self) -> usize {
        self.waiting.len()
    }

    pub fn clear(&mut self) {
        self.waiting.clear();
        self.chains.clear();
    }
}

/// Different chains, and what they weigh in each context.
#[derive(Default)]
pub struct ChainCounts {
    /// The places of each chain, leaf first.
    pub chains: Runs<u32>,
    /// The numbers of the chains, by the spaces their addresses lie in.
    of_spaces: Numbers,
    counted: Vec<Counted>,
    /// The places of what was counted, by the contexts.
    of_contexts: Numbers,
}

impl ChainCounts {
    /// Counts the samples of a batch. `spaces` are those of a context; `find` adds the places of a chain that is new in
    /// its spaces.
    pub fn count(
        &mut self,
        batch: &Batch,
        spaces: impl Fn(u32) -> u32,
        mut find: impl FnMut(u32, &[u8], &mut Vec<u32>),
    ) {
        let mut start = 0;
        for group in batch.waiting.chunks(GROUP) {
            // What is looked at lies all over the memory: it is fetched at the same time if nothing waits for it.
            let mut numbers = [0; GROUP];
            for (number, one) in numbers.iter_mut().zip(group) {
                *number = self.of_contexts.first(one.hash, one.context);
            }
            let known = numbers.iter().filter_map(|&number| self.counted.get(number as usize));
            std::hint::black_box(known.map(|counted| counted.tally.count).sum::<u64>());
            for &Waiting { hash, context, end, sample } in group {
                let (number, new) = self.of_contexts.number(hash, context);
                if new {
                    // Another context may have it.
                    let spaces = spaces(context);
                    let (chain, new) = self.of_spaces.number(hash, spaces);
                    if new {
                        self.chains.add(|places| find(spaces, &batch.chains[start..end], places));
                    }
                    self.counted.push(Counted { chain, context, tally: ChainTotals::NOTHING });
                }
                if let Some(counted) = self.counted.get_mut(number as usize) {
                    counted.tally.add(sample);
                }
                start = end;
            }
        }
    }

    /// Bytes that are kept.
    pub fn size(&self) -> usize {
        size_of_val(self.chains.items()) + size_of_val(&self.counted[..])
    }

    /// The number of a chain and of a context, and what the chain weighs there.
    pub fn counted(&self) -> impl ExactSizeIterator<Item = (u32, u32, &ChainTotals)> {
        self.counted.iter().map(|Counted { chain, context, tally }| (*chain, *context, tally))
    }
}

/// Numbers from 0 on, by hash and group: a table with open addressing.
struct Numbers {
    slots: Vec<Slot>,
    len: u32,
}

#[derive(Clone, Copy)]
struct Slot {
    low: u64,
    high: u32,
    number: u32,
}

const NONE: u32 = u32::MAX;
const EMPTY: Slot = Slot { low: 0, high: 0, number: NONE };

impl Default for Numbers {
    fn default() -> Self {
        Self { slots: vec![EMPTY; 64], len: 0 }
    }
}

impl Numbers {
    /// What is kept of a hash.
    #[inline]
    fn key(hash: u128, group: u32) -> (u64, u32) {
        (hash as u64 ^ u64::from(group).wrapping_mul(SPREAD), (hash >> 64) as u32)
    }

    /// The number that is looked at first.
    #[inline]
    fn first(&self, hash: u128, group: u32) -> u32 {
        let (low, _) = Self::key(hash, group);
        self.slots[low as usize & (self.slots.len() - 1)].number
    }

    /// The number of a hash in a group, and whether this call gave it.
    #[inline]
    fn number(&mut self, hash: u128, group: u32) -> (u32, bool) {
        let (low, high) = Self::key(hash, group);
        let index = self.index(low, high);
        match self.slots[index].number {
            NONE => (self.take(index, low, high), true),
            number => (number, false),
        }
    }

    /// Where a hash is, or belongs.
    #[inline]
    fn index(&self, low: u64, high: u32) -> usize {
        let mask = self.slots.len() - 1;
        let mut index = low as usize & mask;
        loop {
            let slot = &self.slots[index];
            if (slot.low, slot.high) == (low, high) || slot.number == NONE {
                return index;
            }
            index = (index + 1) & mask;
        }
    }

    fn take(&mut self, index: usize, low: u64, high: u32) -> u32 {
        let number = self.len;
        self.slots[index] = Slot { low, high, number };
        self.len += 1;
        if self.len as usize * 4 > self.slots.len() * 3 {
            // A small one grows faster, so that it is seldom put together anew.
            let factor = if self.slots.len() < 1 << 14 { 4 } else { 2 };
            let larger = vec![EMPTY; self.slots.len() * factor];
            for slot in std::mem::replace(&mut self.slots, larger) {
                if slot.number != NONE {
                    let index = self.index(slot.low, slot.high);
                    self.slots[index] = slot;
                }
            }
        }
        number
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn weighed(weight: u64) -> SampleWeight {
        SampleWeight { weight, period: Some(weight) }
    }

    #[test]
    fn chains_are_counted_by_context_and_kept_by_spaces() {
        let (mut recorded, mut batch) = (ChainCounts::default(), Batch::default());
        let chain = |n: u64| [n, n / 7, 3].map(u64::to_le_bytes).concat();
        let mut found = 0;
        let mut find = |spaces, chain: &[u8], places: &mut Vec<u32>| {
            found += 1;
            places.extend([chain[0].into(), chain[1].into(), spaces]);
        };
        for round in 1..=3 {
            for n in 0..500 {
                for context in 0..3 {
                    batch.take(context, &chain(n), weighed(round));
                }
            }
            // Contexts 0 and 1 share their spaces.
            recorded.count(&batch, |context| context / 2, &mut find);
            batch.clear();
        }
        assert_eq!((found, recorded.chains.len(), recorded.chains.items().len()), (1000, 1000, 3000));
        assert_eq!(recorded.counted().len(), 1500);
        for (index, (number, context, tally)) in recorded.counted().enumerate() {
            let n = index as u32 / 3;
            assert_eq!(recorded.chains.get(number as usize), [n & 0xff, n >> 8, u32::from(context == 2)]);
            assert_eq!((tally.weight, tally.count, tally.largest, tally.periods), (6, 3, 3, (1, 3)));
        }
    }

    #[test]
    fn chains_of_any_length_are_told_apart() {
        let (mut recorded, mut batch) = (ChainCounts::default(), Batch::default());
        let bytes = [0; 2000];
        (0..=bytes.len()).for_each(|len| batch.take(0, &bytes[..len], weighed(1)));
        recorded.count(&batch, |_| 0, |_, chain, places| places.push(chain.len() as u32));
        assert!((0..recorded.chains.len()).all(|len| recorded.chains.get(len) == [len as u32]));
        assert!(recorded.counted().enumerate().all(|(index, (chain, ..))| chain as usize == index));
    }
}
