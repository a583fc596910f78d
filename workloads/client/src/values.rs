//! Values as db_bench makes them: pieces of one buffer that compresses to a given share.

/// Characters of a piece, of which the first part is random and then repeated (`test::CompressibleString`).
const PIECE: usize = 100;
/// Larger than any window of a compression.
const LEAST: usize = 1 << 20;
const SEED: u64 = 301;

/// db_bench's `RandomGenerator`: the bytes are the same in every run and engine.
pub struct Values {
    bytes: Vec<u8>,
}

impl Values {
    /// compression_ratio: compressed size by size; longest: bytes of the longest value
    pub fn new(compression_ratio: f64, longest: usize) -> Self {
        let mut random = ParkMiller(SEED);
        let raw = ((PIECE as f64 * compression_ratio) as usize).clamp(1, PIECE);
        let mut bytes = Vec::with_capacity(LEAST.max(longest) + PIECE);
        while bytes.len() < LEAST.max(longest) {
            let begin = bytes.len();
            bytes.extend((0..raw).map(|_| b' ' + (random.next() % 95) as u8));
            (raw..PIECE).for_each(|index| bytes.push(bytes[begin + index - raw]));
        }
        Self { bytes }
    }

    /// The next value of a writer. position: in the buffer, moved on
    pub fn next<'a>(&'a self, position: &mut usize, size: usize) -> &'a [u8] {
        if *position + size > self.bytes.len() {
            *position = 0;
        }
        *position += size;
        &self.bytes[*position - size..*position]
    }
}

/// RocksDB's `Random`: a linear congruential generator modulo 2^31 - 1.
struct ParkMiller(u64);

impl ParkMiller {
    fn next(&mut self) -> u64 {
        self.0 = self.0 * 16807 % 0x7fff_ffff;
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_of_a_piece_is_the_other_half_again() {
        let values = Values::new(0.5, 0);
        let mut position = 0;
        let value = values.next(&mut position, PIECE);
        assert_eq!(value[..50], value[50..]);
        assert!(value.iter().all(u8::is_ascii_graphic) || value.contains(&b' '));
        assert_ne!(values.next(&mut position, PIECE)[..50], values.bytes[..50]);
        // At the end of the buffer it begins again.
        position = values.bytes.len() - 10;
        assert_eq!(values.next(&mut position, 400), &values.bytes[..400]);
    }

    #[test]
    fn the_first_characters_are_those_of_rocksdb() {
        // 301 * 16807 = 5058907, then modulo 2^31 - 1: by hand.
        let mut random = ParkMiller(SEED);
        assert_eq!((random.next(), random.next()), (5_058_907, 5_058_907 * 16807 % 0x7fff_ffff));
    }
}
