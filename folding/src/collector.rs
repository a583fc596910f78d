//! Samples in, one weighted profile and its statistics out.
//!
//! An input opens a sample, names its frames and closes it. What is kept, what weighs how much and what
//! is refused is decided here, once for every input.

mod commands;
mod filters;
mod folded;
mod frames;

use crate::budget::Budget;
use crate::error::Error;
use crate::events::{EventTotals, Events};
use crate::intern::IntMap;
use crate::profile::Profile;
use crate::slices::Slices;
use crate::stats::{CutAt, Stats};
use crate::weights::SampleWeight;
use commands::LastComm;
use filters::no_time;
use std::cmp::Reverse;
use std::collections::BTreeMap;

pub use crate::weights::{ChainSamples, SampleHead};
pub use frames::{FrameRef, RawFrame, beyond_start};

pub use crate::options::{Label, Options, StackDetail, Weight, Window};

/// The kernel cuts call chains at this many frames by default (`perf_event_max_stack`), and perf script copied stacks.
const TEXT_CHAIN_LIMIT: usize = 127;
/// Of the frames in which chains are cut.
const SHOWN_CUTS: usize = 8;

#[derive(Default)]
pub struct Collector {
    options: Options,
    profile: Profile,
    slices: Slices,
    /// Readers add what they had to leave out.
    pub stats: Stats,
    events: Events,
    /// Samples that the filters left out.
    filtered: Events,
    /// Which of the frames named in the options were seen: `--from`, then each `--skip-after`.
    matched: Vec<bool>,
    /// Flags of frames that came folded.
    flags: Vec<u8>,
    last_comms: [Option<LastComm>; 8],
    /// The numbers of commands without their origins.
    plain_comms: IntMap<u64, u32>,
    /// Weight of incomplete chains by their outermost frame with a name.
    cut_at: IntMap<u64, u128>,
    scratch: Vec<u32>,
    /// Of which the profile may take a part.
    budget: Budget,
    /// Samples of one stack, put together by the names of their commands.
    by_name: Vec<ChainSamples>,
    part: u64,
    stated: Option<(Option<String>, String)>,
}

impl Collector {
    pub fn new(options: Options) -> Self {
        Self { options, ..Self::default() }
    }

    /// Takes the head of a sample. `None`: its frames are not wanted.
    pub fn open(&mut self, head: &SampleHead) -> Result<Option<ChainSamples>, Error> {
        let weight = SampleWeight::new(self.options.weight, head.period);
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
            self.cut_at.clear();
            self.last_comms = Default::default();
            self.plain_comms.clear();
        }
        if !selected || ambiguous {
            return Ok(None);
        }
        let comm = self.comm(head)?;
        let slice = match (&self.options.intervals, self.options.slice) {
            (Some(_), _) => self.group(head)?,
            (None, length) => {
                length.map(|length| Ok(head.time.ok_or_else(|| no_time("--slices"))? / length)).transpose()?
            }
        };
        Ok(Some(ChainSamples { comm, slice, totals: weight.into() }))
    }

    /// The number of the event of the sample that was opened last.
    pub fn last_event(&self) -> usize {
        self.events.last()
    }

    /// Counts a sample that need not be opened: it is like one that was, whose event has this number.
    #[inline]
    pub fn count_another(&mut self, event: usize, weight: SampleWeight) {
        self.events.count(event, weight);
    }

    /// Whether several events are to be folded, so that nothing will come of it.
    pub fn is_ambiguous(&self) -> bool {
        self.events.is_ambiguous()
    }

    /// Takes the frames of an open sample, leaf first.
    pub fn close(&mut self, sample: ChainSamples, leaf_first: &[FrameRef]) {
        let recorded = leaf_first.iter().filter(|frame| !frame.is_inlined());
        self.stats.truncated_chains += u64::from(recorded.count() >= TEXT_CHAIN_LIMIT);
        self.close_all(&sample, leaf_first);
    }

    /// Takes the frames that several open samples have in common, leaf first.
    pub fn close_all(&mut self, samples: &ChainSamples, leaf_first: &[FrameRef]) {
        let tally = samples.totals.tally;
        let beyond = beyond_start(leaf_first);
        let leaf_first = &leaf_first[..leaf_first.len() - beyond];
        let Some(kept) = self.kept(leaf_first.iter().map(|frame| frame.flags)) else {
            self.stats.filter(tally);
            return;
        };
        self.stats.count(&samples.totals);
        if beyond > 0 {
            self.stats.beyond_start_samples += tally.samples;
            self.stats.beyond_start_weight += tally.weight;
        }
        if !frames::is_complete(leaf_first) {
            self.stats.incomplete_samples += tally.samples;
            self.stats.incomplete_weight += tally.weight;
            if let Some(named) = leaf_first.iter().rfind(|frame| !frame.is_unknown()) {
                *self.cut_at.entry(named.number.into()).or_default() += tally.weight;
            }
        }
        // Without a frame the leaf is not known either.
        if leaf_first.first().is_none_or(|leaf| leaf.is_unknown()) {
            self.stats.unresolved_weight += tally.weight;
        }
        if self.is_full() {
            return;
        }
        let depth = self.options.max_depth.unwrap_or(usize::MAX);
        self.scratch.clear();
        self.scratch.push(samples.comm);
        let outermost = &leaf_first[kept.saturating_sub(depth)..kept];
        self.scratch.extend(outermost.iter().rev().map(|frame| frame.number));
        let stack = self.profile.add(&self.scratch, tally);
        if let Some(slice) = samples.slice {
            self.slices.add(slice, stack, tally);
        }
    }

    /// So many different chains follow, with so many frames together.
    pub fn expect(&mut self, chains: usize, frames: usize) {
        self.profile.reserve(chains, frames);
    }

    pub fn options(&self) -> &Options {
        &self.options
    }

    /// Event and unit of stacks that came folded.
    pub fn set_event_and_unit(&mut self, event: Option<String>, unit: String) {
        self.stated = Some((event, unit));
    }

    /// Samples the profiler itself could not write.
    pub fn lost(&mut self, records: u64, samples: u64) {
        self.stats.lost_records += records;
        self.stats.lost_samples = self.stats.lost_samples.saturating_add(samples);
    }

    /// A line that could not be parsed; the first ones are kept to be shown.
    pub fn dropped(&mut self, line: &[u8]) {
        self.stats.dropped(|| line, self.part);
    }

    /// A record that could not be taken apart.
    pub fn broken_record(&mut self, kind: u32, len: usize) {
        self.stats.dropped(|| format!("a record of kind {kind}, {len} bytes"), self.part);
    }

    /// A sample that could not be taken apart, or is of no event.
    pub fn broken_sample(&mut self, len: usize) {
        self.stats.broken_samples += 1;
        self.stats.dropped(|| format!("a sample of {len} bytes"), self.part);
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

    /// What follows is from this part of the input; several collectors take parts in any order.
    pub fn begin_part(&mut self, part: u64) {
        self.part = part;
    }

    /// Adds what a collector of the same options took from other parts of the same input.
    pub fn absorb(&mut self, other: Self) {
        let stacks = self.profile.absorb(&other.profile);
        self.slices.absorb(&other.slices, &stacks);
        for (frame, weight) in other.cut_at {
            let number = self.profile.intern(other.profile.frame(frame as u32));
            *self.cut_at.entry(number.into()).or_default() += weight;
        }
        self.stats.absorb(other.stats);
        self.events.absorb(other.events);
        self.filtered.absorb(other.filtered);
        self.matched.resize(self.matched.len().max(other.matched.len()), false);
        self.matched.iter_mut().zip(other.matched).for_each(|(mine, theirs)| *mine |= theirs);
    }

    /// Whether there are more different stacks than there is memory for.
    pub fn is_full(&self) -> bool {
        self.profile.size() > self.budget.whole() / 4
    }

    fn heaviest_cuts(&self) -> Vec<CutAt> {
        let mut by_name: BTreeMap<&[u8], u128> = BTreeMap::new();
        for (&frame, weight) in &self.cut_at {
            *by_name.entry(self.profile.name(frame as u32)).or_default() += weight;
        }
        let mut cuts: Vec<_> = by_name.into_iter().collect();
        cuts.sort_by_key(|&(_, weight)| Reverse(weight));
        let named = |(name, weight)| CutAt { frame: String::from_utf8_lossy(name).into_owned(), weight };
        cuts.into_iter().take(SHOWN_CUTS).map(named).collect()
    }

    /// Everything folded so far, unless the request was ambiguous.
    pub fn finish(mut self) -> Result<(Profile, Stats), Error> {
        if self.is_full() {
            return Err(Error::partial(format!(
                "different stacks take more than {} bytes, a quarter of what may be used: fold less of the input (--only-pid, --comm, \
                 --time, --max-depth), or where there is more memory",
                self.budget.whole() / 4
            )));
        }
        self.stats.refuse_overflow()?;
        self.stats.unmatched_filters = self.unmatched();
        self.stats.cut_at = self.heaviest_cuts();
        let wanted = self.options.event.as_deref();
        let (event, other) = self.events.choose(wanted)?;
        self.stats.filter(self.filtered.take(event.as_ref()));
        self.stats.set_event(event.map(|event| event.name), self.options.weight);
        if let Some((event, unit)) = self.stated {
            (self.stats.event, self.stats.unit) = (event, unit.into());
        }
        self.stats.other_events = other;
        self.stats.unique_stacks = self.profile.stacks() as u64;
        Ok((self.profile, self.stats))
    }
}
