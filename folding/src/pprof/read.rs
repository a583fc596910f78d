//! pprof as an input: stacks with their values, labels and objects.

use super::fields::{function, label, line, location, mapping, profile as top, sample, value_type};
use super::wire::{Fields, Malformed, Value};
use crate::collector::{Collector, SampleHead, Weight};
use crate::dso;
use crate::error::Error;
use crate::frame::{Frame, Origin};
use crate::input::Source;
use crate::names;
use crate::terminal;
use crate::weights::Tally;
use flate2::read::MultiGzDecoder;
use std::borrow::Cow;
use std::collections::HashMap;
use std::io::Read;

/// A profile larger than this when unpacked is refused: it has to be in memory as a whole.
const LARGEST: u64 = 1 << 30;

/// Reads pprof, packed with gzip or not.
#[derive(Default)]
pub struct Pprof;

impl Source for Pprof {
    fn read(&mut self, input: &mut dyn Read, collector: &mut Collector) -> Result<(), Error> {
        if collector.options().weight == Weight::Count {
            return Err(Error::usage(
                "--weight count is for samples; of a pprof take the counts: --event samples",
            ));
        }
        let bytes = unpack(input)?;
        let malformed = |Malformed| Error::usage("the input is no pprof: not a message, or cut short");
        let tables = ParsedProfile::read(&bytes).map_err(malformed)?;
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
        for &sample in &tables.samples {
            tables.sample(sample, columns, collector)?.map_err(malformed)?;
        }
        Ok(())
    }
}

fn unpack(input: &mut dyn Read) -> Result<Vec<u8>, Error> {
    let wrong = |error: std::io::Error| Error::usage(format!("reading pprof failed: {error}"));
    let mut head = Vec::new();
    input.take(2).read_to_end(&mut head).map_err(wrong)?;
    let packed = head == [0x1f, 0x8b];
    let whole = (&head[..]).chain(input);
    let mut bytes = Vec::new();
    let mut unpacked: Box<dyn Read> =
        if packed { Box::new(MultiGzDecoder::new(whole)) } else { Box::new(whole) };
    (&mut unpacked).take(LARGEST + 1).read_to_end(&mut bytes).map_err(wrong)?;
    if bytes.len() as u64 > LARGEST {
        return Err(Error::usage("the pprof is larger than 1 GiB unpacked"));
    }
    Ok(bytes)
}

/// Which of a sample's values are the weight and the number of samples.
#[derive(Clone, Copy)]
struct ValueColumns {
    weight: usize,
    samples: Option<usize>,
}

struct PprofLocation<'a> {
    mapping: u64,
    address: u64,
    /// Numbers of functions, innermost first.
    lines: Vec<u64>,
    names: Vec<(&'a [u8], bool)>,
}

#[derive(Default)]
struct ParsedProfile<'a> {
    strings: Vec<&'a [u8]>,
    types: Vec<(&'a [u8], &'a [u8])>,
    default_type: &'a [u8],
    functions: HashMap<u64, &'a [u8]>,
    mappings: HashMap<u64, &'a [u8]>,
    locations: HashMap<u64, PprofLocation<'a>>,
    samples: Vec<&'a [u8]>,
}

impl<'a> ParsedProfile<'a> {
    fn read(bytes: &'a [u8]) -> Result<Self, Malformed> {
        let mut tables = Self::default();
        let mut rest = Vec::new();
        // Strings may follow the messages that refer to them.
        for field in Fields(bytes) {
            match field? {
                (top::STRING, value) => tables.strings.push(value.bytes()),
                (top::SAMPLE, value) => tables.samples.push(value.bytes()),
                other => rest.push(other),
            }
        }
        for &(field, value) in &rest {
            let mut numbers: HashMap<u32, u64> = HashMap::new();
            if matches!(field, top::SAMPLE_TYPE | top::MAPPING | top::FUNCTION) {
                for inner in Fields(value.bytes()) {
                    let (inner, value) = inner?;
                    numbers.insert(inner, value.number());
                }
            }
            let number = |field| numbers.get(&field).copied().unwrap_or(0);
            match field {
                top::SAMPLE_TYPE => {
                    let (name, unit) = (number(value_type::TYPE), number(value_type::UNIT));
                    tables.types.push((tables.string(name), tables.string(unit)));
                }
                top::DEFAULT_SAMPLE_TYPE => tables.default_type = tables.string(value.number()),
                top::MAPPING => {
                    tables.mappings.insert(number(mapping::ID), tables.string(number(mapping::FILENAME)));
                }
                top::FUNCTION => {
                    tables.functions.insert(number(function::ID), tables.string(number(function::NAME)));
                }
                top::LOCATION => tables.location(value.bytes())?,
                _ => {}
            }
        }
        tables.name_lines();
        Ok(tables)
    }

    fn string(&self, index: u64) -> &'a [u8] {
        usize::try_from(index).ok().and_then(|index| self.strings.get(index)).copied().unwrap_or(b"")
    }

    fn location(&mut self, bytes: &'a [u8]) -> Result<(), Malformed> {
        let mut found = PprofLocation { mapping: 0, address: 0, lines: Vec::new(), names: Vec::new() };
        let mut id = 0;
        for field in Fields(bytes) {
            match field? {
                (location::ID, value) => id = value.number(),
                (location::MAPPING, value) => found.mapping = value.number(),
                (location::ADDRESS, value) => found.address = value.number(),
                (location::LINE, value) => {
                    let mut function = 0;
                    for inner in Fields(value.bytes()) {
                        if let (line::FUNCTION, value) = inner? {
                            function = value.number();
                        }
                    }
                    found.lines.push(function);
                }
                _ => {}
            }
        }
        self.locations.insert(id, found);
        Ok(())
    }

    fn name_lines(&mut self) {
        for location in self.locations.values_mut() {
            let last = location.lines.len().saturating_sub(1);
            let name = |id: &u64| self.functions.get(id).copied().unwrap_or(b"");
            location.names = location.lines.iter().enumerate().map(|(n, id)| (name(id), n < last)).collect();
        }
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
            (None, _) => named(self.default_type).filter(|_| !self.default_type.is_empty()),
        };
        let weight = weight.ok_or_else(|| {
            let shown = |bytes| terminal::name(&String::from_utf8_lossy(bytes)).into_owned();
            let line = |&(name, unit): &(_, _)| format!("  {} ({})", shown(name), shown(unit));
            let list: Vec<String> = self.types.iter().map(line).collect();
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
        collector: &mut Collector,
    ) -> Result<Result<(), Malformed>, Error> {
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
        for id in ids.iter().rev() {
            self.frames(*id, collector, &mut frames);
        }
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

    /// The frames of a location, outermost first.
    fn frames(&self, id: u64, collector: &Collector, frames: &mut Vec<Frame<Cow<'a, [u8]>>>) {
        let Some(location) = self.locations.get(&id) else {
            frames.push(Frame::named(b"[unknown]".into()));
            return;
        };
        let dso = self.mappings.get(&location.mapping).copied().unwrap_or(b"");
        let nameless = [(&b""[..], false)];
        let lines = if location.names.is_empty() { &nameless[..] } else { &location.names };
        let options = collector.options();
        for &(name, inlined) in lines.iter().rev() {
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
            let origin = options.origins.then_some(origin);
            frames.push(Frame { name: name.into(), origin });
        }
    }
}
