//! pprof as an input: stacks with their values, labels and objects.

use super::fields::{function, label, line, location, mapping, profile as top, sample, value_type};
use super::wire::{Fields, Malformed, Value};
use crate::collector::{Collector, SampleHead, Weight};
use crate::dso;
use crate::error::Error;
use crate::frame::{Frame, Origin};
use crate::input::Source;
use crate::input::packed::read_whole;
use crate::names;
use crate::terminal;
use crate::weights::Tally;
use std::borrow::Cow;
use std::collections::HashMap;
use std::io::Read;

/// A profile larger than this when unpacked is refused: it has to be in memory as a whole.
const LARGEST: usize = 512 << 20;
/// Bytes of the profile and of what is made of it.
const MEMORY: usize = 768 << 20;
/// Bytes of one sample.
const LONGEST: usize = 4 << 20;
/// Frames for each byte, and of a small profile: a location takes some bytes, and is few functions.
const FRAMES: u64 = 4;
const SMALL: u64 = 1 << 20;
/// Frames of one sample.
const DEEPEST: u64 = 1 << 19;
/// Bytes of names for each of these.
const NAME: u64 = 256;
/// Types of samples that an error lists.
const LISTED: usize = 100;

/// Reads pprof that is not packed.
#[derive(Default)]
pub struct Pprof;

impl Source for Pprof {
    fn read(&mut self, input: &mut dyn Read, collector: &mut Collector) -> Result<(), Error> {
        if collector.options().weight == Weight::Count {
            return Err(Error::usage(
                "--weight count is for samples; of a pprof take the counts: --event samples",
            ));
        }
        let mut bytes = Vec::new();
        let whole = read_whole(input, LARGEST, &mut bytes)
            .map_err(|error| Error::usage(format!("reading pprof failed: {error}")))?;
        if !whole {
            return Err(Error::usage(format!("the pprof is larger than {} MiB unpacked", LARGEST >> 20)));
        }
        let malformed = |Malformed| Error::usage("the input is no pprof: not a message, or cut short");
        let tables = ParsedProfile::read(&bytes)?.map_err(malformed)?;
        let columns = tables.columns(collector.options().event.as_deref())?;
        let (name, unit) = tables.types[columns.weight];
        let shown = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let unit = match unit {
            b"nanoseconds" => "ns".to_owned(),
            b"count" => "samples".to_owned(),
            unit => shown(unit),
        };
        let stated = (name != b"weight" && !name.is_empty()).then(|| shown(name));
        collector.set_event_and_unit(stated, unit);
        let mut room = (bytes.len() as u64).saturating_mul(FRAMES).saturating_add(SMALL).saturating_mul(NAME);
        for &sample in &tables.samples {
            tables.sample(sample, columns, &mut room, collector)?.map_err(malformed)?;
        }
        Ok(())
    }
}

/// Which of a sample's values are the weight and the number of samples.
#[derive(Clone, Copy)]
struct ValueColumns {
    weight: usize,
    samples: Option<usize>,
}

struct PprofLocation {
    mapping: u64,
    address: u64,
    /// Numbers of functions, innermost first.
    lines: Vec<u64>,
}

#[derive(Default)]
struct ParsedProfile<'a> {
    strings: Vec<&'a [u8]>,
    types: Vec<(&'a [u8], &'a [u8])>,
    default_type: &'a [u8],
    functions: HashMap<u64, &'a [u8]>,
    mappings: HashMap<u64, &'a [u8]>,
    locations: HashMap<u64, PprofLocation>,
    samples: Vec<&'a [u8]>,
    /// Bytes of memory that tables may take still.
    room: usize,
}

/// Some numbers of a message, by their fields; 0 where there is none.
fn numbers<const N: usize>(message: Value, fields: [u32; N]) -> Result<[u64; N], Malformed> {
    let mut found = [0; N];
    for field in Fields(message.bytes()) {
        let (field, value) = field?;
        if let Some(at) = fields.iter().position(|wanted| *wanted == field) {
            found[at] = value.number();
        }
    }
    Ok(found)
}

impl<'a> ParsedProfile<'a> {
    /// The inner error is the message's, the outer one that of its size.
    fn read(bytes: &'a [u8]) -> Result<Result<Self, Malformed>, Error> {
        let mut tables = Self { room: MEMORY.saturating_sub(bytes.len()), ..Self::default() };
        let read = tables.fields(bytes);
        if tables.room == 0 {
            return Err(Error::usage(format!(
                "the pprof of {} bytes unpacked is damaged, or too large: with its tables it takes more than {} MiB",
                bytes.len(),
                MEMORY >> 20
            )));
        }
        Ok(read.map(|()| tables))
    }

    /// Takes so much memory; an error where there is no more.
    fn take(&mut self, bytes: usize) -> Result<(), Malformed> {
        // Lists grow by their own length.
        self.room = self.room.saturating_sub(2 * bytes);
        if self.room == 0 { Err(Malformed) } else { Ok(()) }
    }

    fn fields(&mut self, bytes: &'a [u8]) -> Result<(), Malformed> {
        const TEXT: usize = size_of::<&[u8]>();
        // Strings may follow the messages that refer to them.
        for field in Fields(bytes) {
            match field? {
                (top::STRING, value) => {
                    self.take(TEXT)?;
                    self.strings.push(value.bytes());
                }
                (top::SAMPLE, value) => {
                    self.take(TEXT)?;
                    self.samples.push(value.bytes());
                }
                _ => {}
            }
        }
        for field in Fields(bytes) {
            match field? {
                (top::SAMPLE_TYPE, value) => {
                    self.take(2 * TEXT)?;
                    let [name, unit] = numbers(value, [value_type::TYPE, value_type::UNIT])?;
                    self.types.push((self.string(name), self.string(unit)));
                }
                (top::DEFAULT_SAMPLE_TYPE, value) => self.default_type = self.string(value.number()),
                (top::MAPPING, value) => {
                    self.take(2 * TEXT)?;
                    let [id, name] = numbers(value, [mapping::ID, mapping::FILENAME])?;
                    self.mappings.insert(id, self.string(name));
                }
                (top::FUNCTION, value) => {
                    self.take(2 * TEXT)?;
                    let [id, name] = numbers(value, [function::ID, function::NAME])?;
                    self.functions.insert(id, self.string(name));
                }
                (top::LOCATION, value) => self.location(value.bytes())?,
                _ => {}
            }
        }
        Ok(())
    }

    fn string(&self, index: u64) -> &'a [u8] {
        usize::try_from(index).ok().and_then(|index| self.strings.get(index)).copied().unwrap_or(b"")
    }

    fn location(&mut self, bytes: &'a [u8]) -> Result<(), Malformed> {
        let mut found = PprofLocation { mapping: 0, address: 0, lines: Vec::new() };
        let mut id = 0;
        self.take(2 * size_of::<PprofLocation>())?;
        for field in Fields(bytes) {
            match field? {
                (location::ID, value) => id = value.number(),
                (location::MAPPING, value) => found.mapping = value.number(),
                (location::ADDRESS, value) => found.address = value.number(),
                (location::LINE, value) => {
                    self.take(size_of::<u64>())?;
                    let [function] = numbers(value, [line::FUNCTION])?;
                    found.lines.push(function);
                }
                _ => {}
            }
        }
        self.locations.insert(id, found);
        Ok(())
    }

    /// The columns to read, or why they cannot be found.
    fn columns(&self, wanted: Option<&str>) -> Result<ValueColumns, Error> {
        if self.types.is_empty() {
            return Err(Error::usage(format!(
                "the pprof says of none of its {} samples what it weighs: it has no sample types. Whatever wrote it \
                 has to name them; an empty profile has them as well",
                self.samples.len()
            )));
        }
        let samples = self.types.iter().position(|(name, unit)| *name == b"samples" && *unit == b"count");
        let named = |name: &[u8]| self.types.iter().position(|(one, _)| *one == name);
        let weights: Vec<usize> = (0..self.types.len()).filter(|&n| self.types[n].1 != b"count").collect();
        let weight = match (wanted, &weights[..]) {
            (Some(wanted), _) => named(wanted.as_bytes()),
            (None, [one]) => Some(*one),
            (None, []) if self.types.len() == 1 => Some(0),
            // As the format has it: the last, which is Go's inuse_space of a heap.
            (None, _) if self.default_type.is_empty() => self.types.len().checked_sub(1),
            (None, _) => named(self.default_type),
        };
        let weight = weight.ok_or_else(|| {
            let shown = |bytes| terminal::name(&String::from_utf8_lossy(bytes)).into_owned();
            let line = |&(name, unit): &(_, _)| format!("  {} ({})", shown(name), shown(unit));
            let mut list: Vec<String> = self.types.iter().take(LISTED).map(line).collect();
            list.extend(
                self.types.len().checked_sub(LISTED + 1).map(|more| format!("  and {} more", more + 1)),
            );
            Error::usage(format!(
                "choose the values to fold with --event; the pprof holds:\n{}",
                list.join("\n")
            ))
        })?;
        Ok(ValueColumns { weight, samples })
    }

    /// Takes a sample. The outer error is the collector's, the inner one the message's.
    fn sample(
        &self,
        bytes: &'a [u8],
        columns: ValueColumns,
        room: &mut u64,
        collector: &mut Collector,
    ) -> Result<Result<(), Malformed>, Error> {
        if bytes.len() > LONGEST {
            return Err(Error::usage(format!("the pprof is damaged: one sample has {} bytes", bytes.len())));
        }
        let (mut ids, mut values, mut labels) = (Vec::new(), Vec::new(), Vec::new());
        let split = || -> Result<(), Malformed> {
            for field in Fields(bytes) {
                match field? {
                    (sample::LOCATION, value) => value.numbers(&mut ids)?,
                    (sample::VALUE, value) => value.numbers(&mut values)?,
                    (sample::LABEL, value) => labels.push(self.label(value.bytes())?),
                    _ => {}
                }
            }
            Ok(())
        };
        let mut split = split;
        if let Err(malformed) = split() {
            return Ok(Err(malformed));
        }
        let text = |key: &[u8]| labels.iter().find(|(name, ..)| *name == key).map(|(_, text, _)| *text);
        let number =
            |key: &[u8]| labels.iter().find(|(name, ..)| *name == key).map(|(.., number)| *number as i64);
        let value = |column: usize| values.get(column).copied().unwrap_or(0) as i64;
        let amount = |column: usize| {
            u64::try_from(value(column)).map_err(|_| {
                Error::usage(
                    "the pprof holds a negative value: it is a difference of profiles, not a profile",
                )
            })
        };
        let tally =
            Tally { weight: amount(columns.weight)?.into(), samples: columns.samples.map_or(Ok(0), amount)? };
        let mut frames = Vec::new();
        let most = (*room).min(DEEPEST * NAME);
        let mut left = most;
        for id in ids.iter().rev() {
            self.frames(*id, collector, &mut left, &mut frames)?;
        }
        *room -= most - left;
        let comm = text(b"comm");
        let head = SampleHead {
            comm: comm.unwrap_or(b""),
            pid: number(b"pid"),
            tid: number(b"tid"),
            ..SampleHead::default()
        };
        collector.folded_of(comm.map(|_| &head), &frames, tally)?;
        Ok(Ok(()))
    }

    /// Key, text, number.
    fn label(&self, bytes: &'a [u8]) -> Result<(&'a [u8], &'a [u8], u64), Malformed> {
        let mut found = (&b""[..], &b""[..], 0);
        for field in Fields(bytes) {
            match field? {
                (label::KEY, value) => found.0 = self.string(value.number()),
                (label::STR, value) => found.1 = self.string(value.number()),
                (label::NUM, Value::Number(number)) => found.2 = number,
                _ => {}
            }
        }
        Ok(found)
    }

    /// The frames of a location, outermost first, as long as there is room for them.
    fn frames(
        &self,
        id: u64,
        collector: &Collector,
        room: &mut u64,
        frames: &mut Vec<Frame<Cow<'a, [u8]>>>,
    ) -> Result<(), Error> {
        let Some(location) = self.locations.get(&id) else {
            frames.push(Frame::named(b"[unknown]".into()));
            return Ok(());
        };
        let dso = self.mappings.get(&location.mapping).copied().unwrap_or(b"");
        let lines = if location.lines.is_empty() { &[0][..] } else { &location.lines };
        let options = collector.options();
        for (inner, function) in lines.iter().enumerate().rev() {
            let name = self.functions.get(function).copied().unwrap_or(b"");
            let inlined = inner + 1 < lines.len();
            *room = room.checked_sub(NAME.max(name.len() as u64)).ok_or_else(|| {
                Error::usage(
                    "the pprof is damaged: its samples have more frames than a profile of its size can hold, or longer names",
                )
            })?;
            let mut name = if name.is_empty() {
                let mut name = dso::bracketed(dso).unwrap_or_else(|| b"[unknown]".to_vec());
                if options.addrs {
                    name.pop();
                    name.extend_from_slice(format!(" {:#x}]", location.address).as_bytes());
                }
                name
            } else {
                name.to_vec()
            };
            names::escape(&mut name);
            if names::split_mark(&name).1.is_none() {
                if options.kernel && !dso.is_empty() && dso::is_kernel(dso) {
                    name.extend_from_slice(b"_[k]");
                } else if options.inlines && inlined {
                    name.extend_from_slice(b"_[i]");
                }
            }
            let object = if inlined { b"" } else { dso };
            let origin = Origin::Code { address: None, object: object.into(), inlined };
            let origin = options.detail.has_origins().then_some(origin);
            frames.push(Frame { name: name.into(), origin });
        }
        Ok(())
    }
}
