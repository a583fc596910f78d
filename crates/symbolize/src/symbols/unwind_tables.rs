//! What the unwind tables of a mapped file say.

use super::{AddressesToName, Object, ObjectId, Symbols};
use crate::addresses::{FileOffset, ObjectAddress};
use crate::unwind::{ThreadStarts, UnwindSections};
use std::ops::Range;
use std::sync::Arc;

fn useless(name: &[u8]) -> String {
    format!("{}: its unwind tables are damaged or too large, stacks end in it", String::from_utf8_lossy(name))
}

impl Symbols {
    /// The unwind tables of a file, and the address of where a mapping of it begins, by the offsets that it maps.
    pub fn unwind(
        &mut self,
        object: ObjectId,
        mapped: Range<FileOffset>,
    ) -> Option<(Arc<UnwindSections>, ObjectAddress)> {
        let first = self.find(object)?.elf.address_of_mapping(mapped)?;
        let sections = self.sections(object)?;
        if sections.are_endless() {
            let Object { unwind, name, .. } = &mut self.objects[object.0 as usize];
            *unwind = Some(None);
            self.notes.push(useless(name));
            return None;
        }
        Some((sections, first))
    }

    fn sections(&mut self, object: ObjectId) -> Option<Arc<UnwindSections>> {
        let found = self.find(object)?;
        let Object { unwind, name, .. } = &mut self.objects[object.0 as usize];
        let sections = unwind.get_or_insert_with(|| {
            let sections = found.sections(&self.options.budget).map(Arc::new);
            if sections.is_none() {
                self.notes.push(useless(name));
            }
            sections
        });
        sections.clone()
    }

    /// Whether threads begin in the function around each of some places; `None` where only its name can tell.
    pub fn begin_threads(&mut self, places: &AddressesToName) -> Vec<Option<bool>> {
        /// From a program's entry on: some machine's first instructions, which are described by nothing.
        const ENTRY_BYTES: u64 = 64;
        let (found, sections) = (self.find(places.object), self.sections(places.object));
        let starts =
            sections.as_ref().and_then(|sections| sections.frames()).map(|frames| ThreadStarts { frames });
        let begins = |&offset: &FileOffset| {
            let elf = &found.as_ref()?.elf;
            let ObjectAddress(address) = elf.address_at(offset)?;
            let described = starts.as_ref().and_then(|starts| starts.has(address));
            described.or_else(|| (address.wrapping_sub(elf.entry) < ENTRY_BYTES).then_some(true))
        };
        places.offsets.iter().map(begins).collect()
    }
}
