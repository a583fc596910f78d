//! Samples in, one weighted profile and its statistics out.
//!
//! An input opens a sample, names its frames and closes it. What is kept, what weighs how much and what
//! is refused is decided here, once for every input.

mod folded;

use crate::dso;
use crate::error::Error;
use crate::events::Events;
use crate::names;
use crate::origin::{self, Origin};
use crate::profile::Profile;
use crate::roots;
use crate::slices::Slices;
use crate::stats::{EventTotals, Stats, widest};

pub use crate::options::{Label, Options, Weight, Window};

/// The head of one sample.
#[derive(Clone, Copy, Debug, Default)]
pub struct Head<'a> {
    pub comm: &'a [u8],
    pub pid: Option<i64>,
    pub tid: Option<i64>,
    pub event: &'a [u8],
    pub period: Option<u64>,
    /// Nanoseconds of the trace's clock.
    pub time: Option<u64>,
}

/// One frame as the profiler told it.
#[derive(Clone, Copy, Debug, Default)]
pub struct RawFrame<'a> {
    pub symbol: &'a [u8],
    pub dso: Option<&'a [u8]>,
    pub address: Option<u64>,
    pub inlined: bool,
}

const KERNEL: u8 = 1;
const UNKNOWN: u8 = 2;
const USER_ROOT: u8 = 4;
const KERNEL_ROOT: u8 = 8;
const FROM: u8 = 16;
const SKIP_AFTER: u8 = 32;

/// A frame that has its name; what an input keeps for each line or address it has seen.
#[derive(Clone, Copy, Debug)]
pub struct FrameRef {
    name: u32,
    flags: u8,
}

/// A sample that passed the filters and waits for its frames.
#[derive(Clone, Copy, Debug)]
pub struct OpenSample {
    comm: u32,
    weight: u64,
    period: Option<u64>,
    /// The slice of time it falls into, if slices are wanted.
    slice: Option<u64>,
}

impl OpenSample {
    /// The number of its command frame.
    pub fn comm(&self) -> u32 {
        self.comm
    }

    /// The slice of time it falls into, if slices are wanted.
    pub fn slice(&self) -> Option<u64> {
        self.slice
    }
}

/// Samples of one command, one slice of time and one chain.
#[derive(Clone, Copy, Debug)]
pub struct Samples {
    /// The number of the command frame.
    pub comm: u32,
    pub slice: Option<u64>,
    pub weight: u128,
    pub count: u64,
    pub largest: u64,
    /// The shortest and the longest period.
    pub periods: Option<(u64, u64)>,
}

impl From<OpenSample> for Samples {
    fn from(sample: OpenSample) -> Self {
        let OpenSample { comm, weight, period, slice } = sample;
        let periods = period.map(|period| (period, period));
        Self { comm, slice, weight: weight.into(), count: 1, largest: weight, periods }
    }
}

impl Samples {
    pub fn absorb(&mut self, other: &Self) {
        self.weight = self.weight.saturating_add(other.weight);
        self.count += other.count;
        self.largest = self.largest.max(other.largest);
        self.periods = widest(self.periods, other.periods);
    }
}

/// The kernel cuts call chains at this many frames unless told otherwise (`perf_event_max_stack`).
const KERNEL_CHAIN_LIMIT: usize = 127;
/// Above this address lies the kernel, on every 64-bit machine perf knows.
const KERNEL_SPACE: u64 = 0xffff_8000_0000_0000;

/// A command frame made before; a few threads take turns.
struct LastComm {
    comm: Vec<u8>,
    pid: Option<i64>,
    tid: Option<i64>,
    name: u32,
}

#[derive(Default)]
pub struct Collector {
    options: Options,
    profile: Profile,
    slices: Slices,
    stats: Stats,
    events: Events,
    /// Samples that the filters left out.
    filtered: Events,
    /// Which of the frames named in the options were seen: `--from`, then each `--skip-after`.
    met: Vec<bool>,
    /// Flags of names that came folded.
    flags: Vec<u8>,
    last_comms: [Option<LastComm>; 8],
    scratch: Vec<u32>,
    part: u64,
    told: Option<(Option<String>, String)>,
}

impl Collector {
    pub fn new(options: Options) -> Self {
        Self { options, ..Self::default() }
    }

    /// Takes the head of a sample. `None`: its frames are not wanted.
    pub fn open(&mut self, head: &Head) -> Result<Option<OpenSample>, Error> {
        let weight = match self.options.weight {
            Weight::Count => Some(1),
            Weight::Period => head.period,
        };
        let wanted = self.options.event.as_deref();
        if !self.passes(head)? {
            self.filtered.find(head.event, wanted, self.part).0.count(weight);
            return Ok(None);
        }
        let (totals, new) = self.events.find(head.event, wanted, self.part);
        totals.count(weight);
        let selected = totals.selected;
        let ambiguous = self.is_ambiguous();
        if new && ambiguous {
            // Refused at the end; until then only the totals are worth memory.
            self.profile = Profile::default();
            self.slices = Slices::default();
            self.last_comms = Default::default();
        }
        if !selected || ambiguous {
            return Ok(None);
        }
        let comm = self.comm(head)?;
        let length = self.options.slice;
        let slice =
            length.map(|length| Ok(head.time.ok_or_else(|| no_time("--slices"))? / length)).transpose()?;
        Ok(Some(OpenSample { comm, weight: weight.unwrap_or(0), period: head.period, slice }))
    }

    /// Whether several events are to be folded, so that nothing will come of it.
    pub fn is_ambiguous(&self) -> bool {
        self.events.selected() > 1
    }

    /// Takes the frames of an open sample, leaf first.
    pub fn close(&mut self, sample: OpenSample, leaf_first: &[FrameRef]) {
        self.close_all(&sample.into(), leaf_first);
    }

    /// Takes the frames that several open samples have in common, leaf first.
    pub fn close_all(&mut self, samples: &Samples, leaf_first: &[FrameRef]) {
        let Some(kept) = self.kept(leaf_first.iter().map(|frame| frame.flags)) else {
            self.stats.filter(samples.weight, samples.count);
            return;
        };
        self.stats.count(samples);
        if !is_complete(leaf_first) {
            self.stats.incomplete_samples += samples.count;
            self.stats.incomplete_weight += samples.weight;
        }
        if leaf_first.first().is_some_and(|leaf| leaf.flags & UNKNOWN != 0) {
            self.stats.unresolved_weight += samples.weight;
        }
        if leaf_first.len() >= KERNEL_CHAIN_LIMIT {
            self.stats.truncated_chains += samples.count;
        }
        let depth = self.options.max_depth.unwrap_or(usize::MAX);
        self.scratch.clear();
        self.scratch.push(samples.comm);
        self.scratch.extend(leaf_first[..kept].iter().rev().take(depth).map(|frame| frame.name));
        let stack = self.profile.add(&self.scratch, samples.weight, samples.count);
        if let Some(slice) = samples.slice {
            self.slices.add(slice, stack, samples.weight, samples.count);
        }
    }

    /// How many frames, from the leaf, `--from` and `--skip-after` leave. `None`: the stack goes.
    fn kept(
        &self,
        leaf_first: impl DoubleEndedIterator<Item = u8> + ExactSizeIterator + Clone,
    ) -> Option<usize> {
        let mut kept = leaf_first.len();
        if self.options.from.is_some() {
            kept = leaf_first.clone().rposition(|flags| flags & FROM != 0)? + 1;
        }
        if !self.options.skip_after.is_empty() {
            let mut inner = leaf_first.take(kept);
            kept = inner.position(|flags| flags & SKIP_AFTER != 0).map_or(kept, |at| at + 1);
        }
        Some(kept)
    }

    /// Which of the frames named in the options this one is.
    fn named(&mut self, frame: &[u8]) -> u8 {
        let mut flags = 0;
        let from = self.options.from.iter().map(|name| (name, FROM));
        let wanted = from.chain(self.options.skip_after.iter().map(|name| (name, SKIP_AFTER)));
        for (n, (_, flag)) in
            wanted.enumerate().filter(|(_, (name, _))| crate::options::is_meant(name, frame))
        {
            self.met.resize(self.met.len().max(n + 1), false);
            self.met[n] = true;
            flags |= flag;
        }
        flags
    }

    /// Gives a frame its name.
    pub fn frame(&mut self, raw: &RawFrame) -> FrameRef {
        let dso = raw.dso.unwrap_or(b"");
        let dso_known = !dso.is_empty() && dso != b"[unknown]";
        let kernel = if dso_known {
            dso::is_kernel(dso)
        } else {
            raw.address.is_some_and(|address| address >= KERNEL_SPACE && address != u64::MAX)
        };
        let unknown = raw.symbol.is_empty() || raw.symbol == b"[unknown]";
        let mut name = if unknown {
            let mut name = dso::bracketed(dso).unwrap_or_else(|| b"[unknown]".to_vec());
            if let (true, Some(address)) = (self.options.addrs, raw.address) {
                name.pop();
                name.extend_from_slice(format!(" {address:#x}]").as_bytes());
            }
            names::escape(&mut name);
            name
        } else {
            names::tidy(raw.symbol, self.options.tidy)
        };
        let named = self.named(&name);
        if let (true, false, Some(mut object)) = (self.options.dso, unknown, dso::plain(dso)) {
            names::escape(&mut object);
            object.push(b'`');
            name.splice(..0, object);
        }
        if kernel && self.options.kernel {
            name.extend_from_slice(b"_[k]");
        } else if raw.inlined && self.options.inlines {
            name.extend_from_slice(b"_[i]");
        } else if self.options.jit && dso::is_jit(dso) {
            name.extend_from_slice(b"_[j]");
        }
        if self.options.origins {
            origin::append(&mut name, Origin::Frame { dso, inlined: raw.inlined, address: None });
        }
        let root = if unknown { roots::Root::default() } else { roots::root(raw.symbol) };
        let flag = |set, bit| if set { bit } else { 0 };
        FrameRef {
            name: self.profile.names.intern(&name).0,
            flags: flag(kernel, KERNEL)
                | flag(unknown, UNKNOWN)
                | flag(root.user, USER_ROOT)
                | flag(root.kernel, KERNEL_ROOT)
                | named,
        }
    }

    /// The same frame at one address of its object, which is a place of its own in pprof.
    pub fn at_address(&mut self, frame: FrameRef, raw: &RawFrame) -> FrameRef {
        let (shown, _) = origin::split(self.profile.names.get(frame.name));
        let mut name = shown.to_vec();
        let (dso, inlined, address) = (raw.dso.unwrap_or(b""), raw.inlined, raw.address);
        origin::append(&mut name, Origin::Frame { dso, inlined, address });
        FrameRef { name: self.profile.names.intern(&name).0, ..frame }
    }

    /// So many different chains follow, with so many frames together.
    pub fn expect(&mut self, chains: usize, frames: usize) {
        self.profile.reserve(chains, frames);
    }

    pub fn options(&self) -> &Options {
        &self.options
    }

    /// What folded stacks weigh, where the input tells it.
    pub fn told_event(&mut self, event: Option<String>, unit: String) {
        self.told = Some((event, unit));
    }

    /// Samples the profiler itself could not write.
    pub fn lost(&mut self, records: u64, samples: u64) {
        self.stats.lost_records += records;
        self.stats.lost_samples = self.stats.lost_samples.saturating_add(samples);
    }

    /// A line nobody understood; the first ones are kept to be shown.
    pub fn dropped(&mut self, line: &[u8]) {
        self.stats.dropped(line, self.part);
    }

    /// Something about the input that its reader should know.
    pub fn note(&mut self, note: String) {
        self.stats.notes.push(note);
    }

    /// Which build of an object was recorded.
    pub fn build_id(&mut self, dso: &[u8], build_id: &[u8]) {
        self.profile.build_ids.entry(dso.to_vec()).or_insert_with(|| build_id.to_vec());
    }

    /// The input ended in the middle of something.
    pub fn cut_short(&mut self, why: String) {
        self.stats.truncated_input = Some(why);
    }

    /// What each slice of time holds, by the numbers of the profile's stacks.
    pub fn take_slices(&mut self) -> Slices {
        std::mem::take(&mut self.slices)
    }

    /// The events seen, selected or not.
    pub fn into_events(self) -> Vec<EventTotals> {
        self.events.into_totals()
    }

    /// What follows stands in this part of the input; parts are taken in any order by several collectors.
    pub fn at_part(&mut self, part: u64) {
        self.part = part;
    }

    /// Adds what a collector of the same options took from other parts of the same input.
    pub fn absorb(&mut self, other: Self) {
        let stacks = self.profile.absorb(&other.profile);
        self.slices.absorb(&other.slices, &stacks);
        self.stats.absorb(other.stats);
        self.events.absorb(other.events);
        self.filtered.absorb(other.filtered);
        self.met.resize(self.met.len().max(other.met.len()), false);
        self.met.iter_mut().zip(other.met).for_each(|(mine, theirs)| *mine |= theirs);
    }

    /// Everything folded so far, unless the request was ambiguous.
    pub fn finish(mut self) -> Result<(Profile, Stats), Error> {
        let wanted = self.options.event.as_deref();
        let (event, other) = self.events.choose(wanted)?;
        let filtered = self.filtered.take(event.as_ref());
        self.stats.filtered_samples += filtered.0;
        self.stats.filtered_weight += filtered.1;
        self.stats.set_event(event.map(|event| event.name), self.options.weight);
        if let Some((event, unit)) = self.told {
            (self.stats.event, self.stats.unit) = (event, unit.into());
        }
        self.stats.other_events = other;
        self.stats.unique_stacks = self.profile.stacks() as u64;
        let named = self.options.from.iter().map(|name| ("--from", name));
        let named = named.chain(self.options.skip_after.iter().map(|name| ("--skip-after", name)));
        let unmet = named.enumerate().filter(|(n, _)| !self.met.get(*n).is_some_and(|met| *met));
        self.stats.unmatched_filters = unmet.map(|(_, (option, name))| format!("{option} {name}")).collect();
        Ok((self.profile, self.stats))
    }

    fn passes(&self, head: &Head) -> Result<bool, Error> {
        if let Some(wanted) = self.options.only_pid {
            let pid = head.pid.ok_or_else(|| no_pid("--only-pid"))?;
            if pid != wanted {
                return Ok(false);
            }
        }
        if let Some(window) = self.options.time {
            let time = head.time.ok_or_else(|| no_time("--time"))?;
            if time < window.from || time > window.to {
                return Ok(false);
            }
        }
        Ok(self.options.comm.as_ref().is_none_or(|wanted| wanted.as_bytes() == head.comm))
    }

    fn comm(&mut self, head: &Head) -> Result<u32, Error> {
        let (pid, tid) = match self.options.label {
            Label::Comm => (None, None),
            Label::Pid => (Some(head.pid.ok_or_else(|| no_pid("--pid"))?), None),
            Label::Tid => (Some(head.pid.ok_or_else(|| no_pid("--tid"))?), head.tid),
        };
        let kept = if self.options.origins { (head.pid, head.tid) } else { (pid, tid) };
        let slot = kept.1.or(kept.0).unwrap_or(0) as usize % self.last_comms.len();
        if let Some(last) = &self.last_comms[slot] {
            if last.comm == head.comm && (last.pid, last.tid) == kept {
                return Ok(last.name);
            }
        }
        let mut name = comm_frame(head.comm);
        if let Some(pid) = pid {
            name.extend_from_slice(format!("-{pid}").as_bytes());
        }
        if self.options.label == Label::Tid {
            let tid = tid.map_or_else(|| "?".to_owned(), |tid| tid.to_string());
            name.extend_from_slice(format!("/{tid}").as_bytes());
        }
        let (pid, tid) = kept;
        if self.options.origins {
            origin::append(&mut name, Origin::Command { comm: head.comm, pid, tid });
        }
        let id = self.profile.names.intern(&name).0;
        self.last_comms[slot] = Some(LastComm { comm: head.comm.to_vec(), pid, tid, name: id });
        Ok(id)
    }
}

fn no_pid(option: &str) -> Error {
    Error::usage(format!(
        "{option} needs the process of each sample, but the input has one number a sample, the thread's.\n\
         print both: perf script -F +pid"
    ))
}

fn no_time(option: &str) -> Error {
    Error::usage(format!(
        "{option} needs the time of each sample, but the input has none.\nprint it: perf script -F +time"
    ))
}

/// The command as a frame: the field writes `_` for a blank.
fn comm_frame(comm: &[u8]) -> Vec<u8> {
    if comm.is_empty() {
        return b"[unknown]".to_vec();
    }
    let mut name: Vec<u8> = comm.iter().map(|&b| if b.is_ascii_whitespace() { b'_' } else { b }).collect();
    names::escape(&mut name);
    name
}

/// The rule of [`roots`].
fn is_complete(leaf_first: &[FrameRef]) -> bool {
    leaf_first.last().is_some_and(|outermost| {
        let kernel_only = || leaf_first.iter().all(|frame| frame.flags & KERNEL != 0);
        outermost.flags & USER_ROOT != 0 && outermost.flags & KERNEL == 0
            || outermost.flags & KERNEL_ROOT != 0 && kernel_only()
    })
}
