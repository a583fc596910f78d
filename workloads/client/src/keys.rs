//! Keys as db_bench writes them, and orders of them.

use observer::Failure;

/// Longest key; a key is built in a buffer of this size.
pub const LONGEST: usize = 256;
const NUMBER: usize = 8;

/// A key: its number in 8 bytes, the most significant first, then `0` up to its size.
#[derive(Clone, Copy)]
pub struct Key {
    bytes: [u8; LONGEST],
    size: usize,
}

impl Key {
    /// Usage error below 8 bytes, where two numbers would be one key, and above `LONGEST`.
    pub fn of_size(size: usize) -> Result<Self, Failure> {
        if !(NUMBER..=LONGEST).contains(&size) {
            return Err(Failure::usage(format!("--key_size={size} is not within {NUMBER} to {LONGEST}"))
                .meaning("nothing was started"));
        }
        Ok(Self { bytes: [b'0'; LONGEST], size })
    }

    /// A key that no database of keys of this size has, between two of them. Usage error for the longest.
    pub fn missing(self) -> Result<Self, Failure> {
        Self::of_size(self.size + 1)
    }

    pub fn set(&mut self, number: u64) {
        self.bytes[..NUMBER].copy_from_slice(&number.to_be_bytes());
    }

    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..self.size]
    }
}

/// An order of the keys `0..keys`.
#[derive(Clone, Debug)]
pub enum Order {
    Ascending,
    Descending,
    Shuffled(Permutation),
    /// Ascending streams, each within a range of its own; one key of each in turn.
    Interleaved(u64),
    /// The same streams one after the other, that of the largest keys first.
    OneAfterAnother(u64),
}

impl Order {
    pub const NAMES: [&str; 5] = ["ascending", "descending", "shuffled", "interleaved", "one_after_another"];

    /// The order at `name` of `NAMES`. Usage error where the streams are more than the keys.
    pub fn named(name: usize, streams: u64, keys: u64, seed: u64) -> Result<Self, Failure> {
        if streams == 0 || streams > keys {
            return Err(Failure::usage(format!("--streams={streams} is not within 1 to --num={keys}"))
                .meaning("nothing was started"));
        }
        Ok(match name {
            0 => Self::Ascending,
            1 => Self::Descending,
            2 => Self::Shuffled(Permutation::new(keys, seed)),
            3 => Self::Interleaved(streams),
            _ => Self::OneAfterAnother(streams),
        })
    }

    /// The number of the key at a position below `keys`.
    pub fn at(&self, position: u64, keys: u64) -> u64 {
        match self {
            Self::Ascending => position,
            Self::Descending => keys - 1 - position,
            Self::Shuffled(permutation) => permutation.at(position),
            Self::Interleaved(streams) => {
                // The first `keys % streams` streams are longer by one key; those come in a last, shorter round.
                let (stream, round) = (position % streams, position / streams);
                stream * (keys / streams) + stream.min(keys % streams) + round
            }
            Self::OneAfterAnother(streams) => {
                // From the end: first the streams of `size` keys, then those of one more.
                let size = keys / streams;
                let short = (streams - keys % streams) * size;
                let (end, position, size) = if position < short {
                    (keys, position, size)
                } else {
                    (keys - short, position - short, size + 1)
                };
                end - (position / size + 1) * size + position % size
            }
        }
    }
}

/// A bijection of `0..size`: four rounds of a Feistel network, walked until it is back within the range.
#[derive(Clone, Debug)]
pub struct Permutation {
    size: u64,
    half: u32,
    seed: u64,
}

impl Permutation {
    pub fn new(size: u64, seed: u64) -> Self {
        let bits = 64 - size.saturating_sub(1).leading_zeros();
        Self { size, half: bits.div_ceil(2).max(1), seed }
    }

    pub fn at(&self, position: u64) -> u64 {
        let mut value = position;
        loop {
            value = self.once(value);
            if value < self.size {
                return value;
            }
        }
    }

    fn once(&self, value: u64) -> u64 {
        let mask = (1 << self.half) - 1;
        let (mut left, mut right) = (value >> self.half, value & mask);
        for round in 0..4 {
            (left, right) = (right, left ^ (mixed(right ^ self.seed.wrapping_add(round << 56)) & mask));
        }
        left << self.half | right
    }
}

/// The finisher of SplitMix64: every bit of the result depends on every bit of the value.
fn mixed(value: u64) -> u64 {
    let value = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(order: &Order, keys: u64) -> Vec<u64> {
        (0..keys).map(|position| order.at(position, keys)).collect()
    }

    #[test]
    fn every_order_has_each_key_once() {
        for keys in [1, 2, 7, 64, 1009] {
            for name in 0..Order::NAMES.len() {
                for streams in [1, 2, 3, 7].into_iter().filter(|streams| *streams <= keys) {
                    let mut seen = all(&Order::named(name, streams, keys, 5).unwrap(), keys);
                    seen.sort_unstable();
                    assert!(seen.into_iter().eq(0..keys), "{} {streams} {keys}", Order::NAMES[name]);
                }
            }
        }
    }

    #[test]
    fn orders_are_what_they_are_called() {
        let named = |name, streams| all(&Order::named(name, streams, 7, 1).unwrap(), 7);
        assert_eq!(named(0, 1), [0, 1, 2, 3, 4, 5, 6]);
        assert_eq!(named(1, 1), [6, 5, 4, 3, 2, 1, 0]);
        assert_eq!(named(3, 3), [0, 3, 5, 1, 4, 6, 2]);
        assert_eq!(named(4, 3), [5, 6, 3, 4, 0, 1, 2]);
        let shuffled = |seed| all(&Order::named(2, 1, 1000, seed).unwrap(), 1000);
        assert_ne!(shuffled(1), shuffled(2));
        let rises = shuffled(1).windows(2).filter(|pair| pair[0] < pair[1]).count();
        assert!((420..580).contains(&rises), "{rises} of 999 steps go up");
    }

    #[test]
    fn a_key_is_its_number_and_zeros() {
        let mut key = Key::of_size(12).unwrap();
        key.set(0x0102);
        assert_eq!(key.bytes(), [0, 0, 0, 0, 0, 0, 1, 2, b'0', b'0', b'0', b'0']);
        assert!(Key::of_size(7).is_err() && Key::of_size(LONGEST + 1).is_err());
    }
}
