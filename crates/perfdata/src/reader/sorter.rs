//! Records in the order of their times.
//!
//! Each processor has its buffer, and perf empties one after the other; a round ends when all were emptied.
//! What is older than the newest record of the round before cannot be overtaken any more.

use super::blocks::Body;
use super::stream::{NeededBlocks, RecordPlace};
use crate::format::kind;

/// Bytes that may wait for their turn; a recording that never ends a round is sorted in pieces of this.
const LIMIT: usize = 192 << 20;
/// Blocks of the input that may be held for the sake of a few records in them, which are then copied.
const STRAY: u32 = 16;
/// Blocks that may be held for any number of records.
const MOST: u32 = 512;
/// Bytes that wait in a block that is not held for a few records.
const FEW: usize = 1 << 17;

#[derive(Clone, Copy)]
struct PendingRecord {
    time: u64,
    block: u32,
    start: u32,
    len: u16,
    misc: u16,
    kind: u16,
    store: BodyStore,
}

/// Where the body of a waiting record lies.
#[derive(Clone, Copy, PartialEq, Eq)]
enum BodyStore {
    Input,
    Unpacked,
    Copied,
}

/// A record whose turn has come.
#[derive(Clone, Copy)]
pub struct SortedRecord<'a> {
    pub kind: u32,
    pub misc: u16,
    pub body: Body<'a>,
}

pub struct RecordSorter {
    pending: Vec<PendingRecord>,
    /// Bytes of the waiting records.
    bytes: usize,
    needed: NeededBlocks,
    copies: Vec<u8>,
    newest: u64,
    newest_before: u64,
    /// Bytes that are worth a flush.
    least: usize,
    /// Whether the waiting records are in the order of their times.
    in_order: bool,
    /// How many of them are no samples.
    changes: usize,
    /// Samples may overtake each other, though no other record.
    samples_overtake: bool,
}

impl RecordSorter {
    /// Rounds are passed on when so many bytes wait.
    pub fn in_pieces(least: usize) -> Self {
        Self {
            pending: Vec::new(),
            bytes: 0,
            needed: NeededBlocks::NOTHING,
            copies: Vec::new(),
            newest: 0,
            newest_before: 0,
            least,
            in_order: true,
            changes: 0,
            samples_overtake: false,
        }
    }

    /// Where the order of samples among themselves does not matter, they need not be sorted.
    pub fn let_samples_overtake(&mut self, may: bool) {
        self.samples_overtake = may;
    }

    #[inline]
    pub fn push(&mut self, time: u64, kind: u32, misc: u16, place: RecordPlace) {
        self.in_order &= self.pending.last().is_none_or(|last| last.time <= time);
        self.changes += usize::from(kind != kind::SAMPLE);
        self.needed.add(place);
        self.bytes += usize::from(place.len);
        let store = if place.unpacked { BodyStore::Unpacked } else { BodyStore::Input };
        let RecordPlace { block, start, len, .. } = place;
        self.pending.push(PendingRecord { time, block, start, len, misc, kind: kind as u16, store });
        self.newest = self.newest.max(time);
    }

    /// The first blocks that hold a waiting record.
    #[inline]
    pub fn needed(&self) -> NeededBlocks {
        self.needed
    }

    #[inline]
    pub fn is_full(&self) -> bool {
        self.bytes > LIMIT || self.pending.len() > LIMIT / 32
    }

    /// A round ended: passes on what is older than the end of the round before. `body` gives the bytes of a place.
    pub fn round<'b, E>(
        &mut self,
        body: impl Fn(RecordPlace) -> Body<'b>,
        each: impl FnMut(SortedRecord) -> Result<(), E>,
    ) -> Result<(), E> {
        let until = self.newest_before;
        self.newest_before = self.newest;
        if self.bytes < self.least { Ok(()) } else { self.flush(until, body, each) }
    }

    /// Passes on everything.
    pub fn finish<'b, E>(
        &mut self,
        body: impl Fn(RecordPlace) -> Body<'b>,
        each: impl FnMut(SortedRecord) -> Result<(), E>,
    ) -> Result<(), E> {
        self.flush(u64::MAX, body, each)
    }

    fn flush<'b, E>(
        &mut self,
        until: u64,
        body: impl Fn(RecordPlace) -> Body<'b>,
        mut each: impl FnMut(SortedRecord) -> Result<(), E>,
    ) -> Result<(), E> {
        let Self { pending, copies, .. } = self;
        let may_stay = self.in_order || self.samples_overtake && self.changes == 0;
        if !may_stay {
            // Stable: records of one time keep the order of the file.
            pending.sort_by_key(|record| record.time);
            self.in_order = true;
        }
        (self.bytes, self.changes, self.needed) = (0, 0, NeededBlocks::NOTHING);
        let mut kept = 0;
        for index in 0..pending.len() {
            let record = pending[index];
            let kind = u32::from(record.kind);
            if record.time <= until {
                each(SortedRecord { kind, misc: record.misc, body: record.body(copies, &body) })?;
                continue;
            }
            self.changes += usize::from(kind != kind::SAMPLE);
            self.bytes += usize::from(record.len);
            if let Some(place) = record.place() {
                self.needed.add(place);
            }
            pending[kept] = record;
            kept += 1;
        }
        pending.truncate(kept);
        self.in_order |= kept == 0;
        Ok(())
    }

    /// Copies what waits if little of the many blocks held is needed, so that the blocks can be reused.
    #[inline]
    pub fn tidy<'b>(&mut self, held: u32, body: impl Fn(RecordPlace) -> Body<'b>) {
        if held >= STRAY && (held >= MOST || self.bytes <= held as usize * FEW) {
            self.copy(body);
        }
    }

    #[cold]
    fn copy<'b>(&mut self, body: impl Fn(RecordPlace) -> Body<'b>) {
        let mut copies = Vec::with_capacity(self.bytes);
        for record in &mut self.pending {
            let start = copies.len() as u32;
            copies.extend_from_slice(record.body(&self.copies, &body).bytes);
            (record.start, record.store) = (start, BodyStore::Copied);
        }
        self.copies = copies;
        self.needed = NeededBlocks::NOTHING;
    }
}

impl PendingRecord {
    fn place(&self) -> Option<RecordPlace> {
        let &Self { block, start, len, store, .. } = self;
        (store != BodyStore::Copied).then_some(RecordPlace {
            block,
            start,
            len,
            unpacked: store == BodyStore::Unpacked,
        })
    }

    fn body<'b, 'c: 'd, 'd>(&self, copies: &'c [u8], body: &impl Fn(RecordPlace) -> Body<'b>) -> Body<'d>
    where
        'b: 'd,
    {
        match self.place() {
            Some(place) => body(place),
            None => {
                let start = self.start as usize;
                Body::of(copies.get(start..start + usize::from(self.len)).unwrap_or(&[]))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An input of the numbers from 0, each a record.
    const INPUT: [u8; 8] = [0, 1, 2, 3, 4, 5, 6, 7];

    fn body(place: RecordPlace) -> Body<'static> {
        let start = place.start as usize;
        Body::of(&INPUT[start..start + usize::from(place.len)])
    }

    fn push(order: &mut RecordSorter, time: u64, kind: u32, record: u32) {
        order.push(time, kind, 0, RecordPlace { block: record, start: record, len: 1, unpacked: false });
    }

    fn in_turn(order: &mut RecordSorter) -> Vec<u8> {
        let mut seen = Vec::new();
        let mut take = |record: SortedRecord| -> Result<(), ()> {
            seen.push(record.body.bytes[0]);
            Ok(())
        };
        for (time, record) in [(1, 1), (4, 4), (2, 2)] {
            push(order, time, kind::SAMPLE, record);
        }
        order.round(body, &mut take).unwrap();
        assert_eq!(order.needed().plain, 1);
        for (time, record) in [(3, 3), (6, 6), (5, 5)] {
            push(order, time, kind::SAMPLE, record);
        }
        order.round(body, &mut take).unwrap();
        assert_eq!(order.needed().plain, 5);
        order.tidy(STRAY, body);
        assert_eq!(order.needed(), NeededBlocks::NOTHING);
        push(order, 6, kind::SAMPLE, 7);
        order.finish(body, &mut take).unwrap();
        seen
    }

    #[test]
    fn a_record_waits_until_nothing_older_can_come() {
        assert_eq!(in_turn(&mut RecordSorter::in_pieces(0)), [1, 2, 3, 4, 5, 6, 7]);
    }

    #[test]
    fn samples_may_overtake_samples_only() {
        let mut order = RecordSorter::in_pieces(0);
        order.let_samples_overtake(true);
        assert_eq!(in_turn(&mut order), [1, 4, 2, 3, 6, 5, 7]);
        let mut seen = Vec::new();
        for (time, kind, record) in [(9, kind::SAMPLE, 0), (7, kind::SAMPLE, 1), (8, kind::COMM, 2)] {
            push(&mut order, time, kind, record);
        }
        let take = |record: SortedRecord| -> Result<(), ()> {
            seen.push((record.kind, record.body.bytes[0]));
            Ok(())
        };
        order.finish(body, take).unwrap();
        assert_eq!(seen, [(kind::SAMPLE, 1), (kind::COMM, 2), (kind::SAMPLE, 0)]);
    }
}
