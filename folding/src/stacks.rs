//! Different chains of numbers, and what each holds.

use crate::intern::Interner;
use crate::weights::Tally;

/// Chains of frames' numbers, each with its tally.
#[derive(Default)]
pub struct Stacks {
    chains: Interner<u32>,
    tallies: Vec<Tally>,
}

impl Stacks {
    /// Makes room for this many stacks more, which have so many frames together.
    pub fn reserve(&mut self, stacks: usize, frames: usize) {
        self.chains.reserve(stacks, frames);
        self.tallies.reserve(stacks);
    }

    /// Adds to a stack; gives its number.
    pub fn add(&mut self, chain: &[u32], tally: Tally) -> u32 {
        let (id, new) = self.chains.intern(chain);
        if new {
            self.tallies.push(Tally::default());
        }
        let known = &mut self.tallies[id as usize];
        *known = known.plus(tally);
        id
    }

    /// What the stack holds, if it was seen.
    pub fn find_mut(&mut self, chain: &[u32]) -> Option<&mut Tally> {
        let id = self.chains.find(chain)?;
        self.tallies.get_mut(id as usize)
    }

    /// Leaves the weights alone.
    pub fn forget_samples(&mut self) {
        self.tallies.iter_mut().for_each(|tally| tally.samples = 0);
    }

    /// How many numbers stacks and tallies take.
    pub fn numbers(&self) -> usize {
        const STACK: usize = 16;
        self.chains.arena_len() + STACK * self.len()
    }

    pub fn len(&self) -> usize {
        self.tallies.len()
    }

    pub fn is_empty(&self) -> bool {
        self.tallies.is_empty()
    }

    pub fn chain(&self, stack: u32) -> &[u32] {
        self.chains.get(stack)
    }

    pub fn tally(&self, stack: u32) -> Tally {
        self.tallies[stack as usize]
    }

    pub fn total(&self) -> Tally {
        self.tallies.iter().fold(Tally::default(), |sum, one| sum.plus(*one))
    }

    /// The stacks in the order of their frames: `ranks` gives the rank of each frame, from 1, by its number. Sorts by one
    /// frame after the other, so that what stacks have in common is looked at once; a chain that ended has rank 0.
    pub fn sorted(&self, ranks: &[u32]) -> Vec<u32> {
        let key = |chain: &[u32], depth| chain.get(depth).map_or(0, |&id: &u32| ranks[id as usize]);
        let mut stacks: Vec<(u32, u32)> = (0..self.len() as u32).map(|stack| (0, stack)).collect();
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
}
