//! Chains of addresses, counted. Names come later: each different chain is made of places once, and each different
//! place is named once, however many samples there are.
//!
//! Chains are counted as they were recorded, byte for byte, together with those of the same context. When all are
//! counted, or when they take much memory, they are settled: addresses become places.

use super::bytes::words;
use super::machine::Space;
use crate::collector::Samples;
use crate::intern::{IntMap, Interner};
use crate::symbols::ObjectId;
use std::collections::HashMap;

/// Marks between addresses: what follows ran in the kernel, in user mode, ...
const CONTEXT_FIRST: u64 = (-4095_i64) as u64;
pub const CONTEXT_HV: u64 = (-32_i64) as u64;
pub const CONTEXT_KERNEL: u64 = (-128_i64) as u64;
pub const CONTEXT_USER: u64 = (-512_i64) as u64;

/// Bytes of recorded chains that are kept before they are settled.
const RECORDED: usize = 32 << 20;
/// Addresses whose places are kept ready.
const ADDRESSES: usize = 2 << 20;
/// The last addresses looked up, as a power of two: most are the callers of many.
const LAST_LOG2: u32 = 11;
/// Contexts that are kept; a machine that starts thousands of processes has new ones all the time.
const CONTEXTS: usize = 1 << 16;
/// Numbers of different chains after which they should be named and forgotten.
const LARGE: usize = 16 << 20;

/// What stands before the places of a chain.
const HEAD: usize = 3;

/// Where an address was executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    Kernel,
    User,
    /// A hypervisor or a guest: nothing known here can name it.
    Other,
}

/// An address of a chain.
#[derive(Clone, Copy, Debug)]
pub struct Address {
    pub ip: u64,
    pub mode: Mode,
    /// It is where a call returns to, so the call itself stands before it.
    pub returns: bool,
}

/// An address as its object counts it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    pub object: ObjectId,
    /// Of the instruction that was executed last.
    pub address: u64,
    /// The chain held the address after it.
    pub returns: bool,
    /// It lies within what was mapped of the object.
    pub mapped: bool,
}

impl Place {
    fn key(self) -> [u64; 2] {
        let Self { object, address, returns, mapped } = self;
        [u64::from(object.0) << 2 | u64::from(mapped) << 1 | u64::from(returns), address]
    }

    fn of_key(key: &[u64]) -> Self {
        let &[word, address] = key else { return Self::of_key(&[0, 0]) };
        let object = ObjectId((word >> 2) as u32);
        Self { object, address, returns: word & 1 != 0, mapped: word & 2 != 0 }
    }

    /// As perf script prints it.
    pub fn printed(self) -> u64 {
        self.address.wrapping_add(u64::from(self.returns))
    }
}

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

/// What the samples of one recorded chain weigh together.
#[derive(Clone, Copy)]
struct Tally {
    weight: u128,
    count: u64,
    largest: u64,
    /// The shortest and the longest period; the other way round if there was none.
    periods: (u64, u64),
}

impl Tally {
    const NOTHING: Self = Self { weight: 0, count: 0, largest: 0, periods: (u64::MAX, 0) };

    fn add(&mut self, sample: Weighed) {
        self.weight = self.weight.saturating_add(sample.weight.into());
        self.count += 1;
        self.largest = self.largest.max(sample.weight);
        if let Some(period) = sample.period {
            self.periods = (self.periods.0.min(period), self.periods.1.max(period));
        }
    }

    fn samples(&self, comm: u32, slice: Option<u64>) -> Samples {
        let Self { weight, count, largest, periods } = *self;
        let periods = (periods.0 <= periods.1).then_some(periods);
        Samples { comm, slice, weight, count, largest, periods }
    }
}

/// Where samples were taken that weigh together if their chains are the same.
struct Context {
    comm: u32,
    slice: Option<u64>,
    kernel: Space,
    user: Space,
    core: Option<ObjectId>,
}

/// The chains of some samples, and how much they weigh.
#[derive(Default)]
pub struct Chains {
    contexts: Vec<Context>,
    /// By command, slice of time, and versions of the spaces.
    known: HashMap<(u32, Option<u64>, u64, u64), u32>,
    /// Chains as they were recorded, by their contexts: addresses and marks, 8 bytes each.
    recorded: Interner<u8>,
    tallies: Vec<Tally>,
    addresses: Addresses,
    /// Settled: the command, the two halves of the slice of time, then the places, leaf first.
    chains: Interner<u32>,
    samples: Vec<Samples>,
    scratch: Vec<u32>,
}

impl Chains {
    /// The number of a context; and whether all numbers given before are void.
    pub fn context(&mut self, comm: u32, slice: Option<u64>, mapped: Mapped) -> (u32, bool) {
        let anew = self.contexts.len() >= CONTEXTS;
        if anew {
            self.settle();
            self.contexts.clear();
            self.known.clear();
        }
        let Mapped { kernel, user, core } = mapped;
        let contexts = &mut self.contexts;
        let make = || {
            contexts.push(Context { comm, slice, kernel: kernel.clone(), user: user.clone(), core });
            contexts.len() as u32 - 1
        };
        (*self.known.entry((comm, slice, kernel.version, user.version)).or_insert_with(make), anew)
    }

    /// Command and slice of time of a context.
    pub fn of_context(&self, context: u32) -> Option<(u32, Option<u64>)> {
        self.contexts.get(context as usize).map(|context| (context.comm, context.slice))
    }

    /// Counts a sample.
    pub fn count(&mut self, context: u32, chain: &[u8], sample: Weighed) {
        let (id, new) = self.recorded.intern_in(context, chain);
        if new {
            self.tallies.push(Tally::NOTHING);
        }
        if let Some(tally) = self.tallies.get_mut(id as usize) {
            tally.add(sample);
        }
        if new && self.recorded.arena_len() > RECORDED {
            self.settle();
        }
    }

    /// Makes places of the addresses.
    pub fn settle(&mut self) {
        let (recorded, tallies) = (std::mem::take(&mut self.recorded), std::mem::take(&mut self.tallies));
        let mut chain = std::mem::take(&mut self.scratch);
        for (id, tally) in tallies.iter().enumerate() {
            let id = id as u32;
            let Some(context) = self.contexts.get(recorded.group(id) as usize) else { continue };
            let &Context { comm, slice, .. } = context;
            let slice_number = slice.map_or(0, |slice| slice.wrapping_add(1));
            chain.clear();
            chain.extend([comm, slice_number as u32, (slice_number >> 32) as u32]);
            let places = &mut self.addresses;
            chain.extend(addresses(words(recorded.get(id))).map(|address| places.place(address, context)));
            let settled = self.chains.intern(&chain).0;
            self.add(settled, &tally.samples(comm, slice));
        }
        self.scratch = chain;
    }

    fn add(&mut self, chain: u32, samples: &Samples) {
        match self.samples.get_mut(chain as usize) {
            Some(known) => known.absorb(samples),
            None => self.samples.push(*samples),
        }
    }

    /// Whether the different chains take so much memory that they should be named now.
    pub fn are_large(&self) -> bool {
        self.chains.arena_len() + self.addresses.places.arena_len() > LARGE
    }

    /// Adds chains of other samples of the same recording. Both are settled.
    pub fn absorb(&mut self, other: Self) {
        if self.samples.is_empty() {
            *self = other;
            return;
        }
        let (mine, theirs) = (&mut self.addresses.places, &other.addresses.places);
        let places: Vec<u32> = (0..theirs.len() as u32).map(|id| mine.intern(theirs.get(id)).0).collect();
        for (id, samples) in other.samples.iter().enumerate() {
            let theirs = other.chains.get(id as u32);
            self.scratch.clear();
            self.scratch.extend(theirs.iter().take(HEAD));
            self.scratch.extend(theirs.iter().skip(HEAD).map(|&id| places[id as usize]));
            let (chain, _) = self.chains.intern(&self.scratch);
            self.add(chain, samples);
        }
    }

    pub fn places(&self) -> Vec<Place> {
        let places = &self.addresses.places;
        (0..places.len() as u32).map(|id| Place::of_key(places.get(id))).collect()
    }

    /// How many different chains there are, and how many numbers they have together.
    pub fn size(&self) -> (usize, usize) {
        (self.chains.len(), self.chains.arena_len())
    }

    /// Each different chain: its samples, and the numbers of its places, leaf first.
    pub fn counted(&self) -> impl Iterator<Item = (&Samples, &[u32])> {
        self.samples
            .iter()
            .enumerate()
            .map(|(id, samples)| (samples, self.chains.get(id as u32).get(HEAD..).unwrap_or(&[])))
    }
}

/// The places of addresses.
struct Addresses {
    places: Interner<u64>,
    /// The place of each address, by the space it lies in.
    known: IntMap<(u64, u64), u32>,
    /// Space, address and place of those looked up last.
    last: Vec<(u64, u64, u32)>,
}

impl Default for Addresses {
    fn default() -> Self {
        // No address has this space.
        let last = vec![(u64::MAX, 0, 0); 1 << LAST_LOG2];
        Self { places: Interner::default(), known: IntMap::default(), last }
    }
}

impl Addresses {
    fn place(&mut self, address: Address, context: &Context) -> u32 {
        const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;
        let Address { ip, mode, returns } = address;
        let version = match mode {
            Mode::Kernel => context.kernel.version,
            Mode::User => context.user.version,
            Mode::Other => 0,
        };
        let space = version << 3 | (mode as u64) << 1 | u64::from(returns);
        let slot = ((ip ^ space << 48).wrapping_mul(SPREAD) >> (64 - LAST_LOG2)) as usize;
        if let (known_space, known_ip, place) = self.last[slot]
            && known_space == space
            && known_ip == ip
        {
            return place;
        }
        if self.known.len() > ADDRESSES {
            self.known.clear();
        }
        let places = &mut self.places;
        let find = || places.intern(&of_address(address, context).key()).0;
        let place = *self.known.entry((space, ip)).or_insert_with(find);
        self.last[slot] = (space, ip, place);
        place
    }
}

fn of_address(address: Address, context: &Context) -> Place {
    let Address { ip, mode, returns } = address;
    // A call that never returns may be the last thing in its function. The kernel's chains hold interrupted places
    // among the calls, so there the address is taken as it is.
    let returns = returns && mode == Mode::User;
    let inside = if returns { ip.wrapping_sub(1) } else { ip };
    let map = match mode {
        Mode::Kernel => context.kernel.find(inside),
        Mode::User => context.user.find(inside),
        Mode::Other => None,
    };
    match (map, context.core) {
        (Some(map), _) => {
            Place { object: map.object, address: inside.wrapping_add(map.shift), returns, mapped: true }
        }
        (None, Some(core)) if mode == Mode::Kernel => {
            Place { object: core, address: inside, returns, mapped: false }
        }
        (None, _) => Place { object: ObjectId::NONE, address: inside, returns, mapped: false },
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

/// The addresses between the marks of a recorded chain.
fn addresses(chain: impl Iterator<Item = u64>) -> impl Iterator<Item = Address> {
    let mut mode = Mode::User;
    let mut returns = false;
    chain.filter_map(move |ip| {
        if ip >= CONTEXT_FIRST {
            mode = match ip {
                CONTEXT_KERNEL => Mode::Kernel,
                CONTEXT_USER => Mode::User,
                _ => Mode::Other,
            };
            returns = false;
            return None;
        }
        let address = Address { ip, mode, returns };
        returns = true;
        Some(address)
    })
}
