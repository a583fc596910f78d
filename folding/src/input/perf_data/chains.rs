//! Chains of addresses, counted. Names come later: each different chain is made of places once, and each different
//! place is named once, however many samples there are.
//!
//! Chains are counted as they were recorded, together with those of the same context (`sample_batcher` makes the contexts and the
//! batches). When they take much memory they are merged: what is the same chain in several contexts is kept once.

use super::address_resolver::{Address, AddressResolver, AddressSpaces, Mode, ResolvedAddress, addresses};
use super::address_space::AddressSpace;
use super::chain_counts::{ChainCounts, CountedChain, SampleBatch};
use crate::intern::Interner;
use crate::locations::LocatedChain;
use crate::runs::Runs;
use crate::stats::CutCopies;
use crate::symbols::ObjectId;
use crate::weights::ChainSamples;
use perfdata::format::CONTEXT_KERNEL;
use perfdata::reader::bytes::words;

/// Bytes of chains that are kept before they are merged.
pub const RECORDED: usize = if cfg!(test) { 2 << 20 } else { 32 << 20 };

/// What was mapped when a sample was taken.
#[derive(Clone, Copy)]
pub struct CodeMaps<'a> {
    pub kernel: &'a AddressSpace,
    pub user: &'a AddressSpace,
    /// The kernel itself, for its addresses outside of what was mapped.
    pub core: Option<ObjectId>,
}

/// Where samples were taken that weigh together if their chains are the same.
#[derive(Clone, Copy)]
pub struct ChainContext {
    pub comm: u32,
    pub slice: Option<u64>,
    /// The number of its spaces.
    pub spaces: u32,
}

/// The chains of some samples, and how much they weigh.
#[derive(Default)]
pub struct Chains {
    pub cut: CutCopies,
    /// Samples whose chain the kernel cut.
    pub truncated: u64,
    spaces: Vec<AddressSpaces>,
    contexts: Vec<ChainContext>,
    addresses: AddressResolver,
    recorded: ChainCounts,
    merged: MergedChains,
}

/// Chains that are the same wherever and whenever they were recorded.
#[derive(Default)]
struct MergedChains {
    /// The numbers of their places, leaf first.
    chains: Interner<u32>,
    /// Chain, command and the two halves of the slice of time; and what was counted there.
    counted: Interner<u32>,
    samples: Vec<ChainSamples>,
}

impl MergedChains {
    fn add(&mut self, chain: u32, samples: &ChainSamples) {
        let slice = samples.slice.map_or(0, |slice| slice.wrapping_add(1));
        let key = [chain, samples.comm, slice as u32, (slice >> 32) as u32];
        match self.samples.get_mut(self.counted.intern(&key).0 as usize) {
            Some(known) => known.totals.absorb(&samples.totals),
            None => self.samples.push(*samples),
        }
    }

    /// The number of a chain that something was counted of.
    fn chain_of(&self, counted: usize) -> u32 {
        self.counted.get(counted as u32)[0]
    }
}

impl Chains {
    /// Adds the spaces of the next number.
    pub fn add_spaces(&mut self, mapped: CodeMaps) {
        let CodeMaps { kernel, user, core } = mapped;
        self.spaces.push(AddressSpaces { kernel: kernel.clone(), user: user.clone(), core });
    }

    /// Adds the context of the next number.
    pub fn add_context(&mut self, context: ChainContext) {
        self.contexts.push(context);
    }

    /// Contexts and spaces are numbered anew.
    pub fn forget_contexts(&mut self) {
        self.merge();
        self.contexts.clear();
        self.spaces.clear();
    }

    /// Counts samples of known contexts.
    pub fn count(&mut self, batch: &SampleBatch) {
        let (resolver, all, contexts) = (&mut self.addresses, &self.spaces, &self.contexts);
        let spaces = |context: u32| contexts[context as usize].spaces;
        self.recorded.count(batch, spaces, |spaces, chain, found| {
            let spaces = &all[spaces as usize];
            found.extend(addresses(words(chain)).map(|address| resolver.place(address, spaces)));
        });
        if self.recorded.size() > RECORDED {
            self.merge();
        }
    }

    /// Puts together what was recorded in different spaces, or for the same command under different numbers.
    fn merge(&mut self) {
        let recorded = std::mem::take(&mut self.recorded);
        let merged = &mut self.merged;
        let chains: Vec<u32> = recorded.chains.iter().map(|chain| merged.chains.intern(chain).0).collect();
        for counted in recorded.counted() {
            merged.add(chains[counted.chain as usize], &samples_of(counted, &self.contexts));
        }
    }

    /// How many numbers the different chains take, and their places while they are named.
    pub fn numbers(&self) -> usize {
        const TO_NAME: usize = 8;
        let places = self.addresses.count() * TO_NAME;
        self.merged.chains.arena_len() + self.merged.counted.arena_len() + places
    }

    /// Adds chains of other samples of the same recording.
    pub fn absorb(&mut self, mut other: Self) {
        self.cut.absorb(other.cut);
        self.truncated += other.truncated;
        self.merge();
        other.merge();
        let resolved = self.addresses.absorb(&other.addresses);
        let mut chain = Vec::new();
        let theirs = &other.merged;
        let chains: Vec<u32> = (0..theirs.chains.len() as u32)
            .map(|id| {
                chain.clear();
                chain.extend(theirs.chains.get(id).iter().map(|&id| resolved[id as usize]));
                self.merged.chains.intern(&chain).0
            })
            .collect();
        for (counted, samples) in theirs.samples.iter().enumerate() {
            self.merged.add(chains[theirs.chain_of(counted) as usize], samples);
        }
    }

    /// The numbers of the places of each chain, leaf first; some chains may be the same.
    pub fn recorded(&self) -> impl Iterator<Item = &[u32]> {
        self.recorded.chains.iter().chain(self.merged.chains.iter())
    }

    pub fn resolved(&self) -> Vec<ResolvedAddress> {
        self.addresses.places()
    }

    /// How many chains there are, and how many places they have together.
    pub fn size(&self) -> (usize, usize) {
        let (recorded, merged) = (&self.recorded.chains, &self.merged.chains);
        (recorded.len() + merged.len(), recorded.items().len() + merged.arena_len())
    }

    /// Calls `take` with each different chain: the numbers of the places of each, leaf first, and its samples by command and
    /// slice of time.
    pub fn each(&mut self, take: impl FnMut(&[u32], &[ChainSamples])) {
        if self.merged.samples.is_empty() {
            let counted = self.recorded.counted();
            let samples = |at: usize| samples_of(&counted[at], &self.contexts);
            let chain_of = |at: usize| counted[at].chain;
            return by_chain(counted.len(), chain_of, samples, self.recorded.chains.iter(), take);
        }
        self.merge();
        let MergedChains { chains, samples, .. } = &self.merged;
        let chain_of = |at| self.merged.chain_of(at);
        by_chain(samples.len(), chain_of, |at| samples[at], chains.iter(), take);
    }

    /// The same at once: the places of each chain, and what was counted of the chain of a number.
    pub fn into_parts(mut self) -> (Runs<u32>, Vec<LocatedChain>) {
        let located = |chain, samples: &ChainSamples| LocatedChain {
            chain,
            command: Some(samples.comm),
            tally: samples.totals.tally,
        };
        if self.merged.samples.is_empty() {
            let all = self.recorded.counted().iter();
            let all =
                all.map(|counted| located(counted.chain, &samples_of(counted, &self.contexts))).collect();
            return (self.recorded.chains, all);
        }
        self.merge();
        let mut chains = Runs::default();
        self.merged.chains.iter().for_each(|chain| chains.add(|items| items.extend_from_slice(chain)));
        let all = self
            .merged
            .samples
            .iter()
            .enumerate()
            .map(|(at, samples)| located(self.merged.chain_of(at), samples));
        (chains, all.collect())
    }
}

fn samples_of(counted: &CountedChain, contexts: &[ChainContext]) -> ChainSamples {
    let ChainContext { comm, slice, .. } = contexts[counted.context as usize];
    ChainSamples { comm, slice, totals: counted.totals }
}

/// Calls `take` with each chain and its samples.
fn by_chain<'c>(
    counted: usize,
    chain_of: impl Fn(usize) -> u32,
    samples: impl Fn(usize) -> ChainSamples,
    chains: impl ExactSizeIterator<Item = &'c [u32]>,
    mut take: impl FnMut(&[u32], &[ChainSamples]),
) {
    // What belongs to the same chain, one behind the other.
    let (mut last, mut before) = (vec![u32::MAX; chains.len()], vec![u32::MAX; counted]);
    for at in 0..counted {
        before[at] = std::mem::replace(&mut last[chain_of(at) as usize], at as u32);
    }
    let mut of_chain = Vec::new();
    for (chain, last) in chains.zip(last) {
        of_chain.clear();
        let mut at = last;
        while let Some(&before) = before.get(at as usize) {
            of_chain.push(samples(at as usize));
            at = before;
        }
        take(chain, &of_chain);
    }
}

/// A chain put together, in the form of a recorded one.
#[derive(Default)]
pub struct ChainKey(Vec<u8>);

impl ChainKey {
    pub fn begin(&mut self) {
        self.0.clear();
    }

    pub fn bytes(&self) -> &[u8] {
        &self.0
    }

    fn push(&mut self, word: u64) {
        self.0.extend_from_slice(&word.to_le_bytes());
    }

    /// A chain as the kernel recorded it.
    pub fn recorded(&mut self, chain: &[u8]) {
        self.0.extend_from_slice(chain);
    }

    /// The kernel's part of a recorded chain; gives the first address of the user's part.
    pub fn kernel_part(&mut self, chain: &[u8]) -> Option<u64> {
        self.push(CONTEXT_KERNEL);
        let mut user = None;
        for Address { ip, mode, .. } in addresses(words(chain)) {
            match mode {
                Mode::Kernel => self.push(ip.0),
                Mode::User => user = user.or(Some(ip.0)),
                Mode::Other => {}
            }
        }
        user
    }

    /// A place that was executed itself, and not the return of a call.
    pub fn executed(&mut self, context: u64, ip: u64) {
        self.push(context);
        self.push(ip);
    }

    /// Places of the user's that calls return to, behind one that was executed.
    pub fn returns(&mut self, ips: &[u64]) {
        ips.iter().for_each(|&ip| self.push(ip));
    }
}

/// Where each call was made that had not returned yet, the last one first, of a chain kept by the processor.
pub fn branch_calls(branches: &[u8]) -> impl Iterator<Item = u64> + '_ {
    branches.chunks_exact(24).filter_map(|branch| words(branch).next())
}

/// Whether a recorded chain has addresses of the user's.
pub fn has_user_part(chain: &[u8]) -> bool {
    addresses(words(chain)).any(|address| address.mode == Mode::User)
}
