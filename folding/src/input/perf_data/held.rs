//! Bytes of a long sequence, kept from the first that is still needed on.

/// The end of the sequence that is in memory.
#[derive(Default)]
pub struct Held {
    /// What is held, and room behind it.
    bytes: Vec<u8>,
    filled: usize,
    /// Where `bytes` begin in the sequence.
    first: u64,
}

impl Held {
    /// Nothing yet of a sequence, which begins here.
    pub fn from(first: u64) -> Self {
        Self { first, ..Self::default() }
    }

    /// Where the sequence ends so far.
    pub fn end(&self) -> u64 {
        self.first + self.filled as u64
    }

    /// Bytes that are held; none, if they are not.
    pub fn get(&self, start: u64, len: usize) -> &[u8] {
        let at = start.wrapping_sub(self.first) as usize;
        at.checked_add(len).and_then(|end| self.bytes[..self.filled].get(at..end)).unwrap_or(&[])
    }

    /// Kind, misc and length of the record whose header lies here.
    pub fn record_at(&self, start: u64) -> Option<(u32, u16, usize)> {
        let at = start.wrapping_sub(self.first) as usize;
        let word = self.bytes[..self.filled].get(at..)?.first_chunk().copied().map(u64::from_le_bytes)?;
        Some((word as u32, (word >> 32) as u16, (word >> 48) as usize))
    }

    /// Room behind the end, at least so much. What lies before `needed` may go.
    pub fn room(&mut self, least: usize, needed: u64) -> &mut [u8] {
        if self.bytes.len() - self.filled < least {
            let gone = needed.saturating_sub(self.first).min(self.filled as u64) as usize;
            // Never is more moved than goes.
            if gone >= self.filled - gone {
                self.bytes.copy_within(gone..self.filled, 0);
                self.first += gone as u64;
                self.filled -= gone;
            }
            if self.bytes.len() - self.filled < least {
                self.bytes.resize((self.filled + least).next_power_of_two(), 0);
            }
        }
        let end = self.filled + least;
        &mut self.bytes[self.filled..end]
    }

    /// So much of the room was filled.
    pub fn filled(&mut self, len: usize) {
        self.filled = (self.filled + len).min(self.bytes.len());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_needed_stays() {
        let mut held = Held::from(100);
        let (mut needed, mut next) = (100, 0_u8);
        for round in 0..1000_u64 {
            let room = held.room(7, needed);
            assert_eq!(room.len(), 7);
            for byte in &mut room[..5] {
                *byte = next;
                next = next.wrapping_add(1);
            }
            held.filled(5);
            assert_eq!(held.end(), 105 + 5 * round);
            for at in needed..held.end() {
                assert_eq!(held.get(at, 1), [(at - 100) as u8]);
            }
            needed = (held.end() - round % 40).max(needed);
        }
        assert!(held.bytes.len() <= 256, "{}", held.bytes.len());
        assert_eq!(held.get(held.end(), 1), []);
        assert_eq!(held.get(u64::MAX, 8), []);
    }
}
