//! The locations of stacks by name.

use super::tables::TableWriter;
use super::wire::{Element, Message};
use crate::intern::Interner;
use crate::origin::{self, Origin};

/// Locations of frames that know their origin.
pub struct FrameLocations<'p> {
    names: &'p Interner<u8>,
    /// Function and mapping of each name, made when first needed.
    known: Vec<Option<PprofFrame>>,
    /// The location that holds a frame and nothing that was inlined into it, by name, made when first needed.
    alone: Vec<Option<Element>>,
    functions: Vec<u32>,
}

#[derive(Clone, Copy)]
struct PprofFrame {
    function: u32,
    mapping: u32,
    inlined: bool,
    address: u64,
}

impl<'p> FrameLocations<'p> {
    pub fn new(names: &'p Interner<u8>) -> Self {
        let (known, alone) = (vec![None; names.len()], vec![None; names.len()]);
        Self { names, known, alone, functions: Vec::new() }
    }

    /// Locations, leaf first. Inlined frames lie in the location of the frame they were inlined into.
    pub fn locations(&mut self, root_first: &[u32], tables: &mut TableWriter, locations: &mut Message) {
        self.functions.clear();
        for &name in root_first.iter().rev() {
            let nothing_inlined = self.functions.is_empty();
            if let Some(location) = self.alone[name as usize].filter(|_| nothing_inlined) {
                locations.element(location);
                continue;
            }
            let known = self.frame(name, tables);
            self.functions.push(known.function);
            if !known.inlined {
                let functions = self.functions.drain(..);
                let location = tables.location(known.mapping, known.address, functions);
                locations.element(location);
                if nothing_inlined {
                    self.alone[name as usize] = Some(location);
                }
            }
        }
        if !self.functions.is_empty() {
            locations.element(tables.location(0, 0, self.functions.drain(..)));
        }
    }

    fn frame(&mut self, name: u32, tables: &mut TableWriter) -> PprofFrame {
        if let Some(known) = self.known[name as usize] {
            return known;
        }
        let (shown, origin) = origin::split(self.names.get(name));
        let (dso, inlined, address) = match origin {
            Origin::Frame { dso, inlined, address } => (dso, inlined, address.unwrap_or(0)),
            _ => (&b""[..], false, 0),
        };
        let mapping = tables.mapping(dso);
        tables.reach(mapping, address);
        let known = PprofFrame { function: tables.function(shown), mapping, inlined, address };
        self.known[name as usize] = Some(known);
        known
    }
}
