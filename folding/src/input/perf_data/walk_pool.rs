//! Copied stacks, walked and counted by several threads. Walking one takes far longer than handing it over; what needs
//! no walk is counted by the thread that reads, which helps the others when they have enough to do.

use super::address_space::AddressSpace;
use super::chain_builder::{ChainBuilder, WeighedSample};
use super::chains::{Chains, CodeMaps};
use crate::symbols::ObjectId;
use crate::threads::Background;
use crate::unwind::{self, UnwindTables};
use crate::weights::SampleWeight;
use perfdata::reader::attr::Attr;
use perfdata::reader::blocks::SharedBody;
use perfdata::reader::sample::SampleRecord;
use std::ops::Range;
use std::sync::mpsc::{Receiver, Sender, SyncSender, TrySendError, channel, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};

/// Bytes of records that one thread takes at once.
const BATCH: usize = 1 << 20;
/// Mappings of a process whose unwind tables count as bytes of a batch, and how many each takes: where mappings change all the time,
/// every sample has tables of its own.
const LARGE_TABLES: usize = 1 << 10;
const OF_MAPPING: usize = 1 << 10;
/// Batches that wait for a thread, for each.
const AHEAD: usize = 2;

/// Process, command and maps of a sample, for the thread that walks its stack.
pub struct SampleContext {
    pub comm: u32,
    pub slice: Option<u64>,
    pub kernel: AddressSpace,
    pub user: AddressSpace,
    pub core: Option<ObjectId>,
    pub machine: unwind::Machine,
    pub tables: Arc<UnwindTables>,
}

/// A sample in the queue: the number of its event, and what its record says besides its body.
pub struct QueuedSample {
    pub attr: usize,
    pub misc: u16,
    pub weighed: SampleWeight,
}

struct WalkJob {
    sample: QueuedSample,
    context: SampleContext,
    body: QueuedBody,
}

/// Where the body of a record lies.
enum QueuedBody {
    /// Among those of the batch.
    Copied(Range<usize>),
    SharedBody(SharedBody),
}

#[derive(Default)]
struct WalkBatch {
    attrs: Arc<[Attr]>,
    copied: Vec<u8>,
    jobs: Vec<WalkJob>,
    /// Bytes of the jobs, wherever they are.
    bytes: usize,
}

impl WalkBatch {
    fn count(&mut self, counter: &mut ChainBuilder) {
        for WalkJob { sample: QueuedSample { attr, misc, weighed }, context, body } in self.jobs.drain(..) {
            let attr = &self.attrs[attr];
            let body = match &body {
                QueuedBody::Copied(range) => &self.copied[range.clone()],
                QueuedBody::SharedBody(kept) => kept.bytes(),
            };
            let Some(sample) = SampleRecord::parse(body, attr) else { continue };
            let SampleContext { comm, slice, kernel, user, core, machine, tables } = &context;
            let mapped = CodeMaps { kernel, user, core: *core };
            let (context, _) = counter.context(*comm, *slice, mapped);
            let weighed_sample = WeighedSample { weighed, misc, attr, sample: &sample };
            counter.count(context, weighed_sample, Some((*machine, &**tables)));
        }
        self.copied.clear();
        self.bytes = 0;
    }
}

/// Several counters, each in a thread of its own.
pub struct WalkPool {
    batch: WalkBatch,
    full: Option<SyncSender<WalkBatch>>,
    empty: Receiver<WalkBatch>,
    chains: Receiver<Chains>,
    threads: Vec<Background<()>>,
    /// Counts in this thread what the others have no time for.
    own: ChainBuilder,
    spare: Option<WalkBatch>,
}

impl WalkPool {
    pub fn start(threads: usize) -> Self {
        let (full, batches) = sync_channel::<WalkBatch>(threads * AHEAD);
        let batches = Arc::new(Mutex::new(batches));
        let (give_back, empty) = channel();
        let (counted, chains) = channel();
        let work = |batches: Arc<Mutex<Receiver<WalkBatch>>>,
                    give_back: Sender<WalkBatch>,
                    counted: Sender<Chains>| {
            let mut counter = ChainBuilder::default();
            loop {
                // A guard held in the condition would be held during the work.
                let batch = batches.lock().unwrap_or_else(PoisonError::into_inner).recv();
                let Ok(mut batch) = batch else { break };
                batch.count(&mut counter);
                // Not waited for when the recording could not be read to its end.
                let _ = give_back.send(batch);
                if let Some(chains) = counter.take_large() {
                    let _ = counted.send(chains);
                }
            }
            let _ = counted.send(counter.chains());
        };
        let spawn = |_| {
            let (batches, give_back, counted) = (Arc::clone(&batches), give_back.clone(), counted.clone());
            Background::start("walk", move || work(batches, give_back, counted))
        };
        let threads: Vec<_> = (0..threads).filter_map(spawn).collect();
        // Without any, all is counted in this thread.
        let full = (!threads.is_empty()).then_some(full);
        Self {
            batch: WalkBatch::default(),
            full,
            empty,
            chains,
            threads,
            own: ChainBuilder::default(),
            spare: None,
        }
    }

    /// Queues a sample whose record stays where it is.
    pub fn count_kept(
        &mut self,
        attrs: &Arc<[Attr]>,
        sample: QueuedSample,
        body: SharedBody,
        context: SampleContext,
    ) {
        let len = body.bytes().len() + self.kept_tables(&context.tables);
        self.batch_of(attrs).jobs.push(WalkJob { sample, context, body: QueuedBody::SharedBody(body) });
        self.added(len);
    }

    /// Queues a sample whose record has to be copied.
    pub fn count_copied(
        &mut self,
        attrs: &Arc<[Attr]>,
        sample: QueuedSample,
        body: &[u8],
        context: SampleContext,
    ) {
        let len = body.len() + self.kept_tables(&context.tables);
        let batch = self.batch_of(attrs);
        let start = batch.copied.len();
        batch.copied.extend_from_slice(body);
        let copied = QueuedBody::Copied(start..batch.copied.len());
        batch.jobs.push(WalkJob { sample, context, body: copied });
        self.added(len);
    }

    /// Bytes of large tables that the batch keeps from now on.
    fn kept_tables(&self, tables: &Arc<UnwindTables>) -> usize {
        let before = self.batch.jobs.last().map(|job| &job.context.tables);
        let kept = before.is_some_and(|before| Arc::ptr_eq(before, tables));
        if kept || tables.size < LARGE_TABLES { 0 } else { tables.size * OF_MAPPING }
    }

    /// The batch at hand, which is one of these events.
    fn batch_of(&mut self, attrs: &Arc<[Attr]>) -> &mut WalkBatch {
        if !Arc::ptr_eq(&self.batch.attrs, attrs) {
            self.send();
            self.batch.attrs = Arc::clone(attrs);
        }
        &mut self.batch
    }

    fn added(&mut self, bytes: usize) {
        self.batch.bytes += bytes;
        if self.batch.bytes >= BATCH {
            self.send();
        }
    }

    fn send(&mut self) {
        if self.batch.jobs.is_empty() {
            return;
        }
        let spare = self.spare.take();
        let mut next = spare.unwrap_or_else(|| self.empty.try_recv().unwrap_or_default());
        next.attrs = Arc::clone(&self.batch.attrs);
        let batch = std::mem::replace(&mut self.batch, next);
        // No receiver means that every thread panicked, which `finish` finds out.
        let left = match &self.full {
            Some(full) => full.try_send(batch).err(),
            None => Some(TrySendError::Full(batch)),
        };
        if let Some(TrySendError::Full(mut batch)) = left {
            // The others have enough to do for now.
            batch.count(&mut self.own);
            self.spare = Some(batch);
        }
    }

    /// Chains that took too much memory.
    pub fn take_large(&mut self) -> Option<Chains> {
        self.own.take_large().or_else(|| self.chains.try_recv().ok())
    }

    /// The chains of all samples, by thread.
    pub fn finish(mut self) -> Vec<Chains> {
        self.send();
        self.full = None;
        self.threads.into_iter().for_each(Background::finish);
        self.chains.try_iter().chain([self.own.chains()]).collect()
    }
}
