//! Copied stacks, walked and counted by several threads. Walking one takes far longer than handing it over; what needs
//! no walk is counted by the thread that reads.

use super::attr::Attr;
use super::chains::{Chains, Mapped, Weighed};
use super::counter::{Counter, Taken};
use super::machine::Space;
use super::sample::Sample;
use crate::symbols::ObjectId;
use crate::unwind::{self, Tables};
use std::ops::Range;
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

/// Bytes of records that one thread takes at once.
const BATCH: usize = 1 << 20;
/// Batches that wait for a thread, for each.
const AHEAD: usize = 2;

/// Where a sample was taken, to be handed to another thread.
pub struct Scene {
    pub comm: u32,
    pub slice: Option<u64>,
    pub kernel: Space,
    pub user: Space,
    pub core: Option<ObjectId>,
    pub machine: unwind::Machine,
    pub tables: Arc<Tables>,
}

struct Job {
    weighed: Weighed,
    misc: u16,
    attr: usize,
    scene: Scene,
    body: Range<usize>,
}

#[derive(Default)]
struct Batch {
    attrs: Arc<[Attr]>,
    bytes: Vec<u8>,
    jobs: Vec<Job>,
}

impl Batch {
    fn count(&mut self, counter: &mut Counter) {
        for Job { weighed, misc, attr, scene, body } in self.jobs.drain(..) {
            let attr = &self.attrs[attr];
            let Some(sample) = Sample::parse(&self.bytes[body], attr) else { continue };
            let Scene { comm, slice, kernel, user, core, machine, tables } = &scene;
            let mapped = Mapped { kernel, user, core: *core };
            let (context, _) = counter.context(*comm, *slice, mapped);
            let taken = Taken { weighed, misc, attr, sample: &sample };
            counter.count(context, taken, Some((*machine, &**tables)));
        }
        self.bytes.clear();
    }
}

/// Several counters, each in a thread of its own.
pub struct Counters {
    batch: Batch,
    full: Option<SyncSender<Batch>>,
    empty: Receiver<Batch>,
    chains: Receiver<Chains>,
    threads: Vec<JoinHandle<()>>,
}

impl Counters {
    pub fn start(threads: usize) -> Self {
        let (full, batches) = sync_channel::<Batch>(threads * AHEAD);
        let batches = Arc::new(Mutex::new(batches));
        let (give_back, empty) = channel();
        let (counted, chains) = channel();
        let work =
            |batches: Arc<Mutex<Receiver<Batch>>>, give_back: Sender<Batch>, counted: Sender<Chains>| {
                let mut counter = Counter::default();
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
        Self { batch: Batch::default(), full: Some(full), empty, chains, threads }
    }

    /// Hands a sample over: the record of an event, by its number.
    pub fn count(
        &mut self,
        attrs: &Arc<[Attr]>,
        attr: usize,
        misc: u16,
        weighed: Weighed,
        body: &[u8],
        scene: Scene,
    ) {
        if !Arc::ptr_eq(&self.batch.attrs, attrs) {
            self.send();
            self.batch.attrs = Arc::clone(attrs);
        }
        let start = self.batch.bytes.len();
        self.batch.bytes.extend_from_slice(body);
        let body = start..self.batch.bytes.len();
        self.batch.jobs.push(Job { weighed, misc, attr, scene, body });
        if self.batch.bytes.len() >= BATCH {
            self.send();
        }
    }

    fn send(&mut self) {
        if self.batch.jobs.is_empty() {
            return;
        }
        let mut next = self.empty.try_recv().unwrap_or_default();
        next.attrs = Arc::clone(&self.batch.attrs);
        let batch = std::mem::replace(&mut self.batch, next);
        if let Some(full) = &self.full {
            // No receiver means that every thread panicked, which `finish` finds out.
            let _ = full.send(batch);
        }
    }

    /// Chains that took too much memory.
    pub fn take_large(&mut self) -> Option<Chains> {
        self.chains.try_recv().ok()
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
        self.chains.try_iter().collect()
    }
}
