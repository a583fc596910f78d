//! Chains of addresses, counted. Names come later: each different chain is made of places once, and each different
//! place is named once, however many samples there are.
//!
//! Chains are counted as they were recorded, together with those of the same context. When they take much memory they are
//! settled: what is the same chain in several contexts is kept once.

use super::bytes::words;
use super::machine::Space;
use super::places::{Address, Addresses, CONTEXT_KERNEL, Mode, Place, Spaces, addresses};
use super::recorded::{Recorded, Tally};
use crate::collector::Samples;
use crate::intern::Interner;
use crate::located::Counted;
use crate::profile;
use crate::runs::Runs;
use crate::stats::CutCopies;
use crate::symbols::ObjectId;
use std::collections::HashMap;

/// Bytes of chains that are kept before they are settled.
const RECORDED: usize = 32 << 20;
/// Contexts that are kept; a machine that starts thousands of processes has new ones all the time.
const CONTEXTS: usize = 1 << 16;
/// Numbers of different chains after which they should be named and forgotten.
const LARGE: usize = 16 << 20;

/// What was mapped when a sample was taken.
#[derive(Clone, Copy)]
pub struct Mapped<'a> {
    pub kernel: &'a Space,
    pub user: &'a Space,
    /// The kernel itself, for its addresses outside of what was mapped.
    pub core: Option<ObjectId>,
}

/// What a sample weighs.
#[derive(Clone, Copy, Debug)]
pub struct Weighed {
    pub weight: u64,
    pub period: Option<u64>,
}

/// Where samples were taken that weigh together if their chains are the same.
#[derive(Clone, Copy)]
struct Context {
    comm: u32,
    slice: Option<u64>,
    /// The number of its spaces.
    spaces: u32,
}

/// The chains of some samples, and how much they weigh.
#[derive(Default)]
pub struct Chains {
    pub cut: CutCopies,
    spaces: Vec<Spaces>,
    /// By the versions of the kernel's and the user's.
    known_spaces: HashMap<(u64, u64), u32>,
    contexts: Vec<Context>,
    known: HashMap<(u32, Option<u64>, u32), u32>,
    addresses: Addresses,
    recorded: Recorded,
    settled: Settled,
}

/// Chains that are the same wherever and whenever they were recorded.
#[derive(Default)]
struct Settled {
    /// The numbers of their places, leaf first.
    chains: Interner<u32>,
    /// Chain, command and the two halves of the slice of time; and what was counted there.
    counted: Interner<u32>,
    samples: Vec<Samples>,
}

impl Settled {
    fn add(&mut self, chain: u32, samples: &Samples) {
        let slice = samples.slice.map_or(0, |slice| slice.wrapping_add(1));
        let key = [chain, samples.comm, slice as u32, (slice >> 32) as u32];
        match self.samples.get_mut(self.counted.intern(&key).0 as usize) {
            Some(known) => known.absorb(samples),
            None => self.samples.push(*samples),
        }
    }

    /// The number of a chain that something was counted of.
    fn chain_of(&self, counted: usize) -> u32 {
        self.counted.get(counted as u32)[0]
    }
}

impl Chains {
    /// The number of a context; and whether all numbers given before are void.
    pub fn context(&mut self, comm: u32, slice: Option<u64>, mapped: Mapped) -> (u32, bool) {
        let anew = self.contexts.len() >= CONTEXTS;
        if anew {
            self.settle();
            self.contexts.clear();
            self.known.clear();
            self.spaces.clear();
            self.known_spaces.clear();
        }
        let Mapped { kernel, user, core } = mapped;
        let (all, contexts) = (&mut self.spaces, &mut self.contexts);
        let spaces = *self.known_spaces.entry((kernel.version, user.version)).or_insert_with(|| {
            all.push(Spaces { kernel: kernel.clone(), user: user.clone(), core });
            all.len() as u32 - 1
        });
        let context = *self.known.entry((comm, slice, spaces)).or_insert_with(|| {
            contexts.push(Context { comm, slice, spaces });
            contexts.len() as u32 - 1
        });
        (context, anew)
    }

    /// Command and slice of time of a context.
    pub fn of_context(&self, context: u32) -> Option<(u32, Option<u64>)> {
        self.contexts.get(context as usize).map(|context| (context.comm, context.slice))
    }

    /// Counts a sample.
    pub fn count(&mut self, context: u32, chain: &[u8], sample: Weighed) {
        let Some(&Context { spaces, .. }) = self.contexts.get(context as usize) else { return };
        if self.recorded.take(context, spaces, chain, sample) {
            self.count_waiting();
            if self.recorded.size() > RECORDED {
                self.settle();
            }
        }
    }

    /// Counts the last samples, for which it was not worth while yet.
    pub fn count_waiting(&mut self) {
        let (places, all) = (&mut self.addresses, &self.spaces);
        self.recorded.count(|spaces, chain, found| {
            let spaces = &all[spaces as usize];
            found.extend(addresses(words(chain)).map(|address| places.place(address, spaces)));
        });
    }

    /// Puts together what was recorded in different spaces, or for the same command under different numbers.
    fn settle(&mut self) {
        self.count_waiting();
        let recorded = std::mem::take(&mut self.recorded);
        let settled = &mut self.settled;
        let chains: Vec<u32> = recorded.chains.iter().map(|chain| settled.chains.intern(chain).0).collect();
        for (chain, context, tally) in recorded.counted() {
            let Context { comm, slice, .. } = self.contexts[context as usize];
            settled.add(chains[chain as usize], &tally.samples(comm, slice));
        }
    }

    /// Whether the different chains take so much memory that they should be named now.
    pub fn are_large(&self) -> bool {
        let numbers = self.settled.chains.arena_len() + self.settled.counted.arena_len();
        numbers + self.addresses.size() > LARGE
    }

    /// Adds chains of other samples of the same recording.
    pub fn absorb(&mut self, mut other: Self) {
        self.cut.absorb(other.cut);
        self.settle();
        other.settle();
        let places = self.addresses.absorb(&other.addresses);
        let mut chain = Vec::new();
        let theirs = &other.settled;
        let chains: Vec<u32> = (0..theirs.chains.len() as u32)
            .map(|id| {
                chain.clear();
                chain.extend(theirs.chains.get(id).iter().map(|&id| places[id as usize]));
                self.settled.chains.intern(&chain).0
            })
            .collect();
        for (counted, samples) in theirs.samples.iter().enumerate() {
            self.settled.add(chains[theirs.chain_of(counted) as usize], samples);
        }
    }

    pub fn places(&self) -> Vec<Place> {
        self.addresses.places()
    }

    /// How many chains there are, and how many places they have together.
    pub fn size(&self) -> (usize, usize) {
        let (recorded, settled) = (&self.recorded.chains, &self.settled.chains);
        (recorded.len() + settled.len(), recorded.items().len() + settled.arena_len())
    }

    /// Hands over the different chains: the numbers of the places of each, leaf first, and its samples by command and
    /// slice of time.
    pub fn each(&mut self, take: impl FnMut(&[u32], &[Samples])) {
        if self.settled.samples.is_empty() {
            let recorded = &self.recorded;
            let counted: Vec<_> = recorded.counted().collect();
            let samples = |at: usize| self.samples_of(counted[at]);
            let chain_of = |at: usize| counted[at].0;
            return by_chain(counted.len(), chain_of, samples, recorded.chains.iter(), take);
        }
        self.settle();
        let Settled { chains, samples, .. } = &self.settled;
        let chain_of = |at| self.settled.chain_of(at);
        by_chain(samples.len(), chain_of, |at| samples[at], chains.iter(), take);
    }

    fn samples_of(&self, (_, context, tally): (u32, u32, &Tally)) -> Samples {
        let Context { comm, slice, .. } = self.contexts[context as usize];
        tally.samples(comm, slice)
    }

    /// The same at once: the places of each chain, and what was counted of the chain of a number.
    pub fn into_parts(mut self) -> (Runs<u32>, Vec<Counted>) {
        let counted = |chain, &Samples { comm, weight, count: samples, .. }: &Samples| {
            (chain, comm, profile::Tally { weight, samples })
        };
        if self.settled.samples.is_empty() {
            let all = self.recorded.counted().map(|one| counted(one.0, &self.samples_of(one))).collect();
            return (self.recorded.chains, all);
        }
        self.settle();
        let mut chains = Runs::default();
        self.settled.chains.iter().for_each(|chain| chains.add(|places| places.extend_from_slice(chain)));
        let all = self
            .settled
            .samples
            .iter()
            .enumerate()
            .map(|(at, samples)| counted(self.settled.chain_of(at), samples));
        (chains, all.collect())
    }
}

/// Hands over chains, each with its samples.
fn by_chain<'c>(
    counted: usize,
    chain_of: impl Fn(usize) -> u32,
    samples: impl Fn(usize) -> Samples,
    chains: impl ExactSizeIterator<Item = &'c [u32]>,
    mut take: impl FnMut(&[u32], &[Samples]),
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
pub struct Key(Vec<u8>);

impl Key {
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
                Mode::Kernel => self.push(ip),
                Mode::User => user = user.or(Some(ip)),
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

#[cfg(test)]
mod tests {
    use super::*;

    /// More than is kept before it is settled, of which half comes again in other spaces.
    #[test]
    fn chains_of_any_number_are_counted() {
        const DEEP: u64 = 200;
        let count = (RECORDED as u64 / (4 * DEEP)) * 3 / 2;
        let (kernel, user) = (Space::default(), Space::default());
        let mut other = user.clone();
        other.version = 7;
        let mut chains = Chains::default();
        for (user, every) in [(&user, 1), (&other, 2)] {
            let (context, _) = chains.context(1, None, Mapped { kernel: &kernel, user, core: None });
            for n in (0..count).step_by(every) {
                let chain: Vec<u8> = (0..DEEP).flat_map(|at| (n % (at + 900)).to_le_bytes()).collect();
                chains.count(context, &chain, Weighed { weight: n, period: Some(n) });
            }
        }
        chains.count_waiting();
        let (mut weight, mut samples, mut different) = (0, 0, 0);
        chains.each(|chain, of_chain| {
            assert_eq!(chain.len() as u64, DEEP);
            assert_eq!(of_chain.len(), 1);
            weight += of_chain[0].weight;
            samples += of_chain[0].count;
            different += 1;
        });
        let sum = |step| (0..u128::from(count)).step_by(step).sum::<u128>();
        assert_eq!((weight, samples), (sum(1) + sum(2), count + count.div_ceil(2)));
        assert_eq!(different, count);
        let (chains, counted) = chains.into_parts();
        assert_eq!(
            (chains.items().len(), chains.len(), counted.len()),
            ((count * DEEP) as usize, count as usize, count as usize)
        );
    }
}
