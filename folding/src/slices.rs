//! When the stacks were seen: the tally of each stack in each slice of time.

use crate::origin;
use crate::profile::{Profile, Tally};
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

    pub fn add(&mut self, slice: u64, stack: u32, weight: u128, samples: u64) {
        let tally = self.tallies.entry((slice, stack)).or_default();
        tally.weight = tally.weight.saturating_add(weight);
        tally.samples = tally.samples.saturating_add(samples);
    }

    /// Adds what was seen of other parts of the input; `stacks` gives the number here of each stack there.
    pub fn absorb(&mut self, other: &Self, stacks: &[u32]) {
        for (&(slice, stack), tally) in &other.tallies {
            self.add(slice, stacks[stack as usize], tally.weight, tally.samples);
        }
    }

    /// `slice<TAB>samples<TAB>weight<TAB>stack`, in the order of time and, within a slice, of the stacks' names;
    /// slices are numbered from the first one seen.
    pub fn write(&self, profile: &Profile, out: &mut dyn Write) -> io::Result<()> {
        let first = self.tallies.keys().next().map_or(0, |&(slice, _)| slice);
        let mut rank = vec![0_usize; profile.stacks()];
        profile.sorted().iter().enumerate().for_each(|(place, &stack)| rank[stack as usize] = place);
        let mut rows: Vec<_> = self.tallies.iter().collect();
        rows.sort_by_key(|&(&(slice, stack), _)| (slice, rank[stack as usize]));
        for (&(slice, stack), tally) in rows {
            write!(out, "{}\t{}\t{}\t", slice - first, tally.samples, tally.weight)?;
            for (depth, &name) in profile.chain(stack).iter().enumerate() {
                out.write_all(if depth > 0 { b";" } else { b"" })?;
                out.write_all(origin::split(profile.names.get(name)).0)?;
            }
            out.write_all(b"\n")?;
        }
        Ok(())
    }
}
