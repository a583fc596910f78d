//! Chains of sites as samples: in order, and in pieces that several threads put together.

use super::fields::{profile as top, sample};
use super::wire::{self, Element, Message};
use crate::intern::SPREAD;
use crate::locations::{LocatedChain, Locations};
use crate::threads;
use crate::weights::Tally;
use std::cmp::Ordering;
use std::io;
use std::ops::Range;

/// Chains that one thread takes at once.
const PIECE: usize = 1024;
/// Bytes of the samples of a piece, about.
const TEXT: usize = 128 << 10;

/// The sort key of something that was counted, and its number.
pub type Placed = (u64, u32);

/// Which values samples have.
#[derive(Clone, Copy)]
pub struct ValueKinds {
    pub counts: bool,
    pub weights: bool,
}

/// Chains of sites, each site a location.
pub struct Sites<'p> {
    pub located: &'p Locations,
    /// By the number of the site.
    pub locations: Vec<Element>,
    /// The place of each frame in their order.
    pub ranks: &'p [u32],
}

impl Sites<'_> {
    fn chain(&self, chain: u32) -> impl ExactSizeIterator<Item = Element> {
        self.located.chain(chain).iter().map(|&site| self.locations[site as usize])
    }

    fn counted(&self, placed: &Placed) -> &LocatedChain {
        &self.located.counted()[placed.1 as usize]
    }

    /// What was counted, in an order that depends only on the chains and their commands.
    pub fn sorted(&self, threads: usize) -> Vec<Placed> {
        let chains = self.located.chains();
        let some: Vec<_> = (0..chains).step_by(PIECE).map(|from| from..chains.min(from + PIECE)).collect();
        let places = |some: &Range<usize>| some.clone().map(|n| place(self.chain(n as u32))).collect();
        let places: Vec<Vec<u64>> = threads::each(&some, threads, places);
        let places = places.concat();
        let placed = |(counted, number): (&LocatedChain, u32)| (places[counted.chain as usize], number);
        let mut sorted: Vec<_> = self.located.counted().iter().zip(0..).map(placed).collect();
        sorted.sort_unstable_by_key(|&(place, _)| place);
        for alike in sorted.chunk_by_mut(|a, b| a.0 == b.0).filter(|alike| alike.len() > 1) {
            alike.sort_unstable_by(|a, b| self.compare(self.counted(a), self.counted(b)));
        }
        sorted
    }

    fn compare(&self, a: &LocatedChain, b: &LocatedChain) -> Ordering {
        let chains = || {
            if a.chain == b.chain { Ordering::Equal } else { self.chain(a.chain).cmp(self.chain(b.chain)) }
        };
        chains().then_with(|| self.rank(a.command).cmp(&self.rank(b.command)))
    }

    /// The rank of a command; none: 0.
    pub fn rank(&self, command: Option<u32>) -> u32 {
        command.map_or(0, |command| self.ranks[command as usize])
    }

    /// Samples, each of what is the same. `labels` gives those of a command.
    pub fn samples<'l>(
        &self,
        sorted: &[Placed],
        values: ValueKinds,
        labels: impl Fn(Option<u32>) -> &'l [u8],
    ) -> io::Result<Vec<u8>> {
        // All chains are touched first, so that their cache misses overlap.
        let leaf = |placed| self.located.chain(self.counted(placed).chain).first();
        std::hint::black_box(sorted.iter().filter_map(leaf).map(|&leaf| u64::from(leaf)).sum::<u64>());
        let [mut text, mut whole, mut locations] = [(); 3].map(|()| Message::default());
        text.bytes.reserve(TEXT);
        let same =
            |a: &Placed, b: &Placed| a.0 == b.0 && self.compare(self.counted(a), self.counted(b)).is_eq();
        for same in sorted.chunk_by(same) {
            let &LocatedChain { chain, command, .. } = self.counted(&same[0]);
            let tally = same.iter().fold(Tally::default(), |sum, one| sum.plus(self.counted(one).tally));
            let weight = i64::try_from(tally.weight).map_err(|_| {
                io::Error::other(format!("pprof has no number as large as the weight {}", tally.weight))
            })?;
            let numbers = [values.counts.then_some(tally.samples), values.weights.then_some(weight as u64)];
            locations.clear();
            wire::elements(&mut locations.bytes, self.chain(chain));
            whole.clear();
            whole.bytes(sample::LOCATION, &locations.bytes);
            whole.packed(sample::VALUE, numbers.into_iter().flatten());
            whole.bytes.extend_from_slice(labels(command));
            text.bytes(top::SAMPLE, &whole.bytes);
        }
        Ok(text.bytes)
    }
}

/// The sort key of a chain of locations. Chains with the same two leaves are neighbours, which compresses best. The
/// rest of the order only must be the same each time: a hash decides, so that no chain is read to compare it.
fn place(chain: impl Iterator<Item = Element>) -> u64 {
    const LEAF_BITS: u32 = 20;
    const HASH_BITS: u32 = u64::BITS - 2 * LEAF_BITS;
    let (mut leaves, mut hash) = ([0; 2], 0_u64);
    for (depth, location) in chain.enumerate() {
        if let Some(leaf) = leaves.get_mut(depth) {
            *leaf = u64::from(location.number()).min((1 << LEAF_BITS) - 1);
        }
        hash = (hash.rotate_left(5) ^ location.word()).wrapping_mul(SPREAD);
    }
    leaves[0] << (LEAF_BITS + HASH_BITS) | leaves[1] << HASH_BITS | hash >> (2 * LEAF_BITS)
}

/// The same in pieces, none of which ends between two that may be one sample.
pub fn pieces(mut sorted: &[Placed]) -> Vec<&[Placed]> {
    let mut pieces = Vec::new();
    while !sorted.is_empty() {
        let least = PIECE.min(sorted.len());
        let last = sorted[least - 1].0;
        let more = sorted[least..].iter().take_while(|placed| placed.0 == last).count();
        let (piece, rest) = sorted.split_at(least + more);
        pieces.push(piece);
        sorted = rest;
    }
    pieces
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_hold_all_and_cut_nothing_alike() {
        let sorted: Vec<Placed> =
            (0..3 * PIECE as u32).map(|n| (u64::from(n) / (PIECE as u64 * 3 / 2), n)).collect();
        let pieces = pieces(&sorted);
        assert_eq!(pieces.concat(), sorted);
        assert_eq!(pieces.len(), 2);
        assert!(pieces.windows(2).all(|two| two[0].last().unwrap().0 < two[1][0].0));
    }

    #[test]
    fn chains_with_the_same_leaves_stand_together() {
        let of = |numbers: &[u32]| place(numbers.iter().map(|&number| Element::new(number)));
        assert!(of(&[1, 2, 3]).max(of(&[1, 2, 4, 5])) < of(&[1, 3]));
        assert!(of(&[1, 3]) < of(&[2]));
        assert_ne!(of(&[1, 2, 3]), of(&[1, 2, 4]));
        assert!(of(&[1 << 20, 2]) < of(&[u32::MAX, 3]));
    }
}
