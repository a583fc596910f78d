//! A profile as pprof.

use super::fields::{label, profile as top, sample, value_type};
use super::names::Frames;
use super::tables::Tables;
use super::wire::{self, Element, Message};
use crate::intern::IntMap;
use crate::located::Site;
use crate::origin::{self, Origin};
use crate::profile::{Profile, Tally};
use crate::runs::Runs;
use crate::stats::Stats;
use flate2::{Compression, write::GzEncoder};
use std::cmp::Ordering;
use std::io::{self, Write};
use std::sync::mpsc::{SyncSender, sync_channel};

/// Bytes that are worth being packed.
const PIECE: usize = 1 << 16;

/// Pieces that wait to be packed.
const AHEAD: usize = 8;

/// Writes the stacks with weight and number of samples. The order depends on nothing but the stacks. With more than one
/// thread the bytes are packed while others are made.
pub fn write_pprof(profile: &Profile, stats: &Stats, threads: usize, out: &mut dyn Write) -> io::Result<()> {
    let mut zip = GzEncoder::new(out, Compression::fast());
    if threads <= 1 {
        Writer::new(profile, stats).write(&mut zip)?;
    } else {
        std::thread::scope(|scope| {
            let (made, pieces) = sync_channel(AHEAD);
            let maker = scope.spawn(move || Writer::new(profile, stats).write(&mut Pieces(made)));
            let packed = pieces.into_iter().try_for_each(|piece| zip.write_all(&piece));
            let written = maker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            // Where packing failed, the maker only knows that nobody takes its pieces.
            packed.and(written)
        })?;
    }
    zip.finish()?.flush()
}

/// Hands what is written to another thread.
struct Pieces(SyncSender<Vec<u8>>);

impl Write for Pieces {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.send(bytes.to_vec()).map_err(|_| io::ErrorKind::BrokenPipe)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
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
        if self.profile.located.is_empty() {
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
            let locations = std::mem::take(&mut self.locations);
            self.sample(first, &locations.bytes, profile.tally(stack), out)?;
            self.locations = locations;
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
        for site in located.sorted_sites(&names) {
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
        // Each chain as it is written, so that they are put in order, and out, by few bytes that lie together.
        let mut written = Runs::default();
        for chain in located.chains() {
            let numbers = chain.iter().map(|&site| locations[site as usize]);
            written.add(|bytes| wire::elements(bytes, numbers));
        }
        let of_chain = |chain: u32| written.get(chain as usize);
        let first = |chain: u32| {
            let mut word = [0; 8];
            of_chain(chain).iter().zip(&mut word).for_each(|(byte, to)| *to = *byte);
            u64::from_be_bytes(word)
        };
        let mut sorted: Vec<_> =
            located.counted().iter().map(|counted| (first(counted.0), counted)).collect();
        sorted.sort_unstable_by(|(a_first, a), (b_first, b)| {
            let commands = || names[a.1 as usize].cmp(&names[b.1 as usize]);
            let chains = || if a.0 == b.0 { Ordering::Equal } else { of_chain(a.0).cmp(of_chain(b.0)) };
            a_first.cmp(b_first).then_with(chains).then_with(commands)
        });
        for same in sorted.chunk_by(|(_, a), (_, b)| a.1 == b.1 && of_chain(a.0) == of_chain(b.0)) {
            let &(_, &(chain, command, _)) = &same[0];
            let tally = same.iter().fold(Tally::default(), |sum, (_, (.., tally))| sum.plus(*tally));
            let first = self.first(Some(command));
            self.sample(first, of_chain(chain), tally, out)?;
        }
        Ok(())
    }

    /// Adds a sample at these locations.
    fn sample(&mut self, first: u64, locations: &[u8], tally: Tally, out: &mut dyn Write) -> io::Result<()> {
        let weight = i64::try_from(tally.weight).map_err(|_| {
            io::Error::other(format!("pprof has no number as large as the weight {}", tally.weight))
        })?;
        let values = [self.counted.then_some(tally.samples), self.weight.map(|_| weight as u64)];
        self.head.clear();
        self.head.begin_bytes(sample::LOCATION, locations.len());
        self.values.clear();
        self.values.packed(sample::VALUE, values.into_iter().flatten());
        let labels = self.firsts.get(&first).map_or(&[][..], |first| &first.labels);
        let pieces = [&self.head.bytes, locations, &self.values.bytes, labels];
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
