//! Weighted stacks: what every input folds into and every output reads.

use crate::error::Error;
use crate::intern::Interner;
use crate::locations::Locations;
use crate::origin;
use crate::stacks::Stacks;
use crate::weights::Tally;
use std::collections::HashMap;

/// Different stacks, root first, the command being the first frame.
#[derive(Default)]
pub struct Profile {
    pub names: Interner<u8>,
    stacks: Stacks,
    /// The same stacks by place, where the input and the options give them.
    pub located: Locations,
    /// The build ids of objects, by name, where the input tells them.
    pub build_ids: HashMap<Vec<u8>, Vec<u8>>,
}

impl Profile {
    /// Makes room for this many stacks more, which have so many frames together.
    pub fn reserve(&mut self, stacks: usize, frames: usize) {
        self.stacks.reserve(stacks, frames);
    }

    /// Adds to the stack made of these names, root first; gives its number.
    pub fn add(&mut self, chain: &[u32], tally: Tally) -> u32 {
        self.stacks.add(chain, tally)
    }

    /// Adds all stacks of another profile, which has none by place; gives the number of each here.
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
            self.add(&chain, other.tally(stack))
        };
        (0..other.stacks() as u32).map(add).collect()
    }

    /// The same stacks as folded text shows them: names without their origins.
    pub fn plain(&self) -> Self {
        self.plain_numbered().0
    }

    /// The same, and the number there of each stack here.
    pub fn plain_numbered(&self) -> (Self, Vec<u32>) {
        let mut plain = Self::default();
        let numbers = plain.absorb_as(self, |name| origin::split(name).0);
        (plain, numbers)
    }

    /// What the stack holds, if it was seen.
    pub fn find_mut(&mut self, chain: &[u32]) -> Option<&mut Tally> {
        self.stacks.find_mut(chain)
    }

    /// Takes the numbers of samples from the weights of the same stacks in another profile.
    pub fn take_counts(&mut self, counts: &Self) -> Result<(), Error> {
        self.stacks.forget_samples();
        for stack in 0..counts.stacks() as u32 {
            let chain: Vec<u32> =
                counts.chain(stack).iter().filter_map(|&id| self.names.find(counts.names.get(id))).collect();
            let whole = chain.len() == counts.chain(stack).len();
            let tally = self.stacks.find_mut(&chain).filter(|_| whole);
            let count = u64::try_from(counts.tally(stack).weight);
            match (tally, count) {
                (Some(tally), Ok(count)) => tally.samples = count,
                _ => {
                    return Err(Error::usage(
                        "--count-event: a stack was counted that was not weighed, or too often",
                    ));
                }
            }
        }
        Ok(())
    }

    pub fn stacks(&self) -> usize {
        self.stacks.len()
    }

    pub fn chain(&self, stack: u32) -> &[u32] {
        self.stacks.chain(stack)
    }

    pub fn tally(&self, stack: u32) -> Tally {
        self.stacks.tally(stack)
    }

    pub fn total(&self) -> Tally {
        self.stacks.total()
    }

    /// The stacks in the order of their frames' names, frame by frame: siblings stay together, and the
    /// order does not depend on the order of the samples.
    pub fn sorted(&self) -> Vec<u32> {
        self.stacks.sorted(&self.ranks())
    }

    /// The same from the leaf.
    pub fn sorted_by_leaf(&self) -> Vec<u32> {
        self.stacks.sorted_from_end(&self.ranks())
    }

    /// The place of each name in their order, from 1.
    pub fn ranks(&self) -> Vec<u32> {
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
