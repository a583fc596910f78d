//! Records one after the other, as they lie in the input: unpacked, with their place, and with what stands
//! outside of them skipped.
//!
//! Records wait for their turn where they were read: what is not needed any more is told to the stream, not copied out
//! of it.

use super::bytes::Bytes;
use super::held::Held;
use std::io::Read;
use zstd::stream::raw::{Decoder, InBuffer, Operation, OutBuffer};

/// Kinds of records, those of the kernel and those of perf itself (from 64 on).
pub mod kind {
    pub const MMAP: u32 = 1;
    pub const LOST: u32 = 2;
    pub const COMM: u32 = 3;
    pub const FORK: u32 = 7;
    pub const SAMPLE: u32 = 9;
    pub const MMAP2: u32 = 10;
    pub const LOST_SAMPLES: u32 = 13;
    pub const KSYMBOL: u32 = 17;
    pub const FIRST_OF_PERF: u32 = 64;
    pub const HEADER_ATTR: u32 = 64;
    pub const TRACING_DATA: u32 = 66;
    pub const BUILD_ID: u32 = 67;
    pub const FINISHED_ROUND: u32 = 68;
    pub const AUXTRACE: u32 = 71;
    pub const EVENT_UPDATE: u32 = 78;
    pub const HEADER_FEATURE: u32 = 80;
    pub const COMPRESSED: u32 = 81;
    pub const COMPRESSED2: u32 = 83;
}

/// Bytes asked of the input at once.
const CHUNK: usize = 1 << 18;
/// A record's own limit: its size has 16 bits.
const HEADER: usize = 8;
/// Bytes unpacked at once.
const UNPACKED: usize = 1 << 18;

/// A record, and where its body lies.
#[derive(Clone, Copy, Debug)]
pub struct Record {
    pub kind: u32,
    pub misc: u16,
    pub place: Place,
}

/// Where the body of a record lies: in the input, or in what was unpacked of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    pub start: u64,
    pub len: u16,
    pub unpacked: bool,
}

/// The first bytes that somebody waits for, of the input and of what was unpacked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Needed {
    pub plain: u64,
    pub unpacked: u64,
}

impl Needed {
    pub const NOTHING: Self = Self { plain: u64::MAX, unpacked: u64::MAX };

    pub fn add(&mut self, place: Place) {
        let first = if place.unpacked { &mut self.unpacked } else { &mut self.plain };
        *first = (*first).min(place.start);
    }
}

/// Where and why no record follows.
#[derive(Debug, PartialEq, Eq)]
pub struct Broken {
    pub offset: u64,
    pub why: String,
}

pub struct Stream<R> {
    input: R,
    plain: Held,
    /// Where the next record lies in the input.
    offset: u64,
    /// Where the records end, if the header says.
    limit: Option<u64>,
    packed: Packed,
}

/// The second stream of records, inside the compressed ones.
#[derive(Default)]
struct Packed {
    decoder: Option<Decoder<'static>>,
    unpacked: Held,
    at: u64,
    /// Compressed bytes not unpacked yet.
    input: Vec<u8>,
    input_at: usize,
    /// The room was too small for what came last, so there may be more without further bytes.
    full: bool,
}

impl<R: Read> Stream<R> {
    pub fn new(input: R, offset: u64, limit: Option<u64>) -> Self {
        Self { input, plain: Held::from(offset), offset, limit, packed: Packed::default() }
    }

    /// The bytes of a record that is still needed.
    pub fn body(&self, place: Place) -> &[u8] {
        let held = if place.unpacked { &self.packed.unpacked } else { &self.plain };
        held.get(place.start, place.len.into())
    }

    /// How many bytes are held from the first one needed on.
    pub fn held(&self, needed: Needed) -> u64 {
        self.offset.saturating_sub(needed.plain) + self.packed.at.saturating_sub(needed.unpacked)
    }

    /// The next record; `None` at the end. What lies before `needed` may be forgotten.
    pub fn next(&mut self, needed: Needed) -> Result<Option<Record>, Broken> {
        loop {
            if let Some(found) = self.packed.next(needed.unpacked).map_err(|why| self.broken(why))? {
                return Ok(Some(found));
            }
            let Some(record) = self.plain(needed.plain)? else { return Ok(None) };
            let Record { kind, place, .. } = record;
            match kind {
                kind::COMPRESSED | kind::COMPRESSED2 => {
                    let body = self.plain.get(place.start, place.len.into());
                    let Some(data) = packed_bytes(kind, body) else {
                        return Err(self.broken("a compressed record is shorter than it says".to_owned()));
                    };
                    self.packed.input.clear();
                    self.packed.input.extend_from_slice(data);
                    self.packed.input_at = 0;
                }
                kind::AUXTRACE => {
                    let size = Bytes(self.body(place)).u64().unwrap_or(0);
                    self.skip(size, needed.plain)?;
                }
                kind::TRACING_DATA => {
                    let size = Bytes(self.body(place)).u32().unwrap_or(0);
                    // File mode has it in the header; here the data follows, padded to 8 bytes.
                    self.skip(u64::from(size).next_multiple_of(8), needed.plain)?;
                }
                _ => return Ok(Some(record)),
            }
        }
    }

    /// The next record of the input itself.
    fn plain(&mut self, needed: u64) -> Result<Option<Record>, Broken> {
        if self.limit.is_some_and(|limit| self.offset >= limit) {
            return Ok(None);
        }
        let have = self.fill(HEADER, needed)?;
        if have < HEADER {
            if have == 0 && self.limit.is_none() {
                return Ok(None);
            }
            return Err(self.broken(format!("the input ends, {have} bytes into a record's header")));
        }
        let Some((kind, misc, len)) = self.plain.record_at(self.offset) else { return Ok(None) };
        if len < HEADER {
            return Err(self.broken(format!("a record of kind {kind} says it is {len} bytes long")));
        }
        let have = self.fill(len, needed)?;
        if have < len || self.limit.is_some_and(|limit| self.offset + len as u64 > limit) {
            return Err(self.broken(format!("a record of {len} bytes runs over the end, {have} are there")));
        }
        let place =
            Place { start: self.offset + HEADER as u64, len: (len - HEADER) as u16, unpacked: false };
        self.offset += len as u64;
        Ok(Some(Record { kind, misc, place }))
    }

    /// Makes `want` bytes ready from the next record on, or as many as there are; returns how many are.
    fn fill(&mut self, want: usize, needed: u64) -> Result<usize, Broken> {
        loop {
            let have = (self.plain.end() - self.offset) as usize;
            if have >= want {
                return Ok(want);
            }
            let room = self.plain.room(CHUNK, needed.min(self.offset));
            match self.input.read(room) {
                Ok(0) => return Ok(have),
                Ok(n) => self.plain.filled(n),
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(error) => return Err(self.broken(format!("reading failed: {error}"))),
            }
        }
    }

    fn skip(&mut self, mut size: u64, needed: u64) -> Result<(), Broken> {
        while size > 0 {
            let have = self.fill(usize::try_from(size).unwrap_or(CHUNK).min(CHUNK), needed)?;
            if have == 0 {
                return Err(self.broken("the input ends within data between records".to_owned()));
            }
            self.offset += have as u64;
            size -= have as u64;
        }
        Ok(())
    }

    fn broken(&self, why: String) -> Broken {
        Broken { offset: self.offset, why }
    }
}

/// What of a compressed record is compressed data; the newer kind says its length.
fn packed_bytes(kind: u32, body: &[u8]) -> Option<&[u8]> {
    if kind == kind::COMPRESSED {
        return Some(body);
    }
    let mut at = Bytes(body);
    let len = at.u64()?;
    at.take(len)
}

impl Packed {
    /// The next record among the unpacked bytes; `None`: more compressed bytes are needed.
    fn next(&mut self, needed: u64) -> Result<Option<Record>, String> {
        if self.decoder.is_none() && self.input.is_empty() {
            return Ok(None);
        }
        loop {
            if let Some((kind, misc, len)) = self.unpacked.record_at(self.at) {
                if len < HEADER {
                    return Err(format!("an unpacked record of kind {kind} says it is {len} bytes long"));
                }
                if self.unpacked.end() - self.at >= len as u64 {
                    let start = self.at + HEADER as u64;
                    self.at += len as u64;
                    let place = Place { start, len: (len - HEADER) as u16, unpacked: true };
                    return Ok(Some(Record { kind, misc, place }));
                }
            }
            if !self.unpack(needed)? {
                return Ok(None);
            }
        }
    }

    /// Unpacks a piece; false when nothing came of it.
    fn unpack(&mut self, needed: u64) -> Result<bool, String> {
        if self.input_at >= self.input.len() && !self.full {
            return Ok(false);
        }
        let decoder = match &mut self.decoder {
            Some(decoder) => decoder,
            none => none.insert(Decoder::new().map_err(|error| format!("zstd: {error}"))?),
        };
        let mut input = InBuffer::around(&self.input[self.input_at..]);
        let mut output = OutBuffer::around(self.unpacked.room(UNPACKED, needed.min(self.at)));
        let result = decoder.run(&mut input, &mut output);
        let (read, written) = (input.pos(), output.pos());
        self.unpacked.filled(written);
        self.input_at += read;
        self.full = written == UNPACKED;
        result.map_err(|error| format!("compressed data that cannot be unpacked: {error}"))?;
        Ok(written > 0 || read > 0)
    }
}
