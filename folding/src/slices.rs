//! When the stacks were seen: the tally of each stack in each slice of time, or in each group of intervals.

use crate::profile::Profile;
use crate::weights::Tally;
use std::collections::BTreeMap;
use std::io::{self, Write};

/// Slices of equal length on the trace's clock, numbered from the clock's zero.
#[derive(Default)]
pub struct Slices {
    /// By number of the slice and number of the stack.
    tallies: BTreeMap<(u64, u32), Tally>,
}

impl Slices {
    pub fn is_empty(&self) -> bool {
        self.tallies.is_empty()
    }

    /// Number of the slice on the trace's clock, number of the stack, and what it holds there.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (u64, u32, Tally)> {
        self.tallies.iter().map(|(&(slice, stack), &tally)| (slice, stack, tally))
    }

    pub fn add(&mut self, slice: u64, stack: u32, tally: Tally) {
        let known = self.tallies.entry((slice, stack)).or_default();
        *known = known.plus(tally);
    }

    /// The first number, 0 where there is none.
    pub fn first(&self) -> u64 {
        self.tallies.keys().next().map_or(0, |&(slice, _)| slice)
    }

    /// Adds what was seen of other parts of the input; `stacks` gives the number here of each stack there.
    pub fn absorb(&mut self, other: &Self, stacks: &[u32]) {
        for (&(slice, stack), &tally) in &other.tallies {
            self.add(slice, stacks[stack as usize], tally);
        }
    }

    /// The same where several stacks are one: `stacks` gives the number of each.
    pub fn merged(&self, stacks: &[u32]) -> Self {
        let mut merged = Self::default();
        merged.absorb(self, stacks);
        merged
    }

    /// `slice<TAB>samples<TAB>weight<TAB>stack`, in the order of time and, within a slice, of the stacks' names;
    /// slices are numbered from `first`.
    pub fn write(&self, profile: &Profile, first: u64, out: &mut dyn Write) -> io::Result<()> {
        let mut rank = vec![0_usize; profile.stacks()];
        profile.sorted().iter().enumerate().for_each(|(place, &stack)| rank[stack as usize] = place);
        let mut rows: Vec<_> = self.tallies.iter().collect();
        rows.sort_by_key(|&(&(slice, stack), _)| (slice, rank[stack as usize]));
        let mut text = Vec::new();
        for (&(slice, stack), tally) in rows {
            write!(out, "{}\t{}\t{}\t", slice - first, tally.samples, tally.weight)?;
            text.clear();
            profile.write_stack(stack, &mut text);
            text.push(b'\n');
            out.write_all(&text)?;
        }
        Ok(())
    }
}
