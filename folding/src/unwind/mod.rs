//! Call chains from a copy of the user stack, its registers and the unwind tables of the mapped files.

mod sections;

pub use sections::Sections;

use framehop::aarch64::{CacheAarch64, PtrAuthMask, UnwindRegsAarch64, UnwinderAarch64};
use framehop::x86_64::{CacheX86_64, UnwindRegsX86_64, UnwinderX86_64};
use framehop::{FrameAddress, Module, Unwinder};
use std::collections::HashMap;
use std::ops::Range;
use std::rc::Rc;
use std::sync::Arc;

/// Frames of one stack; a damaged one may have any number.
const DEEPEST: usize = 8192;
/// Address spaces whose tables are kept ready.
const SPACES: usize = 64;

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
}

/// A file in an address space.
pub struct Mapped {
    pub range: Range<u64>,
    /// What to add to the file's own addresses.
    pub bias: u64,
    pub sections: Rc<Sections>,
}

/// An address of an unwound chain, and whether a call returns to it.
pub type Frame = (u64, bool);

/// One space's files, as the unwinder wants them.
enum Tables {
    X86_64(UnwinderX86_64<Arc<[u8]>>),
    Aarch64(UnwinderAarch64<Arc<[u8]>>),
}

pub struct Stacks {
    machine: Option<Machine>,
    spaces: HashMap<u64, Tables>,
    x86_64: CacheX86_64,
    aarch64: CacheAarch64,
    frames: Vec<Frame>,
}

impl Default for Stacks {
    fn default() -> Self {
        Self {
            machine: Machine::own(),
            spaces: HashMap::new(),
            x86_64: CacheX86_64::new(),
            aarch64: CacheAarch64::new(),
            frames: Vec::new(),
        }
    }
}

impl Stacks {
    pub fn set_machine(&mut self, machine: Option<Machine>) {
        self.machine = machine;
    }

    pub fn machine(&self) -> Option<Machine> {
        self.machine
    }

    /// The chain, leaf first, of the stack that was copied from `registers.sp` on. `version` names the
    /// state of the address space, `files` lists it when that state is new.
    pub fn unwind(
        &mut self,
        version: u64,
        files: impl FnOnce() -> Vec<Mapped>,
        registers: Registers,
        stack: &[u8],
    ) -> &[Frame] {
        self.frames.clear();
        let Some(machine) = self.machine else { return &self.frames };
        if !self.spaces.contains_key(&version) {
            if self.spaces.len() >= SPACES {
                self.spaces.clear();
            }
            self.spaces.insert(version, Tables::new(machine, files()));
        }
        let Some(tables) = self.spaces.get(&version) else { return &self.frames };
        let Registers { ip, sp, fp, lr } = registers;
        let mut read = |address: u64| {
            let at = usize::try_from(address.checked_sub(sp).ok_or(())?).map_err(|_| ())?;
            let word = stack.get(at..at.checked_add(8).ok_or(())?).ok_or(())?;
            Ok(u64::from_le_bytes(word.try_into().map_err(|_| ())?))
        };
        let frames = &mut self.frames;
        match tables {
            Tables::X86_64(unwinder) => {
                let registers = UnwindRegsX86_64::new(ip, sp, fp);
                walk(unwinder, ip, registers, &mut self.x86_64, &mut read, frames);
            }
            Tables::Aarch64(unwinder) => {
                let mask = PtrAuthMask::from_max_known_address(unwinder.max_known_code_address());
                let registers = UnwindRegsAarch64::new_with_ptr_auth_mask(mask, lr, sp, fp);
                walk(unwinder, ip, registers, &mut self.aarch64, &mut read, frames);
            }
        }
        &self.frames
    }
}

fn walk<U: Unwinder>(
    unwinder: &U,
    ip: u64,
    registers: U::UnwindRegs,
    cache: &mut U::Cache,
    read: &mut impl FnMut(u64) -> Result<u64, ()>,
    frames: &mut Vec<Frame>,
) {
    let mut stack = unwinder.iter_frames(ip, registers, cache, read);
    while let Ok(Some(frame)) = stack.next() {
        frames.push(match frame {
            FrameAddress::InstructionPointer(address) => (address, false),
            FrameAddress::ReturnAddress(address) => (address.get(), true),
        });
        if frames.len() >= DEEPEST {
            break;
        }
    }
}

impl Tables {
    fn new(machine: Machine, files: Vec<Mapped>) -> Self {
        let modules = files.into_iter().map(|file| {
            let Mapped { range, bias, sections } = file;
            Module::new(String::new(), range, bias, sections.explicit())
        });
        match machine {
            Machine::X86_64 => {
                let mut unwinder = UnwinderX86_64::new();
                modules.for_each(|module| unwinder.add_module(module));
                Self::X86_64(unwinder)
            }
            Machine::Aarch64 => {
                let mut unwinder = UnwinderAarch64::new();
                modules.for_each(|module| unwinder.add_module(module));
                Self::Aarch64(unwinder)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Without unwind tables the frame pointers are followed.
    #[test]
    fn a_stack_is_walked_as_far_as_it_was_copied() {
        let mut stacks = Stacks::default();
        stacks.set_machine(Some(Machine::X86_64));
        let sp = 0x7fff_0000;
        // saved frame pointer, return address; twice
        let words: [u64; 6] = [7, 7, sp + 32, 0x40_1000, sp + 4096, 0x40_2000];
        let stack: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        let registers = Registers { ip: 0x40_0010, sp, fp: sp + 16, lr: 0 };
        let whole = stacks.unwind(1, Vec::new, registers, &stack).to_vec();
        assert_eq!(whole, [(0x40_0010, false), (0x40_1000, true), (0x40_2000, true)]);
        let cut = stacks.unwind(1, Vec::new, registers, &stack[..32]).to_vec();
        assert_eq!(cut, whole[..2]);
        assert_eq!(stacks.unwind(1, Vec::new, registers, &[]).to_vec(), whole[..1]);
    }
}
