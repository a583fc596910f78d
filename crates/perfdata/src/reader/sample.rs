//! One sample record, taken apart.

use super::attr::Attr;
use super::bytes::{ByteReader, words};
use crate::format::{CONTEXT_USER_DEFERRED, abi, branch_type, read_format, sample_type};

#[derive(Clone, Copy, Debug, Default)]
pub struct SampleRecord<'a> {
    pub ip: Option<u64>,
    pub pid: Option<i32>,
    pub tid: Option<i32>,
    /// Nanoseconds of the trace's clock.
    pub time: Option<u64>,
    pub period: Option<u64>,
    /// Values of counters, if the event reads them.
    pub values: Option<CounterValues<'a>>,
    /// Addresses and context marks, 8 bytes each.
    pub callchain: Option<&'a [u8]>,
    /// From, to, flags; 24 bytes each.
    pub branches: Option<&'a [u8]>,
    /// Registers of the user side, those of the mask in order; only those of a 64-bit program.
    pub user_registers: Option<&'a [u8]>,
    /// The program is a 32-bit one.
    pub is_32_bit: bool,
    /// A copy of the top of the user stack: what could be copied of it.
    pub user_stack: &'a [u8],
    /// Bytes that were to be copied.
    pub user_stack_size: u64,
}

/// Values of counters that a sample reads: of its event, or of all in the event's group.
#[derive(Clone, Copy, Debug)]
pub struct CounterValues<'a> {
    /// Values before the identity of a counter, and words for each.
    id_at: usize,
    words: usize,
    bytes: &'a [u8],
}

impl CounterValues<'_> {
    /// Id and value of each.
    #[inline]
    pub fn iter(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.bytes.chunks_exact(8 * self.words).filter_map(|entry| {
            let mut entry = words(entry);
            let value = entry.next()?;
            Some((entry.nth(self.id_at - 1)?, value))
        })
    }
}

impl<'a> SampleRecord<'a> {
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
            let raw = at.take(size.into())?;
            if attr.is_off_cpu() {
                sample.take_off_cpu(ByteReader(raw))?;
            }
        }
        if attr.has(BRANCH_STACK) {
            let count = at.u64()?;
            if attr.branch_type & branch_type::HW_INDEX != 0 {
                at.u64()?;
            }
            sample.branches = Some(at.words(count.checked_mul(3)?)?);
            if attr.branch_type & branch_type::COUNTERS != 0 {
                at.words(count)?;
            }
        }
        if attr.has(REGS_USER) {
            let kind = at.u64()?;
            let count = if kind == 0 { 0 } else { attr.user_registers.count_ones() };
            let registers = at.words(count.into())?;
            sample.is_32_bit = kind == abi::OF_32_BIT;
            sample.user_registers = (kind > abi::OF_32_BIT).then_some(registers);
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

    /// What `perf record --off-cpu` wrote down of a thread that was not on a CPU.
    fn take_off_cpu(&mut self, mut at: ByteReader<'a>) -> Option<()> {
        (self.pid, self.tid) = (Some(at.i32()?), Some(at.i32()?));
        self.period = Some(at.u64()?);
        let count = at.u64()?;
        let chain = at.words(count)?;
        self.ip = words(chain).nth(1);
        self.callchain = Some(chain);
        Some(())
    }

    /// The chain without the mark that the user's side follows in a record of its own, and the number of that record.
    #[inline]
    pub fn deferred(&self) -> Option<(&'a [u8], u64)> {
        let (rest, marked) = self.callchain?.split_last_chunk::<16>()?;
        let mut marked = words(marked);
        (marked.next() == Some(CONTEXT_USER_DEFERRED)).then_some((rest, marked.next()?))
    }

    /// The registers by number, if they were recorded.
    #[inline]
    pub fn register(&self, attr: &Attr, number: u32) -> Option<u64> {
        let bit = 1_u64.checked_shl(number)?;
        if attr.user_registers & bit == 0 {
            return None;
        }
        let index = (attr.user_registers & (bit - 1)).count_ones() as usize;
        words(self.user_registers?).nth(index)
    }
}

/// The values of counters; the outer `None` means that the record is too short.
fn read_values<'a>(at: &mut ByteReader<'a>, format: u64) -> Option<Option<CounterValues<'a>>> {
    let has = |bit| u64::from(format & bit != 0);
    let times = has(read_format::TIME_ENABLED) + has(read_format::TIME_RUNNING);
    let entry = 1 + has(read_format::ID) + has(read_format::LOST);
    let (id_at, words, bytes) = if has(read_format::GROUP) == 1 {
        let count = at.u64()?;
        at.words(times)?;
        (1, entry, at.words(count.checked_mul(entry)?)?)
    } else {
        // value, times, id, lost
        (1 + times, times + entry, at.words(times + entry)?)
    };
    let values = CounterValues { id_at: id_at as usize, words: words as usize, bytes };
    Some((has(read_format::ID) == 1).then_some(values))
}

/// The number at that offset.
#[inline]
pub fn word_at(body: &[u8], at: u16) -> Option<u64> {
    body.get(at.into()..)?.first_chunk().copied().map(u64::from_le_bytes)
}
