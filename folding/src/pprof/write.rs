//! A profile as pprof.

use super::fields::{label, profile as top, sample, value_type};
use super::names::FrameLocations;
use super::samples::{SampleWriter, ValueKinds};
use super::sites::{Sites, pieces};
use super::tables::TableWriter;
use super::wire::{Element, Message};
use crate::frame::Origin;
use crate::intern::IntMap;
use crate::locations::Location;
use crate::profile::Profile;
use crate::stats::Stats;
use crate::threads;
use flate2::Compression;
use flate2::write::GzEncoder;
use std::io::{self, Write};

/// Bytes that are worth being packed.
const PIECE: usize = 1 << 16;

/// Pieces that each thread puts together before they are written.
const AT_ONCE: usize = 4;

/// Writes the stacks with weight and number of samples. The bytes depend only on the stacks.
pub fn write_pprof(profile: &Profile, stats: &Stats, threads: usize, out: &mut dyn Write) -> io::Result<()> {
    let mut gzip = GzEncoder::new(out, Compression::fast());
    ProfileWriter::new(profile, stats, threads).write(&mut gzip)?;
    gzip.finish()?.flush()
}

/// Where to find what a first frame says.
fn key(frame: Option<u32>) -> u64 {
    frame.map_or(u64::MAX, u64::from)
}

struct ProfileWriter<'p> {
    profile: &'p Profile,
    /// The event, if the input states it.
    event: Option<&'p str>,
    /// Name and unit of the weights, unless they are the numbers of samples.
    weight: Option<(&'p str, &'p str)>,
    counted: bool,
    tables: TableWriter,
    /// What each first frame of a stack says, by its number.
    firsts: IntMap<u64, FirstFrame>,
    text: Message,
    threads: usize,
}

/// What the first frame of a stack says of all of it.
struct FirstFrame {
    is_command: bool,
    labels: Vec<u8>,
}

impl<'p> ProfileWriter<'p> {
    fn new(profile: &'p Profile, stats: &'p Stats, threads: usize) -> Self {
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
            tables: TableWriter::new(),
            firsts: IntMap::default(),
            text: Message::default(),
            threads,
        }
    }

    fn write(mut self, out: &mut impl Write) -> io::Result<()> {
        let types = [self.counted.then_some(("samples", "count")), self.weight];
        for (name, unit) in types.into_iter().flatten() {
            let (name, unit) = (self.tables.string(name.as_bytes()), self.tables.string(unit.as_bytes()));
            self.text.message(top::SAMPLE_TYPE, |message| {
                message.number(value_type::TYPE, name);
                message.number(value_type::UNIT, unit);
            });
        }
        out.write_all(&self.text.bytes)?;
        self.text.clear();
        if self.profile.located.is_empty() {
            self.by_frame(out)?
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
    fn by_frame(&mut self, out: &mut impl Write) -> io::Result<()> {
        let profile = self.profile;
        let mut frames = FrameLocations::new(profile);
        let mut samples = SampleWriter::default();
        for stack in profile.sorted_by_leaf() {
            let chain = profile.chain(stack);
            let first = self.first(chain.first().copied());
            let is_command = self.firsts.get(&first).is_some_and(|first| first.is_command);
            frames.locations(&chain[usize::from(is_command)..], &mut self.tables, &mut samples.locations);
            samples.add(self.values(), profile.tally(stack), self.labels_of(first))?;
            if samples.text.bytes.len() > PIECE {
                out.write_all(&samples.text.bytes)?;
                samples.text.clear();
            }
        }
        out.write_all(&samples.text.bytes)
    }

    /// Stacks of sites, each of which is a location.
    fn by_site(&mut self, out: &mut impl Write) -> io::Result<()> {
        let profile = self.profile;
        let located = &profile.located;
        let ranks = profile.ranks();
        let mut functions = vec![0; profile.frames()];
        let mut mappings = vec![None; located.objects()];
        let mut locations = vec![Element::default(); located.sites()];
        for site in located.sorted_sites(&ranks) {
            let Location { object, address, frames } = located.get(site);
            let mapping = &mut mappings[object as usize];
            let mapping = *mapping.get_or_insert_with(|| self.tables.mapping(located.object_name(object)));
            self.tables.reach(mapping, address);
            for &frame in frames {
                if functions[frame as usize] == 0 {
                    functions[frame as usize] = self.tables.function(profile.name(frame));
                }
            }
            let functions = frames.iter().map(|&frame| functions[frame as usize]);
            locations[site as usize] = self.tables.location(mapping, address, functions);
        }
        // Strings are numbered as they come: in the order of the commands' names.
        let mut commands: Vec<u32> = located.counted().iter().map(|counted| counted.command).collect();
        commands.sort_unstable_by_key(|&command| ranks[command as usize]);
        commands.dedup();
        for command in commands {
            self.first(Some(command));
        }
        let sites = Sites { located, locations, ranks: &ranks };
        let sorted = sites.sorted(self.threads);
        let this = &*self;
        let labels = |command| this.labels_of(key(Some(command)));
        let text = |piece: &&[_]| sites.samples(piece, this.values(), labels);
        for several in pieces(&sorted).chunks(AT_ONCE * self.threads) {
            for samples in threads::each(several, self.threads, text) {
                out.write_all(&samples?)?;
            }
        }
        Ok(())
    }

    fn values(&self) -> ValueKinds {
        ValueKinds { counts: self.counted, weights: self.weight.is_some() }
    }

    /// The labels of all samples whose stack has this first frame.
    fn labels_of(&self, first: u64) -> &[u8] {
        self.firsts.get(&first).map_or(&[], |first| &first.labels)
    }

    /// Learns what the first frame of a stack says; gives where to find it.
    fn first(&mut self, frame: Option<u32>) -> u64 {
        let key = key(frame);
        if !self.firsts.contains_key(&key) {
            let origin = frame.and_then(|frame| self.profile.frame(frame).origin);
            let is_command = matches!(origin, Some(Origin::Command { .. }));
            let labels = self.labels(origin).bytes;
            self.firsts.insert(key, FirstFrame { is_command, labels });
        }
        key
    }

    fn labels(&mut self, origin: Option<Origin<&[u8]>>) -> Message {
        let mut labels = Message::default();
        if let Some(Origin::Command { pid, tid, comm }) = origin {
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
