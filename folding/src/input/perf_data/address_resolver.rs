//! The places that the addresses of recorded chains refer to.

use super::address_space::{AddressSpace, Map};
use crate::addresses::{FileOffset, ProcessAddress};
use crate::intern::{HashKeys, Interner};
use crate::symbols::ObjectId;
use hashbrown::HashTable;
use perfdata::format::{CONTEXT_FIRST, CONTEXT_KERNEL, CONTEXT_USER};

/// Addresses whose places are kept ready.
const ADDRESSES: usize = 2 << 20;

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
    pub ip: ProcessAddress,
    pub mode: Mode,
    /// It is a return address, so the call itself is before it.
    pub returns: bool,
}

/// An address of a chain in its object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ResolvedAddress {
    pub object: ObjectId,
    /// Of the instruction that was executed last.
    pub offset: FileOffset,
    /// The chain held the address after it.
    pub returns: bool,
    /// It lies within what was mapped of the object.
    pub mapped: bool,
}

impl ResolvedAddress {
    fn key(self) -> [u64; 2] {
        let Self { object, offset, returns, mapped } = self;
        [u64::from(object.0) << 2 | u64::from(mapped) << 1 | u64::from(returns), offset.0]
    }

    fn of_key(key: &[u64]) -> Self {
        let &[word, offset] = key else { return Self::of_key(&[0, 0]) };
        let object = ObjectId((word >> 2) as u32);
        Self { object, offset: FileOffset(offset), returns: word & 1 != 0, mapped: word & 2 != 0 }
    }

    /// As perf script prints it.
    pub fn printed(self) -> u64 {
        self.offset.0.wrapping_add(u64::from(self.returns))
    }
}

/// What was mapped where, for a while.
pub struct AddressSpaces {
    pub kernel: AddressSpace,
    pub user: AddressSpace,
    pub core: Option<ObjectId>,
}

/// Addresses, and the places they refer to.
#[derive(Default)]
pub struct AddressResolver {
    /// Each in the form of its key.
    places: Interner<u64>,
    /// The place of each address, by its address space.
    known: HashTable<KnownAddress>,
    /// Of the kernel and of the user the mapping that the last address lay in, and the version of its space: many addresses of a
    /// chain are in one.
    last: [Option<(u64, Map)>; 2],
    keys: HashKeys,
}

#[derive(Clone, Copy)]
struct KnownAddress {
    ip: u64,
    /// Version of the space, and how an address is looked up there.
    space: u64,
    place: u32,
}

impl AddressResolver {
    /// All places, in the order of their numbers.
    pub fn places(&self) -> Vec<ResolvedAddress> {
        self.places.iter().map(ResolvedAddress::of_key).collect()
    }

    /// How many places there are.
    pub fn count(&self) -> usize {
        self.places.len()
    }

    /// Adds the places of others; gives the number here of each.
    pub fn absorb(&mut self, other: &Self) -> Vec<u32> {
        other.places.iter().map(|place| self.places.intern(place).0).collect()
    }

    /// The number of the place of an address.
    #[inline]
    pub fn place(&mut self, address: Address, spaces: &AddressSpaces) -> u32 {
        let Address { ip: ProcessAddress(ip), mode, returns } = address;
        let version = match mode {
            Mode::Kernel => spaces.kernel.version,
            Mode::User => spaces.user.version,
            Mode::Other => 0,
        };
        let space = version << 3 | (mode as u64) << 1 | u64::from(returns);
        let same = |known: &KnownAddress| (known.ip, known.space) == (ip, space);
        match self.known.find(self.keys.pair(ip, space), same) {
            Some(known) => known.place,
            None => self.resolve(address, space, spaces),
        }
    }

    #[cold]
    fn resolve(&mut self, address: Address, space: u64, spaces: &AddressSpaces) -> u32 {
        let resolved = self.of_address(address, spaces);
        let (place, _) = self.places.intern(&resolved.key());
        if self.known.len() >= ADDRESSES {
            self.known = HashTable::new();
        }
        let known = KnownAddress { ip: address.ip.0, space, place };
        let keys = self.keys;
        self.known.insert_unique(keys.pair(known.ip, space), known, |known| keys.pair(known.ip, known.space));
        place
    }

    fn of_address(&mut self, address: Address, spaces: &AddressSpaces) -> ResolvedAddress {
        let Address { ip, mode, returns } = address;
        // A call that never returns may be the last thing in its function. The kernel's chains hold interrupted places
        // among the calls, so there the address is used unchanged.
        let returns = returns && mode == Mode::User;
        let inside = if returns { ProcessAddress(ip.0.wrapping_sub(1)) } else { ip };
        let [of_kernel, of_user] = &mut self.last;
        let map = match mode {
            Mode::Kernel => find(of_kernel, &spaces.kernel, inside),
            Mode::User => find(of_user, &spaces.user, inside),
            Mode::Other => None,
        };
        let (object, offset) = match (map, spaces.core) {
            (Some(map), _) => (map.object, map.offset_of(inside)),
            (None, Some(core)) if mode == Mode::Kernel => (core, inside.without_file()),
            (None, _) => (ObjectId::NONE, inside.without_file()),
        };
        ResolvedAddress { object, offset, returns, mapped: map.is_some() }
    }
}

/// The mapping that an address lies in, which is looked for where it is not the last one.
fn find(last: &mut Option<(u64, Map)>, space: &AddressSpace, address: ProcessAddress) -> Option<Map> {
    let holds =
        |(version, map): &(u64, Map)| *version == space.version && (map.start..map.end).contains(&address);
    if !last.as_ref().is_some_and(holds) {
        *last = Some((space.version, *space.find(address)?));
    }
    last.map(|(_, map)| map)
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
        let address = Address { ip: ProcessAddress(ip), mode, returns };
        returns = true;
        Some(address)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use perfdata::format::CONTEXT_HV;
    use perfdata::reader::bytes::words;

    #[test]
    fn marks_tell_modes_and_callers() {
        let chain = [CONTEXT_KERNEL, 1, 2, CONTEXT_USER, 3, 4, CONTEXT_HV, 5];
        let bytes = chain.map(u64::to_le_bytes).concat();
        let seen: Vec<_> = addresses(words(&bytes)).map(|at| (at.ip.0, at.mode, at.returns)).collect();
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
        let spaces =
            AddressSpaces { kernel: AddressSpace::default(), user: AddressSpace::default(), core: None };
        let mut addresses = AddressResolver::default();
        let number = |addresses: &mut AddressResolver, ip, returns| {
            addresses.place(Address { ip: ProcessAddress(ip), mode: Mode::User, returns }, &spaces)
        };
        let count = 12_345;
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
