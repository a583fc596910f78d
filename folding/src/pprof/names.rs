//! The locations of stacks by frame.

use super::tables::TableWriter;
use super::wire::{Element, Message};
use crate::frame::{Frame, Origin};
use crate::profile::Profile;

/// Locations of frames that know their origin.
pub struct FrameLocations<'p> {
    profile: &'p Profile,
    /// Function and mapping of each frame, made when first needed.
    known: Vec<Option<PprofFrame>>,
    /// The location that holds a frame and nothing that was inlined into it, by frame, made when first needed.
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
    pub fn new(profile: &'p Profile) -> Self {
        let (known, alone) = (vec![None; profile.frames()], vec![None; profile.frames()]);
        Self { profile, known, alone, functions: Vec::new() }
    }

    /// Locations, leaf first. Inlined frames lie in the location of the frame they were inlined into.
    pub fn locations(&mut self, root_first: &[u32], tables: &mut TableWriter, locations: &mut Message) {
        self.functions.clear();
        for &frame in root_first.iter().rev() {
            let nothing_inlined = self.functions.is_empty();
            if let Some(location) = self.alone[frame as usize].filter(|_| nothing_inlined) {
                locations.element(location);
                continue;
            }
            let known = self.frame(frame, tables);
            self.functions.push(known.function);
            if !known.inlined {
                let functions = self.functions.drain(..);
                let location = tables.location(known.mapping, known.address, functions);
                locations.element(location);
                if nothing_inlined {
                    self.alone[frame as usize] = Some(location);
                }
            }
        }
        if !self.functions.is_empty() {
            locations.element(tables.location(0, 0, self.functions.drain(..)));
        }
    }

    fn frame(&mut self, frame: u32, tables: &mut TableWriter) -> PprofFrame {
        if let Some(known) = self.known[frame as usize] {
            return known;
        }
        let Frame { name, origin } = self.profile.frame(frame);
        let (object, inlined, address) = match origin {
            Some(Origin::Code { address, object, inlined }) => (object, inlined, address.unwrap_or(0)),
            _ => (&b""[..], false, 0),
        };
        let mapping = tables.mapping(object);
        tables.reach(mapping, address);
        let known = PprofFrame { function: tables.function(name), mapping, inlined, address };
        self.known[frame as usize] = Some(known);
        known
    }
}
