//! Chains as they were recorded, counted.
//!
//! Nearly every sample repeats a chain that was seen, and comparing it with that one takes as long as reading it did.
//! So a hash alone identifies a chain, 96 bits of XXH3: of 100 million different chains two have the same one with a
//! probability of less than 1e-12.

use crate::intern::{self, SPREAD};
use crate::runs::Runs;
use crate::weights::{SampleTotals, SampleWeight};
use hashbrown::HashTable;
use std::array;
use std::sync::LazyLock;
use xxhash_rust::xxh3::xxh3_128_with_secret;

/// A chain in one context, and what it weighs.
pub struct CountedChain {
    /// The numbers of the chain and of the context.
    pub chain: u32,
    pub context: u32,
    pub totals: SampleTotals,
}

/// Samples that are looked up together.
const GROUP: usize = 32;

/// A sample that waits to be counted.
struct PendingSample {
    hash: u128,
    context: u32,
    /// Where its chain ends.
    end: usize,
    sample: SampleWeight,
}

/// What chains are hashed with: other bytes in each process, so that the author of a recording cannot work out which are taken for
/// the same.
static SECRET: LazyLock<[u8; 192]> = LazyLock::new(|| {
    let words: [[u8; 8]; 24] = array::from_fn(|_| intern::random().to_le_bytes());
    array::from_fn(|at| words[at / 8][at % 8])
});

/// Samples that wait to be counted, with their chains.
pub struct SampleBatch {
    pending: Vec<PendingSample>,
    /// Their chains, one behind the other.
    chains: Vec<u8>,
    secret: &'static [u8; 192],
}

impl Default for SampleBatch {
    fn default() -> Self {
        Self { pending: Vec::new(), chains: Vec::new(), secret: &SECRET }
    }
}

impl SampleBatch {
    /// Takes a sample in a context.
    #[inline]
    pub fn take(&mut self, context: u32, chain: &[u8], sample: SampleWeight) {
        self.chains.extend_from_slice(chain);
        let hash = xxh3_128_with_secret(chain, self.secret);
        self.pending.push(PendingSample { hash, context, end: self.chains.len(), sample });
    }

    pub fn len(&self) -> usize {
        self.pending.len()
    }

    /// Bytes of their chains.
    pub fn bytes(&self) -> usize {
        self.chains.len()
    }

    pub fn clear(&mut self) {
        self.pending.clear();
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
    counted: Vec<CountedChain>,
    /// The places of what was counted, by the contexts.
    of_contexts: Numbers,
}

impl ChainCounts {
    /// Counts the samples of a batch. `spaces` are those of a context; `find` adds the places of a chain that is new in
    /// its spaces.
    pub fn count(
        &mut self,
        batch: &SampleBatch,
        spaces: impl Fn(u32) -> u32,
        mut find: impl FnMut(u32, &[u8], &mut Vec<u32>),
    ) {
        let mut start = 0;
        for group in batch.pending.chunks(GROUP) {
            // All slots are touched first, so that their cache misses overlap.
            let mut numbers = [None; GROUP];
            for (number, one) in numbers.iter_mut().zip(group) {
                *number = self.of_contexts.find(key(one.hash, one.context));
            }
            let known = numbers.iter().filter_map(|number| self.counted.get((*number)? as usize));
            std::hint::black_box(known.map(|counted| counted.totals.tally.samples).sum::<u64>());
            for (number, &PendingSample { hash, context, end, sample }) in numbers.into_iter().zip(group) {
                let (number, new) = match number {
                    Some(number) => (number, false),
                    None => self.of_contexts.number(key(hash, context)),
                };
                if new {
                    // Another context may have it.
                    let spaces = spaces(context);
                    let (chain, new) = self.of_spaces.number(key(hash, spaces));
                    if new {
                        self.chains.add(|places| find(spaces, &batch.chains[start..end], places));
                    }
                    self.counted.push(CountedChain { chain, context, totals: SampleTotals::default() });
                }
                if let Some(counted) = self.counted.get_mut(number as usize) {
                    counted.totals.add(sample);
                }
                start = end;
            }
        }
    }

    /// Bytes that are kept.
    pub fn size(&self) -> usize {
        size_of_val(self.chains.items()) + size_of_val(&self.counted[..])
    }

    /// What each chain weighs in each context.
    pub fn counted(&self) -> &[CountedChain] {
        &self.counted
    }
}

/// Numbers from 0 on, by hash and group.
#[derive(Default)]
struct Numbers(HashTable<NumberSlot>);

#[derive(Clone, Copy)]
struct NumberSlot {
    low: u64,
    high: u32,
    number: u32,
}

/// What is kept of a hash in a group.
#[inline]
fn key(hash: u128, group: u32) -> (u64, u32) {
    (hash as u64 ^ u64::from(group).wrapping_mul(SPREAD), (hash >> 64) as u32)
}

impl Numbers {
    #[inline]
    fn find(&self, (low, high): (u64, u32)) -> Option<u32> {
        self.0.find(low, |slot| (slot.low, slot.high) == (low, high)).map(|slot| slot.number)
    }

    /// The number of a key, and whether this call gave it.
    #[inline]
    fn number(&mut self, key: (u64, u32)) -> (u32, bool) {
        match self.find(key) {
            Some(number) => (number, false),
            None => {
                let (low, high) = key;
                let number = self.0.len() as u32;
                self.0.insert_unique(low, NumberSlot { low, high, number }, |slot| slot.low);
                (number, true)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::collector::Weight;

    fn weighed(weight: u64) -> SampleWeight {
        SampleWeight::new(Weight::Period, Some(weight))
    }

    #[test]
    fn chains_are_counted_by_context_and_kept_by_spaces() {
        let (mut recorded, mut batch) = (ChainCounts::default(), SampleBatch::default());
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
        for (index, &CountedChain { chain, context, totals }) in recorded.counted().iter().enumerate() {
            let n = index as u32 / 3;
            assert_eq!(recorded.chains.get(chain as usize), [n & 0xff, n >> 8, u32::from(context == 2)]);
            assert_eq!((totals.tally.weight, totals.tally.samples, totals.periods()), (6, 3, Some((1, 3))));
        }
    }

    #[test]
    fn chains_of_any_length_are_told_apart() {
        let (mut recorded, mut batch) = (ChainCounts::default(), SampleBatch::default());
        let bytes = [0; 2000];
        (0..=bytes.len()).for_each(|len| batch.take(0, &bytes[..len], weighed(1)));
        recorded.count(&batch, |_| 0, |_, chain, places| places.push(chain.len() as u32));
        assert!((0..recorded.chains.len()).all(|len| recorded.chains.get(len) == [len as u32]));
        assert!(
            recorded.counted().iter().enumerate().all(|(index, counted)| counted.chain as usize == index)
        );
    }
}
