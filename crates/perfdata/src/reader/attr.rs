//! What an event was asked to record: the part of `perf_event_attr` that says how its records are laid out.

use super::bytes::ByteReader;
use crate::format::{SOFTWARE, flag, sample_type};

/// The kernel cuts call chains at this many frames by default (`perf_event_max_stack`).
const CHAIN_LIMIT: usize = 127;

#[derive(Clone, Debug, Default)]
pub struct Attr {
    pub kind: u32,
    pub config: u64,
    pub sample_type: u64,
    pub read_format: u64,
    pub branch_type: u64,
    pub user_registers: u64,
    /// The period of every sample, if it does not vary.
    pub period: Option<u64>,
    /// Nanoseconds between two samples, if the event is a clock that is sampled.
    pub clock_interval: Option<u64>,
    /// Threads that are started later are counted each by a counter of its own.
    pub inherit: bool,
    /// Frames at which the kernel cuts a chain.
    pub chain_limit: usize,
    /// Records that are no samples end with thread, time and id.
    pub sample_id_all: bool,
    /// Chains have no addresses of the kernel.
    pub only_user_chains: bool,
    pub name: Vec<u8>,
    pub layout: Layout,
}

/// The offsets of the fields of fixed size in a sample, in bytes from the start of its body.
#[derive(Clone, Copy, Debug, Default)]
pub struct Layout {
    pub ip: Option<u16>,
    pub tid: Option<u16>,
    pub time: Option<u16>,
    pub id: Option<u16>,
    pub period: Option<u16>,
    /// How long they are together.
    pub len: u16,
    /// Whether a call chain follows them, and nothing else.
    pub only_chain: bool,
}

impl Layout {
    fn of(kinds: u64) -> Self {
        use sample_type::{ADDR, CALLCHAIN, CPU, ID, IDENTIFIER, IP, PERIOD, STREAM_ID, TID, TIME};
        const FIXED: u64 = IDENTIFIER | IP | TID | TIME | ADDR | ID | STREAM_ID | CPU | PERIOD;
        let mut len = 0;
        let mut field = |bit| {
            (kinds & bit != 0).then(|| {
                len += 8;
                len - 8
            })
        };
        let identifier = field(IDENTIFIER);
        let (ip, tid, time) = (field(IP), field(TID), field(TIME));
        field(ADDR);
        let id = identifier.or(field(ID));
        field(STREAM_ID);
        field(CPU);
        let period = field(PERIOD);
        Self { ip, tid, time, id, period, len, only_chain: kinds & !FIXED == CALLCHAIN }
    }
}

impl Attr {
    /// Reads the kernel's structure, of whatever length its version has.
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        let mut at = ByteReader(bytes);
        let kind = at.u32()?;
        let _size = at.u32()?;
        let config = at.u64()?;
        let period = at.u64()?;
        let sample_type = at.u64()?;
        let read_format = at.u64()?;
        let flags = at.u64()?;
        // wakeup, bp_type, config1, config2
        at.take(24)?;
        let branch_type = at.u64().unwrap_or(0);
        let user_registers = at.u64().unwrap_or(0);
        // user stack, clock, registers of interrupts, aux_watermark
        let chain_limit = at.take(20).and_then(|_| at.u16()).filter(|&limit| limit > 0);
        let by_frequency = flags & flag::FREQUENCY != 0;
        // cpu-clock and task-clock; a member that is only read has neither period nor frequency.
        let clock = kind == SOFTWARE && config <= 1 && period > 0;
        let interval = if by_frequency { 1_000_000_000 / period.max(1) } else { period };
        let mut attr = Self {
            kind,
            config,
            sample_type,
            read_format,
            branch_type,
            user_registers,
            period: (!by_frequency).then_some(period),
            clock_interval: clock.then_some(interval),
            inherit: flags & flag::INHERIT != 0,
            chain_limit: chain_limit.map_or(CHAIN_LIMIT, usize::from),
            sample_id_all: flags & flag::SAMPLE_ID_ALL != 0,
            only_user_chains: flags & flag::EXCLUDE_CALLCHAIN_KERNEL != 0,
            layout: Layout::of(sample_type),
            ..Self::default()
        };
        attr.name = attr.default_name();
        Some(attr)
    }

    #[inline]
    pub fn has(&self, bit: u64) -> bool {
        self.sample_type & bit != 0
    }

    /// Whether its samples are those of `perf record --off-cpu`: a BPF program writes process, period and chain as RAW,
    /// as the kernel's own words are those of the thread that ran last.
    #[inline]
    pub fn is_off_cpu(&self) -> bool {
        const BPF_OUTPUT: u64 = 10;
        (self.kind, self.config) == (SOFTWARE, BPF_OUTPUT) && self.name == b"offcpu-time"
    }

    /// Whether its samples carry the values of counters, whose order matters.
    #[inline]
    pub fn reads_counters(&self) -> bool {
        self.has(sample_type::READ)
    }

    /// What perf calls the event when the recording does not say.
    fn default_name(&self) -> Vec<u8> {
        const HARDWARE: [&str; 10] = [
            "cycles",
            "instructions",
            "cache-references",
            "cache-misses",
            "branches",
            "branch-misses",
            "bus-cycles",
            "stalled-cycles-frontend",
            "stalled-cycles-backend",
            "ref-cycles",
        ];
        const SOFTWARE_EVENTS: [&str; 11] = [
            "cpu-clock",
            "task-clock",
            "page-faults",
            "context-switches",
            "cpu-migrations",
            "minor-faults",
            "major-faults",
            "alignment-faults",
            "emulation-faults",
            "dummy",
            "bpf-output",
        ];
        let known = |names: &[&'static str]| {
            usize::try_from(self.config).ok().and_then(|index| names.get(index).copied())
        };
        let name = match self.kind {
            0 => known(&HARDWARE),
            SOFTWARE => known(&SOFTWARE_EVENTS),
            _ => None,
        };
        match name {
            Some(name) => name.as_bytes().to_vec(),
            None => format!("type {} config {:#x}", self.kind, self.config).into_bytes(),
        }
    }
}
