//! A profile as pprof.

use super::fields::{function, label, line, location, mapping, profile as top, sample, value_type};
use super::wire::Message;
use crate::intern::{IntMap, Interner};
use crate::origin::{self, Origin};
use crate::profile::Profile;
use crate::stats::Stats;
use crate::symbols::elf::hex;
use flate2::{Compression, write::GzEncoder};
use std::io::{self, Write};

/// Writes the stacks with weight and number of samples. The order depends on nothing but the stacks.
pub fn write_pprof(profile: &Profile, stats: &Stats, out: &mut dyn Write) -> io::Result<()> {
    let mut zip = GzEncoder::new(out, Compression::fast());
    Writer::new(profile, stats).write(&mut zip)?;
    zip.finish()?.flush()
}

/// What stands before the functions in the key of a location.
const HEAD: usize = 3;
const PAGE: u64 = 4096;

struct Writer<'p> {
    profile: &'p Profile,
    /// The event, if the input told it.
    event: Option<&'p str>,
    /// Name and unit of the weights, unless they are the numbers of samples.
    weight: Option<(&'p str, &'p str)>,
    counted: bool,
    strings: Interner<u8>,
    /// Tables, in the order of their numbers from 1.
    functions: Interner<u32>,
    locations: Interner<u32>,
    mappings: Interner<u32>,
    /// The end of the highest page with an address of each.
    limits: Vec<u64>,
    /// Function and mapping of each name of the profile, made when first needed.
    known: Vec<Option<Known>>,
    /// The location that holds a frame and nothing that was inlined into it, by name; 0 until it was needed.
    alone: Vec<u32>,
    /// What each first frame of a stack says, by the number of its name.
    firsts: IntMap<u64, First>,
    tables: Message,
    /// Where a sample is put together.
    sample: Message,
    chain: Message,
    lines: Vec<u32>,
}

#[derive(Clone, Copy)]
struct Known {
    function: u32,
    mapping: u32,
    inlined: bool,
    address: u64,
}

/// What the first frame of a stack says of all of it.
struct First {
    is_command: bool,
    labels: Vec<u8>,
}

impl<'p> Writer<'p> {
    fn new(profile: &'p Profile, stats: &'p Stats) -> Self {
        let unit = match &*stats.unit {
            "ns" => "nanoseconds",
            unit => unit,
        };
        let weight = (unit != "samples").then(|| (stats.event.as_deref().unwrap_or("weight"), unit));
        let mut strings = Interner::default();
        strings.intern(b"");
        Self {
            profile,
            event: stats.event.as_deref(),
            weight,
            counted: weight.is_none() || profile.total().samples > 0,
            strings,
            functions: Interner::default(),
            locations: Interner::default(),
            mappings: Interner::default(),
            limits: Vec::new(),
            known: vec![None; profile.names.len()],
            alone: vec![0; profile.names.len()],
            firsts: IntMap::default(),
            tables: Message::default(),
            sample: Message::default(),
            chain: Message::default(),
            lines: Vec::new(),
        }
    }

    fn write(mut self, out: &mut dyn Write) -> io::Result<()> {
        let mut text = Message::default();
        let types = [self.counted.then_some(("samples", "count")), self.weight];
        for (name, unit) in types.into_iter().flatten() {
            let (name, unit) = (self.string(name.as_bytes()), self.string(unit.as_bytes()));
            text.message(top::SAMPLE_TYPE, |message| {
                message.number(value_type::TYPE, name);
                message.number(value_type::UNIT, unit);
            });
        }
        for stack in self.profile.sorted_by_leaf() {
            self.sample(stack)?;
            text.bytes(top::SAMPLE, &self.sample.bytes);
            if text.bytes.len() > 1 << 16 {
                out.write_all(&text.bytes)?;
                text.clear();
            }
        }
        self.write_mappings();
        let main = self.weight.map_or("samples", |(name, _)| name);
        text.number(top::DEFAULT_SAMPLE_TYPE, self.string(main.as_bytes()));
        text.bytes.extend_from_slice(&self.tables.bytes);
        for id in 0..self.strings.len() as u32 {
            text.bytes(top::STRING, self.strings.get(id));
        }
        out.write_all(&text.bytes)
    }

    fn sample(&mut self, stack: u32) -> io::Result<()> {
        let chain = self.profile.chain(stack);
        let key = chain.first().map_or(u64::MAX, |&first| first.into());
        let known = self.firsts.get(&key).map(|first| first.is_command);
        let is_command = known.unwrap_or_else(|| self.command(chain).is_some());
        self.stack(&chain[usize::from(is_command)..]);
        let tally = self.profile.tally(stack);
        let weight = i64::try_from(tally.weight).map_err(|_| {
            io::Error::other(format!("pprof has no number as large as the weight {}", tally.weight))
        })?;
        let values = [self.counted.then_some(tally.samples), self.weight.map(|_| weight as u64)];
        self.sample.clear();
        self.sample.bytes(sample::LOCATION, &self.chain.bytes);
        self.sample.packed(sample::VALUE, values.into_iter().flatten());
        if known.is_none() {
            let labels = self.labels(self.command(chain)).bytes;
            self.firsts.insert(key, First { is_command, labels });
        }
        self.sample.bytes.extend_from_slice(&self.firsts[&key].labels);
        Ok(())
    }

    fn labels(&mut self, command: Option<Origin>) -> Message {
        let mut labels = Message::default();
        if let Some(Origin::Command { comm, pid, tid }) = command {
            let comm = self.string(comm);
            self.label(&mut labels, b"comm", label::STR, comm);
            for (key, id) in [(b"pid", pid), (b"tid", tid)] {
                if let Some(id) = id {
                    self.label(&mut labels, key, label::NUM, id as u64);
                }
            }
        }
        if let Some(event) = self.event {
            let event = self.string(event.as_bytes());
            self.label(&mut labels, b"event", label::STR, event);
        }
        labels
    }

    fn command(&self, chain: &[u32]) -> Option<Origin<'p>> {
        let (_, origin) = origin::split(self.profile.names.get(*chain.first()?));
        matches!(origin, Origin::Command { .. }).then_some(origin)
    }

    fn label(&mut self, out: &mut Message, key: &[u8], field: u32, value: u64) {
        let key = self.string(key);
        out.message(sample::LABEL, |message| {
            message.number(label::KEY, key);
            message.number(field, value);
        });
    }

    /// Locations, leaf first. Inlined frames lie in the location of the frame they were inlined into.
    fn stack(&mut self, root_first: &[u32]) {
        self.chain.clear();
        let mut key = std::mem::take(&mut self.lines);
        key.clear();
        key.resize(HEAD, 0);
        for &name in root_first.iter().rev() {
            let nothing_inlined = key.len() == HEAD;
            if nothing_inlined && self.alone[name as usize] > 0 {
                self.chain.element(self.alone[name as usize].into());
                continue;
            }
            let known = self.frame(name);
            key.push(known.function);
            if !known.inlined {
                let (high, low) = ((known.address >> 32) as u32, known.address as u32);
                key[..HEAD].copy_from_slice(&[known.mapping, high, low]);
                let location = self.location(&key);
                self.chain.element(location.into());
                key.truncate(HEAD);
                if nothing_inlined {
                    self.alone[name as usize] = location;
                }
            }
        }
        if key.len() > HEAD {
            key[..HEAD].fill(0);
            let location = self.location(&key);
            self.chain.element(location.into());
        }
        self.lines = key;
    }

    fn frame(&mut self, name: u32) -> Known {
        if let Some(known) = self.known[name as usize] {
            return known;
        }
        let (shown, origin) = origin::split(self.profile.names.get(name));
        let (dso, inlined, address) = match origin {
            Origin::Frame { dso, inlined, address } => (dso, inlined, address.unwrap_or(0)),
            _ => (&b""[..], false, 0),
        };
        let mapping = self.mapping(dso, address);
        let known = Known { function: self.function(shown), mapping, inlined, address };
        self.known[name as usize] = Some(known);
        known
    }

    fn function(&mut self, name: &[u8]) -> u32 {
        let name = self.string(name);
        let (index, new) = self.functions.intern(&[name as u32]);
        if new {
            self.tables.message(top::FUNCTION, |message| {
                message.number(function::ID, u64::from(index) + 1);
                message.number(function::NAME, name);
                message.number(function::SYSTEM_NAME, name);
            });
        }
        index + 1
    }

    fn mapping(&mut self, dso: &[u8], address: u64) -> u32 {
        if dso.is_empty() || dso == b"[unknown]" {
            return 0;
        }
        let file = self.string(dso);
        let (index, new) = self.mappings.intern(&[file as u32]);
        if new {
            self.limits.push(0);
        }
        if address > 0 {
            let limit = (address | (PAGE - 1)).saturating_add(1);
            self.limits[index as usize] = self.limits[index as usize].max(limit);
        }
        index + 1
    }

    /// Mappings begin at 0: addresses are those of the object, not of a process.
    fn write_mappings(&mut self) {
        for index in 0..self.mappings.len() as u32 {
            let file = u64::from(self.mappings.get(index)[0]);
            let name = self.strings.get(file as u32);
            let id = self.profile.build_ids.get(name).map(|id| hex(id));
            let id = id.map(|id| self.string(id.as_bytes()));
            let limit = self.limits[index as usize];
            self.tables.message(top::MAPPING, |message| {
                message.number(mapping::ID, u64::from(index) + 1);
                message.number(mapping::LIMIT, limit);
                message.number(mapping::FILENAME, file);
                message.number(mapping::BUILD_ID, id.unwrap_or(0));
                message.number(mapping::HAS_FUNCTIONS, 1);
                message.number(mapping::HAS_INLINES, 1);
            });
        }
    }

    /// A mapping, the two halves of an address, and functions, innermost first.
    fn location(&mut self, key: &[u32]) -> u32 {
        let (index, new) = self.locations.intern(key);
        let id = index + 1;
        if new {
            self.tables.message(top::LOCATION, |message| {
                message.number(location::ID, id.into());
                message.number(location::MAPPING, u64::from(key[0]));
                message.number(location::ADDRESS, u64::from(key[1]) << 32 | u64::from(key[2]));
                for &function in &key[HEAD..] {
                    message.message(location::LINE, |line| line.number(line::FUNCTION, u64::from(function)));
                }
            });
        }
        id
    }

    /// The number of a string; pprof's are UTF-8.
    fn string(&mut self, bytes: &[u8]) -> u64 {
        u64::from(self.strings.intern(String::from_utf8_lossy(bytes).as_bytes()).0)
    }
}
