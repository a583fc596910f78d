//! A profile as pprof.

use super::fields::{label, profile as top, sample, value_type};
use super::sites::{Sites, ValueKinds, pieces};
use super::tables::TableWriter;
use super::wire::{Element, Message};
use crate::frame::Origin;
use crate::locations::{Location, Locations};
use crate::profile::Profile;
use crate::stats::Stats;
use crate::threads;
use flate2::Compression;
use flate2::write::GzEncoder;
use std::io::{self, Write};

/// Pieces that each thread puts together before they are written.
const AT_ONCE: usize = 4;

/// Writes the stacks with weight and number of samples. The bytes depend only on the stacks.
pub fn write_pprof(profile: &Profile, stats: &Stats, threads: usize, out: &mut dyn Write) -> io::Result<()> {
    let mut gzip = GzEncoder::new(out, Compression::fast());
    ProfileWriter::new(profile, stats, threads).write(&mut gzip)?;
    gzip.finish()?.flush()
}

struct ProfileWriter<'p> {
    profile: &'p Profile,
    /// The event, if the input states it.
    event: Option<&'p str>,
    /// Name and unit of the weights, unless they are the numbers of samples.
    weight: Option<(&'p str, &'p str)>,
    counted: bool,
    tables: TableWriter,
    text: Message,
    threads: usize,
}

impl<'p> ProfileWriter<'p> {
    fn new(profile: &'p Profile, stats: &'p Stats, threads: usize) -> Self {
        let unit = match &*stats.unit {
            "ns" => "nanoseconds",
            unit => unit,
        };
        // Two values of one name are refused by `go tool pprof`.
        let event = stats.event.as_deref().filter(|event| *event != "samples").unwrap_or("weight");
        let weight = (unit != "samples").then_some((event, unit));
        Self {
            profile,
            event: stats.event.as_deref(),
            weight,
            counted: weight.is_none() || profile.total().samples > 0,
            tables: TableWriter::new(),
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
        match &self.profile.located {
            located if located.is_empty() => self.samples(&Locations::of_frames(self.profile), out)?,
            located => self.samples(located, out)?,
        }
        let main = self.weight.map_or("samples", |(name, _)| name);
        let main = self.tables.string(main.as_bytes());
        self.text.number(top::DEFAULT_SAMPLE_TYPE, main);
        self.tables.finish(&self.profile.build_ids, &mut self.text);
        out.write_all(&self.text.bytes)
    }

    /// The stacks, each site of which is a location.
    fn samples(&mut self, located: &Locations, out: &mut impl Write) -> io::Result<()> {
        let profile = self.profile;
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
        let sites = Sites { located, locations, ranks: &ranks };
        // Strings are numbered as they come: in the order of the commands' names.
        let mut commands: Vec<_> = located.counted().iter().map(|counted| counted.command).collect();
        commands.sort_unstable_by_key(|&command| sites.rank(command));
        commands.dedup();
        let mut labels = vec![Vec::new(); ranks.len() + 1];
        for command in commands {
            labels[sites.rank(command) as usize] = self.labels(command).bytes;
        }
        let sorted = sites.sorted(self.threads);
        let values = ValueKinds { counts: self.counted, weights: self.weight.is_some() };
        let text =
            |piece: &&[_]| sites.samples(piece, values, |command| &labels[sites.rank(command) as usize]);
        for several in pieces(&sorted).chunks(AT_ONCE * self.threads) {
            for samples in threads::each(several, self.threads, text) {
                out.write_all(&samples?)?;
            }
        }
        Ok(())
    }

    /// The labels of all samples of a command.
    fn labels(&mut self, command: Option<u32>) -> Message {
        let mut labels = Message::default();
        let origin = command.and_then(|command| self.profile.frame(command).origin);
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
