//! Whether a call lies before an address. What a register held for another purpose may look like a return address: the
//! address of a function, for example.

use super::{AddressesToName, Symbols};
use crate::addresses::FileOffset;
use std::os::unix::fs::FileExt;

/// Bytes of the longest call, without prefixes: opcode, two bytes of form, four of distance.
const CALL: usize = 7;

impl Symbols {
    /// Of each place whether a call of x86-64 ends there; true where the code cannot be read. Places are those of the last
    /// byte of a call.
    pub fn are_calls(&mut self, places: &AddressesToName) -> Vec<bool> {
        let code =
            self.find(places.object).filter(|found| found.elf.is_x86_64).and_then(|found| found.code());
        let is_call = |&FileOffset(last): &FileOffset| {
            let start = last.checked_sub(CALL as u64 - 1)?;
            let mut bytes = [0; CALL];
            code.as_ref()?.read_exact_at(&mut bytes, start).ok()?;
            Some(ends_with_call(bytes))
        };
        places.offsets.iter().map(|place| is_call(place).unwrap_or(true)).collect()
    }
}

/// By a distance, or to where a register or a place in memory points, with as many bytes as such forms have.
fn ends_with_call(bytes: [u8; CALL]) -> bool {
    let [.., direct, _, _, _, _] = bytes;
    let indirect = |len: usize| bytes[CALL - len] == 0xff && bytes[CALL - len + 1] & 0x38 == 0x10;
    direct == 0xe8 || [2, 3, 4, 6, 7].into_iter().any(indirect)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_of_all_lengths() {
        for call in [
            &[0xe8, 1, 2, 3, 4][..],
            &[0xff, 0xd0],
            &[0x41, 0xff, 0x54, 0x24, 0x08],
            &[0xff, 0x15, 1, 2, 3, 4],
            &[0xff, 0x94, 0x24, 1, 2, 3, 4],
        ] {
            let mut bytes = [0x90; CALL];
            bytes[CALL - call.len()..].copy_from_slice(call);
            assert!(ends_with_call(bytes), "{call:x?}");
        }
        assert!(!ends_with_call([0x5d, 0xc3, 0x0f, 0x1f, 0x44, 0, 0]));
    }
}
