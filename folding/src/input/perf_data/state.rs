//! What changes from record to record, and the samples that are taken meanwhile.

use super::attr::Attr;
use super::blocks::Body;
use super::bytes::Bytes;
use super::chains::{Chains, Mapped};
use super::counter::{Counter, Taken};
use super::counters::{Counters, Handed, Scene};
use super::header::Header;
use super::machine::{Machine, Map, Space};
use super::naming;
use super::order::Ready;
use super::sample::{Sample, word_at};
use super::seen::Seen;
use super::stream::kind;
use crate::collector::{self, Collector, Head};
use crate::error::Error;
use crate::intern::IntMap;
use crate::symbols::{self, Symbols};
use crate::unwind::{self, Tables};
use std::collections::HashMap;
use std::sync::Arc;

/// Address spaces whose unwind tables are kept ready.
const SPACES: usize = 64;

pub struct State {
    pub events: Events,
    taking: Taking,
    /// The last value of each counter that is read in a group.
    counters: HashMap<u64, u64>,
    /// What the kernel said when it happened, and what perf counted up at the end: the same losses, told twice.
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
pub struct Events {
    attrs: Arc<[Attr]>,
    ids: HashMap<u64, usize>,
}

impl Events {
    /// The event a sample belongs to, and its number.
    #[inline]
    pub fn of(&self, body: &[u8]) -> Option<(usize, &Attr)> {
        if let [only] = &self.attrs[..] {
            return Some((0, only));
        }
        // Events recorded together keep their ids in one place, or nobody could tell them apart.
        let id = word_at(body, self.attrs.first()?.layout.id?)?;
        let index = *self.ids.get(&id)?;
        Some((index, self.attrs.get(index)?))
    }
}

/// Who is there when a sample is taken, and where it is counted.
struct Taking {
    machine: Machine,
    symbols: Symbols,
    no_space: Space,
    threads: usize,
    seen: Seen,
    counter: Counter,
    /// Others that walk stacks, once there is one to walk.
    others: Option<Counters>,
    /// Whose stacks are walked.
    walked: Option<unwind::Machine>,
    tables: IntMap<u64, Arc<Tables>>,
}

/// A sample's record, taken apart.
#[derive(Clone, Copy)]
struct Recorded<'a> {
    event: usize,
    taken: Taken<'a>,
    body: Body<'a>,
}

impl State {
    pub fn new(symbols: symbols::Options, threads: usize) -> Self {
        Self {
            events: Events::default(),
            taking: Taking {
                machine: Machine::default(),
                symbols: Symbols::new(symbols),
                no_space: Space::default(),
                threads,
                seen: Seen::default(),
                counter: if threads > 1 { Counter::helped() } else { Counter::default() },
                others: None,
                walked: unwind::Machine::own(),
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
            self.taking.walked = unwind::Machine::of_name(&header.arch);
        }
        self.taking.symbols.set_recorded(&header.build_ids, &header.os_release);
        self.taking.seen.begin(&self.events.attrs, options);
    }

    /// One record, in the order of time.
    pub fn ordered(&mut self, record: Ready, collector: &mut Collector) -> Result<(), Error> {
        let Ready { kind, misc, body } = record;
        if kind == kind::SAMPLE {
            return self.sample(misc, body, collector);
        }
        let body = body.bytes;
        let Taking { machine, symbols, seen, .. } = &mut self.taking;
        let understood = match kind {
            kind::LOST => Bytes(body.get(8..).unwrap_or(&[])).u64().map(|lost| self.lost.add(lost)),
            kind::LOST_SAMPLES => Bytes(body).u64().map(|lost| self.lost_at_end.add(lost)),
            kind::MMAP | kind::MMAP2 | kind::COMM | kind::FORK | kind::KSYMBOL => {
                seen.forget();
                match kind {
                    kind::MMAP => machine.mmap_record(misc, body, false, symbols),
                    kind::MMAP2 => machine.mmap_record(misc, body, true, symbols),
                    kind::COMM => machine.comm_record(misc, body),
                    kind::FORK => machine.fork_record(misc, body),
                    _ => machine.ksymbol_record(body, symbols),
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
        let Self { events, taking, counters, .. } = self;
        let bytes = body.bytes;
        let parsed =
            events.of(bytes).and_then(|(event, attr)| Some((event, attr, Sample::parse(bytes, attr)?)));
        let Some((event, attr, sample)) = parsed else {
            collector.broken_sample(bytes.len());
            return Ok(());
        };
        let Some(values) = sample.values else {
            let weighed = taking.seen.weighed(&sample);
            let taken = Taken { weighed, misc, attr, sample: &sample };
            return taking.count(&events.attrs, &Recorded { event, taken, body }, collector);
        };
        // The leader of a group was sampled: each member weighs what its counter grew by.
        for (id, value) in values.iter() {
            let before = counters.insert(id, value).unwrap_or(0);
            let Some(&event) = events.ids.get(&id) else { continue };
            let Some(attr) = events.attrs.get(event) else { continue };
            let period = value.wrapping_sub(before);
            if period > 0 {
                let sample = Sample { period: Some(period), ..sample };
                let weighed = taking.seen.weighed(&sample);
                let taken = Taken { weighed, misc, attr, sample: &sample };
                taking.count(&events.attrs, &Recorded { event, taken, body }, collector)?;
            }
        }
        Ok(())
    }

    /// Names what was counted.
    pub fn finish(&mut self, collector: &mut Collector) {
        let lost = if self.lost_at_end.samples > self.lost.samples { self.lost_at_end } else { self.lost };
        collector.lost(lost.records, lost.samples);
        let Taking { seen, counter, others, symbols, threads, .. } = &mut self.taking;
        seen.tell(collector);
        let mut all = std::mem::take(counter).chains();
        for chains in others.take().map_or_else(Vec::new, Counters::finish) {
            all.absorb(chains);
        }
        naming::name(all, symbols, collector, *threads);
        for note in symbols.notes() {
            collector.note(note);
        }
    }
}

impl Taking {
    fn count(
        &mut self,
        attrs: &Arc<[Attr]>,
        recorded: &Recorded,
        collector: &mut Collector,
    ) -> Result<(), Error> {
        let &Recorded { event, taken, .. } = recorded;
        let sample = taken.sample;
        let context = match self.seen.find(event, sample) {
            Some(context) => context,
            None => match self.open(event, taken, collector)? {
                Some(context) => context,
                None => return Ok(()),
            },
        };
        let large = match self.walked.filter(|_| !sample.user_stack.is_empty()) {
            None => {
                self.counter.count(context, taken, None);
                self.counter.take_large()
            }
            Some(machine) => self.walk(context, attrs, recorded, machine),
        };
        if let Some(chains) = large {
            self.seen.forget();
            naming::name(chains, &mut self.symbols, collector, self.threads);
        }
        Ok(())
    }

    /// Asks the collector whether a sample is wanted, and for its command.
    fn open(&mut self, event: usize, taken: Taken, collector: &mut Collector) -> Result<Option<u32>, Error> {
        let Taken { sample, attr, .. } = taken;
        let head = Head {
            comm: self.machine.comm(sample.tid.unwrap_or(-1)),
            pid: sample.pid.map(i64::from),
            tid: sample.tid.map(i64::from),
            event: &attr.name,
            period: sample.period,
            time: sample.time,
        };
        let open = collector.open(&head)?;
        if collector.is_ambiguous() {
            // From now on nothing is wanted.
            self.seen.forget();
        }
        let Some(open) = open else { return Ok(None) };
        if self.threads > 1 {
            self.symbols.begin();
        }
        let user = sample.pid.and_then(|pid| self.machine.space(pid)).unwrap_or(&self.no_space);
        let mapped = Mapped { kernel: &self.machine.kernel, user, core: self.symbols.core() };
        let (context, anew) = self.counter.context(open.comm(), open.slice(), mapped);
        if anew {
            self.seen.forget();
        }
        self.seen.remember(event, sample, open.slice(), context);
        Ok(Some(context))
    }

    /// Counts a sample with a copied stack, here or elsewhere.
    fn walk(
        &mut self,
        context: u32,
        attrs: &Arc<[Attr]>,
        recorded: &Recorded,
        machine: unwind::Machine,
    ) -> Option<Chains> {
        let &Recorded { event, taken, body } = recorded;
        let space = taken.sample.pid.and_then(|pid| self.machine.space(pid)).unwrap_or(&self.no_space);
        let tables = tables(space, machine, &mut self.tables, &mut self.symbols);
        // Where what is handed over has to be copied, one walker gains nothing.
        let walkers = self.threads.saturating_sub(1);
        let kept = if walkers > 0 { body.kept() } else { None };
        if walkers <= 1 && kept.is_none() {
            self.counter.count(context, taken, Some((machine, &**tables)));
            return self.counter.take_large();
        }
        let others = self.others.get_or_insert_with(|| Counters::start(walkers));
        let (comm, slice) = self.counter.of_context(context)?;
        let scene = Scene {
            comm,
            slice,
            kernel: self.machine.kernel.clone(),
            user: space.clone(),
            core: self.symbols.core(),
            machine,
            tables: Arc::clone(tables),
        };
        let sample = Handed { attr: event, misc: taken.misc, weighed: taken.weighed };
        match kept {
            Some(kept) => others.count_kept(attrs, sample, kept, scene),
            None => others.count_copied(attrs, sample, body.bytes, scene),
        }
        others.take_large()
    }
}

/// The unwind tables of a process, made when its maps are new.
fn tables<'t>(
    space: &Space,
    machine: unwind::Machine,
    known: &'t mut IntMap<u64, Arc<Tables>>,
    symbols: &mut Symbols,
) -> &'t Arc<Tables> {
    if known.len() >= SPACES && !known.contains_key(&space.version) {
        known.clear();
    }
    known.entry(space.version).or_insert_with(|| Arc::new(Tables::new(machine, mapped_files(space, symbols))))
}

/// The files of a process, for the unwinder.
fn mapped_files(space: &Space, symbols: &mut Symbols) -> Vec<unwind::Mapped> {
    let mapped = |map: &Map| {
        let (sections, bias) = symbols.unwind(map.object, map.start.wrapping_add(map.shift))?;
        // address + shift = offset; offset + bias = the file's own address
        let bias = map.shift.wrapping_add(bias).wrapping_neg();
        Some(unwind::Mapped { range: map.start..map.end, bias, sections })
    };
    space.maps().iter().filter_map(mapped).collect()
}
