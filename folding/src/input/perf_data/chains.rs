//! Chains of addresses, counted. Names come later: each different chain is made of places once, and each different
//! place is named once, however many samples there are.

use super::bytes::words;
use super::machine::Space;
use crate::collector::{OpenSample, Samples};
use crate::intern::{IntMap, Interner};
use crate::symbols::ObjectId;

/// Marks between addresses: what follows ran in the kernel, in user mode, ...
const CONTEXT_FIRST: u64 = (-4095_i64) as u64;
pub const CONTEXT_HV: u64 = (-32_i64) as u64;
pub const CONTEXT_KERNEL: u64 = (-128_i64) as u64;
pub const CONTEXT_USER: u64 = (-512_i64) as u64;

/// Numbers kept in each table that is only a cache: when full it starts again.
const CACHE: usize = 4 << 20;
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

/// The chains of some samples, and how much they weigh.
#[derive(Default)]
pub struct Chains {
    /// The chain by what was recorded; a cache.
    recorded: Interner<u64>,
    chain_of: Vec<u32>,
    /// The place of each address, by the space it lies in; a cache.
    addresses: IntMap<(u64, u64), u32>,
    places: Interner<u64>,
    /// The command, the two halves of the slice of time, then the places, leaf first.
    chains: Interner<u32>,
    samples: Vec<Samples>,
    scratch: Vec<u32>,
}

impl Chains {
    /// Counts a sample. `key` holds what makes its chain: command, versions of the spaces, then addresses and marks.
    pub fn count(&mut self, sample: OpenSample, key: &Key, mapped: Mapped) {
        if self.recorded.arena_len() > CACHE {
            self.recorded.clear();
            self.chain_of.clear();
        }
        let (id, new) = self.recorded.intern(&key.0);
        if new {
            let chain = self.chain(&key.0, mapped);
            self.chain_of.push(chain);
        }
        self.add(self.chain_of[id as usize], &sample.into());
    }

    fn add(&mut self, chain: u32, samples: &Samples) {
        match self.samples.get_mut(chain as usize) {
            Some(known) => known.absorb(samples),
            None => self.samples.push(*samples),
        }
    }

    fn chain(&mut self, key: &[u64], mapped: Mapped) -> u32 {
        if self.addresses.len() > CACHE / 2 {
            self.addresses.clear();
        }
        let mut chain = std::mem::take(&mut self.scratch);
        chain.clear();
        chain.extend([key[0] as u32, key[1] as u32, (key[1] >> 32) as u32]);
        chain.extend(addresses(key[Key::HEAD..].iter().copied()).map(|address| self.place(address, mapped)));
        let (id, _) = self.chains.intern(&chain);
        self.scratch = chain;
        id
    }

    fn place(&mut self, address: Address, mapped: Mapped) -> u32 {
        let Address { ip, mode, returns } = address;
        let version = match mode {
            Mode::Kernel => mapped.kernel.version,
            Mode::User => mapped.user.version,
            Mode::Other => 0,
        };
        let place = self.addresses.entry((version << 3 | (mode as u64) << 1 | u64::from(returns), ip));
        *place.or_insert_with(|| {
            // A call that never returns may be the last thing in its function. The kernel's chains hold
            // interrupted places among the calls, so there the address is taken as it is.
            let returns = returns && mode == Mode::User;
            let inside = if returns { ip.wrapping_sub(1) } else { ip };
            let map = match mode {
                Mode::Kernel => mapped.kernel.find(inside),
                Mode::User => mapped.user.find(inside),
                Mode::Other => None,
            };
            let place = match (map, mapped.core) {
                (Some(map), _) => Place {
                    object: map.object,
                    address: inside.wrapping_add(map.shift),
                    returns,
                    mapped: true,
                },
                (None, Some(core)) if mode == Mode::Kernel => {
                    Place { object: core, address: inside, returns, mapped: false }
                }
                (None, _) => Place { object: ObjectId::NONE, address: inside, returns, mapped: false },
            };
            self.places.intern(&place.key()).0
        })
    }

    /// Whether the different chains take so much memory that they should be named now.
    pub fn are_large(&self) -> bool {
        self.chains.arena_len() + self.places.arena_len() > LARGE
    }

    /// Adds chains of other samples of the same recording.
    pub fn absorb(&mut self, other: &Self) {
        if self.samples.is_empty() && self.places.is_empty() {
            self.places = other.places.clone();
            self.chains = other.chains.clone();
            self.samples.clone_from(&other.samples);
            return;
        }
        let place = |id| self.places.intern(other.places.get(id)).0;
        let places: Vec<u32> = (0..other.places.len() as u32).map(place).collect();
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
        (0..self.places.len() as u32).map(|id| Place::of_key(self.places.get(id))).collect()
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

/// What makes the chain of a sample.
#[derive(Default)]
pub struct Key(Vec<u64>);

impl Key {
    const HEAD: usize = 4;

    pub fn begin(&mut self, sample: OpenSample, mapped: Mapped) {
        self.0.clear();
        let slice = sample.slice().map_or(0, |slice| slice.wrapping_add(1));
        self.0.extend([sample.comm().into(), slice, mapped.kernel.version, mapped.user.version]);
    }

    /// A chain as the kernel recorded it.
    pub fn recorded(&mut self, chain: &[u8]) {
        self.0.extend(words(chain));
    }

    /// The kernel's part of a recorded chain; gives the first address of the user's part.
    pub fn kernel_part(&mut self, chain: &[u8]) -> Option<u64> {
        self.0.push(CONTEXT_KERNEL);
        let mut user = None;
        for Address { ip, mode, .. } in addresses(words(chain)) {
            match mode {
                Mode::Kernel => self.0.push(ip),
                Mode::User => user = user.or(Some(ip)),
                Mode::Other => {}
            }
        }
        user
    }

    /// A place that was executed itself, and not the return of a call.
    pub fn executed(&mut self, context: u64, ip: u64) {
        self.0.extend([context, ip]);
    }

    /// Places of the user's that calls return to, behind one that was executed.
    pub fn returns(&mut self, ips: impl Iterator<Item = u64>) {
        self.0.extend(ips);
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
