//! Weighted stacks: what every input folds into and every output reads.

use crate::intern::Interner;
use crate::origin;
use std::collections::HashMap;

/// What one stack holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    pub weight: u128,
    pub samples: u64,
}

/// Different stacks, root first, the command being the first frame.
#[derive(Default)]
pub struct Profile {
    pub names: Interner<u8>,
    chains: Interner<u32>,
    tallies: Vec<Tally>,
    /// The build ids of objects, by name, where the input tells them.
    pub build_ids: HashMap<Vec<u8>, Vec<u8>>,
}

impl Profile {
    /// Makes room for this many stacks more, which have so many frames together.
    pub fn reserve(&mut self, stacks: usize, frames: usize) {
        self.chains.reserve(stacks, frames);
        self.tallies.reserve(stacks);
    }

    /// Adds to the stack made of these names, root first; gives its number.
    pub fn add(&mut self, chain: &[u32], weight: u128, samples: u64) -> u32 {
        let (id, new) = self.chains.intern(chain);
        if new {
            self.tallies.push(Tally::default());
        }
        let tally = &mut self.tallies[id as usize];
        tally.weight = tally.weight.saturating_add(weight);
        tally.samples = tally.samples.saturating_add(samples);
        id
    }

    /// Adds all stacks of another profile; gives the number of each here.
    pub fn absorb(&mut self, other: &Profile) -> Vec<u32> {
        for (object, id) in &other.build_ids {
            self.build_ids.entry(object.clone()).or_insert_with(|| id.clone());
        }
        self.absorb_as(other, |name| name)
    }

    fn absorb_as(&mut self, other: &Profile, shown: impl Fn(&[u8]) -> &[u8]) -> Vec<u32> {
        let name = |id| self.names.intern(shown(other.names.get(id))).0;
        let names: Vec<u32> = (0..other.names.len() as u32).map(name).collect();
        let mut chain = Vec::new();
        let add = |stack| {
            chain.clear();
            chain.extend(other.chain(stack).iter().map(|&id| names[id as usize]));
            let Tally { weight, samples } = other.tally(stack);
            self.add(&chain, weight, samples)
        };
        (0..other.stacks() as u32).map(add).collect()
    }

    /// The same stacks as folded text shows them: names without their origins.
    pub fn plain(&self) -> Self {
        let mut plain = Self::default();
        plain.absorb_as(self, |name| origin::split(name).0);
        plain
    }

    /// What the stack holds, if it was seen.
    pub fn find_mut(&mut self, chain: &[u32]) -> Option<&mut Tally> {
        let id = self.chains.find(chain)?;
        self.tallies.get_mut(id as usize)
    }

    pub fn stacks(&self) -> usize {
        self.tallies.len()
    }

    pub fn chain(&self, stack: u32) -> &[u32] {
        self.chains.get(stack)
    }

    pub fn tally(&self, stack: u32) -> Tally {
        self.tallies[stack as usize]
    }

    pub fn total(&self) -> Tally {
        self.tallies.iter().fold(Tally::default(), |sum, one| Tally {
            weight: sum.weight.saturating_add(one.weight),
            samples: sum.samples.saturating_add(one.samples),
        })
    }

    /// The stacks in the order of their frames' names, frame by frame: siblings stay together, and the
    /// order does not depend on the order of the samples.
    pub fn sorted(&self) -> Vec<u32> {
        let rank = self.ranks();
        self.sorted_by(|chain, depth| chain.get(depth).map_or(0, |&id| rank[id as usize]))
    }

    /// The same from the leaf.
    pub fn sorted_by_leaf(&self) -> Vec<u32> {
        let rank = self.ranks();
        self.sorted_by(|chain, depth| {
            chain.len().checked_sub(depth + 1).map_or(0, |at| rank[chain[at] as usize])
        })
    }

    /// Sorts by one frame after the other, so that what stacks have in common is looked at once. `key` gives a frame's
    /// place in the order, and 0 behind the last one.
    fn sorted_by(&self, key: impl Fn(&[u32], usize) -> u32) -> Vec<u32> {
        let mut stacks: Vec<(u32, u32)> = (0..self.stacks() as u32).map(|stack| (0, stack)).collect();
        // Those that are the same up to some depth.
        let mut alike = vec![(0..stacks.len(), 0)];
        while let Some((range, depth)) = alike.pop() {
            let group = &mut stacks[range.clone()];
            let mut differ = false;
            let mut last = None;
            for (rank, stack) in group.iter_mut() {
                *rank = key(self.chain(*stack), depth);
                differ |= last.replace(*rank).is_some_and(|last| last != *rank);
            }
            if differ {
                group.sort_unstable_by_key(|&(rank, _)| rank);
            }
            let mut start = range.start;
            for run in group.chunk_by(|a, b| a.0 == b.0) {
                let end = start + run.len();
                if run.len() > 1 && run[0].0 > 0 {
                    alike.push((start..end, depth + 1));
                }
                start = end;
            }
        }
        stacks.into_iter().map(|(_, stack)| stack).collect()
    }

    /// The place of each name in their order, from 1.
    fn ranks(&self) -> Vec<u32> {
        let mut by_name: Vec<u32> = (0..self.names.len() as u32).collect();
        by_name.sort_unstable_by_key(|&id| self.names.get(id));
        let mut rank = vec![0_u32; by_name.len()];
        for (position, &id) in by_name.iter().enumerate() {
            rank[id as usize] = position as u32 + 1;
        }
        rank
    }

    /// `comm;root;...;leaf`, appended to `text`.
    pub fn write_stack(&self, stack: u32, text: &mut Vec<u8>) {
        for (depth, &name) in self.chain(stack).iter().enumerate() {
            if depth > 0 {
                text.push(b';');
            }
            text.extend_from_slice(self.names.get(name));
        }
    }
}
