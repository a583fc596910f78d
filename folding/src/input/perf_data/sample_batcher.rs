//! Samples on their way to be counted: in batches, by another thread if there may be one and it has time.
//!
//! What is looked up of a sample lies all over the memory, what is read of it comes as a stream: the two take about as
//! long, and do not need each other.

use super::chain_counts::SampleBatch;
use super::chains::{ChainContext, Chains, CodeMaps};
use crate::stats::CutCopies;
use crate::threads::Background;
use crate::weights::SampleWeight;
use std::collections::HashMap;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, channel, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Contexts that are kept; a machine that starts thousands of processes has new ones all the time.
const CONTEXTS: usize = 1 << 16;
/// Mappings in the spaces that are kept for them, which processes may have replaced since.
const MAPPINGS: usize = 1 << 21;
/// Samples that are counted at once where they were taken, while their chains are at hand.
const BATCH_HERE: usize = 32;
/// Samples in a batch for the helper: fewer are not worth the synchronisation.
const BATCH_FOR_HELPER: usize = 1024;
/// Bytes of chains in a batch, however few.
const BATCH_BYTES: usize = 1 << 20;
/// Batches that wait for the other thread.
const AHEAD: usize = 2;
/// Numbers of different chains after which they should be named and forgotten.
const LARGE: usize = 16 << 20;

/// Takes samples, and has them counted.
#[derive(Default)]
pub struct SampleBatcher {
    pub cut: CutCopies,
    pub truncated: u64,
    chains: Arc<Mutex<Chains>>,
    batch: SampleBatch,
    /// The numbers of spaces, by the versions of the kernel's and the user's.
    spaces: HashMap<(u64, u64), u32>,
    /// How many mappings these have, and the version of the kernel's that was counted last.
    mappings: usize,
    kernel: u64,
    contexts: Vec<ChainContext>,
    known: HashMap<(u32, Option<u64>, u32), u32>,
    /// Numbers that the chains took when that was last looked at.
    numbers: usize,
    /// Whether another thread may count.
    with_helper: bool,
    helper: Option<Helper>,
}

impl SampleBatcher {
    /// With a thread of its own that counts.
    pub fn with_helper() -> Self {
        Self { with_helper: true, ..Self::default() }
    }

    /// The number of a context; and whether all numbers given before are void.
    pub fn context(&mut self, comm: u32, slice: Option<u64>, mapped: CodeMaps) -> (u32, bool) {
        let renumbered = self.contexts.len() >= CONTEXTS || self.mappings >= MAPPINGS;
        if renumbered {
            self.finish();
            lock(&self.chains).forget_contexts();
            self.contexts.clear();
            self.known.clear();
            self.spaces.clear();
            self.mappings = 0;
        }
        let Self { chains, contexts, known, spaces, mappings, kernel, .. } = self;
        let next = spaces.len() as u32;
        let versions = (mapped.kernel.version, mapped.user.version);
        let spaces = *spaces.entry(versions).or_insert_with(|| {
            let of_kernel = std::mem::replace(kernel, mapped.kernel.version) != *kernel;
            *mappings += mapped.user.maps().len() + if of_kernel { mapped.kernel.maps().len() } else { 0 };
            lock(chains).add_spaces(mapped);
            next
        });
        let context = *known.entry((comm, slice, spaces)).or_insert_with(|| {
            let context = ChainContext { comm, slice, spaces };
            lock(chains).add_context(context);
            contexts.push(context);
            contexts.len() as u32 - 1
        });
        (context, renumbered)
    }

    /// Command and slice of time of a context.
    pub fn comm_and_slice(&self, context: u32) -> Option<(u32, Option<u64>)> {
        self.contexts.get(context as usize).map(|context| (context.comm, context.slice))
    }

    /// Takes a sample of a context that was given a number.
    #[inline]
    pub fn take(&mut self, context: u32, chain: &[u8], sample: SampleWeight) {
        self.batch.take(context, chain, sample);
        let most = if self.with_helper { BATCH_FOR_HELPER } else { BATCH_HERE };
        if self.batch.len() >= most || self.batch.bytes() >= BATCH_BYTES {
            self.dispatch();
        }
    }

    fn dispatch(&mut self) {
        if self.helper.is_none() && self.with_helper {
            self.helper = Helper::start(Arc::clone(&self.chains));
            self.with_helper = self.helper.is_some();
        }
        if let Some(helper) = &self.helper {
            let Some(numbers) = helper.take(&mut self.batch) else { return self.count_here() };
            self.numbers = self.numbers.max(numbers);
        } else {
            self.count_here();
        }
    }

    fn count_here(&mut self) {
        self.numbers = count(&self.chains, &mut self.batch);
    }

    /// Counts all that was taken.
    fn finish(&mut self) {
        if let Some(helper) = self.helper.take() {
            helper.finish();
        }
        self.count_here();
    }

    /// What was counted so far, if it takes much memory. Contexts are then numbered anew.
    pub fn take_large(&mut self) -> Option<Chains> {
        if self.numbers <= LARGE {
            return None;
        }
        let next = Self { with_helper: self.with_helper, ..Self::default() };
        Some(std::mem::replace(self, next).chains())
    }

    /// All that was counted.
    pub fn chains(mut self) -> Chains {
        self.finish();
        let mut chains = std::mem::take(&mut *lock(&self.chains));
        (chains.cut, chains.truncated) = (self.cut, self.truncated);
        chains
    }
}

/// Counts a batch; returns how many numbers the chains take then.
fn count(chains: &Mutex<Chains>, batch: &mut SampleBatch) -> usize {
    let mut chains = lock(chains);
    chains.count(batch);
    batch.clear();
    chains.numbers()
}

fn lock(chains: &Mutex<Chains>) -> MutexGuard<'_, Chains> {
    // A panic of the other thread is resumed in the one that waits for it.
    chains.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Another thread that counts.
struct Helper {
    full: SyncSender<SampleBatch>,
    /// Batches that were counted, and how many numbers the chains took then.
    empty: Receiver<(SampleBatch, usize)>,
    thread: Background<()>,
}

impl Helper {
    fn start(chains: Arc<Mutex<Chains>>) -> Option<Self> {
        let (full, batches) = sync_channel::<SampleBatch>(AHEAD);
        let (give_back, empty) = channel();
        let thread = Background::start("count", move || {
            for mut batch in batches {
                let numbers = count(&chains, &mut batch);
                // The last ones are not reused.
                let _ = give_back.send((batch, numbers));
            }
        })?;
        Some(Self { full, empty, thread })
    }

    /// Takes a batch and gives an empty one, unless the queue is full; returns how many numbers the chains took.
    fn take(&self, batch: &mut SampleBatch) -> Option<usize> {
        match self.full.try_send(std::mem::take(batch)) {
            Ok(()) => {
                let (empty, numbers) = self.empty.try_recv().unwrap_or_default();
                *batch = empty;
                Some(numbers)
            }
            Err(TrySendError::Full(kept) | TrySendError::Disconnected(kept)) => {
                *batch = kept;
                None
            }
        }
    }

    fn finish(self) {
        drop(self.full);
        self.thread.finish();
    }
}

#[cfg(test)]
mod tests {
    use super::super::address_space::AddressSpace;
    use super::super::chains::RECORDED;
    use super::*;
    use crate::collector::{ChainSamples, Weight};

    fn batchers() -> [SampleBatcher; 2] {
        [SampleBatcher::default(), SampleBatcher::with_helper()]
    }

    fn each(mut chains: Chains) -> Vec<(usize, Vec<ChainSamples>)> {
        let mut all = Vec::new();
        chains.each(|chain, samples| all.push((chain.len(), samples.to_vec())));
        all
    }

    fn weighed(weight: u64) -> SampleWeight {
        SampleWeight::new(Weight::Period, Some(weight))
    }

    /// More than is kept before it is merged, of which half comes again in other spaces.
    #[test]
    fn chains_of_any_number_are_counted() {
        const DEEP: u64 = 200;
        const COUNT: u64 = RECORDED as u64 / (4 * DEEP) * 3 / 2;
        let (kernel, user, mut other) =
            (AddressSpace::default(), AddressSpace::default(), AddressSpace::default());
        other.version = 7;
        // Each chain differs from this one in one frame, anywhere.
        let alike: Vec<u8> = (0..DEEP).flat_map(|at| (1 << 40 | at).to_le_bytes()).collect();
        for mut batcher in batchers() {
            for (user, every) in [(&user, 1), (&other, 2)] {
                let (context, _) = batcher.context(1, None, CodeMaps { kernel: &kernel, user, core: None });
                for n in (0..COUNT).step_by(every) {
                    let (mut chain, at) = (alike.clone(), (n % DEEP) as usize * 8);
                    chain[at..at + 8].copy_from_slice(&n.to_le_bytes());
                    batcher.take(context, &chain, weighed(n));
                }
            }
            let all = each(batcher.chains());
            assert!(all.iter().all(|(len, samples)| (*len as u64, samples.len()) == (DEEP, 1)));
            let samples = || all.iter().map(|(_, samples)| samples[0]);
            let sum = |step| (0..u128::from(COUNT)).step_by(step).sum::<u128>();
            assert_eq!(samples().map(|samples| samples.totals.tally.weight).sum::<u128>(), sum(1) + sum(2));
            assert_eq!(
                samples().map(|samples| samples.totals.tally.samples).sum::<u64>(),
                COUNT + COUNT.div_ceil(2)
            );
            assert_eq!(all.len() as u64, COUNT);
        }
    }

    /// What waits when contexts are numbered anew belongs to the old ones.
    #[test]
    fn contexts_of_any_number_are_told_apart() {
        let (kernel, user) = (AddressSpace::default(), AddressSpace::default());
        let mapped = CodeMaps { kernel: &kernel, user: &user, core: None };
        let count = 2 * CONTEXTS as u32 + 5;
        for mut batcher in batchers() {
            let mut begun_anew = 0;
            for comm in 0..count {
                let (context, renumbered) = batcher.context(comm, None, mapped);
                begun_anew += u32::from(renumbered);
                assert_eq!(batcher.comm_and_slice(context), Some((comm, None)));
                for weight in 1..=3 {
                    batcher.take(context, &7_u64.to_le_bytes(), weighed(weight));
                }
            }
            assert_eq!(begun_anew, 2);
            let all = each(batcher.chains());
            assert_eq!((all.len(), all[0].0, all[0].1.len()), (1, 1, count as usize));
            let mut comms: Vec<u32> = all[0].1.iter().map(|samples| samples.comm).collect();
            comms.sort_unstable();
            assert!(comms.into_iter().eq(0..count));
            assert!(
                all[0]
                    .1
                    .iter()
                    .all(|samples| (samples.totals.tally.weight, samples.totals.tally.samples) == (6, 3))
            );
        }
    }

    #[test]
    fn what_is_large_is_taken_and_the_rest_goes_on() {
        let (kernel, user) = (AddressSpace::default(), AddressSpace::default());
        let mapped = CodeMaps { kernel: &kernel, user: &user, core: None };
        let count = 2 * BATCH_FOR_HELPER as u64 + 7;
        for mut batcher in batchers() {
            let mut parts = Vec::new();
            for part in 0..3 {
                let (context, _) = batcher.context(part, None, mapped);
                assert_eq!(context, 0);
                (0..count).for_each(|n| batcher.take(context, &n.to_le_bytes(), weighed(1)));
                assert!(batcher.take_large().is_none());
                batcher.numbers = LARGE + 1;
                parts.extend(batcher.take_large());
            }
            assert!(each(batcher.chains()).is_empty());
            for (part, comm) in parts.into_iter().zip(0..) {
                let all = each(part);
                assert_eq!(all.len() as u64, count);
                assert!(
                    all.iter().all(
                        |(_, of_chain)| (of_chain[0].comm, of_chain[0].totals.tally.samples) == (comm, 1)
                    )
                );
            }
        }
    }
}
