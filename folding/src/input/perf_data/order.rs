//! Records in the order of their times.
//!
//! Each processor has its buffer, and perf empties one after the other; a round ends when all were emptied.
//! What is older than the newest record of the round before cannot be overtaken any more.

/// Bytes that may wait for their turn; a recording that never ends a round is sorted in pieces of this.
const LIMIT: usize = 192 << 20;

#[derive(Clone, Copy)]
struct Waiting {
    time: u64,
    start: usize,
    len: u32,
    kind: u32,
    misc: u16,
}

/// A record whose turn has come.
#[derive(Clone, Copy)]
pub struct Ready<'a> {
    pub kind: u32,
    pub misc: u16,
    pub body: &'a [u8],
}

#[derive(Default)]
pub struct Order {
    waiting: Vec<Waiting>,
    bytes: Vec<u8>,
    spare: Vec<u8>,
    /// Bytes of records that were passed on.
    gone: usize,
    newest: u64,
    newest_before: u64,
    /// Bytes that are worth a flush.
    least: usize,
}

impl Order {
    /// Rounds are passed on when so many bytes wait.
    pub fn in_pieces(least: usize) -> Self {
        Self { least, ..Self::default() }
    }

    pub fn push(&mut self, time: u64, kind: u32, misc: u16, body: &[u8]) {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(body);
        self.waiting.push(Waiting { time, start, len: body.len() as u32, kind, misc });
        self.newest = self.newest.max(time);
    }

    pub fn is_full(&self) -> bool {
        self.bytes.len() > LIMIT || self.waiting.len() > LIMIT / 32
    }

    /// A round ended: passes on what is older than the end of the round before.
    pub fn round<E>(&mut self, each: impl FnMut(Ready) -> Result<(), E>) -> Result<(), E> {
        let until = self.newest_before;
        self.newest_before = self.newest;
        if self.bytes.len() < self.least { Ok(()) } else { self.flush(until, each) }
    }

    /// Passes on everything.
    pub fn finish<E>(&mut self, each: impl FnMut(Ready) -> Result<(), E>) -> Result<(), E> {
        self.flush(u64::MAX, each)
    }

    fn flush<E>(&mut self, until: u64, mut each: impl FnMut(Ready) -> Result<(), E>) -> Result<(), E> {
        // Stable: records of one time keep the order of the file.
        self.waiting.sort_by_key(|record| record.time);
        let ready = self.waiting.partition_point(|record| record.time <= until);
        for record in &self.waiting[..ready] {
            let body = &self.bytes[record.start..record.start + record.len as usize];
            each(Ready { kind: record.kind, misc: record.misc, body })?;
        }
        self.gone += self.waiting[..ready].iter().map(|record| record.len as usize).sum::<usize>();
        self.waiting.drain(..ready);
        if self.waiting.is_empty() {
            self.bytes.clear();
            self.gone = 0;
        } else if self.gone > self.bytes.len() / 2 {
            self.close_up();
        }
        Ok(())
    }

    /// Gives back the room of what is gone.
    fn close_up(&mut self) {
        self.spare.clear();
        for record in &mut self.waiting {
            let start = self.spare.len();
            self.spare.extend_from_slice(&self.bytes[record.start..record.start + record.len as usize]);
            record.start = start;
        }
        std::mem::swap(&mut self.bytes, &mut self.spare);
        self.gone = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_waits_until_nothing_older_can_come() {
        let mut order = Order::default();
        let mut seen = Vec::new();
        let mut take = |record: Ready| -> Result<(), ()> {
            seen.push(record.body[0]);
            Ok(())
        };
        for (time, body) in [(1, 1), (4, 4), (2, 2)] {
            order.push(time, 9, 0, &[body]);
        }
        order.round(&mut take).unwrap();
        for (time, body) in [(3, 3), (6, 6), (5, 5)] {
            order.push(time, 9, 0, &[body]);
        }
        order.round(&mut take).unwrap();
        order.push(6, 9, 0, &[7]);
        order.finish(&mut take).unwrap();
        assert_eq!(seen, [1, 2, 3, 4, 5, 6, 7]);
    }
}
