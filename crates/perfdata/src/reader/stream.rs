//! Records one after the other, in the order of the input: unpacked, with their place, and with what is outside of them
//! skipped.
//!
//! Records wait for their turn where they were read, without a copy: the caller names the first blocks that are still
//! needed.

use super::blocks::{Blocks, Body, Input};
use super::bytes::ByteReader;
use crate::format::{RECORD_HEADER, kind};
use std::io::Read;
use zstd::stream::raw::{Decoder, InBuffer, Operation, OutBuffer};

/// How many bytes may be unpacked of any input, and how many more for each byte of it. What perf packs repeats itself, but a
/// megabyte that unpacks to 30 GB is none of perf's.
const UNPACKED: u64 = 2 << 30;
const UNPACKED_TIMES: u64 = 1 << 10;

/// How many bytes so many packed ones may become: of a recording, or of any other profile.
pub fn most_unpacked(packed: u64) -> u64 {
    UNPACKED.saturating_add(UNPACKED_TIMES.saturating_mul(packed))
}

/// A record, and where its body lies.
#[derive(Clone, Copy, Debug)]
pub struct Record {
    pub kind: u32,
    pub misc: u16,
    pub place: RecordPlace,
}

/// Where the body of a record lies: in a block of the input, or of what was unpacked of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordPlace {
    pub block: u32,
    pub start: u32,
    pub len: u16,
    pub unpacked: bool,
}

/// The first blocks that somebody waits for, of the input and of what was unpacked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NeededBlocks {
    pub plain: u32,
    pub unpacked: u32,
}

impl NeededBlocks {
    pub const NOTHING: Self = Self { plain: u32::MAX, unpacked: u32::MAX };

    #[inline]
    pub fn add(&mut self, place: RecordPlace) {
        let first = if place.unpacked { &mut self.unpacked } else { &mut self.plain };
        *first = (*first).min(place.block);
    }
}

/// Where and why no record follows.
#[derive(Debug, PartialEq, Eq)]
pub struct StreamError {
    pub offset: u64,
    pub why: String,
}

pub struct Stream<R> {
    input: Input<R>,
    plain: Blocks,
    /// Where the next record begins in the input.
    offset: u64,
    /// Where the records end, if the header says.
    limit: Option<u64>,
    compressed: CompressedRecords,
}

/// The second stream of records, inside the compressed ones.
#[derive(Default)]
struct CompressedRecords {
    decoder: Option<Decoder<'static>>,
    unpacked: Blocks,
    /// Compressed bytes not unpacked yet.
    input: Vec<u8>,
    input_at: usize,
    /// The room was too small for what came last, so there may be more without further bytes.
    full: bool,
    /// Bytes that were taken so far, and that came of them.
    packed_bytes: u64,
    unpacked_bytes: u64,
}

/// Kind, misc and length of the record that begins here.
fn header(bytes: &[u8]) -> Option<(u32, u16, usize)> {
    let word = bytes.first_chunk().copied().map(u64::from_le_bytes)?;
    Some((word as u32, (word >> 32) as u16, (word >> 48) as usize))
}

/// Takes a record that is there.
fn take(blocks: &mut Blocks, len: usize, unpacked: bool) -> RecordPlace {
    let (block, start) = blocks.take(len);
    RecordPlace { block, start: start + RECORD_HEADER as u32, len: (len - RECORD_HEADER) as u16, unpacked }
}

impl<R: Read> Stream<R> {
    pub fn new(input: Input<R>, offset: u64, limit: Option<u64>) -> Self {
        Self { input, plain: Blocks::default(), offset, limit, compressed: CompressedRecords::default() }
    }

    /// The bytes of a record that is still needed.
    pub fn body(&self, place: RecordPlace) -> Body<'_> {
        let blocks = if place.unpacked { &self.compressed.unpacked } else { &self.plain };
        blocks.get(place.block, place.start, place.len)
    }

    /// How many blocks are held from the first one needed on.
    pub fn held(&self, needed: NeededBlocks) -> u32 {
        let plain = self.plain.last().saturating_sub(needed.plain);
        plain + self.compressed.unpacked.last().saturating_sub(needed.unpacked)
    }

    /// The next record; `None` at the end. What lies before `needed` may be forgotten.
    pub fn next(&mut self, needed: NeededBlocks) -> Result<Option<Record>, StreamError> {
        loop {
            if let Some(found) = self.compressed.next(needed.unpacked).map_err(|why| self.broken(why))? {
                return Ok(Some(found));
            }
            let Some(record) = self.plain(needed.plain)? else { return Ok(None) };
            let Record { kind, place, .. } = record;
            match kind {
                kind::COMPRESSED | kind::COMPRESSED2 => {
                    let Some(data) = packed_bytes(kind, self.body(place).bytes).map(<[u8]>::to_vec) else {
                        return Err(self.broken("a compressed record is shorter than it says".to_owned()));
                    };
                    (self.compressed.input, self.compressed.input_at) = (data, 0);
                }
                kind::AUXTRACE => {
                    let size = ByteReader(self.body(place).bytes).u64().unwrap_or(0);
                    self.skip(size, needed.plain)?;
                }
                kind::TRACING_DATA => {
                    let size = ByteReader(self.body(place).bytes).u32().unwrap_or(0);
                    // File mode has it in the header; here the data follows, padded to 8 bytes.
                    self.skip(u64::from(size).next_multiple_of(8), needed.plain)?;
                }
                _ => return Ok(Some(record)),
            }
        }
    }

    /// The next record of the input itself.
    fn plain(&mut self, needed: u32) -> Result<Option<Record>, StreamError> {
        if self.limit.is_some_and(|limit| self.offset >= limit) {
            return Ok(None);
        }
        let rest = self.plain.rest();
        if let Some((kind, misc, len)) = header(rest) {
            // Nearly every record is there as a whole.
            let within = self.limit.is_none_or(|limit| self.offset + len as u64 <= limit);
            if (RECORD_HEADER..=rest.len()).contains(&len) && within {
                self.offset += len as u64;
                return Ok(Some(Record { kind, misc, place: take(&mut self.plain, len, false) }));
            }
        }
        let have = self.fill(RECORD_HEADER, needed)?;
        let Some((kind, misc, len)) = header(self.plain.rest()) else {
            if have == 0 && self.limit.is_none() {
                return Ok(None);
            }
            return Err(self.broken(format!("the input ends, {have} bytes into a record's header")));
        };
        if len < RECORD_HEADER {
            return Err(self.broken(format!("a record of kind {kind} says it is {len} bytes long")));
        }
        let have = self.fill(len, needed)?;
        if have < len || self.limit.is_some_and(|limit| self.offset + len as u64 > limit) {
            return Err(self.broken(format!("a record of {len} bytes runs over the end, {have} are there")));
        }
        self.offset += len as u64;
        Ok(Some(Record { kind, misc, place: take(&mut self.plain, len, false) }))
    }

    /// Makes `want` bytes ready from the next record on, or as many as there are; returns how many are.
    fn fill(&mut self, want: usize, needed: u32) -> Result<usize, StreamError> {
        loop {
            let have = self.plain.rest().len();
            if have >= want {
                return Ok(want);
            }
            match self.input.more(&mut self.plain, needed) {
                Ok(true) => {}
                Ok(false) => return Ok(self.plain.rest().len()),
                Err(error) => return Err(self.broken(format!("reading failed: {error}"))),
            }
        }
    }

    fn skip(&mut self, mut size: u64, needed: u32) -> Result<(), StreamError> {
        while size > 0 {
            self.fill(1, needed)?;
            let have = self.plain.rest().len().min(usize::try_from(size).unwrap_or(usize::MAX));
            if have == 0 {
                return Err(self.broken("the input ends within data between records".to_owned()));
            }
            self.plain.take(have);
            self.offset += have as u64;
            size -= have as u64;
        }
        Ok(())
    }

    fn broken(&self, why: String) -> StreamError {
        StreamError { offset: self.offset, why }
    }
}

/// What of a compressed record is compressed data; the newer kind says its length.
fn packed_bytes(kind: u32, body: &[u8]) -> Option<&[u8]> {
    if kind == kind::COMPRESSED {
        return Some(body);
    }
    let mut at = ByteReader(body);
    let len = at.u64()?;
    at.take(len)
}

impl CompressedRecords {
    /// The next record among the unpacked bytes; `None`: more compressed bytes are needed.
    fn next(&mut self, needed: u32) -> Result<Option<Record>, String> {
        if self.decoder.is_none() && self.input.is_empty() {
            return Ok(None);
        }
        loop {
            let rest = self.unpacked.rest();
            if let Some((kind, misc, len)) = header(rest) {
                if len < RECORD_HEADER {
                    return Err(format!("an unpacked record of kind {kind} says it is {len} bytes long"));
                }
                if rest.len() >= len {
                    return Ok(Some(Record { kind, misc, place: take(&mut self.unpacked, len, true) }));
                }
            }
            if !self.unpack(needed)? {
                return Ok(None);
            }
        }
    }

    /// Unpacks a piece; false when nothing came of it.
    fn unpack(&mut self, needed: u32) -> Result<bool, String> {
        if self.input_at >= self.input.len() && !self.full {
            return Ok(false);
        }
        let decoder = match &mut self.decoder {
            Some(decoder) => decoder,
            none => none.insert(Decoder::new().map_err(|error| format!("zstd: {error}"))?),
        };
        let mut input = InBuffer::around(&self.input[self.input_at..]);
        let room = self.unpacked.room(needed);
        let size = room.len();
        let mut output = OutBuffer::around(room);
        let result = decoder.run(&mut input, &mut output);
        let (read, written) = (input.pos(), output.pos());
        self.unpacked.filled(written);
        self.input_at += read;
        self.full = written == size;
        self.packed_bytes += read as u64;
        self.unpacked_bytes += written as u64;
        if self.unpacked_bytes > most_unpacked(self.packed_bytes) {
            let (packed, unpacked) = (self.packed_bytes, self.unpacked_bytes);
            return Err(format!(
                "compressed data unpacks to more than any recording does: {packed} bytes to {unpacked} so far"
            ));
        }
        result.map_err(|error| format!("compressed data that cannot be unpacked: {error}"))?;
        Ok(written > 0 || read > 0)
    }
}
