//! What changes from record to record, and the samples that are taken meanwhile.

use super::counters::{Counters, WeightLimits};
use super::deferred::{DeferredSamples, WaitingSample};
use super::tracker::Tracker;
use crate::collector::{self, Collector, Weight};
use crate::error::Error;
use crate::symbols;
use crate::unwind;
use perfdata::format::kind;
use perfdata::reader::blocks::Body;
use perfdata::reader::bytes::ByteReader;
use perfdata::reader::event_ids::EventIds;
use perfdata::reader::header::Header;
use perfdata::reader::sample::SampleRecord;
use perfdata::reader::sorter::SortedRecord;

pub struct State {
    pub events: EventIds,
    tracker: Tracker,
    counters: Counters,
    pub limits: WeightLimits,
    cpus: u32,
    deferred: DeferredSamples,
    /// Samples whose user's side never came.
    without_user_side: u64,
    /// Samples with a copied stack of a 32-bit program.
    of_32_bit: u64,
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

impl State {
    pub fn new(symbols: symbols::SymbolOptions, threads: usize) -> Self {
        let budget = symbols.budget.clone();
        Self {
            events: EventIds::default(),
            tracker: Tracker::new(symbols, threads),
            counters: Counters::new(budget),
            limits: WeightLimits::default(),
            cpus: 0,
            deferred: DeferredSamples::default(),
            without_user_side: 0,
            of_32_bit: 0,
            lost: Lost::default(),
            lost_at_end: Lost::default(),
        }
    }

    /// Takes what is known of the events.
    pub fn prepare(&mut self, header: &mut Header, options: &collector::Options) {
        self.events = EventIds::new(header);
        self.cpus = header.cpus;
        if !header.arch.is_empty() {
            self.tracker.machine_of_stacks = unwind::Machine::of_name(&header.arch);
        }
        self.take_build_ids(header);
        self.tracker.symbols.set_release(&header.os_release);
        self.tracker.contexts.reset(options);
    }

    /// Takes the files' build ids. A pipe has them file by file.
    pub fn take_build_ids(&mut self, header: &mut Header) {
        self.tracker.symbols.add_build_ids(header.build_ids.drain(..));
    }

    /// One record, in the order of time.
    pub fn ordered(&mut self, record: SortedRecord, collector: &mut Collector) -> Result<(), Error> {
        let SortedRecord { kind, misc, body } = record;
        if kind == kind::SAMPLE {
            return self.sample(misc, body, collector);
        }
        let body = body.bytes;
        if kind == kind::CALLCHAIN_DEFERRED {
            return self.user_side(body, collector);
        }
        if let (kind::FORK | kind::EXIT, Some(thread)) = (kind, body.get(8..)) {
            ByteReader(thread).i32().into_iter().for_each(|thread| self.counters.forget(thread));
        }
        let Tracker { processes, symbols, contexts, .. } = &mut self.tracker;
        let understood = match kind {
            kind::LOST => ByteReader(body.get(8..).unwrap_or(&[])).u64().map(|lost| self.lost.add(lost)),
            kind::LOST_SAMPLES => ByteReader(body).u64().map(|lost| self.lost_at_end.add(lost)),
            kind::NAMESPACES => processes.namespaces_record(body),
            kind::MMAP | kind::MMAP2 | kind::COMM | kind::FORK | kind::EXIT | kind::KSYMBOL => {
                contexts.invalidate();
                match kind {
                    kind::MMAP => processes.mmap_record(misc, body, false, symbols),
                    kind::MMAP2 => processes.mmap_record(misc, body, true, symbols),
                    kind::COMM => processes.comm_record(misc, body),
                    kind::FORK => processes.fork_record(misc, body),
                    kind::EXIT => processes.exit_record(body),
                    _ => processes.ksymbol_record(body, symbols),
                }
            }
            _ => Some(()),
        };
        if understood.is_none() {
            collector.broken_record(kind, body.len());
        }
        processes.check()
    }

    fn sample(&mut self, misc: u16, body: Body, collector: &mut Collector) -> Result<(), Error> {
        let Self { events, tracker, counters, limits, .. } = self;
        let bytes = body.bytes;
        let parsed =
            events.of(bytes).and_then(|(event, attr)| Some((event, attr, SampleRecord::parse(bytes, attr)?)));
        let Some((event, attr, mut sample)) = parsed else {
            collector.broken_sample(bytes.len());
            return Ok(());
        };
        self.of_32_bit += u64::from(sample.is_32_bit && !sample.user_stack.is_empty());
        if attr.is_off_cpu() {
            tracker.tell_thread_from_process(&mut sample);
        }
        let deferred = sample.deferred();
        let Some(values) = sample.values else {
            limits.count(event, sample.period);
            if let Some((_, cookie)) = deferred {
                let shares = vec![(event, sample.period)];
                return self.defer(
                    sample.tid,
                    cookie,
                    WaitingSample { misc, body: bytes.to_vec(), shares },
                    collector,
                );
            }
            return tracker.count(events, event, misc, &sample, body, collector);
        };
        // Each counter weighs what it grew by.
        let thread = sample.tid.filter(|_| attr.inherit).unwrap_or(-1);
        let mut shares = Vec::new();
        for (id, value) in values.iter() {
            let Some(event) = events.of_id(id) else { continue };
            match counters.growth(thread, id, value) {
                Ok(0) => {}
                Ok(growth) => {
                    limits.count(event, Some(growth));
                    shares.push((event, Some(growth)));
                }
                Err(before) => limits.went_back(event, sample.tid.unwrap_or(-1), before, value),
            }
        }
        if let Some((_, cookie)) = deferred {
            return self.defer(
                sample.tid,
                cookie,
                WaitingSample { misc, body: bytes.to_vec(), shares },
                collector,
            );
        }
        for (event, period) in shares {
            tracker.count(events, event, misc, &SampleRecord { period, ..sample }, body, collector)?;
        }
        tracker.processes.check()
    }

    /// The user's side of a sample's chain will follow.
    fn defer(
        &mut self,
        thread: Option<i32>,
        cookie: u64,
        sample: WaitingSample,
        collector: &mut Collector,
    ) -> Result<(), Error> {
        let lost = self.deferred.wait(thread.unwrap_or(-1), cookie, sample);
        lost.iter().try_for_each(|sample| self.join(sample, None, collector))
    }

    /// `CALLCHAIN_DEFERRED`: the user's side of chains that wait for it.
    fn user_side(&mut self, body: &[u8], collector: &mut Collector) -> Result<(), Error> {
        let mut at = ByteReader(body);
        let mut read = || Some((at.u64()?, at.u64().and_then(|count| at.words(count))?));
        let Some((cookie, user_side)) = read() else {
            collector.dropped(format!("a deferred call chain of {} bytes", body.len()).as_bytes());
            return Ok(());
        };
        let waiting = self.deferred.take(cookie);
        waiting.iter().try_for_each(|sample| self.join(sample, Some(user_side), collector))
    }

    /// Counts a sample that has waited.
    fn join(
        &mut self,
        waiting: &WaitingSample,
        user_side: Option<&[u8]>,
        collector: &mut Collector,
    ) -> Result<(), Error> {
        let Self { events, tracker, .. } = self;
        self.without_user_side += u64::from(user_side.is_none());
        let body = Body::of(&waiting.body);
        let sample = events.of(body.bytes).and_then(|(_, attr)| SampleRecord::parse(body.bytes, attr));
        let Some((sample, (kernel_side, _))) = sample.and_then(|sample| Some((sample, sample.deferred()?)))
        else {
            return Ok(());
        };
        let chain = [kernel_side, user_side.unwrap_or_default()].concat();
        for &(event, period) in &waiting.shares {
            let sample = SampleRecord { period, callchain: Some(&chain), ..sample };
            tracker.count(events, event, waiting.misc, &sample, body, collector)?;
        }
        Ok(())
    }

    /// Names what was counted.
    pub fn finish(&mut self, collector: &mut Collector) -> Result<(), Error> {
        let lost_sides = self.deferred.take_all();
        lost_sides.iter().try_for_each(|sample| self.join(sample, None, collector))?;
        let options = collector.options();
        // Of several events none is folded, and the refusal lists them.
        if options.weight == Weight::Period && !collector.is_ambiguous() {
            let machine = (self.cpus, self.tracker.processes.threads_seen());
            self.limits.check(&self.events.attrs, options.event.as_deref(), machine)?;
        }
        let lost = if self.lost_at_end.samples > self.lost.samples { self.lost_at_end } else { self.lost };
        collector.lost(lost.records, lost.samples);
        self.tracker.finish(collector);
        for (samples, why) in [
            (self.without_user_side, "have no user frames: the recording lacks their deferred call chains"),
            (self.of_32_bit, "are of 32-bit programs, whose copied stacks are not walked"),
        ] {
            if samples > 0 {
                collector.stats.notes.push(format!("{samples} samples {why}"));
            }
        }
        Ok(())
    }
}
