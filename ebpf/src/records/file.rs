//! The file of records, little endian: a head that says what is where, then the records, each with its spans behind it.
//!
//! ```text
//! 0   8   magic
//! 8   4   schema
//! 12  4   where the first record begins
//! 16      JSON: the fields of a record and of a span by name, form and offset, names of parts and states, the clocks
//! ```
//!
//! Forms are those of Python's struct. Times are CLOCK_MONOTONIC, ns.

use std::io::{self, Write};

use serde::Serialize;

use super::split::{PARTS, Parts};
use observer::states::OffCpu as State;

const MAGIC: &[u8; 8] = b"ioflrec\n";
const SCHEMA: u32 = 1;

/// Name and form.
type Field = (&'static str, &'static str);

const HEAD: [Field; 15] = [
    ("begin_ns", "Q"),
    ("end_ns", "Q"),
    ("own_ns", "Q"),
    ("bytes", "Q"),
    ("parts", "10Q"),
    ("tid", "I"),
    ("weight", "I"),
    ("reads", "I"),
    ("min_flt", "I"),
    ("maj_flt", "I"),
    ("flags", "H"),
    ("spans", "H"),
    ("waits_beyond", "H"),
    ("requests_beyond", "H"),
    ("samples", "I"),
];

const SPAN: [Field; 13] = [
    ("at", "3Q"),
    ("place", "I"),
    ("who", "I"),
    ("kind", "H"),
    ("part", "H"),
    ("awaited", "H"),
    ("state", "H"),
    ("bytes", "I"),
    ("device", "I"),
    ("reads_beside", "H"),
    ("writes_beside", "H"),
    ("others_beside", "H"),
    ("kib_beside", "H"),
];

/// One query.
#[derive(Clone, Debug, Default)]
pub struct Head {
    pub begin_ns: u64,
    pub end_ns: u64,
    /// That the programs ran within it.
    pub own_ns: u64,
    pub bytes: u64,
    pub parts: Parts,
    pub tid: u32,
    /// How many of those that were followed it represents.
    pub weight: u32,
    pub reads: u32,
    pub min_flt: u32,
    pub maj_flt: u32,
    pub flags: u16,
    pub waits_beyond: u16,
    pub requests_beyond: u16,
    /// That fell into it, kept or not.
    pub samples: u32,
}

/// What a span is, in the order of the file.
#[derive(Clone, Copy, Debug, Default)]
pub enum FileSpanKind {
    #[default]
    Wait,
    Request,
    Sample,
}

/// A wait or a request of it, or a sample of where it ran.
#[derive(Clone, Debug, Default)]
pub struct FileSpan {
    /// Left its CPU, woken, runs again; begun, issued, completed; a sample's time.
    pub at: [u64; 3],
    /// The stacks, and a wait's state: a thread of this number in the recording of stacks. 0: none.
    pub place: u32,
    pub waker: u32,
    pub kind: FileSpanKind,
    /// What a wait's blocked time is.
    pub part: u16,
    /// The span of the request that a wait was for, from 1; 0: none.
    pub awaited: u16,
    pub state: u16,
    pub bytes: u32,
    /// major << 20 | minor
    pub device: u32,
    /// What the device had besides, when it was handed a request: reads, writes, others, KiB.
    pub beside: [u16; 4],
}

#[derive(Serialize)]
struct Described {
    bytes: usize,
    fields: Vec<(&'static str, &'static str, usize)>,
}

#[derive(Serialize)]
struct Description<'a> {
    schema: u32,
    clock: &'static str,
    /// CLOCK_MONOTONIC and CLOCK_REALTIME of one moment, ns.
    clocks: [u64; 2],
    record: Described,
    span: Described,
    parts: &'a [&'static str],
    states: Vec<&'static str>,
    kinds: [&'static str; 3],
}

fn described(fields: &[Field]) -> Described {
    let mut bytes = 0;
    let mut placed = Vec::new();
    for (name, form) in fields {
        placed.push((*name, *form, bytes));
        bytes += size_of_form(form);
    }
    Described { bytes, fields: placed }
}

fn size_of_form(form: &str) -> usize {
    let (count, kind) = form.split_at(form.len() - 1);
    let size = match kind {
        "Q" => 8,
        "I" => 4,
        _ => 2,
    };
    size * count.parse().unwrap_or(1)
}

pub fn write_head(out: &mut impl Write, clocks: [u64; 2]) -> io::Result<()> {
    let description = Description {
        schema: SCHEMA,
        clock: "CLOCK_MONOTONIC",
        clocks,
        record: described(&HEAD),
        span: described(&SPAN),
        parts: &PARTS,
        states: State::ALL.into_iter().map(|state| state.name()).collect(),
        kinds: ["wait", "request", "sample"],
    };
    let mut text = serde_json::to_string(&description)?;
    while text.len() % 8 != 0 {
        text.push(' ');
    }
    out.write_all(MAGIC)?;
    out.write_all(&SCHEMA.to_le_bytes())?;
    out.write_all(&(16 + text.len() as u32).to_le_bytes())?;
    out.write_all(text.as_bytes())
}

pub fn write_record(out: &mut impl Write, head: &Head, spans: &[FileSpan]) -> io::Result<()> {
    let mut bytes = Vec::with_capacity(described(&HEAD).bytes + spans.len() * described(&SPAN).bytes);
    let words = [head.begin_ns, head.end_ns, head.own_ns, head.bytes];
    words.iter().chain(&head.parts).for_each(|word| bytes.extend(word.to_le_bytes()));
    for number in [head.tid, head.weight, head.reads, head.min_flt, head.maj_flt] {
        bytes.extend(number.to_le_bytes());
    }
    for short in [head.flags, spans.len() as u16, head.waits_beyond, head.requests_beyond] {
        bytes.extend(short.to_le_bytes());
    }
    bytes.extend(head.samples.to_le_bytes());
    for span in spans {
        span.at.iter().for_each(|word| bytes.extend(word.to_le_bytes()));
        bytes.extend(span.place.to_le_bytes());
        bytes.extend(span.waker.to_le_bytes());
        for short in [span.kind as u16, span.part, span.awaited, span.state] {
            bytes.extend(short.to_le_bytes());
        }
        bytes.extend(span.bytes.to_le_bytes());
        bytes.extend(span.device.to_le_bytes());
        span.beside.iter().for_each(|short| bytes.extend(short.to_le_bytes()));
    }
    out.write_all(&bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_as_long_as_its_description_says() {
        let (mut out, mut empty) = (Vec::new(), Vec::new());
        write_record(&mut empty, &Head::default(), &[]).unwrap();
        write_record(&mut out, &Head::default(), &[FileSpan::default(), FileSpan::default()]).unwrap();
        assert_eq!(empty.len(), described(&HEAD).bytes);
        assert_eq!(out.len() - empty.len(), 2 * described(&SPAN).bytes);
        assert!(
            described(&HEAD)
                .fields
                .iter()
                .all(|(_, form, at)| at % size_of_form(&form[form.len() - 1..]) == 0)
        );
    }

    #[test]
    fn the_head_ends_where_it_says() {
        let mut out = Vec::new();
        write_head(&mut out, [1, 2]).unwrap();
        assert_eq!(&out[..8], MAGIC);
        assert_eq!(u32::from_le_bytes(out[12..16].try_into().unwrap()) as usize, out.len());
        let text: serde_json::Value = serde_json::from_slice(&out[16..]).unwrap();
        assert_eq!(text["record"]["fields"][4], serde_json::json!(["parts", "10Q", 32]));
        assert_eq!(text["span"]["bytes"], 56);
    }
}
