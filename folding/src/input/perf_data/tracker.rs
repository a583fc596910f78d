//! Samples on their way to be counted: who took one, what was mapped then, and who walks its stack.

use super::address_space::{AddressSpace, Map};
use super::chain_builder::{ChainBuilder, WeighedSample};
use super::chains::{Chains, CodeMaps};
use super::context_cache::{ContextCache, KnownContext};
use super::naming;
use super::process_maps::ProcessMaps;
use super::walk_pool::{QueuedSample, SampleContext, WalkPool};
use crate::collector::{Collector, SampleHead};
use crate::error::Error;
use crate::intern::IntMap;
use crate::symbols::{self, Symbols};
use crate::unwind::{self, UnwindTables};
use perfdata::reader::attr::Attr;
use perfdata::reader::blocks::Body;
use perfdata::reader::event_ids::EventIds;
use perfdata::reader::sample::SampleRecord;
use std::sync::Arc;

/// Address spaces whose unwind tables are kept ready, and mappings and functions in all of these.
const SPACES: usize = 64;
const KEPT: usize = 1 << 16;
/// The same of all that are made: those of a process are made again whenever it has mapped another file.
const MADE: usize = 1 << 23;

/// Who is there when a sample is taken, and where it is counted.
pub struct Tracker {
    pub processes: ProcessMaps,
    pub symbols: Symbols,
    no_space: AddressSpace,
    threads: usize,
    pub contexts: ContextCache,
    builder: ChainBuilder,
    /// Others that walk stacks, once there is one to walk.
    walk_pool: Option<WalkPool>,
    /// Whose stacks are walked.
    pub machine_of_stacks: Option<unwind::Machine>,
    tables: TableCache,
}

/// Unwind tables by the versions of the maps.
#[derive(Default)]
struct TableCache {
    known: IntMap<u64, Arc<UnwindTables>>,
    /// The size of those.
    size: usize,
    /// The size of all that were made.
    made: usize,
}

/// A sample's record, taken apart.
#[derive(Clone, Copy)]
struct ParsedSample<'a> {
    event: usize,
    weighed_sample: WeighedSample<'a>,
    body: Body<'a>,
}

impl Tracker {
    pub fn new(symbols: symbols::SymbolOptions, threads: usize) -> Self {
        Self {
            processes: ProcessMaps::new(symbols.budget.clone()),
            symbols: Symbols::new(symbols),
            no_space: AddressSpace::default(),
            threads,
            contexts: ContextCache::default(),
            builder: if threads > 1 { ChainBuilder::with_helper() } else { ChainBuilder::default() },
            walk_pool: None,
            machine_of_stacks: unwind::Machine::own(),
            tables: TableCache::default(),
        }
    }

    /// Names what was counted.
    pub fn finish(&mut self, collector: &mut Collector) {
        let Tracker { builder, walk_pool, symbols, threads, tables, .. } = self;
        let mut all = std::mem::take(builder).chains();
        for chains in walk_pool.take().map_or_else(Vec::new, WalkPool::finish) {
            all.absorb(chains);
        }
        naming::name(all, symbols, collector, *threads);
        for note in symbols.notes() {
            collector.stats.notes.push(note);
        }
        if tables.made >= MADE {
            collector.stats.notes.push(format!(
                "files were mapped too often, or too many: after {MADE} mappings and functions in new unwind tables, copied \
                 stacks were followed by their frame pointers alone"
            ));
        }
    }

    /// The BPF program of `perf record --off-cpu` writes a thread's number before its process's (perf 6.16 to 7.2), and perf the
    /// other way round what it writes at the end. The one that has code mapped is the process.
    pub fn tell_thread_from_process(&self, sample: &mut SampleRecord) {
        let has_code = |id: Option<i32>| id.is_some_and(|id| self.processes.space(id).is_some());
        if !has_code(sample.pid) && has_code(sample.tid) {
            (sample.pid, sample.tid) = (sample.tid, sample.pid);
        }
    }

    /// Counts a sample of an event.
    pub fn count(
        &mut self,
        events: &EventIds,
        event: usize,
        misc: u16,
        sample: &SampleRecord,
        body: Body,
        collector: &mut Collector,
    ) -> Result<(), Error> {
        let Some(attr) = events.attrs.get(event) else { return Ok(()) };
        let weighed = self.contexts.weighed(sample);
        let weighed_sample = WeighedSample { weighed, misc, attr, sample };
        let recorded = &ParsedSample { event, weighed_sample, body };
        let attrs = &events.attrs;
        let context = match self.contexts.find(event, sample) {
            Some(KnownContext { context, totals }) => {
                collector.count_another(totals, weighed);
                context
            }
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
            comm: &self.processes.comm(sample.tid.unwrap_or(-1)),
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
        let known = KnownContext { context, totals: collector.last_event() };
        self.contexts.remember(event, sample, open.slice, known);
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
        let tables = self.tables.of(space, machine, &mut self.symbols);
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

impl TableCache {
    /// The unwind tables of a process, made when its maps are new.
    fn of(
        &mut self,
        space: &AddressSpace,
        machine: unwind::Machine,
        symbols: &mut Symbols,
    ) -> &Arc<UnwindTables> {
        if !self.known.contains_key(&space.version) {
            let mut files = if self.made < MADE { mapped_files(space, symbols) } else { Vec::new() };
            let size = files.iter().map(unwind::MappedObject::size).sum();
            self.made = self.made.saturating_add(size);
            if size > KEPT {
                (files, self.made) = (Vec::new(), MADE);
            }
            let tables = UnwindTables::new(machine, files);
            if self.known.len() >= SPACES || self.size + size > KEPT {
                self.known.clear();
                self.size = 0;
            }
            self.size += size;
            self.known.insert(space.version, Arc::new(tables));
        }
        &self.known[&space.version]
    }
}

/// The files of a process, for the unwinder.
fn mapped_files(space: &AddressSpace, symbols: &mut Symbols) -> Vec<unwind::MappedObject> {
    let mapped = |map: &Map| {
        let (sections, first) =
            symbols.unwind(map.object, map.offset_of(map.start)..map.offset_of(map.end))?;
        Some(unwind::MappedObject { range: map.start..map.end, first, sections })
    };
    space.maps().filter_map(mapped).collect()
}
