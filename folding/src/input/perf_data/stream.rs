//! Records one after the other, as they lie in the input: unpacked, with their place, and with what stands
//! outside of them skipped.

use super::bytes::Bytes;
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

#[derive(Clone, Copy, Debug)]
pub struct Record<'a> {
    pub kind: u32,
    pub misc: u16,
    pub body: &'a [u8],
}

/// Where and why no record follows.
#[derive(Debug, PartialEq, Eq)]
pub struct Broken {
    pub offset: u64,
    pub why: String,
}

enum Place {
    Plain(usize, usize),
    Unpacked(usize, usize),
}

pub struct Stream<R> {
    input: R,
    buffer: Vec<u8>,
    start: usize,
    end: usize,
    /// Where `start` lies in the input.
    offset: u64,
    /// Where the records end, if the header says.
    limit: Option<u64>,
    packed: Packed,
}

/// The second stream of records, inside the compressed ones.
#[derive(Default)]
struct Packed {
    decoder: Option<Decoder<'static>>,
    unpacked: Vec<u8>,
    at: usize,
    /// Compressed bytes not unpacked yet: a range of the buffer is not kept, a copy is.
    input: Vec<u8>,
    input_at: usize,
}

impl<R: Read> Stream<R> {
    pub fn new(input: R, offset: u64, limit: Option<u64>) -> Self {
        Self { input, buffer: vec![0; CHUNK], start: 0, end: 0, offset, limit, packed: Packed::default() }
    }

    /// The next record; `None` at the end.
    pub fn next(&mut self) -> Result<Option<Record<'_>>, Broken> {
        let found = loop {
            if let Some(found) = self.packed.next().map_err(|why| self.broken(why))? {
                break found;
            }
            let Some((kind, misc, at, len)) = self.plain()? else { return Ok(None) };
            let body = at + HEADER..at + len;
            match kind {
                kind::COMPRESSED | kind::COMPRESSED2 => {
                    let Some(data) = packed_bytes(kind, &self.buffer[body]) else {
                        return Err(self.broken("a compressed record is shorter than it says".to_owned()));
                    };
                    self.packed.input.clear();
                    self.packed.input.extend_from_slice(data);
                    self.packed.input_at = 0;
                }
                kind::AUXTRACE => {
                    let size = Bytes(&self.buffer[body]).u64().unwrap_or(0);
                    self.skip(size)?;
                }
                kind::TRACING_DATA => {
                    let size = Bytes(&self.buffer[body]).u32().unwrap_or(0);
                    // File mode has it in the header; here the data follows, padded to 8 bytes.
                    self.skip(u64::from(size).next_multiple_of(8))?;
                }
                _ => break (kind, misc, Place::Plain(body.start, body.end)),
            }
        };
        let (kind, misc, place) = found;
        let body = match place {
            Place::Plain(start, end) => &self.buffer[start..end],
            Place::Unpacked(start, end) => &self.packed.unpacked[start..end],
        };
        Ok(Some(Record { kind, misc, body }))
    }

    /// Kind, misc, place in the buffer and length of the next record of the input.
    fn plain(&mut self) -> Result<Option<(u32, u16, usize, usize)>, Broken> {
        if self.limit.is_some_and(|limit| self.offset >= limit) {
            return Ok(None);
        }
        match self.fill(HEADER)? {
            0 if self.limit.is_none() => return Ok(None),
            have if have < HEADER => {
                return Err(self.broken(format!("the input ends, {have} bytes into a record's header")));
            }
            _ => {}
        }
        let mut header = Bytes(&self.buffer[self.start..self.start + HEADER]);
        let (Some(kind), Some(misc), Some(size)) = (header.u32(), header.u16(), header.u16()) else {
            return Ok(None);
        };
        let len = usize::from(size);
        if len < HEADER {
            return Err(self.broken(format!("a record of kind {kind} says it is {len} bytes long")));
        }
        let have = self.fill(len)?;
        if have < len || self.limit.is_some_and(|limit| self.offset + len as u64 > limit) {
            return Err(self.broken(format!("a record of {len} bytes runs over the end, {have} are there")));
        }
        let at = self.start;
        self.start += len;
        self.offset += len as u64;
        Ok(Some((kind, misc, at, len)))
    }

    /// Makes `want` bytes ready from `start` on, or as many as there are; returns how many are.
    fn fill(&mut self, want: usize) -> Result<usize, Broken> {
        while self.end - self.start < want {
            if self.start > 0 {
                self.buffer.copy_within(self.start..self.end, 0);
                self.end -= self.start;
                self.start = 0;
            }
            match self.input.read(&mut self.buffer[self.end..]) {
                Ok(0) => break,
                Ok(n) => self.end += n,
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(error) => return Err(self.broken(format!("reading failed: {error}"))),
            }
        }
        Ok((self.end - self.start).min(want))
    }

    fn skip(&mut self, mut size: u64) -> Result<(), Broken> {
        while size > 0 {
            let have = self.fill(usize::try_from(size).unwrap_or(CHUNK).min(CHUNK))?;
            if have == 0 {
                return Err(self.broken("the input ends within data between records".to_owned()));
            }
            self.start += have;
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
    fn next(&mut self) -> Result<Option<(u32, u16, Place)>, String> {
        loop {
            let mut header = Bytes(&self.unpacked[self.at..]);
            if let (Some(kind), Some(misc), Some(size)) = (header.u32(), header.u16(), header.u16()) {
                let len = usize::from(size);
                if len < HEADER {
                    return Err(format!("an unpacked record of kind {kind} says it is {len} bytes long"));
                }
                let start = self.at;
                if self.unpacked.len() - start >= len {
                    self.at += len;
                    return Ok(Some((kind, misc, Place::Unpacked(start + HEADER, start + len))));
                }
            }
            if !self.unpack()? {
                return Ok(None);
            }
        }
    }

    /// Unpacks a piece; false when nothing came of it.
    fn unpack(&mut self) -> Result<bool, String> {
        if self.input_at >= self.input.len() {
            return Ok(false);
        }
        self.unpacked.drain(..self.at);
        self.at = 0;
        let decoder = match &mut self.decoder {
            Some(decoder) => decoder,
            none => none.insert(Decoder::new().map_err(|error| format!("zstd: {error}"))?),
        };
        let kept = self.unpacked.len();
        self.unpacked.resize(kept + UNPACKED, 0);
        let mut input = InBuffer::around(&self.input[self.input_at..]);
        let mut output = OutBuffer::around(&mut self.unpacked[kept..]);
        let result = decoder.run(&mut input, &mut output);
        let (read, written) = (input.pos(), output.pos());
        self.unpacked.truncate(kept + written);
        self.input_at += read;
        result.map_err(|error| format!("compressed data that cannot be unpacked: {error}"))?;
        Ok(written > 0 || read > 0)
    }
}
