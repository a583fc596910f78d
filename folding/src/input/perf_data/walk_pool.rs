//! Copied stacks, walked and counted by several threads. Walking one takes far longer than handing it over; what needs
//! no walk is counted by the thread that reads, which helps the others when they have enough to do.

use super::attr::Attr;
use super::blocks::Kept;
use super::chain_builder::{ChainBuilder, WeighedSample};
use super::chains::{Chains, CodeMaps, SampleWeight};
use super::process_maps::AddressSpace;
use super::sample::Sample;
use crate::symbols::ObjectId;
use crate::unwind::{self, Tables};
use std::ops::Range;
use std::sync::mpsc::{Receiver, Sender, SyncSender, TrySendError, channel, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

/// Bytes of records that one thread takes at once.
const BATCH: usize = 1 << 20;
/// Batches that wait for a thread, for each.
const AHEAD: usize = 2;

/// Where a sample was taken, to be handed to another thread.
pub struct SampleContext {
    pub comm: u32,
    pub slice: Option<u64>,
    pub kernel: AddressSpace,
    pub user: AddressSpace,
    pub core: Option<ObjectId>,
    pub machine: unwind::Machine,
    pub tables: Arc<Tables>,
}

/// A sample to be handed over: the number of its event, and what its record says besides its body.
pub struct QueuedSample {
    pub attr: usize,
    pub misc: u16,
    pub weighed: SampleWeight,
}

struct Job {
    sample: QueuedSample,
    scene: SampleContext,
    body: Bytes,
}

/// Where the body of a record lies.
enum Bytes {
    /// Among those of the batch.
    Copied(Range<usize>),
    Kept(Kept),
}

#[derive(Default)]
struct Batch {
    attrs: Arc<[Attr]>,
    copied: Vec<u8>,
    jobs: Vec<Job>,
    /// Bytes of the jobs, wherever they are.
    bytes: usize,
}

impl Batch {
    fn count(&mut self, counter: &mut ChainBuilder) {
        for Job { sample: QueuedSample { attr, misc, weighed }, scene, body } in self.jobs.drain(..) {
            let attr = &self.attrs[attr];
            let body = match &body {
                Bytes::Copied(range) => &self.copied[range.clone()],
                Bytes::Kept(kept) => kept.bytes(),
            };
            let Some(sample) = Sample::parse(body, attr) else { continue };
            let SampleContext { comm, slice, kernel, user, core, machine, tables } = &scene;
            let mapped = CodeMaps { kernel, user, core: *core };
            let (context, _) = counter.context(*comm, *slice, mapped);
            let taken = WeighedSample { weighed, misc, attr, sample: &sample };
            counter.count(context, taken, Some((*machine, &**tables)));
        }
        self.copied.clear();
        self.bytes = 0;
    }
}

/// Several counters, each in a thread of its own.
pub struct WalkPool {
    batch: Batch,
    full: Option<SyncSender<Batch>>,
    empty: Receiver<Batch>,
    chains: Receiver<Chains>,
    threads: Vec<JoinHandle<()>>,
    /// Counts in this thread what the others have no time for.
    own: ChainBuilder,
    spare: Option<Batch>,
}

impl WalkPool {
    pub fn start(threads: usize) -> Self {
        let (full, batches) = sync_channel::<Batch>(threads * AHEAD);
        let batches = Arc::new(Mutex::new(batches));
        let (give_back, empty) = channel();
        let (counted, chains) = channel();
        let work =
            |batches: Arc<Mutex<Receiver<Batch>>>, give_back: Sender<Batch>, counted: Sender<Chains>| {
                let mut counter = ChainBuilder::default();
                loop {
                    // A guard held in the condition would be held during the work.
                    let batch = batches.lock().unwrap_or_else(PoisonError::into_inner).recv();
                    let Ok(mut batch) = batch else { break };
                    batch.count(&mut counter);
                    // Nobody waits for these when the recording could not be read to its end.
                    let _ = give_back.send(batch);
                    if let Some(chains) = counter.take_large() {
                        let _ = counted.send(chains);
                    }
                }
                let _ = counted.send(counter.chains());
            };
        let spawn = |_| {
            let (batches, give_back, counted) = (Arc::clone(&batches), give_back.clone(), counted.clone());
            std::thread::spawn(move || work(batches, give_back, counted))
        };
        let threads = (0..threads).map(spawn).collect();
        Self {
            batch: Batch::default(),
            full: Some(full),
            empty,
            chains,
            threads,
            own: ChainBuilder::default(),
            spare: None,
        }
    }

    /// Hands a sample over whose record stays where it is.
    pub fn count_kept(
        &mut self,
        attrs: &Arc<[Attr]>,
        sample: QueuedSample,
        body: Kept,
        scene: SampleContext,
    ) {
        let len = body.bytes().len();
        self.batch_of(attrs).jobs.push(Job { sample, scene, body: Bytes::Kept(body) });
        self.added(len);
    }

    /// Hands a sample over whose record has to be copied.
    pub fn count_copied(
        &mut self,
        attrs: &Arc<[Attr]>,
        sample: QueuedSample,
        body: &[u8],
        scene: SampleContext,
    ) {
        let batch = self.batch_of(attrs);
        let start = batch.copied.len();
        batch.copied.extend_from_slice(body);
        let copied = Bytes::Copied(start..batch.copied.len());
        batch.jobs.push(Job { sample, scene, body: copied });
        self.added(body.len());
    }

    /// The batch at hand, which is one of these events.
    fn batch_of(&mut self, attrs: &Arc<[Attr]>) -> &mut Batch {
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
        if let Some(Err(TrySendError::Full(mut batch))) = self.full.as_ref().map(|full| full.try_send(batch))
        {
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
        for thread in self.threads {
            if let Err(panic) = thread.join() {
                std::panic::resume_unwind(panic);
            }
        }
        self.chains.try_iter().chain([self.own.chains()]).collect()
    }
}
