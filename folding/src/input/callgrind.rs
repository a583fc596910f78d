//! The output of callgrind: what each function itself cost, below its callers where `--separate-callers` kept them.
//!
//! The format is that of "Callgrind Format Specification" in valgrind's manual.

use super::{Source, lines::LineReader, refuse_lacking};
use crate::collector::{Collector, SampleHead, Weight};
use crate::dso;
use crate::error::Error;
use crate::frame::Frame;
use crate::names;
use crate::terminal;
use crate::weights::Tally;
use std::borrow::Cow;
use std::collections::HashMap;
use std::io::Read;

/// Bytes of a line that are shown.
const SHOWN: usize = 160;
/// As an event it is how often each function was called, which callgrind writes beside the costs.
const CALLS: &str = "calls";
/// What is printed for an address without a symbol whose object is not told.
const UNKNOWN: &[u8] = b"[unknown]";

/// Reads costs into a collector.
#[derive(Default)]
pub struct Callgrind {
    /// What each collector takes; empty before the events are named.
    chosen: Vec<Chosen>,
    events: Vec<u8>,
    /// How many positions precede the costs.
    positions: usize,
    command: Vec<u8>,
    pid: Option<i64>,
    thread: Option<i64>,
    functions: Names,
    objects: Names,
    /// Frames of each function, its callers before it, as far as they were needed: places in `tidied`.
    stacks: HashMap<usize, Vec<usize>>,
    /// The names in those of functions with their callers, and as frames.
    parts: Names,
    tidied: Vec<Vec<u8>>,
    function: Option<usize>,
    object: Option<usize>,
    /// Whom the calls that come next are of.
    called: Option<usize>,
    called_object: Option<usize>,
    /// By what is chosen: of the function at hand, and of all since the last totals.
    cost: Vec<u128>,
    sum: Vec<u128>,
    /// The next line is of a call or a jump, whose cost is another function's.
    skips_line: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Chosen {
    /// An event, by its place on a line of costs.
    Event(usize),
    Calls,
}

/// Names that are written once, with a number.
#[derive(Default)]
struct Names {
    texts: Vec<Vec<u8>>,
    by_number: HashMap<u64, usize>,
    by_text: HashMap<Vec<u8>, usize>,
}

impl Names {
    /// The place of the name that `(12) name`, `(12)` or `name` refers to.
    fn find(&mut self, written: &[u8]) -> Result<usize, String> {
        let (number, text) = numbered(written);
        let Some(number) = number else { return Ok(self.intern(text)) };
        if text.is_empty() {
            let place = self.by_number.get(&number).copied();
            return place.ok_or_else(|| format!("the name ({number}) is used before it is written"));
        }
        let place = self.intern(text);
        self.by_number.insert(number, place);
        Ok(place)
    }

    fn intern(&mut self, text: &[u8]) -> usize {
        if let Some(&place) = self.by_text.get(text) {
            return place;
        }
        self.texts.push(text.to_vec());
        self.by_text.insert(text.to_vec(), self.texts.len() - 1);
        self.texts.len() - 1
    }
}

/// `(12) name` as 12 and the name; `(below main)` is a name.
fn numbered(written: &[u8]) -> (Option<u64>, &[u8]) {
    let written = written.trim_ascii();
    let close = memchr::memchr(b')', written).filter(|_| written.starts_with(b"("));
    let number = close.and_then(|close| std::str::from_utf8(&written[1..close]).ok()?.parse().ok());
    match (number, close) {
        (Some(number), Some(close)) => (Some(number), written[close + 1..].trim_ascii()),
        _ => (None, written),
    }
}

impl Source for Callgrind {
    fn read(&mut self, input: &mut dyn Read, collector: &mut Collector) -> Result<(), Error> {
        self.read_events(input, std::slice::from_mut(collector))
    }
}

impl Callgrind {
    /// Reads the event of each collector. Their other options are the same.
    pub fn read_events(&mut self, input: &mut dyn Read, collectors: &mut [Collector]) -> Result<(), Error> {
        let Some(options) = collectors.first().map(Collector::options) else { return Ok(()) };
        let lacking = [
            (options.weight == Weight::Count, "--weight count", "samples, each cost is a count"),
            (options.slice.is_some(), "--slices", "times"),
        ];
        refuse_lacking("callgrind's output", options, &lacking)?;
        self.positions = 1;
        let mut lines = LineReader::new(input);
        let mut number = 0_u64;
        while let Some(line) = lines.next_line() {
            number += 1;
            if !line.ended {
                break;
            }
            self.line(line.bytes, collectors).map_err(|why| {
                let start = String::from_utf8_lossy(&line.bytes[..line.bytes.len().min(SHOWN)]);
                Error::usage(format!(
                    "callgrind's output, line {number}: {why}\n  {}",
                    terminal::name(&start)
                ))
            })?;
        }
        let whole = self.function.is_none();
        self.flush(collectors).map_err(Error::usage)?;
        if let Some(why) = lines.failure() {
            return Err(Error::partial(format!("reading callgrind's output failed at line {number}: {why}")));
        }
        if !whole || self.sum.iter().any(|&sum| sum > 0) {
            for collector in collectors {
                collector.cut_short(format!("callgrind's output ends at line {number}, before its totals"));
            }
        }
        Ok(())
    }

    fn line(&mut self, line: &[u8], collectors: &mut [Collector]) -> Result<(), String> {
        match line.first() {
            None | Some(b'#') => Ok(()),
            Some(b'0'..=b'9' | b'+' | b'-' | b'*') => self.cost(line),
            _ => match memchr::memchr2(b'=', b':', line) {
                Some(at) if line[at] == b'=' => self.position(&line[..at], &line[at + 1..], collectors),
                Some(at) => self.header(&line[..at], line[at + 1..].trim_ascii(), collectors),
                None => Err("neither a cost nor a name".to_owned()),
            },
        }
    }

    fn cost(&mut self, line: &[u8]) -> Result<(), String> {
        if std::mem::take(&mut self.skips_line) {
            return Ok(());
        }
        if self.chosen.is_empty() {
            return Err("a cost before its events are named".to_owned());
        }
        for (chosen, sum) in self.chosen.iter().zip(&mut self.cost) {
            let Chosen::Event(column) = chosen else { continue };
            let cost = nth_count(line, self.positions + column)?;
            if self.function.is_none() && cost > 0 {
                return Err("a cost before its function is named".to_owned());
            }
            *sum += u128::from(cost);
        }
        Ok(())
    }

    fn position(&mut self, key: &[u8], value: &[u8], collectors: &mut [Collector]) -> Result<(), String> {
        match key {
            b"fn" => {
                self.flush(collectors)?;
                self.function = Some(self.functions.find(value)?);
            }
            b"ob" => {
                self.flush(collectors)?;
                self.object = Some(self.objects.find(value)?);
            }
            b"cfn" => self.called = Some(self.functions.find(value)?),
            // Where a jump into an inlined function goes; later lines may refer to the name.
            b"jfn" => {
                self.functions.find(value)?;
            }
            b"cob" => self.called_object = Some(self.objects.find(value)?),
            b"calls" => self.calls(value, collectors)?,
            b"jump" | b"jcnd" => self.skips_line = true,
            // Files, which no frame has a place for.
            b"fl" | b"fi" | b"fe" | b"cfi" | b"cfl" | b"jfi" => {}
            _ => return Err("no name that callgrind writes".to_owned()),
        }
        Ok(())
    }

    fn header(&mut self, key: &[u8], value: &[u8], collectors: &mut [Collector]) -> Result<(), String> {
        match key {
            b"positions" => self.positions = value.split(u8::is_ascii_whitespace).count(),
            b"events" => self.name_events(value, collectors)?,
            b"cmd" => self.command = command(value).to_vec(),
            b"pid" => self.pid = number(value),
            b"thread" => self.thread = number(value),
            b"part" => self.flush(collectors)?,
            b"totals" => {
                self.flush(collectors)?;
                self.function = None;
                if self.chosen.is_empty() {
                    return Err("totals before their events are named".to_owned());
                }
                for (chosen, sum) in self.chosen.iter().zip(&mut self.sum) {
                    let Chosen::Event(column) = chosen else { continue };
                    let sum = std::mem::take(sum);
                    if sum != u128::from(nth_count(value, *column)?) {
                        return Err(format!(
                            "the costs above add up to {sum}, not to these totals: the file is damaged"
                        ));
                    }
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// `3 16`: how often, and where the called function begins.
    fn calls(&mut self, value: &[u8], collectors: &mut [Collector]) -> Result<(), String> {
        self.skips_line = true;
        let object = self.called_object.take().or(self.object);
        for (place, collector) in collectors.iter_mut().enumerate().take(self.chosen.len()) {
            if self.chosen[place] == Chosen::Calls {
                let called = self.called.ok_or("calls before it is named who was called")?;
                let times = u128::from(nth_count(value, 0)?);
                self.hand_on(called, object, times, collector)?;
            }
        }
        Ok(())
    }

    /// Chooses what is folded: what was asked for, else the first event, which are the instructions.
    fn name_events(&mut self, names: &[u8], collectors: &mut [Collector]) -> Result<(), String> {
        if !self.chosen.is_empty() {
            return if self.events == names {
                Ok(())
            } else {
                Err("other events than in the parts before".to_owned())
            };
        }
        let every: Vec<_> = names.split(u8::is_ascii_whitespace).map(String::from_utf8_lossy).collect();
        for collector in &mut *collectors {
            let wanted = collector.options().event.as_deref();
            if wanted == Some(CALLS) {
                collector.set_event_and_unit(Some(CALLS.to_owned()), CALLS.to_owned());
                self.chosen.push(Chosen::Calls);
                continue;
            }
            let found = wanted.map_or(Some(0), |wanted| every.iter().position(|name| name == wanted));
            let column = found.ok_or_else(|| {
                format!("no event {}; counted were {}, {CALLS}", wanted.unwrap_or_default(), every.join(", "))
            })?;
            let unit = if every[column] == "Ir" { "instructions" } else { &every[column] };
            collector.set_event_and_unit(Some(every[column].to_string()), unit.to_owned());
            self.chosen.push(Chosen::Event(column));
        }
        self.events = names.to_vec();
        self.cost.resize(collectors.len(), 0);
        self.sum.resize(collectors.len(), 0);
        Ok(())
    }

    /// Hands on what the function at hand has cost so far.
    fn flush(&mut self, collectors: &mut [Collector]) -> Result<(), String> {
        for (place, collector) in collectors.iter_mut().enumerate().take(self.chosen.len()) {
            let weight = std::mem::take(&mut self.cost[place]);
            let Some(function) = self.function.filter(|_| weight > 0) else { continue };
            self.sum[place] += weight;
            self.hand_on(function, self.object, weight, collector)?;
        }
        Ok(())
    }

    fn hand_on(
        &mut self,
        function: usize,
        object: Option<usize>,
        weight: u128,
        collector: &mut Collector,
    ) -> Result<(), String> {
        let tidy = collector.options().tidy;
        let stack = self.stacks.entry(function).or_insert_with(|| {
            let mut frames = Vec::new();
            for name in callers(&self.functions.texts[function]) {
                let part = self.parts.intern(name);
                if part == self.tidied.len() {
                    let unknown = is_address(name);
                    self.tidied.push(if unknown { UNKNOWN.to_vec() } else { names::tidy(name, tidy) });
                }
                frames.push(part);
            }
            frames.reverse();
            frames
        });
        let object = object.map(|object| &self.objects.texts[object][..]);
        let mut frames: Vec<_> =
            stack.iter().map(|&part| Frame::named(Cow::Borrowed(&self.tidied[part][..]))).collect();
        if let (Some(leaf), Some(object)) = (frames.last_mut(), object) {
            if *leaf.name == *UNKNOWN {
                leaf.name = Cow::Owned(dso::bracketed(object).unwrap_or_else(|| UNKNOWN.to_vec()));
            }
        }
        let head =
            SampleHead { comm: &self.command, pid: self.pid, tid: self.thread, ..SampleHead::default() };
        collector
            .folded_of(Some(&head), &frames, Tally { samples: 0, weight })
            .map_err(|error| error.to_string())
    }
}

/// What the kernel would call the process: its program's name without its directory.
fn command(line: &[u8]) -> &[u8] {
    let program = line.split(|&b| b == b' ').next().unwrap_or(b"");
    memchr::memrchr(b'/', program).map_or(program, |slash| &program[slash + 1..])
}

fn number(value: &[u8]) -> Option<i64> {
    std::str::from_utf8(value).ok()?.parse().ok()
}

fn count(field: &[u8]) -> Result<u64, String> {
    let text = std::str::from_utf8(field).ok();
    text.and_then(|text| text.parse().ok()).ok_or_else(|| "a cost is not a number below 2^64".to_owned())
}

/// A number of a line, 0 where it has not so many: zeros at the end are not written.
fn nth_count(line: &[u8], place: usize) -> Result<u64, String> {
    line.split(|&b| b == b' ').filter(|field| !field.is_empty()).nth(place).map_or(Ok(0), count)
}

/// The names in `leaf'caller'caller`, without the depths of recursion (`f'2`).
fn callers(name: &[u8]) -> impl Iterator<Item = &[u8]> {
    names::split_callers(name).into_iter().filter(|part| !part.iter().all(u8::is_ascii_digit))
}

fn is_address(name: &[u8]) -> bool {
    name.strip_prefix(b"0x")
        .is_some_and(|digits| !digits.is_empty() && digits.iter().all(u8::is_ascii_hexdigit))
}
