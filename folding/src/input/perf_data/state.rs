//! What changes from record to record, and the samples that are taken meanwhile.

use super::attr::Attr;
use super::blocks::Body;
use super::bytes::ByteReader;
use super::chain_builder::{ChainBuilder, WeighedSample};
use super::chains::{Chains, CodeMaps};
use super::context_cache::ContextCache;
use super::header::Header;
use super::naming;
use super::process_maps::{AddressSpace, Map, ProcessMaps};
use super::sample::{Sample, word_at};
use super::sorter::SortedRecord;
use super::stream::kind;
use super::walk_pool::{QueuedSample, SampleContext, WalkPool};
use crate::collector::{self, Collector, SampleHead};
use crate::error::Error;
use crate::intern::IntMap;
use crate::symbols::{self, Symbols};
use crate::unwind::{self, UnwindTables};
use std::collections::HashMap;
use std::sync::Arc;

/// Address spaces whose unwind tables are kept ready.
const SPACES: usize = 64;

pub struct State {
    pub events: EventIds,
    tracker: Tracker,
    /// The last value of each counter that is read in a group.
    counters: HashMap<u64, u64>,
    /// What the kernel said when it happened, and what perf counted up at the end: the same losses, counted twice.
    lost: Lost,
    lost_at_end: Lost,
}

#[derive(Clone, Copy, Default)]
struct Lost {
    records: u64,
    samples: u64,
}

impl Lost {
    fn add(&mut self, samples: u64) {
        self.records += 1;
        self.samples = self.samples.saturating_add(samples);
    }
}

/// The events, and which of them an id belongs to.
#[derive(Default)]
pub struct EventIds {
    attrs: Arc<[Attr]>,
    ids: HashMap<u64, usize>,
}

impl EventIds {
    /// The event a sample belongs to, and its number.
    #[inline]
    pub fn of(&self, body: &[u8]) -> Option<(usize, &Attr)> {
        if let [only] = &self.attrs[..] {
            return Some((0, only));
        }
        // Events recorded together keep their ids in one place, or they could not be told apart.
        let id = word_at(body, self.attrs.first()?.layout.id?)?;
        let index = *self.ids.get(&id)?;
        Some((index, self.attrs.get(index)?))
    }
}

/// Who is there when a sample is taken, and where it is counted.
struct Tracker {
    processes: ProcessMaps,
    symbols: Symbols,
    no_space: AddressSpace,
    threads: usize,
    contexts: ContextCache,
    builder: ChainBuilder,
    /// Others that walk stacks, once there is one to walk.
    walk_pool: Option<WalkPool>,
    /// Whose stacks are walked.
    machine_of_stacks: Option<unwind::Machine>,
    tables: IntMap<u64, Arc<UnwindTables>>,
}

/// A sample's record, taken apart.
#[derive(Clone, Copy)]
struct ParsedSample<'a> {
    event: usize,
    weighed_sample: WeighedSample<'a>,
    body: Body<'a>,
}

impl State {
    pub fn new(symbols: symbols::SymbolOptions, threads: usize) -> Self {
        Self {
            events: EventIds::default(),
            tracker: Tracker {
                processes: ProcessMaps::default(),
                symbols: Symbols::new(symbols),
                no_space: AddressSpace::default(),
                threads,
                contexts: ContextCache::default(),
                builder: if threads > 1 { ChainBuilder::with_helper() } else { ChainBuilder::default() },
                walk_pool: None,
                machine_of_stacks: unwind::Machine::own(),
                tables: IntMap::default(),
            },
            counters: HashMap::new(),
            lost: Lost::default(),
            lost_at_end: Lost::default(),
        }
    }

    /// Takes what is known of the events.
    pub fn prepare(&mut self, header: &Header, options: &collector::Options) {
        self.events.attrs = header.attrs.as_slice().into();
        self.events.ids.clear();
        for (index, attr) in header.attrs.iter().enumerate() {
            self.events.ids.extend(attr.ids.iter().map(|&id| (id, index)));
        }
        if !header.arch.is_empty() {
            self.tracker.machine_of_stacks = unwind::Machine::of_name(&header.arch);
        }
        self.tracker.symbols.set_recorded(&header.build_ids, &header.os_release);
        self.tracker.contexts.reset(&self.events.attrs, options);
    }

    /// One record, in the order of time.
    pub fn ordered(&mut self, record: SortedRecord, collector: &mut Collector) -> Result<(), Error> {
        let SortedRecord { kind, misc, body } = record;
        if kind == kind::SAMPLE {
            return self.sample(misc, body, collector);
        }
        let body = body.bytes;
        let Tracker { processes, symbols, contexts, .. } = &mut self.tracker;
        let understood = match kind {
            kind::LOST => ByteReader(body.get(8..).unwrap_or(&[])).u64().map(|lost| self.lost.add(lost)),
            kind::LOST_SAMPLES => ByteReader(body).u64().map(|lost| self.lost_at_end.add(lost)),
            kind::MMAP | kind::MMAP2 | kind::COMM | kind::FORK | kind::KSYMBOL => {
                contexts.invalidate();
                match kind {
                    kind::MMAP => processes.mmap_record(misc, body, false, symbols),
                    kind::MMAP2 => processes.mmap_record(misc, body, true, symbols),
                    kind::COMM => processes.comm_record(misc, body),
                    kind::FORK => processes.fork_record(misc, body),
                    _ => processes.ksymbol_record(body, symbols),
                }
            }
            _ => Some(()),
        };
        if understood.is_none() {
            collector.dropped(format!("a record of kind {kind}, {} bytes", body.len()).as_bytes());
        }
        Ok(())
    }

    fn sample(&mut self, misc: u16, body: Body, collector: &mut Collector) -> Result<(), Error> {
        let Self { events, tracker, counters, .. } = self;
        let bytes = body.bytes;
        let parsed =
            events.of(bytes).and_then(|(event, attr)| Some((event, attr, Sample::parse(bytes, attr)?)));
        let Some((event, attr, sample)) = parsed else {
            collector.broken_sample(bytes.len());
            return Ok(());
        };
        let Some(values) = sample.values else {
            let weighed = tracker.contexts.weighed(&sample);
            let weighed_sample = WeighedSample { weighed, misc, attr, sample: &sample };
            return tracker.count(&events.attrs, &ParsedSample { event, weighed_sample, body }, collector);
        };
        // The leader of a group was sampled: each member weighs what its counter grew by.
        for (id, value) in values.iter() {
            let before = counters.insert(id, value).unwrap_or(0);
            let Some(&event) = events.ids.get(&id) else { continue };
            let Some(attr) = events.attrs.get(event) else { continue };
            let period = value.wrapping_sub(before);
            if period > 0 {
                let sample = Sample { period: Some(period), ..sample };
                let weighed = tracker.contexts.weighed(&sample);
                let weighed_sample = WeighedSample { weighed, misc, attr, sample: &sample };
                tracker.count(&events.attrs, &ParsedSample { event, weighed_sample, body }, collector)?;
            }
        }
        Ok(())
    }

    /// Names what was counted.
    pub fn finish(&mut self, collector: &mut Collector) {
        let lost = if self.lost_at_end.samples > self.lost.samples { self.lost_at_end } else { self.lost };
        collector.lost(lost.records, lost.samples);
        let Tracker { contexts, builder, walk_pool, symbols, threads, .. } = &mut self.tracker;
        contexts.report_totals(collector);
        let mut all = std::mem::take(builder).chains();
        for chains in walk_pool.take().map_or_else(Vec::new, WalkPool::finish) {
            all.absorb(chains);
        }
        naming::name(all, symbols, collector, *threads);
        for note in symbols.notes() {
            collector.note(note);
        }
    }
}

impl Tracker {
    fn count(
        &mut self,
        attrs: &Arc<[Attr]>,
        recorded: &ParsedSample,
        collector: &mut Collector,
    ) -> Result<(), Error> {
        let &ParsedSample { event, weighed_sample, .. } = recorded;
        let sample = weighed_sample.sample;
        let context = match self.contexts.find(event, sample) {
            Some(context) => context,
            None => match self.open(event, weighed_sample, collector)? {
                Some(context) => context,
                None => return Ok(()),
            },
        };
        let large = match self.machine_of_stacks.filter(|_| weighed_sample.is_walked()) {
            None => {
                self.builder.count(context, weighed_sample, None);
                self.builder.take_large()
            }
            Some(machine) => self.walk(context, attrs, recorded, machine),
        };
        if let Some(chains) = large {
            self.contexts.invalidate();
            naming::name(chains, &mut self.symbols, collector, self.threads);
        }
        Ok(())
    }

    /// Asks the collector whether a sample is wanted, and for its command.
    fn open(
        &mut self,
        event: usize,
        weighed_sample: WeighedSample,
        collector: &mut Collector,
    ) -> Result<Option<u32>, Error> {
        let WeighedSample { sample, attr, .. } = weighed_sample;
        let head = SampleHead {
            comm: self.processes.comm(sample.tid.unwrap_or(-1)),
            pid: sample.pid.map(i64::from),
            tid: sample.tid.map(i64::from),
            event: &attr.name,
            period: sample.period,
            time: sample.time,
        };
        let open = collector.open(&head)?;
        if collector.is_ambiguous() {
            // From now on nothing is wanted.
            self.contexts.invalidate();
        }
        let Some(open) = open else { return Ok(None) };
        if self.threads > 1 {
            self.symbols.begin();
        }
        let user = sample.pid.and_then(|pid| self.processes.space(pid)).unwrap_or(&self.no_space);
        let mapped = CodeMaps { kernel: &self.processes.kernel, user, core: self.symbols.core() };
        let (context, renumbered) = self.builder.context(open.comm, open.slice, mapped);
        if renumbered {
            self.contexts.invalidate();
        }
        self.contexts.remember(event, sample, open.slice, context);
        Ok(Some(context))
    }

    /// Counts a sample with a copied stack, in this thread or by the walk pool.
    fn walk(
        &mut self,
        context: u32,
        attrs: &Arc<[Attr]>,
        recorded: &ParsedSample,
        machine: unwind::Machine,
    ) -> Option<Chains> {
        let &ParsedSample { event, weighed_sample, body } = recorded;
        let space =
            weighed_sample.sample.pid.and_then(|pid| self.processes.space(pid)).unwrap_or(&self.no_space);
        let tables = tables(space, machine, &mut self.tables, &mut self.symbols);
        // Where records have to be copied for another thread, one walker gains nothing.
        let walkers = self.threads.saturating_sub(1);
        let kept = if walkers > 0 { body.kept() } else { None };
        if walkers <= 1 && kept.is_none() {
            self.builder.count(context, weighed_sample, Some((machine, &**tables)));
            return self.builder.take_large();
        }
        let walk_pool = self.walk_pool.get_or_insert_with(|| WalkPool::start(walkers));
        let (comm, slice) = self.builder.comm_and_slice(context)?;
        let sample_context = SampleContext {
            comm,
            slice,
            kernel: self.processes.kernel.clone(),
            user: space.clone(),
            core: self.symbols.core(),
            machine,
            tables: Arc::clone(tables),
        };
        let sample = QueuedSample { attr: event, misc: weighed_sample.misc, weighed: weighed_sample.weighed };
        match kept {
            Some(kept) => walk_pool.count_kept(attrs, sample, kept, sample_context),
            None => walk_pool.count_copied(attrs, sample, body.bytes, sample_context),
        }
        walk_pool.take_large()
    }
}

/// The unwind tables of a process, made when its maps are new.
fn tables<'t>(
    space: &AddressSpace,
    machine: unwind::Machine,
    known: &'t mut IntMap<u64, Arc<UnwindTables>>,
    symbols: &mut Symbols,
) -> &'t Arc<UnwindTables> {
    if known.len() >= SPACES && !known.contains_key(&space.version) {
        known.clear();
    }
    known
        .entry(space.version)
        .or_insert_with(|| Arc::new(UnwindTables::new(machine, mapped_files(space, symbols))))
}

/// The files of a process, for the unwinder.
fn mapped_files(space: &AddressSpace, symbols: &mut Symbols) -> Vec<unwind::MappedObject> {
    let mapped = |map: &Map| {
        let (sections, first) =
            symbols.unwind(map.object, map.offset_of(map.start)..map.offset_of(map.end))?;
        Some(unwind::MappedObject { range: map.start..map.end, first, sections })
    };
    space.maps().iter().filter_map(mapped).collect()
}
