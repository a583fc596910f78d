//! What was found of some addresses.

use crate::addresses::ObjectAddress;
use crate::intern::{IntMap, Interner};
use gimli::Error;
use std::ops::Range;

/// Attributes and ranges that may be read for each byte of debug information: compilers write one in some bytes.
const STEPS: u64 = 4;
/// How often an address may lie in the range of a unit, of a function or of one inlined.
const HITS: u64 = 64;
/// What a small file may take beyond that.
const SMALL: u64 = 1 << 20;

/// What was inlined at each address, as numbers of names, outermost first.
#[derive(Default)]
pub struct Inlined {
    /// As mangled as the file has them.
    pub names: Interner<u8>,
    pub chains: Vec<Vec<u32>>,
    /// Reading took more than any file can need, and ended there.
    pub is_endless: bool,
}

/// What was found so far.
pub struct InlineLookup<'f> {
    addresses: &'f [ObjectAddress],
    /// Whether the function of an address was found.
    pub done: Vec<bool>,
    pub inlined: Inlined,
    /// Names by the entry that the unit refers to, and by the kind of reference.
    pub names_of_unit: IntMap<u64, u32>,
    /// What may be read still, and how often an address may be found.
    steps: u64,
    hits: u64,
}

impl<'f> InlineLookup<'f> {
    /// bytes: of the debug information
    pub fn new(addresses: &'f [ObjectAddress], bytes: u64) -> Self {
        Self {
            steps: bytes.saturating_mul(STEPS).saturating_add(SMALL),
            hits: (addresses.len() as u64).saturating_mul(HITS).saturating_add(SMALL),
            addresses,
            done: vec![false; addresses.len()],
            inlined: Inlined {
                names: Interner::default(),
                chains: vec![Vec::new(); addresses.len()],
                is_endless: false,
            },
            names_of_unit: IntMap::default(),
        }
    }

    /// So many bytes of another file are read, too.
    pub fn allow(&mut self, bytes: u64) {
        self.steps = self.steps.saturating_add(bytes.saturating_mul(STEPS));
    }

    /// Takes so many steps, unless that is more than a file of this length can need: entries may share what is long, or be longer
    /// than their bytes.
    #[inline]
    pub fn step(&mut self, count: usize) -> Result<(), Error> {
        Self::spend(&mut self.steps, count, &mut self.inlined.is_endless)
    }

    fn spend(left: &mut u64, count: usize, is_endless: &mut bool) -> Result<(), Error> {
        match left.checked_sub(count as u64) {
            Some(rest) => *left = rest,
            None => *is_endless = true,
        }
        // Any error ends the unit.
        if *is_endless { Err(Error::Io) } else { Ok(()) }
    }

    /// The addresses in the ranges of a unit, in order; `None` where there are none.
    pub fn held(&mut self, ranges: &mut dyn Iterator<Item = Range<u64>>) -> Option<Vec<usize>> {
        let mut held: Vec<Range<usize>> = Vec::new();
        for range in ranges {
            self.step(1).ok()?;
            // Functions that the linker threw away keep an entry at address 0.
            if range.start == 0 || range.start >= range.end {
                continue;
            }
            let from = self.addresses.partition_point(|address| address.0 < range.start);
            let to = from + self.addresses[from..].partition_point(|address| address.0 < range.end);
            if from < to {
                held.push(from..to);
            }
        }
        held.sort_unstable_by_key(|places| places.start);
        let mut from = 0;
        let each_once = held.into_iter().flat_map(|places| {
            let fresh = places.start.max(from)..places.end;
            from = from.max(places.end);
            fresh
        });
        let held: Vec<usize> = each_once.collect();
        Self::spend(&mut self.hits, held.len(), &mut self.inlined.is_endless).ok()?;
        (!held.is_empty()).then_some(held)
    }

    /// Adds those of some addresses that lie in a range.
    pub fn within(&mut self, some: &[usize], range: &Range<u64>, held: &mut Vec<usize>) -> Result<(), Error> {
        self.step(1)?;
        let from = some.partition_point(|&index| self.addresses[index].0 < range.start);
        let some = some.get(from..).unwrap_or(&[]);
        // Most functions hold none or few.
        let len = some.iter().position(|&index| self.addresses[index].0 >= range.end);
        let some = &some[..len.unwrap_or(some.len())];
        Self::spend(&mut self.hits, some.len(), &mut self.inlined.is_endless)?;
        held.extend_from_slice(some);
        Ok(())
    }

    pub fn name(&mut self, name: &[u8]) -> u32 {
        self.inlined.names.intern(name).0
    }
}
