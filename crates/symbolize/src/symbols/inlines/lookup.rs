//! What was found of some addresses.

use crate::addresses::ObjectAddress;
use crate::intern::{IntMap, Interner};
use std::ops::Range;

/// What was inlined at each address, as numbers of names, outermost first.
#[derive(Default)]
pub struct Inlined {
    /// As mangled as the file has them.
    pub names: Interner<u8>,
    pub chains: Vec<Vec<u32>>,
}

/// What was found so far.
pub struct InlineLookup<'f> {
    addresses: &'f [ObjectAddress],
    /// Whether the function of an address was found.
    pub done: Vec<bool>,
    pub inlined: Inlined,
    /// Names by the entry that the unit refers to, and by the kind of reference.
    pub names_of_unit: IntMap<u64, u32>,
}

impl<'f> InlineLookup<'f> {
    pub fn new(addresses: &'f [ObjectAddress]) -> Self {
        Self {
            addresses,
            done: vec![false; addresses.len()],
            inlined: Inlined { names: Interner::default(), chains: vec![Vec::new(); addresses.len()] },
            names_of_unit: IntMap::default(),
        }
    }

    /// Those of some addresses that lie in a range.
    pub fn within<'u>(&self, some: &'u [usize], range: &Range<u64>) -> &'u [usize] {
        let from = some.partition_point(|&index| self.addresses[index].0 < range.start);
        let some = some.get(from..).unwrap_or(&[]);
        // Most functions hold none or few.
        let len = some.iter().position(|&index| self.addresses[index].0 >= range.end);
        &some[..len.unwrap_or(some.len())]
    }

    pub fn name(&mut self, name: &[u8]) -> u32 {
        self.inlined.names.intern(name).0
    }
}
