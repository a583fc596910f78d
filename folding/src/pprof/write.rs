//! A profile as pprof.

use super::fields::{label, profile as top, sample, value_type};
use super::names::Frames;
use super::tables::Tables;
use super::wire::{Element, Message};
use crate::intern::IntMap;
use crate::located::Site;
use crate::origin::{self, Origin};
use crate::profile::{Profile, Tally};
use crate::stats::Stats;
use flate2::{Compression, write::GzEncoder};
use std::io::{self, Write};

/// Bytes that are worth being packed.
const PIECE: usize = 1 << 16;

/// Writes the stacks with weight and number of samples. The order depends on nothing but the stacks.
pub fn write_pprof(profile: &Profile, stats: &Stats, out: &mut dyn Write) -> io::Result<()> {
    let mut zip = GzEncoder::new(out, Compression::fast());
    Writer::new(profile, stats).write(&mut zip)?;
    zip.finish()?.flush()
}

struct Writer<'p> {
    profile: &'p Profile,
    /// The event, if the input told it.
    event: Option<&'p str>,
    /// Name and unit of the weights, unless they are the numbers of samples.
    weight: Option<(&'p str, &'p str)>,
    counted: bool,
    tables: Tables,
    /// What each first frame of a stack says, by the number of its name.
    firsts: IntMap<u64, First>,
    text: Message,
    /// Where a sample is put together.
    locations: Message,
    head: Message,
    values: Message,
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
        Self {
            profile,
            event: stats.event.as_deref(),
            weight,
            counted: weight.is_none() || profile.total().samples > 0,
            tables: Tables::new(),
            firsts: IntMap::default(),
            text: Message::default(),
            locations: Message::default(),
            head: Message::default(),
            values: Message::default(),
        }
    }

    fn write(mut self, out: &mut dyn Write) -> io::Result<()> {
        let types = [self.counted.then_some(("samples", "count")), self.weight];
        for (name, unit) in types.into_iter().flatten() {
            let (name, unit) = (self.tables.string(name.as_bytes()), self.tables.string(unit.as_bytes()));
            self.text.message(top::SAMPLE_TYPE, |message| {
                message.number(value_type::TYPE, name);
                message.number(value_type::UNIT, unit);
            });
        }
        if self.profile.located.stacks.is_empty() {
            self.by_name(out)?
        } else {
            self.by_site(out)?
        }
        let main = self.weight.map_or("samples", |(name, _)| name);
        let main = self.tables.string(main.as_bytes());
        self.text.number(top::DEFAULT_SAMPLE_TYPE, main);
        self.tables.finish(&self.profile.build_ids, &mut self.text);
        out.write_all(&self.text.bytes)
    }

    /// Stacks of frames that know their origin.
    fn by_name(&mut self, out: &mut dyn Write) -> io::Result<()> {
        let profile = self.profile;
        let mut frames = Frames::new(&profile.names);
        for stack in profile.sorted_by_leaf() {
            let chain = profile.chain(stack);
            let first = self.first(chain.first().copied());
            let is_command = self.firsts.get(&first).is_some_and(|first| first.is_command);
            self.locations.clear();
            frames.locations(&chain[usize::from(is_command)..], &mut self.tables, &mut self.locations);
            self.sample(first, profile.tally(stack), out)?;
        }
        Ok(())
    }

    /// Stacks of sites, each of which is a location.
    fn by_site(&mut self, out: &mut dyn Write) -> io::Result<()> {
        let profile = self.profile;
        let located = &profile.located;
        let names = profile.ranks();
        let mut functions = vec![0; profile.names.len()];
        let mut mappings = vec![None; located.objects()];
        let mut locations = vec![Element::default(); located.sites()];
        let mut order = vec![0; located.sites()];
        for (place, site) in located.sorted_sites(&names).into_iter().enumerate() {
            order[site as usize] = place as u32 + 1;
            let Site { object, address, names } = located.get(site);
            let mapping = &mut mappings[object as usize];
            let mapping = *mapping.get_or_insert_with(|| self.tables.mapping(located.object_name(object)));
            self.tables.reach(mapping, address);
            for &name in names {
                if functions[name as usize] == 0 {
                    functions[name as usize] = self.tables.function(profile.names.get(name));
                }
            }
            let functions = names.iter().map(|&name| functions[name as usize]);
            locations[site as usize] = self.tables.location(mapping, address, functions);
        }
        // From the leaf, and the command last.
        let sorted = located.stacks.sorted_by(|chain, depth| match chain.get(depth + 1) {
            Some(&site) => order[site as usize],
            None if depth + 1 == chain.len() => names[chain[0] as usize],
            None => 0,
        });
        for stack in sorted {
            let Some((&command, sites)) = located.stacks.chain(stack).split_first() else { continue };
            let first = self.first(Some(command));
            self.locations.clear();
            sites.iter().for_each(|&site| self.locations.element(locations[site as usize]));
            self.sample(first, located.stacks.tally(stack), out)?;
        }
        Ok(())
    }

    /// Adds a sample at the locations put together.
    fn sample(&mut self, first: u64, tally: Tally, out: &mut dyn Write) -> io::Result<()> {
        let weight = i64::try_from(tally.weight).map_err(|_| {
            io::Error::other(format!("pprof has no number as large as the weight {}", tally.weight))
        })?;
        let values = [self.counted.then_some(tally.samples), self.weight.map(|_| weight as u64)];
        self.head.clear();
        self.head.begin_bytes(sample::LOCATION, self.locations.bytes.len());
        self.values.clear();
        self.values.packed(sample::VALUE, values.into_iter().flatten());
        let labels = self.firsts.get(&first).map_or(&[][..], |first| &first.labels);
        let pieces = [&self.head.bytes, &self.locations.bytes, &self.values.bytes, labels];
        self.text.pieces(top::SAMPLE, &pieces);
        if self.text.bytes.len() > PIECE {
            out.write_all(&self.text.bytes)?;
            self.text.clear();
        }
        Ok(())
    }

    /// Learns what the first frame of a stack says; gives where to find it.
    fn first(&mut self, name: Option<u32>) -> u64 {
        let key = name.map_or(u64::MAX, u64::from);
        if !self.firsts.contains_key(&key) {
            let (_, origin) = origin::split(name.map_or(b"", |name| self.profile.names.get(name)));
            let is_command = matches!(origin, Origin::Command { .. });
            let labels = self.labels(origin).bytes;
            self.firsts.insert(key, First { is_command, labels });
        }
        key
    }

    fn labels(&mut self, origin: Origin) -> Message {
        let mut labels = Message::default();
        if let Origin::Command { comm, pid, tid } = origin {
            let comm = self.tables.string(comm);
            self.label(&mut labels, b"comm", label::STR, comm);
            for (key, id) in [(b"pid", pid), (b"tid", tid)] {
                if let Some(id) = id {
                    self.label(&mut labels, key, label::NUM, id as u64);
                }
            }
        }
        if let Some(event) = self.event {
            let event = self.tables.string(event.as_bytes());
            self.label(&mut labels, b"event", label::STR, event);
        }
        labels
    }

    fn label(&mut self, out: &mut Message, key: &[u8], field: u32, value: u64) {
        let key = self.tables.string(key);
        out.message(sample::LABEL, |message| {
            message.number(label::KEY, key);
            message.number(field, value);
        });
    }
}
