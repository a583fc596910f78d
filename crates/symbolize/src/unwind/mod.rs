//! Call chains from a copy of the user stack, its registers and the unwind tables of the mapped files.

mod cfa;
mod eh_frame;
mod one_section;
mod sections;
mod starts;

pub use cfa::General;
pub use eh_frame::DwarfSlice;
pub use sections::{MappedObject, UnwindSections};
pub use starts::ThreadStarts;

use crate::intern::SPREAD;
use cfa::{CallerFrame, CfaUnwinder};
use framehop::aarch64::{CacheAarch64, PtrAuthMask, UnwindRegsAarch64, UnwinderAarch64};
use framehop::x86_64::{CacheX86_64, UnwindRegsX86_64, UnwinderX86_64};
use framehop::{FrameAddress, Module, Unwinder};
use std::cell::Cell;
use std::sync::Arc;

/// Frames of one stack; a damaged one may have any number.
const DEEPEST: usize = 8192;
/// Bytes that a call takes of the stack at least, where it returns to; and frames that take none, such as a leaf's of aarch64.
const OF_CALL: usize = 8;
const WITHOUT: usize = 16;
/// Caches of rules, as a power of two: framehop keeps about 500 in one, each in the one slot that its address has.
/// Programs have thousands of places that calls return to and that are sampled, and finding a rule costs a hundred
/// times what using it does.
const CACHES_LOG2: u32 = 6;

/// Whose registers they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Machine {
    X86_64,
    Aarch64,
}

impl Machine {
    /// By what `uname -m` prints.
    pub fn of_name(name: &[u8]) -> Option<Self> {
        match name {
            b"x86_64" | b"amd64" => Some(Self::X86_64),
            b"aarch64" | b"arm64" => Some(Self::Aarch64),
            _ => None,
        }
    }

    /// The numbers that perf gives to the registers of x86-64, in DWARF's order.
    pub fn general(self) -> Option<[u32; 16]> {
        (self == Self::X86_64).then_some([0, 3, 2, 1, 4, 5, 6, 7, 16, 17, 18, 19, 20, 21, 22, 23])
    }

    /// The machine this program was built for.
    pub fn own() -> Option<Self> {
        Self::of_name(std::env::consts::ARCH.as_bytes())
    }

    /// The numbers that perf gives to instruction pointer, stack pointer, frame pointer and link register.
    pub fn registers(self) -> [u32; 4] {
        match self {
            Self::X86_64 => [8, 7, 6, 8],
            Self::Aarch64 => [32, 31, 29, 30],
        }
    }
}

/// Registers of the user side when the sample was taken.
#[derive(Clone, Copy, Debug)]
pub struct Registers {
    pub ip: u64,
    pub sp: u64,
    pub fp: u64,
    pub lr: u64,
    /// Of x86-64, all of them by DWARF's number; 0 where one was not recorded.
    pub general: General,
}

/// The files of one address space, as the unwinder wants them. Threads share it.
pub struct UnwindTables {
    unwinders: Unwinders,
    files: cfa::CfaFiles,
    /// Mappings and functions that it holds.
    pub size: usize,
}

enum Unwinders {
    X86_64(UnwinderX86_64<Arc<[u8]>>),
    Aarch64(UnwinderAarch64<Arc<[u8]>>),
}

/// What was found in a copied stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnwoundStack<'a> {
    /// The place that was executed.
    pub ip: u64,
    /// Where each call returns to, leaf first.
    pub returns: &'a [u64],
    /// Why the outermost frame's caller was not found, where that is known.
    pub end: Option<StackEnd>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StackEnd {
    /// It lies behind the copy.
    BehindCopy,
    /// No unwind table describes the frame.
    NoTable,
}

/// What one thread needs to walk stacks.
#[derive(Default)]
pub struct Walker {
    /// Made when the first stack is walked, as they are large.
    x86_64: Vec<CacheX86_64>,
    aarch64: Vec<CacheAarch64>,
    frames: Vec<u64>,
    /// Of each frame unwound so far: the address to look it up by, and its stack pointer.
    left: Vec<(u64, u64)>,
}

impl Walker {
    /// The chain of the stack that was copied from `registers.sp` on.
    pub fn walk(&mut self, tables: &UnwindTables, registers: Registers, stack: &[u8]) -> UnwoundStack<'_> {
        self.frames.clear();
        self.left.clear();
        let Registers { ip, sp, fp, lr, general } = registers;
        let behind = Cell::new(false);
        let mut read = |address: u64| {
            let at = usize::try_from(address.checked_sub(sp).ok_or(())?).map_err(|_| ())?;
            let word = stack.get(at..at.checked_add(8).ok_or(())?);
            let word = word.ok_or_else(|| behind.set(true))?;
            Ok(u64::from_le_bytes(word.try_into().map_err(|_| ())?))
        };
        let deepest = DEEPEST.min(stack.len() / OF_CALL + WITHOUT);
        let (frames, left) = (&mut self.frames, &mut self.left);
        let last = match &tables.unwinders {
            Unwinders::X86_64(unwinder) => {
                let registers = UnwindRegsX86_64::new(ip, sp, fp);
                let (files, saved) = (&tables.files, &Cell::default());
                let caches = made(&mut self.x86_64);
                walk(unwinder, ip, registers, caches, &mut read, (frames, deepest), |at, registers, read| {
                    left.push((at.address_for_lookup(), registers.sp()));
                    CfaUnwinder { files, general: &general, frames: left, saved }
                        .unwind_frame(registers, read)
                })
            }
            Unwinders::Aarch64(unwinder) => {
                let mask = PtrAuthMask::from_max_known_address(unwinder.max_known_code_address());
                let registers = UnwindRegsAarch64::new_with_ptr_auth_mask(mask, lr, sp, fp);
                let caches = made(&mut self.aarch64);
                walk(unwinder, ip, registers, caches, &mut read, (frames, deepest), |_, _, _| {
                    CallerFrame::Followed
                })
            }
        };
        let end = last.and_then(|last| match tables.describe(last.address_for_lookup()) {
            false => Some(StackEnd::NoTable),
            true => behind.get().then_some(StackEnd::BehindCopy),
        });
        UnwoundStack { ip, returns: &self.frames, end }
    }
}

/// All caches, once they are needed.
fn made<C: Default>(caches: &mut Vec<C>) -> &mut [C] {
    if caches.is_empty() {
        caches.resize_with(1 << CACHES_LOG2, C::default);
    }
    caches
}

/// `unwind_frame` may unwind a frame in the unwinder's place. Gives the outermost frame, unless it said that it is the last.
fn walk<U: Unwinder, R: FnMut(u64) -> Result<u64, ()>>(
    unwinder: &U,
    ip: u64,
    mut registers: U::UnwindRegs,
    caches: &mut [U::Cache],
    read: &mut R,
    (frames, deepest): (&mut Vec<u64>, usize),
    mut unwind_frame: impl FnMut(FrameAddress, &mut U::UnwindRegs, &mut R) -> CallerFrame,
) -> Option<FrameAddress> {
    let mut at = FrameAddress::from_instruction_pointer(ip);
    while frames.len() < deepest {
        let return_address = match unwind_frame(at, &mut registers, read) {
            CallerFrame::At(return_address) => return_address,
            CallerFrame::Unknown => return Some(at),
            CallerFrame::Followed => {
                let cache = (at.address_for_lookup().wrapping_mul(SPREAD) >> (64 - CACHES_LOG2)) as usize;
                match unwinder.unwind_frame(at, &mut registers, &mut caches[cache], read) {
                    Ok(Some(return_address)) => return_address,
                    Ok(None) => return None,
                    Err(_) => return Some(at),
                }
            }
        };
        let next = FrameAddress::from_return_address(return_address)?;
        frames.push(return_address);
        at = next;
    }
    Some(at)
}

impl UnwindTables {
    pub fn new(machine: Machine, files: Vec<MappedObject>) -> Self {
        let size = files.iter().map(MappedObject::size).sum();
        let cfa_files = cfa::CfaFiles::new(machine, files.iter());
        let modules = files
            .into_iter()
            .map(|file| Module::new(String::new(), file.range(), file.bias(), file.sections.explicit()));
        let unwinders = match machine {
            Machine::X86_64 => {
                let mut unwinder = UnwinderX86_64::new();
                modules.for_each(|module| unwinder.add_module(module));
                Unwinders::X86_64(unwinder)
            }
            Machine::Aarch64 => {
                let mut unwinder = UnwinderAarch64::new();
                modules.for_each(|module| unwinder.add_module(module));
                Unwinders::Aarch64(unwinder)
            }
        };
        Self { unwinders, files: cfa_files, size }
    }

    /// Whether the function around an address has an unwind table.
    fn describe(&self, address: u64) -> bool {
        let Some(file) = self.files.file(address) else { return false };
        let entry = || file.sections.frames()?.entry_of(address.wrapping_sub(file.bias));
        entry().is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Without unwind tables the frame pointers are followed.
    #[test]
    fn a_stack_is_walked_as_far_as_it_was_copied() {
        let mut walker = Walker::default();
        let tables = UnwindTables::new(Machine::X86_64, Vec::new());
        let sp = 0x7fff_0000;
        // saved frame pointer, return address; twice
        let words: [u64; 6] = [7, 7, sp + 32, 0x40_1000, sp + 48, 0x40_2000];
        let mut stack: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        let registers = Registers { ip: 0x40_0010, sp, fp: sp + 16, lr: 0, general: General::default() };
        let mut walk = |stack: &[u8]| {
            let UnwoundStack { ip, returns, end } = walker.walk(&tables, registers, stack);
            (ip, returns.to_vec(), end)
        };
        assert_eq!(walk(&stack), (0x40_0010, vec![0x40_1000, 0x40_2000], Some(StackEnd::NoTable)));
        assert_eq!(walk(&stack[..32]), (0x40_0010, vec![0x40_1000], Some(StackEnd::NoTable)));
        assert_eq!(walk(&[]), (0x40_0010, vec![], Some(StackEnd::NoTable)));
        // A return address of 0 ends the stack, wherever the copy ends.
        stack.extend([0; 16]);
        assert_eq!(walk(&stack).2, None);
    }
}
