//! The tables of a pprof that its samples refer to: strings, functions, mappings and locations.

use super::fields::{function, line, location, mapping, profile as top};
use super::wire::{Element, Message};
use crate::intern::Interner;
use crate::symbols::elf::hex;
use std::collections::HashMap;

/// Numbers before the functions in the key of a location.
const HEAD: usize = 3;
const PAGE: u64 = 4096;

/// Tables, each in the order of its numbers: from 1, strings from 0.
pub struct TableWriter {
    strings: Interner<u8>,
    functions: Interner<u32>,
    locations: Interner<u32>,
    mappings: Interner<u32>,
    /// The end of the highest page with an address of each.
    limits: Vec<u64>,
    written: Message,
    key: Vec<u32>,
}

impl TableWriter {
    pub fn new() -> Self {
        let mut strings = Interner::default();
        strings.intern(b"");
        Self {
            strings,
            functions: Interner::default(),
            locations: Interner::default(),
            mappings: Interner::default(),
            limits: Vec::new(),
            written: Message::default(),
            key: Vec::new(),
        }
    }

    /// The number of a string; pprof's are UTF-8.
    pub fn string(&mut self, bytes: &[u8]) -> u64 {
        u64::from(self.strings.intern(String::from_utf8_lossy(bytes).as_bytes()).0)
    }

    pub fn function(&mut self, name: &[u8]) -> u32 {
        let name = self.string(name);
        let (index, new) = self.functions.intern(&[name as u32]);
        if new {
            self.written.message(top::FUNCTION, |message| {
                message.number(function::ID, u64::from(index) + 1);
                message.number(function::NAME, name);
                message.number(function::SYSTEM_NAME, name);
            });
        }
        index + 1
    }

    /// The mapping of an object; 0 if it is not known.
    pub fn mapping(&mut self, dso: &[u8]) -> u32 {
        if dso.is_empty() {
            return 0;
        }
        let file = self.string(dso);
        let (index, new) = self.mappings.intern(&[file as u32]);
        if new {
            self.limits.push(0);
        }
        index + 1
    }

    /// A mapping reaches as far as the addresses in it.
    pub fn reach(&mut self, mapping: u32, address: u64) {
        if let Some(limit) = mapping.checked_sub(1).and_then(|index| self.limits.get_mut(index as usize)) {
            if address > 0 {
                *limit = (*limit).max((address | (PAGE - 1)).saturating_add(1));
            }
        }
    }

    /// The location of functions, innermost first.
    pub fn location(&mut self, mapping: u32, address: u64, functions: impl Iterator<Item = u32>) -> Element {
        self.key.clear();
        self.key.extend([mapping, (address >> 32) as u32, address as u32]);
        self.key.extend(functions);
        let (index, new) = self.locations.intern(&self.key);
        let id = index + 1;
        if new {
            let functions = &self.key[HEAD..];
            self.written.message(top::LOCATION, |message| {
                message.number(location::ID, id.into());
                message.number(location::MAPPING, mapping.into());
                message.number(location::ADDRESS, address);
                for &function in functions {
                    message.message(location::LINE, |line| line.number(line::FUNCTION, function.into()));
                }
            });
        }
        Element::new(id)
    }

    /// Adds all tables to a profile.
    pub fn finish(mut self, build_ids: &HashMap<Vec<u8>, Vec<u8>>, text: &mut Message) {
        self.write_mappings(build_ids);
        text.bytes.extend_from_slice(&self.written.bytes);
        for id in 0..self.strings.len() as u32 {
            text.bytes(top::STRING, self.strings.get(id));
        }
    }

    /// Mappings begin at 0: addresses are those of the object, not of a process.
    fn write_mappings(&mut self, build_ids: &HashMap<Vec<u8>, Vec<u8>>) {
        for index in 0..self.mappings.len() as u32 {
            let file = u64::from(self.mappings.get(index)[0]);
            let id = build_ids.get(self.strings.get(file as u32)).map(|id| hex(id));
            let id = id.map(|id| self.string(id.as_bytes()));
            let limit = self.limits[index as usize];
            self.written.message(top::MAPPING, |message| {
                message.number(mapping::ID, u64::from(index) + 1);
                message.number(mapping::LIMIT, limit);
                message.number(mapping::FILENAME, file);
                message.number(mapping::BUILD_ID, id.unwrap_or(0));
                message.number(mapping::HAS_FUNCTIONS, 1);
                message.number(mapping::HAS_INLINES, 1);
            });
        }
    }
}
