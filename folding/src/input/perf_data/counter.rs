//! Samples into counted chains: by this thread, or by several.

use super::attr::{Attr, BRANCH_CALL_STACK, sample_type};
use super::chains::{
    CONTEXT_HV, CONTEXT_KERNEL, CONTEXT_USER, Chains, Key, Mapped, branch_calls, has_user_part,
};
use super::machine::Space;
use super::sample::Sample;
use crate::collector::OpenSample;
use crate::symbols::ObjectId;
use crate::unwind::{self, Registers, Tables, Walker};
use std::ops::Range;
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

/// Bytes of records that one thread takes at once.
const BATCH: usize = 1 << 20;
/// Batches that wait for a thread, for each.
const AHEAD: usize = 2;

/// Where a sample was taken: everything but its record.
#[derive(Clone, Copy)]
pub struct Scene<'a> {
    pub misc: u16,
    pub mapped: Mapped<'a>,
    /// For a copied stack: whose it is, and how to walk it.
    pub tables: Option<(unwind::Machine, &'a Arc<Tables>)>,
}

/// The same, to be handed to another thread.
struct Kept {
    misc: u16,
    kernel: Space,
    user: Space,
    core: Option<ObjectId>,
    tables: Option<(unwind::Machine, Arc<Tables>)>,
}

impl Kept {
    fn new(scene: &Scene) -> Self {
        let Scene { misc, mapped: Mapped { kernel, user, core }, tables } = *scene;
        let tables = tables.map(|(machine, tables)| (machine, Arc::clone(tables)));
        Self { misc, kernel: kernel.clone(), user: user.clone(), core, tables }
    }

    fn scene(&self) -> Scene<'_> {
        let Self { misc, kernel, user, core, tables } = self;
        let tables = tables.as_ref().map(|(machine, tables)| (*machine, tables));
        Scene { misc: *misc, mapped: Mapped { kernel, user, core: *core }, tables }
    }
}

/// Counts chains.
#[derive(Default)]
pub struct Counter {
    chains: Chains,
    walker: Walker,
    key: Key,
}

impl Counter {
    pub fn count(&mut self, open: OpenSample, attr: &Attr, sample: &Sample, scene: &Scene) {
        let Scene { misc, mapped, tables } = *scene;
        let key = &mut self.key;
        key.begin(open, mapped);
        let calls =
            sample.branches.filter(|calls| attr.branch_type & BRANCH_CALL_STACK != 0 && !calls.is_empty());
        let copied = tables.and_then(|(machine, tables)| Some((tables, registers(attr, sample, machine)?)));
        match (sample.callchain, calls, copied) {
            (Some(chain), Some(calls), _) => {
                // The chain itself gives the kernel's side and, after it, the place in user mode.
                let place = key.kernel_part(chain);
                place.into_iter().chain(branch_calls(calls)).for_each(|ip| key.executed(CONTEXT_USER, ip));
            }
            (Some(chain), _, Some((tables, registers))) if !has_user_part(chain) => {
                key.recorded(chain);
                let (ip, returns) = self.walker.walk(tables, registers, sample.user_stack);
                key.executed(CONTEXT_USER, ip);
                key.returns(returns.iter().copied());
            }
            (Some(chain), ..) => key.recorded(chain),
            (None, ..) => {
                let context = match misc & 7 {
                    1 => CONTEXT_KERNEL,
                    2 => CONTEXT_USER,
                    _ => CONTEXT_HV,
                };
                if let Some(ip) = sample.ip.filter(|_| attr.has(sample_type::IP)) {
                    key.executed(context, ip);
                }
            }
        }
        self.chains.count(open, &self.key, mapped);
    }

    pub fn chains(self) -> Chains {
        self.chains
    }

    /// The chains so far, if they take much memory.
    pub fn take_large(&mut self) -> Option<Chains> {
        self.chains.are_large().then(|| std::mem::take(&mut self.chains))
    }
}

/// The user registers of a sample that has a copy of its stack.
fn registers(attr: &Attr, sample: &Sample, machine: unwind::Machine) -> Option<Registers> {
    if sample.user_stack.is_empty() {
        return None;
    }
    let [ip, sp, fp, lr] = machine.registers().map(|number| sample.register(attr, number));
    Some(Registers { ip: ip?, sp: sp?, fp: fp.unwrap_or(0), lr: lr.unwrap_or(0) })
}

struct Job {
    open: OpenSample,
    attr: usize,
    scene: Kept,
    body: Range<usize>,
}

#[derive(Default)]
struct Batch {
    attrs: Arc<[Attr]>,
    bytes: Vec<u8>,
    jobs: Vec<Job>,
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
                    for job in batch.jobs.drain(..) {
                        let attr = &batch.attrs[job.attr];
                        if let Some(sample) = Sample::parse(&batch.bytes[job.body], attr) {
                            counter.count(job.open, attr, &sample, &job.scene.scene());
                        }
                    }
                    batch.bytes.clear();
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

    pub fn count(&mut self, open: OpenSample, attrs: &Arc<[Attr]>, attr: usize, body: &[u8], scene: &Scene) {
        if !Arc::ptr_eq(&self.batch.attrs, attrs) {
            self.send();
            self.batch.attrs = Arc::clone(attrs);
        }
        let start = self.batch.bytes.len();
        self.batch.bytes.extend_from_slice(body);
        self.batch.jobs.push(Job {
            open,
            attr,
            scene: Kept::new(scene),
            body: start..self.batch.bytes.len(),
        });
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
