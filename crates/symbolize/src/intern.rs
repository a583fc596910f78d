//! Sequences stored once and named by a small number.
//!
//! One structure serves three keys: frame names (bytes), raw frame lines (bytes) and call chains (frame
//! numbers). The items lie in one arena; the table holds hashes and numbers only, so growing it moves
//! 8 bytes an entry.

use hashbrown::HashTable;
use std::collections::HashMap;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::LazyLock;

/// What an [`Interner`] can hold.
pub trait Item: Copy + Eq {
    fn hash(items: &[Self], keys: HashKeys) -> u64;
}

/// A number is spread over all bits by this factor: 2^64 by the golden ratio (Knuth).
pub const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;

/// What hashes begin with: other numbers in each process, so that the author of an input cannot work out what collides.
/// Nothing that is written may depend on them.
#[derive(Clone, Copy)]
pub struct HashKeys(u64, u64, u64);

impl Default for HashKeys {
    fn default() -> Self {
        static KEYS: LazyLock<HashKeys> = LazyLock::new(|| HashKeys(random(), random(), random()));
        *KEYS
    }
}

impl HashKeys {
    /// Of two numbers.
    #[inline]
    pub fn pair(self, a: u64, b: u64) -> u64 {
        mix(a ^ self.0, b ^ self.1)
    }
}

/// A number that nobody can know beforehand.
pub fn random() -> u64 {
    RandomState::new().hash_one(SPREAD)
}

#[inline]
fn mix(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    (product as u64) ^ ((product >> 64) as u64)
}

fn word(bytes: &[u8]) -> u64 {
    let mut word = [0; 8];
    word[..bytes.len()].copy_from_slice(bytes);
    u64::from_le_bytes(word)
}

impl Item for u8 {
    /// Two lanes of 16 bytes, so that the multiplications of a long line overlap.
    fn hash(items: &[u8], HashKeys(k0, k1, k2): HashKeys) -> u64 {
        let (mut a, mut b) = (k0 ^ items.len() as u64, k1);
        let mut blocks = items.chunks_exact(32);
        for block in &mut blocks {
            a = mix(a ^ word(&block[..8]), k1 ^ word(&block[8..16]));
            b = mix(b ^ word(&block[16..24]), k2 ^ word(&block[24..32]));
        }
        let rest = blocks.remainder();
        if rest.len() >= 16 {
            a = mix(a ^ word(&rest[..8]), k2 ^ word(&rest[8..16]));
            b = tail(b, &rest[16..], k1);
        } else {
            b = tail(b, rest, k1);
        }
        mix(a ^ k2, b ^ k0)
    }
}

fn tail(b: u64, rest: &[u8], k1: u64) -> u64 {
    if rest.len() >= 8 { mix(b ^ word(&rest[..8]), k1 ^ word(&rest[8..])) } else { mix(b ^ word(rest), k1) }
}

impl Item for u32 {
    fn hash(items: &[u32], HashKeys(k0, k1, k2): HashKeys) -> u64 {
        let mut a = k0 ^ items.len() as u64;
        let mut quads = items.chunks_exact(4);
        for quad in &mut quads {
            let low = u64::from(quad[0]) | u64::from(quad[1]) << 32;
            let high = u64::from(quad[2]) | u64::from(quad[3]) << 32;
            a = mix(a ^ low, k1 ^ high);
        }
        for &item in quads.remainder() {
            a = mix(a ^ u64::from(item), k2);
        }
        mix(a, k0)
    }
}

impl Item for u64 {
    fn hash(items: &[u64], HashKeys(k0, k1, k2): HashKeys) -> u64 {
        let (mut a, mut b) = (k0 ^ items.len() as u64, k1);
        let mut quads = items.chunks_exact(4);
        for quad in &mut quads {
            a = mix(a ^ quad[0], k1 ^ quad[1]);
            b = mix(b ^ quad[2], k2 ^ quad[3]);
        }
        for &item in quads.remainder() {
            a = mix(a ^ item, k2);
        }
        mix(a ^ k2, b ^ k0)
    }
}

/// A map by numbers: processes, threads, versions.
pub type IntMap<K, V> = HashMap<K, V, HashKeys>;

pub struct IntHasher {
    hash: u64,
    factor: u64,
}

impl BuildHasher for HashKeys {
    type Hasher = IntHasher;

    fn build_hasher(&self) -> IntHasher {
        IntHasher { hash: self.0, factor: self.1 }
    }
}

impl Hasher for IntHasher {
    fn finish(&self) -> u64 {
        self.hash
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.chunks(8).for_each(|bytes| self.write_u64(word(bytes)));
    }

    fn write_i32(&mut self, number: i32) {
        self.write_u64(number as u64);
    }

    fn write_u64(&mut self, number: u64) {
        self.hash = mix(self.hash ^ number ^ SPREAD, self.factor);
    }
}

#[derive(Clone, Copy)]
struct Span {
    start: usize,
    len: u32,
}

/// A sequence in the table: what is kept of its hash excludes nearly all others.
#[derive(Clone, Copy)]
struct Slot {
    tag: u32,
    id: u32,
}

fn tag(hash: u64) -> u32 {
    (hash ^ hash >> 32) as u32
}

/// The table takes its place from the low bits, and what it compares first from the high ones.
fn table_hash(tag: u32) -> u64 {
    u64::from(tag) << 32 | u64::from(tag)
}

/// An insert-only set of sequences, numbered from 0 in order of first sight.
#[derive(Clone)]
pub struct Interner<T> {
    arena: Vec<T>,
    spans: Vec<Span>,
    table: HashTable<Slot>,
    keys: HashKeys,
}

impl<T> Default for Interner<T> {
    fn default() -> Self {
        Self { arena: Vec::new(), spans: Vec::new(), table: HashTable::new(), keys: HashKeys::default() }
    }
}

impl<T: Item> Interner<T> {
    pub fn len(&self) -> usize {
        self.spans.len()
    }

    pub fn is_empty(&self) -> bool {
        self.spans.is_empty()
    }

    /// Makes room for this many sequences more, which have so many items together.
    pub fn reserve(&mut self, sequences: usize, items: usize) {
        self.arena.reserve(items);
        self.spans.reserve(sequences);
        self.table.reserve(sequences, |slot| table_hash(slot.tag));
    }

    /// Items in the arena: what bounds a cache built on this.
    pub fn arena_len(&self) -> usize {
        self.arena.len()
    }

    pub fn get(&self, id: u32) -> &[T] {
        let span = self.spans[id as usize];
        &self.arena[span.start..span.start + span.len as usize]
    }

    /// The number of `items`, and whether this call gave it.
    pub fn intern(&mut self, items: &[T]) -> (u32, bool) {
        let tag = tag(T::hash(items, self.keys));
        if let Some(id) = self.find_by(tag, items) {
            return (id, false);
        }
        let id = self.spans.len() as u32;
        self.spans.push(Span { start: self.arena.len(), len: items.len() as u32 });
        self.arena.extend_from_slice(items);
        self.table.insert_unique(table_hash(tag), Slot { tag, id }, |slot| table_hash(slot.tag));
        (id, true)
    }

    /// The number of `items`, if they were seen.
    pub fn find(&self, items: &[T]) -> Option<u32> {
        self.find_by(tag(T::hash(items, self.keys)), items)
    }

    fn find_by(&self, tag: u32, items: &[T]) -> Option<u32> {
        let is = |slot: &Slot| slot.tag == tag && self.get(slot.id) == items;
        self.table.find(table_hash(tag), is).map(|slot| slot.id)
    }

    /// Every sequence, in the order of their numbers.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &[T]> {
        self.spans.iter().map(|span| &self.arena[span.start..span.start + span.len as usize])
    }

    /// Forgets everything, and gives the memory back.
    pub fn clear(&mut self) {
        *self = Self::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn same_items_keep_their_number_through_growth() {
        let mut set = Interner::<u8>::default();
        let names: Vec<String> = (0..5000).map(|n| format!("frame number {n}").repeat(n % 4 + 1)).collect();
        for (n, name) in names.iter().enumerate() {
            assert_eq!(set.intern(name.as_bytes()), (n as u32, true));
        }
        for (n, name) in names.iter().enumerate() {
            assert_eq!(set.intern(name.as_bytes()), (n as u32, false));
            assert_eq!(set.get(n as u32), name.as_bytes());
        }
        assert_eq!(set.find(b"never seen"), None);
    }

    #[test]
    fn room_made_before_changes_nothing() {
        let mut set = Interner::<u32>::default();
        set.reserve(1000, 3000);
        for n in 0..2000 {
            assert_eq!(set.intern(&[n, n, n]), (n, true));
            if n == 1500 {
                set.reserve(10, 30);
            }
        }
        for n in 0..2000 {
            assert_eq!(set.find(&[n, n, n]), Some(n));
        }
    }

    #[test]
    fn a_prefix_is_another_item() {
        let mut set = Interner::<u8>::default();
        let long = [0_u8; 70];
        for len in 0..70 {
            assert_eq!(set.intern(&long[..len]), (len as u32, true));
        }
        let mut chains = Interner::<u32>::default();
        for len in 0..9 {
            assert_eq!(chains.intern(&[0_u32; 9][..len]), (len as u32, true));
        }
    }

    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    struct Colliding(u8);

    impl Item for Colliding {
        fn hash(_: &[Self], _: HashKeys) -> u64 {
            7
        }
    }

    #[test]
    fn equal_hashes_do_not_make_equal_items() {
        let mut set = Interner::default();
        for n in 0..100 {
            assert_eq!(set.intern(&[Colliding(n)]), (u32::from(n), true));
        }
        assert_eq!(set.find(&[Colliding(41)]), Some(41));
        assert_eq!(set.find(&[Colliding(100)]), None);
    }
}
