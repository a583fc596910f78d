//! The names of many addresses of one object.

use super::demangle::Demangler;
use super::inlines::{Inlined, Inlines};
use std::collections::HashMap;

/// A frame: the number of its name, and whether it was inlined into the next one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NamedFrame {
    pub name: u32,
    pub inlined: bool,
}

/// What lies at some addresses: at each what was inlined there, innermost first, then the function itself.
#[derive(Debug, Default)]
pub struct Named {
    names: Vec<Box<[u8]>>,
    frames: Vec<NamedFrame>,
    ends: Vec<usize>,
}

impl Named {
    /// `symbol` gives the function at one of the addresses, which must be in order.
    pub fn new<'s>(
        addresses: &[Option<u64>],
        inlines: Option<&Inlines>,
        symbol: impl Fn(u64) -> Option<&'s [u8]>,
    ) -> Self {
        let known: Vec<u64> = addresses.iter().copied().flatten().collect();
        let Inlined { names, chains } = inlines.map_or_else(Inlined::default, |inlines| inlines.at(&known));
        let mut named = Self::default();
        let mut numbers = Numbers::default();
        let inlined: Vec<u32> = names.iter().map(|name| numbers.of(name, &mut named)).collect();
        let mut next = 0;
        for address in addresses {
            if address.is_some() {
                let chain = chains.get(next).map_or(&[][..], Vec::as_slice);
                let frame = |&outermost_first: &u32| NamedFrame {
                    name: inlined[outermost_first as usize],
                    inlined: true,
                };
                named.frames.extend(chain.iter().rev().map(frame));
                next += 1;
            }
            let symbol = address.and_then(&symbol).unwrap_or(b"");
            let name = numbers.of(symbol, &mut named);
            named.frames.push(NamedFrame { name, inlined: false });
            named.ends.push(named.frames.len());
        }
        named
    }

    /// The frames at the address of this number.
    pub fn frames(&self, address: usize) -> &[NamedFrame] {
        let start = address.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.frames[start..self.ends[address]]
    }

    /// Readable; empty where there is no symbol.
    pub fn name(&self, number: u32) -> &[u8] {
        &self.names[number as usize]
    }

    pub fn names(&self) -> usize {
        self.names.len()
    }
}

/// The number of each mangled name.
#[derive(Default)]
struct Numbers {
    known: HashMap<Vec<u8>, u32>,
    demangler: Demangler,
}

impl Numbers {
    fn of(&mut self, mangled: &[u8], named: &mut Named) -> u32 {
        if let Some(&number) = self.known.get(mangled) {
            return number;
        }
        let number = named.names.len() as u32;
        named.names.push(self.demangler.name(mangled).into());
        self.known.insert(mangled.to_vec(), number);
        number
    }
}
