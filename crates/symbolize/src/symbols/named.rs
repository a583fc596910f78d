//! The names of many addresses of one object.

use super::demangle::demangle;
use super::inlines::{Inlined, Inlines};
use crate::addresses::ObjectAddress;
use crate::intern::Interner;
use crate::runs::Runs;

/// A frame: the number of its name, and whether it was inlined into the next one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NamedFrame {
    pub name: u32,
    pub inlined: bool,
}

/// What lies at some addresses: at each what was inlined there, innermost first, then the function itself.
#[derive(Default)]
pub struct Symbolized {
    mangled: Interner<u8>,
    /// The readable names, once they were made.
    names: Vec<Box<[u8]>>,
    frames: Runs<NamedFrame>,
    /// Names or debug information took more to read than any file can need, and were not read to their end.
    pub is_endless: bool,
}

impl Symbolized {
    /// `symbol` gives the function at one of the addresses, which must be in order.
    pub fn new<'s>(
        addresses: &[Option<ObjectAddress>],
        inlines: Option<&Inlines>,
        symbol: impl Fn(ObjectAddress) -> Option<&'s [u8]>,
    ) -> Self {
        let known: Vec<_> = addresses.iter().copied().flatten().collect();
        let Inlined { names, chains, is_endless } =
            inlines.map_or_else(Inlined::default, |inlines| inlines.at(&known));
        // What is inlined keeps its numbers.
        let mut named = Self { mangled: names, is_endless, ..Self::default() };
        let mut next = 0;
        for address in addresses {
            let mut symbol = address.and_then(&symbol).unwrap_or(b"");
            if named.mangled.arena_len() + symbol.len() > NAMES {
                (symbol, named.is_endless) = (b"", true);
            }
            let name = named.mangled.intern(symbol).0;
            named.frames.add(|frames| {
                if address.is_some() {
                    let chain = chains.get(next).map_or(&[][..], Vec::as_slice);
                    frames.extend(chain.iter().rev().map(|&name| NamedFrame { name, inlined: true }));
                    next += 1;
                }
                frames.push(NamedFrame { name, inlined: false });
            });
        }
        named
    }

    /// The frames at the address of this number.
    pub fn frames(&self, address: usize) -> &[NamedFrame] {
        self.frames.get(address)
    }

    /// Readable, once that was made; empty where there is no symbol.
    pub fn name(&self, number: u32) -> &[u8] {
        self.names.get(number as usize).map_or(b"", |name| name)
    }

    pub fn names(&self) -> usize {
        self.mangled.len()
    }

    /// The mangled names, a few at a time.
    pub fn pieces(&self) -> impl Iterator<Item = NameBatch<'_>> {
        let names = self.names() as u32;
        let piece =
            move |first: u32| NameBatch { mangled: &self.mangled, first, last: names.min(first + PIECE) };
        (0..names).step_by(PIECE as usize).map(piece)
    }

    /// Takes as many readable names as there are mangled ones.
    pub fn take_readable(&mut self, pieces: &mut impl Iterator<Item = Vec<Box<[u8]>>>) {
        let count = self.names().div_ceil(PIECE as usize);
        self.names = pieces.take(count).flatten().collect();
    }
}

/// Bytes of the names of one object: each of a hundred thousand functions could be a part of one long text.
const NAMES: usize = 32 << 20;
/// Names that one thread makes readable.
const PIECE: u32 = 64;

/// Some of the mangled names.
pub struct NameBatch<'n> {
    mangled: &'n Interner<u8>,
    first: u32,
    last: u32,
}

impl NameBatch<'_> {
    pub fn readable(&self) -> Vec<Box<[u8]>> {
        (self.first..self.last).map(|name| demangle(self.mangled.get(name)).into()).collect()
    }
}
