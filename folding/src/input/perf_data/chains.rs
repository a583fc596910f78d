//! Call chains of addresses, made into chains of named frames.
//!
//! A chain is looked up whole first, then each of its addresses: symbols are searched for once for each
//! different address, however many samples hold it.

use super::bytes::words;
use super::machine::{Machine, Space};
use crate::collector::{Collector, FrameRef, RawFrame};
use crate::intern::Interner;
use crate::symbols::{ObjectId, Place, Symbols};

/// Marks between addresses: what follows ran in the kernel, in user mode, ...
const CONTEXT_FIRST: u64 = (-4095_i64) as u64;
const CONTEXT_HV: u64 = (-32_i64) as u64;
const CONTEXT_KERNEL: u64 = (-128_i64) as u64;
const CONTEXT_USER: u64 = (-512_i64) as u64;

/// Numbers kept in each table. They are only caches: when full they start again.
const CACHE: usize = 8 << 20;

/// Where an address was executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    Kernel,
    User,
    /// A hypervisor or a guest: nothing known here can name it.
    Other,
}

impl Mode {
    pub fn of_misc(misc: u16) -> Self {
        match misc & 7 {
            1 => Self::Kernel,
            2 => Self::User,
            _ => Self::Other,
        }
    }
}

#[derive(Default)]
struct Cache {
    keys: Interner<u64>,
    spans: Vec<(u32, u32)>,
    frames: Vec<FrameRef>,
}

impl Cache {
    fn get(&self, id: u32) -> &[FrameRef] {
        let (start, end) = self.spans[id as usize];
        &self.frames[start as usize..end as usize]
    }

    /// Ends the entry made last; its frames are those added since.
    fn end(&mut self, start: usize) {
        self.spans.push((start as u32, self.frames.len() as u32));
    }

    fn make_room(&mut self) {
        if self.keys.arena_len() + self.frames.len() > CACHE {
            *self = Self::default();
        }
    }
}

#[derive(Default)]
pub struct Chains {
    whole: Cache,
    addresses: Cache,
    key: Vec<u64>,
    unfolded: Vec<FrameRef>,
    named: Named,
}

/// Frames by object and symbol: thousands of addresses lie in one function.
#[derive(Default)]
struct Named {
    keys: Interner<u8>,
    frames: Vec<FrameRef>,
    key: Vec<u8>,
}

impl Named {
    fn frame(&mut self, object: ObjectId, raw: &RawFrame, collector: &mut Collector) -> FrameRef {
        if raw.symbol.is_empty() {
            // What is said of an address without symbol may depend on the address.
            return collector.frame(raw);
        }
        self.key.clear();
        self.key.extend_from_slice(&object.0.to_le_bytes());
        self.key.push(u8::from(raw.inlined));
        self.key.extend_from_slice(raw.symbol);
        let (id, new) = self.keys.intern(&self.key);
        if new {
            self.frames.push(collector.frame(raw));
        }
        self.frames[id as usize]
    }
}

/// An address of a chain.
#[derive(Clone, Copy, Debug)]
pub struct Address {
    pub ip: u64,
    pub mode: Mode,
    /// It is where a call returns to, so the call itself stands before it.
    pub returns: bool,
}

impl Chains {
    /// The frames of a chain as the kernel recorded it, leaf first.
    pub fn recorded(
        &mut self,
        chain: &[u8],
        space: &Space,
        machine: &Machine,
        symbols: &mut Symbols,
        collector: &mut Collector,
    ) -> &[FrameRef] {
        self.whole.make_room();
        self.key.clear();
        self.key.extend([machine.kernel.version, space.version]);
        self.key.extend(words(chain));
        let (id, new) = self.whole.keys.intern(&self.key);
        if new {
            let start = self.whole.frames.len();
            for address in addresses(chain) {
                let id = self.address(address, space, machine, symbols, collector);
                self.whole.frames.extend_from_slice(self.addresses.get(id));
            }
            self.whole.end(start);
        }
        self.whole.get(id)
    }

    /// The frames of any addresses, leaf first.
    pub fn unfolded(
        &mut self,
        addresses: impl Iterator<Item = Address>,
        space: &Space,
        machine: &Machine,
        symbols: &mut Symbols,
        collector: &mut Collector,
    ) -> &[FrameRef] {
        self.unfolded.clear();
        for address in addresses {
            let id = self.address(address, space, machine, symbols, collector);
            self.unfolded.extend_from_slice(self.addresses.get(id));
        }
        &self.unfolded
    }

    /// The entry of one address: its function, and what was inlined into it there.
    fn address(
        &mut self,
        address: Address,
        space: &Space,
        machine: &Machine,
        symbols: &mut Symbols,
        collector: &mut Collector,
    ) -> u32 {
        self.addresses.make_room();
        let Address { ip, mode, returns } = address;
        let version = match mode {
            Mode::Kernel => machine.kernel.version,
            Mode::User => space.version,
            Mode::Other => 0,
        };
        let (id, new) =
            self.addresses.keys.intern(&[version << 3 | (mode as u64) << 1 | u64::from(returns), ip]);
        if new {
            let start = self.addresses.frames.len();
            // A call that never returns may be the last thing in its function. The kernel's chains hold
            // interrupted places among the calls, so there the address is taken as it is.
            let inside = if returns && mode == Mode::User { ip.wrapping_sub(1) } else { ip };
            let map = match mode {
                Mode::Kernel => machine.kernel.find(inside),
                Mode::User => space.find(inside),
                Mode::Other => None,
            };
            // perf script prints addresses as the object counts them.
            let address = Some(ip.wrapping_add(map.map_or(0, |map| map.shift)));
            let place = match map {
                Some(map) => Some(Place { object: map.object, address: inside.wrapping_add(map.shift) }),
                None if mode == Mode::Kernel => symbols.kernel_place(inside),
                None => None,
            };
            let (frames, named) = (&mut self.addresses.frames, &mut self.named);
            match place {
                Some(place) => symbols.frames(place, |frame| {
                    let frame = RawFrame { address, ..frame };
                    frames.push(named.frame(place.object, &frame, collector));
                }),
                None => frames.push(collector.frame(&RawFrame { address, ..RawFrame::default() })),
            }
            self.addresses.end(start);
        }
        id
    }
}

/// The user side of a chain kept by the processor: where the sample was taken, then the place of each call
/// not yet returned from, the last one first.
pub fn branch_addresses(ip: Option<u64>, branches: &[u8]) -> impl Iterator<Item = Address> + '_ {
    let user = |ip| Address { ip, mode: Mode::User, returns: false };
    let calls = branches.chunks_exact(24).filter_map(|branch| words(branch).next());
    ip.into_iter().chain(calls).map(user)
}

/// How many addresses of a recorded chain are the user's.
pub fn user_depth(chain: &[u8]) -> usize {
    addresses(chain).filter(|address| address.mode == Mode::User).count()
}

/// The addresses between the marks of a recorded chain.
pub fn addresses(chain: &[u8]) -> impl Iterator<Item = Address> + '_ {
    let mut mode = Mode::User;
    let mut returns = false;
    words(chain).filter_map(move |ip| {
        if ip >= CONTEXT_FIRST {
            mode = match ip {
                CONTEXT_KERNEL => Mode::Kernel,
                CONTEXT_USER => Mode::User,
                CONTEXT_HV => Mode::Other,
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
