//! The places that the addresses of recorded chains stand for.

use super::process_maps::AddressSpace;
use crate::intern::{Interner, SPREAD};
use crate::symbols::ObjectId;

/// Marks between addresses: what follows ran in the kernel, in user mode, ...
pub const CONTEXT_FIRST: u64 = (-4095_i64) as u64;
pub const CONTEXT_HV: u64 = (-32_i64) as u64;
pub const CONTEXT_KERNEL: u64 = (-128_i64) as u64;
pub const CONTEXT_USER: u64 = (-512_i64) as u64;

/// Addresses whose places are kept ready.
const ADDRESSES: usize = 2 << 20;
/// The size of their table when it is new, a power of two.
const LEAST_KNOWN: usize = 1 << 12;

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

/// What was mapped where, for a while.
pub struct Spaces {
    pub kernel: AddressSpace,
    pub user: AddressSpace,
    pub core: Option<ObjectId>,
}

/// Addresses, and the places they stand for.
pub struct Addresses {
    /// Each in the form of its key.
    places: Interner<u64>,
    /// The place of each address, by the space it lies in: a table with open addressing.
    known: Vec<Known>,
    count: usize,
}

#[derive(Clone, Copy)]
struct Known {
    ip: u64,
    /// Version of the space, and how an address is looked up there.
    space: u64,
    place: u32,
}

/// No address has this space.
const UNKNOWN: Known = Known { ip: 0, space: u64::MAX, place: 0 };

impl Default for Addresses {
    fn default() -> Self {
        Self { places: Interner::default(), known: vec![UNKNOWN; LEAST_KNOWN], count: 0 }
    }
}

impl Addresses {
    /// All places, in the order of their numbers.
    pub fn places(&self) -> Vec<Place> {
        (0..self.places.len() as u32).map(|id| Place::of_key(self.places.get(id))).collect()
    }

    /// Numbers that are kept of places.
    pub fn size(&self) -> usize {
        self.places.arena_len()
    }

    /// Adds the places of others; gives the number here of each.
    pub fn absorb(&mut self, other: &Self) -> Vec<u32> {
        (0..other.places.len() as u32).map(|id| self.places.intern(other.places.get(id)).0).collect()
    }

    /// The number of the place of an address.
    #[inline]
    pub fn place(&mut self, address: Address, spaces: &Spaces) -> u32 {
        let Address { ip, mode, returns } = address;
        let version = match mode {
            Mode::Kernel => spaces.kernel.version,
            Mode::User => spaces.user.version,
            Mode::Other => 0,
        };
        let space = version << 3 | (mode as u64) << 1 | u64::from(returns);
        let slot = self.slot(ip, space);
        let known = self.known[slot];
        if known.space != UNKNOWN.space {
            return known.place;
        }
        self.learn(address, space, slot, spaces)
    }

    /// Where an address is, or belongs.
    #[inline]
    fn slot(&self, ip: u64, space: u64) -> usize {
        let mask = self.known.len() - 1;
        let mut slot = ((ip ^ space << 48).wrapping_mul(SPREAD) >> 32) as usize & mask;
        loop {
            let known = &self.known[slot];
            if (known.ip, known.space) == (ip, space) || known.space == UNKNOWN.space {
                return slot;
            }
            slot = (slot + 1) & mask;
        }
    }

    #[cold]
    fn learn(&mut self, address: Address, space: u64, slot: usize, spaces: &Spaces) -> u32 {
        let (place, _) = self.places.intern(&of_address(address, spaces).key());
        self.known[slot] = Known { ip: address.ip, space, place };
        self.count += 1;
        if self.count > ADDRESSES {
            (self.known, self.count) = (vec![UNKNOWN; LEAST_KNOWN], 0);
        } else if self.count * 2 > self.known.len() {
            let larger = vec![UNKNOWN; self.known.len() * 2];
            for known in std::mem::replace(&mut self.known, larger) {
                if known.space != UNKNOWN.space {
                    let slot = self.slot(known.ip, known.space);
                    self.known[slot] = known;
                }
            }
        }
        place
    }
}

fn of_address(address: Address, spaces: &Spaces) -> Place {
    let Address { ip, mode, returns } = address;
    // A call that never returns may be the last thing in its function. The kernel's chains hold interrupted places
    // among the calls, so there the address is taken as it is.
    let returns = returns && mode == Mode::User;
    let inside = if returns { ip.wrapping_sub(1) } else { ip };
    let map = match mode {
        Mode::Kernel => spaces.kernel.find(inside),
        Mode::User => spaces.user.find(inside),
        Mode::Other => None,
    };
    match (map, spaces.core) {
        (Some(map), _) => {
            Place { object: map.object, address: inside.wrapping_add(map.file_bias), returns, mapped: true }
        }
        (None, Some(core)) if mode == Mode::Kernel => {
            Place { object: core, address: inside, returns, mapped: false }
        }
        (None, _) => Place { object: ObjectId::NONE, address: inside, returns, mapped: false },
    }
}

/// The addresses between the marks of a recorded chain.
pub fn addresses(chain: impl Iterator<Item = u64>) -> impl Iterator<Item = Address> {
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

#[cfg(test)]
mod tests {
    use super::super::bytes::words;
    use super::*;

    #[test]
    fn marks_tell_modes_and_callers() {
        let chain = [CONTEXT_KERNEL, 1, 2, CONTEXT_USER, 3, 4, CONTEXT_HV, 5];
        let bytes = chain.map(u64::to_le_bytes).concat();
        let seen: Vec<_> = addresses(words(&bytes)).map(|at| (at.ip, at.mode, at.returns)).collect();
        let (kernel, user) = (Mode::Kernel, Mode::User);
        assert_eq!(
            seen,
            [
                (1, kernel, false),
                (2, kernel, true),
                (3, user, false),
                (4, user, true),
                (5, Mode::Other, false)
            ]
        );
    }

    #[test]
    fn places_keep_their_numbers_while_the_table_grows() {
        let spaces = Spaces { kernel: AddressSpace::default(), user: AddressSpace::default(), core: None };
        let mut addresses = Addresses::default();
        let number = |addresses: &mut Addresses, ip, returns| {
            addresses.place(Address { ip, mode: Mode::User, returns }, &spaces)
        };
        let count = 3 * LEAST_KNOWN as u64;
        for round in 0..2 {
            for ip in 0..count {
                assert_eq!(number(&mut addresses, ip, false), 2 * ip as u32, "round {round}");
                assert_eq!(number(&mut addresses, ip, true), 2 * ip as u32 + 1);
            }
        }
        let places = addresses.places();
        assert_eq!(places.len() as u64, 2 * count);
        assert!(places.iter().zip(0..).all(|(place, number)| place.printed() == number / 2));
    }
}
