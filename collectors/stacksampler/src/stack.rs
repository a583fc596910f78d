//! The user stack of a stopped thread: copied in one read, or followed by its frame pointers.

use crate::machine::{Position, code_address};
use nix::sys::uio::{RemoteIoVec, process_vm_readv};
use nix::unistd::Pid;
use std::io::IoSliceMut;

/// perf's limit for a chain of frame pointers (`kernel.perf_event_max_stack`).
const DEEPEST: usize = 127;
/// A larger one is no frame.
const LARGEST_FRAME: u64 = 8 << 20;
/// Read at once for frame pointers: most stacks of a storage engine fit.
pub const CHUNK: usize = 8192;

/// Reads from `address` on into `buffer`; gives the number of bytes read.
pub fn read(process: Pid, address: u64, buffer: &mut [u8]) -> usize {
    let Ok(base) = usize::try_from(address) else { return 0 };
    let remote = [RemoteIoVec { base, len: buffer.len() }];
    process_vm_readv(process, &mut [IoSliceMut::new(buffer)], &remote).unwrap_or(0)
}

/// Memory that a walk reads.
pub trait Memory {
    fn word(&mut self, address: u64) -> Option<u64>;
}

/// A chunk of another process's memory, moved to each address that is read outside of it.
pub struct Window<'a> {
    process: Pid,
    buffer: &'a mut [u8],
    start: u64,
    filled: usize,
}

impl<'a> Window<'a> {
    pub fn new(process: Pid, buffer: &'a mut [u8], start: u64) -> Self {
        let filled = read(process, start, buffer);
        Self { process, buffer, start, filled }
    }
}

impl Memory for Window<'_> {
    fn word(&mut self, address: u64) -> Option<u64> {
        let inside = |window: &Self| {
            let at = usize::try_from(address.checked_sub(window.start)?).ok()?;
            let word = window.buffer.get(..window.filled)?.get(at..at.checked_add(8)?)?;
            word.try_into().ok().map(u64::from_le_bytes)
        };
        if let Some(word) = inside(self) {
            return Some(word);
        }
        self.start = address;
        self.filled = read(self.process, address, self.buffer);
        inside(self)
    }
}

/// The return addresses above `position`, innermost first. Each frame holds the caller's frame pointer and, above it, the
/// address to return to; the chain ends at the first word that cannot be such a frame.
pub fn frame_pointers(
    position: Position,
    memory: &mut impl Memory,
    is_code: impl Fn(u64) -> bool,
) -> Vec<u64> {
    let mut chain = vec![position.pc];
    let mut fp = position.fp;
    let mut above = position.sp;
    while chain.len() < DEEPEST {
        if !fp.is_multiple_of(8) || fp < above || fp - above > LARGEST_FRAME {
            break;
        }
        let Some(next) = memory.word(fp) else { break };
        let Some(return_address) = fp.checked_add(8).and_then(|address| memory.word(address)) else { break };
        let return_address = code_address(return_address);
        if !is_code(return_address) {
            break;
        }
        chain.push(return_address);
        above = fp + 16;
        fp = next;
    }
    chain
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;

    impl Memory for HashMap<u64, u64> {
        fn word(&mut self, address: u64) -> Option<u64> {
            self.get(&address).copied()
        }
    }

    fn walk(words: &[(u64, u64)], fp: u64) -> Vec<u64> {
        let mut memory: HashMap<u64, u64> = words.iter().copied().collect();
        let position = Position { pc: 0x40_0000, sp: 0x1000, fp };
        frame_pointers(position, &mut memory, |address| (0x40_0000..0x50_0000).contains(&address))
    }

    #[test]
    fn frames_are_followed_to_the_first() {
        let words = [(0x1010, 0x1040), (0x1018, 0x40_0001), (0x1040, 0), (0x1048, 0x40_0002)];
        assert_eq!(walk(&words, 0x1010), [0x40_0000, 0x40_0001, 0x40_0002]);
    }

    #[test]
    fn what_is_no_frame_ends_the_chain() {
        // A register that holds something else, unaligned, below the stack, far above it.
        for fp in [0, 0x1011, 0xff0, 0x1000 + LARGEST_FRAME + 8, u64::MAX - 7] {
            assert_eq!(walk(&[], fp), [0x40_0000], "{fp:#x}");
        }
        // A frame that leads to itself, one that leads down, a return to what is no code.
        let code = (0x1018, 0x40_0001);
        assert_eq!(walk(&[(0x1010, 0x1010), code], 0x1010), [0x40_0000, 0x40_0001]);
        assert_eq!(walk(&[(0x1010, 0x1000), code], 0x1010), [0x40_0000, 0x40_0001]);
        assert_eq!(walk(&[(0x1010, 0x1040), (0x1018, 0x60_0000)], 0x1010), [0x40_0000]);
    }

    #[test]
    fn a_chain_has_an_end() {
        let words: Vec<(u64, u64)> = (0..1000)
            .flat_map(|n| [(0x1010 + 16 * n, 0x1020 + 16 * n), (0x1018 + 16 * n, 0x40_0001)])
            .collect();
        assert_eq!(walk(&words, 0x1010).len(), DEEPEST);
    }

    #[test]
    fn a_window_moves_over_real_memory() {
        let words: Vec<u64> = (0..4096).collect();
        let start = words.as_ptr() as u64;
        let mut buffer = vec![0; 256];
        let mut window = Window::new(Pid::this(), &mut buffer, start);
        for index in [0_u64, 31, 32, 4095, 5] {
            assert_eq!(window.word(start + 8 * index), Some(index));
        }
        assert_eq!(window.word(8), None);
    }
}
