//! One sample record, taken apart.

use super::attr::{Attr, BRANCH_HW_INDEX, read_format, sample_type};
use super::bytes::{ByteReader, words};

#[derive(Clone, Copy, Debug, Default)]
pub struct Sample<'a> {
    pub ip: Option<u64>,
    pub pid: Option<i32>,
    pub tid: Option<i32>,
    /// Nanoseconds of the trace's clock.
    pub time: Option<u64>,
    pub period: Option<u64>,
    /// ChainBuilder values: of the event, or of its whole group.
    pub values: Option<CounterValues<'a>>,
    /// Addresses and context marks, 8 bytes each.
    pub callchain: Option<&'a [u8]>,
    /// From, to, flags; 24 bytes each.
    pub branches: Option<&'a [u8]>,
    /// Registers of the user side, those of the mask in order.
    pub user_registers: Option<&'a [u8]>,
    /// A copy of the top of the user stack: what could be copied of it.
    pub user_stack: &'a [u8],
    /// Bytes that were to be copied.
    pub user_stack_size: u64,
}

/// ChainBuilder values of a sample that reads its group.
#[derive(Clone, Copy, Debug)]
pub struct CounterValues<'a> {
    bytes: &'a [u8],
    read_format: u64,
}

impl CounterValues<'_> {
    /// Id and value of each.
    pub fn iter(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        let with_lost = self.read_format & read_format::LOST != 0;
        self.bytes.chunks_exact(if with_lost { 24 } else { 16 }).filter_map(|entry| {
            let mut entry = ByteReader(entry);
            let value = entry.u64()?;
            Some((entry.u64()?, value))
        })
    }
}

impl<'a> Sample<'a> {
    #[inline]
    pub fn parse(body: &'a [u8], attr: &Attr) -> Option<Self> {
        let layout = attr.layout;
        let (fixed, rest) = body.split_at_checked(layout.len.into())?;
        let word = |at: Option<u16>| word_at(fixed, at?);
        let ids = word(layout.tid);
        let mut at = ByteReader(rest);
        let mut sample = Self {
            ip: word(layout.ip),
            pid: ids.map(|ids| ids as i32),
            tid: ids.map(|ids| (ids >> 32) as i32),
            time: word(layout.time),
            period: word(layout.period).or(attr.period),
            ..Self::default()
        };
        if layout.only_chain {
            let count = at.u64()?;
            sample.callchain = Some(at.words(count)?);
            return Some(sample);
        }
        sample.take_rest(at, attr)
    }

    /// What has no fixed place.
    fn take_rest(self, mut at: ByteReader<'a>, attr: &Attr) -> Option<Self> {
        use sample_type::{BRANCH_STACK, CALLCHAIN, RAW, READ, REGS_USER, STACK_USER};
        let mut sample = self;
        if attr.has(READ) {
            sample.values = read_values(&mut at, attr.read_format)?;
        }
        if attr.has(CALLCHAIN) {
            let count = at.u64()?;
            sample.callchain = Some(at.words(count)?);
        }
        if attr.has(RAW) {
            let size = at.u32()?;
            at.take(size.into())?;
        }
        if attr.has(BRANCH_STACK) {
            let count = at.u64()?;
            if attr.branch_type & BRANCH_HW_INDEX != 0 {
                at.u64()?;
            }
            sample.branches = Some(at.words(count.checked_mul(3)?)?);
        }
        if attr.has(REGS_USER) && at.u64()? != 0 {
            sample.user_registers = Some(at.words(attr.user_registers.count_ones().into())?);
        }
        if attr.has(STACK_USER) {
            let size = at.u64()?;
            let stack = at.take(size)?;
            sample.user_stack_size = size;
            let filled = if size == 0 { 0 } else { at.u64()? };
            sample.user_stack = &stack[..usize::try_from(filled).ok()?.min(stack.len())];
        }
        Some(sample)
    }

    /// The registers by number, if they were recorded.
    pub fn register(&self, attr: &Attr, number: u32) -> Option<u64> {
        let bit = 1_u64.checked_shl(number)?;
        if attr.user_registers & bit == 0 {
            return None;
        }
        let index = (attr.user_registers & (bit - 1)).count_ones() as usize;
        words(self.user_registers?).nth(index)
    }
}

/// The counter values of a group; the outer `None` means that the record is too short.
fn read_values<'a>(at: &mut ByteReader<'a>, format: u64) -> Option<Option<CounterValues<'a>>> {
    let has = |bit| u64::from(format & bit != 0);
    let times = has(read_format::TIME_ENABLED) + has(read_format::TIME_RUNNING);
    let entry = 1 + has(read_format::ID) + has(read_format::LOST);
    let values = if has(read_format::GROUP) == 1 {
        let count = at.u64()?;
        at.words(times)?;
        at.words(count.checked_mul(entry)?)?
    } else {
        // value, times, id, lost
        at.words(times + entry)?;
        return Some(None);
    };
    Some((has(read_format::ID) == 1).then_some(CounterValues { bytes: values, read_format: format }))
}

/// The number that stands there.
pub fn word_at(body: &[u8], at: u16) -> Option<u64> {
    body.get(at.into()..)?.first_chunk().copied().map(u64::from_le_bytes)
}
