//! Where a function is left, read out of its code: its return instructions, and those of the functions that it ends in a
//! jump to. A probe there sees the return without changing the stack, which exceptions, coroutines and Go read.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use object::{
    Architecture, Object, ObjectSection, ObjectSymbol, ObjectSymbolTable, ReadRef, RelocationTarget,
    SectionKind, SymbolKind,
};

use crate::instructions::{Decode, Kind, Step, ToEntry, aarch64, x86};

/// Of all code that one function is left through.
const MOST_BYTES: u64 = 1 << 20;
const MOST_PIECES: usize = 64;
/// As far behind the start of a piece that no symbol names its end is looked for.
const UNNAMED_BYTES: u64 = 1 << 16;

/// What is called where a protected stack is broken. Before a function returns it jumps to that call, or does not: the jump is a
/// better place for a probe than the return, for the kernel carries it out itself, and single-steps a return of x86-64.
const GUARD: &str = "__stack_chk_fail";

/// A jump that every way to a return goes through, and the stack pointer there.
struct Earlier {
    at: u64,
    to: ToEntry,
}

/// An instruction that a function is left by, or before it without another way.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Exit {
    /// An address, or its offset in the file.
    pub at: u64,
    pub to: ToEntry,
    /// The kernel single-steps it, as it does returns of x86-64.
    pub stepped: bool,
}

/// What was read of a function's code.
#[derive(Default)]
struct Read {
    /// Returns, each with a better place for its probe, and jumps to other libraries.
    returns: BTreeMap<u64, Option<Earlier>>,
    jumps: BTreeSet<u64>,
    targets: BTreeSet<u64>,
    /// Where it continues.
    wanted: Vec<u64>,
}

/// The code of a file, by addresses.
pub struct Code<'data> {
    architecture: Architecture,
    /// Address and bytes of what is executed.
    sections: Vec<(u64, &'data [u8])>,
    /// Of stubs through which functions are called that another library may have in their place.
    stubs: Vec<(u64, &'data [u8])>,
    /// Functions of this file that such a stub leads to, by the place of the pointer that it jumps through.
    pointers: BTreeMap<u64, u64>,
    /// The function that ends a process whose stack is broken, and pointers to it.
    guard: BTreeSet<u64>,
    /// What symbols name, by their beginnings.
    named: Vec<Range<u64>>,
    /// Goroutines move: their stacks grow elsewhere.
    pub is_go: bool,
}

impl<'data> Code<'data> {
    pub fn of<R: ReadRef<'data>>(file: &object::File<'data, R>) -> Self {
        let code = |stubs: bool| {
            let sections = file.sections().filter(move |section| {
                let is_stub = section.name().is_ok_and(|name| name.starts_with(".plt"));
                section.kind() == SectionKind::Text && is_stub == stubs
            });
            sections.filter_map(|one| Some((one.address(), one.data().ok()?))).collect()
        };
        let functions = file.symbols().chain(file.dynamic_symbols());
        let functions = functions.filter(|one| one.kind() == SymbolKind::Text && one.size() > 0);
        let named: BTreeSet<(u64, u64)> = functions.map(|one| (one.address(), one.size())).collect();
        let end = |(start, size): (u64, u64)| Some(start..start.checked_add(size)?);
        let imported = file.dynamic_symbol_table();
        let mut guard: BTreeSet<u64> =
            file.symbols().filter(|one| one.name() == Ok(GUARD)).map(|one| one.address()).collect();
        let mut pointers = BTreeMap::new();
        for (place, relocation) in file.dynamic_relocations().into_iter().flatten() {
            let RelocationTarget::Symbol(index) = relocation.target() else { continue };
            let symbol = imported.as_ref().and_then(|table| table.symbol_by_index(index).ok());
            let Some(symbol) = symbol else { continue };
            if symbol.name() == Ok(GUARD) {
                guard.insert(place);
            } else if symbol.kind() == SymbolKind::Text && !symbol.is_undefined() {
                pointers.insert(place, symbol.address());
            }
        }
        Self {
            architecture: file.architecture(),
            sections: code(false),
            stubs: code(true),
            pointers,
            guard,
            named: named.into_iter().filter_map(end).collect(),
            is_go: file.section_by_name(".gopclntab").is_some(),
        }
    }

    /// The instructions that the function at `entry` is left by, and those of functions that it jumps to. Errors: why they are
    /// not known.
    pub fn exits(&self, entry: u64) -> Result<Vec<Exit>, String> {
        let mut pieces: Vec<Range<u64>> = Vec::new();
        let mut read = Read { wanted: vec![entry], ..Read::default() };
        while let Some(start) = read.wanted.pop() {
            if pieces.iter().any(|piece| piece.contains(&start)) {
                continue;
            }
            let (piece, known) = match self.named_around(start) {
                Some(range) => (range, true),
                None => (start..start.saturating_add(UNNAMED_BYTES), false),
            };
            let before: u64 = pieces.iter().map(|piece| piece.end - piece.start).sum();
            if pieces.len() == MOST_PIECES || (known && before + (piece.end - piece.start) > MOST_BYTES) {
                return Err("it jumps to more code than is looked through".to_owned());
            }
            pieces.push(self.read(piece, known, &mut read)?);
        }
        if read.returns.is_empty() && read.jumps.is_empty() {
            return Err("its code has no return".to_owned());
        }
        let Read { returns, jumps, targets, .. } = read;
        let steps = self.architecture == Architecture::X86_64;
        let returns = returns.into_iter().map(|(at, earlier)| match earlier {
            // Whoever comes to the return comes by there.
            Some(one) if targets.range(one.at + 1..=at).next().is_none() => {
                Exit { at: one.at, to: one.to, stepped: false }
            }
            _ => Exit { at, to: ToEntry::default(), stepped: steps },
        });
        let jumps = jumps.into_iter().map(|at| Exit { at, to: ToEntry::default(), stepped: false });
        Ok(returns.chain(jumps).collect())
    }

    /// The longest function that a symbol says is there.
    fn named_around(&self, address: u64) -> Option<Range<u64>> {
        let at = self.named.partition_point(|range| range.start <= address);
        self.named[..at].iter().rev().take(4).find(|range| range.contains(&address)).cloned()
    }

    /// Reads one piece: what leaves it, and where it jumps to. known: it ends where its range does. What was read.
    fn read(&self, piece: Range<u64>, known: bool, read: &mut Read) -> Result<Range<u64>, String> {
        let begin = piece.start;
        let place = |at: u64| format!("at {at:#x}, {:#x} behind {begin:#x}", at - begin);
        let mut decoder =
            self.decoder(&piece).ok_or_else(|| format!("at {begin:#x} is no code of its file"))?;
        let (mut at, mut furthest) = (begin, begin);
        let mut earlier = None;
        while at < piece.end {
            let Some(step) = decoder.step(at) else {
                return Err(format!("what is {} is no instruction", place(at)));
            };
            let before = earlier.take();
            let ends = match step.kind {
                Kind::Other => {
                    earlier = before
                        .and_then(|one: Earlier| Some(Earlier { to: one.to.after(&step.stack)?, ..one }));
                    false
                }
                Kind::Stop => true,
                Kind::JumpByPointer => {
                    return Err(format!("it ends in a jump through a pointer ({})", place(at)));
                }
                Kind::Return => {
                    read.returns.insert(at, before);
                    true
                }
                Kind::Jump(target, conditional) => {
                    read.targets.insert(target);
                    if piece.contains(&target) {
                        furthest = furthest.max(target);
                        if conditional && self.is_guard(target) {
                            earlier = Some(Earlier { at, to: ToEntry::default() });
                        }
                    } else if self.sections.iter().any(|section| holds(*section, target)) {
                        read.wanted.push(target);
                    } else if let Some(function) = self.behind_stub(target) {
                        read.wanted.push(function);
                    } else if !conditional {
                        // To another library: what it does there is not the function's.
                        read.jumps.insert(at);
                    } else {
                        return Err(format!("it jumps to another library, or does not ({})", place(at)));
                    }
                    !conditional
                }
            };
            at = step.next;
            if !known && ends && at > furthest {
                return Ok(begin..at);
            }
        }
        if known { Ok(piece) } else { Err(format!("no end was found of the code at {begin:#x}")) }
    }

    /// Whether the code at `target` does nothing but end the process: a protected stack was found broken.
    fn is_guard(&self, target: u64) -> bool {
        let section = self.sections.iter().find(|section| holds(**section, target));
        let Some((start, code)) = section.filter(|_| self.architecture == Architecture::X86_64) else {
            return false;
        };
        match x86::called(target, &code[(target - start) as usize..]) {
            Some(x86::Called::Address(address)) => {
                self.guard.contains(&address)
                    || self.stub_pointer(address).is_some_and(|pointer| self.guard.contains(&pointer))
            }
            Some(x86::Called::Pointer(pointer)) => self.guard.contains(&pointer),
            None => false,
        }
    }

    fn decoder(&self, piece: &Range<u64>) -> Option<Box<dyn Decode + 'data>> {
        let (start, code) = self.sections.iter().find(|section| holds(**section, piece.start))?;
        let bytes = &code[(piece.start - start) as usize..];
        let bytes = &bytes[..bytes.len().min((piece.end - piece.start) as usize)];
        match self.architecture {
            Architecture::X86_64 => Some(Box::new(x86::Reader::new(piece.start, bytes))),
            Architecture::Aarch64 => Some(Box::new(aarch64::Reader::new(piece.start, bytes))),
            _ => None,
        }
    }

    /// The function of this file that the stub at `target` leads to.
    fn behind_stub(&self, target: u64) -> Option<u64> {
        self.pointers.get(&self.stub_pointer(target)?).copied()
    }

    fn stub_pointer(&self, stub: u64) -> Option<u64> {
        let (start, code) = self.stubs.iter().find(|section| holds(**section, stub))?;
        let bytes = &code[(stub - start) as usize..];
        match self.architecture {
            Architecture::X86_64 => x86::pointer_of_stub(stub, bytes),
            Architecture::Aarch64 => aarch64::pointer_of_stub(stub, bytes),
            _ => None,
        }
    }

    /// Where a probe of the function's entry goes. A function of Go begins by looking whether its stack is large enough, and
    /// begins again on a larger one: behind that, where each call comes by once.
    pub fn entry(&self, address: u64) -> u64 {
        if !self.is_go {
            return address;
        }
        let Some(range) = self.named_around(address) else { return address };
        let Some(mut decoder) = self.decoder(&range) else { return address };
        let mut at = address;
        for _ in 0..GO_CHECK {
            match decoder.step(at) {
                Some(Step { next, kind: Kind::Jump(target, true), .. }) if target > next => return next,
                Some(Step { next, kind: Kind::Other, .. }) => at = next,
                _ => break,
            }
        }
        address
    }
}

/// Instructions of Go's check of its stack, at most.
const GO_CHECK: usize = 6;

fn holds((start, code): (u64, &[u8]), address: u64) -> bool {
    address.checked_sub(start).is_some_and(|within| within < code.len() as u64)
}

#[cfg(test)]
mod tests {
    use std::slice;

    use super::*;

    /// Code at 0x1000 without a file, as one function; a call of 0x2000 is that of the guard.
    fn code(architecture: Architecture, bytes: &[u8]) -> Code<'_> {
        let range = 0x1000..0x1000 + bytes.len() as u64;
        Code {
            architecture,
            sections: vec![(0x1000, bytes)],
            stubs: Vec::new(),
            pointers: BTreeMap::new(),
            guard: [0x2000].into(),
            named: vec![range],
            is_go: false,
        }
    }

    fn x86(bytes: &[u8]) -> Result<Vec<(u64, bool, i32, bool)>, String> {
        let exits = code(Architecture::X86_64, bytes).exits(0x1000)?;
        Ok(exits.into_iter().map(|one| (one.at, one.to.by_frame, one.to.distance, one.stepped)).collect())
    }

    #[test]
    fn a_return_is_an_exit_and_the_stacks_guard_before_it_a_better_one() {
        assert_eq!(x86(&[0x55, 0x5d, 0xc3]), Ok(vec![(0x1002, false, 0, true)]));
        // jne 4; add $8, %rsp; pop %rbx; ret; call the guard
        let guarded = [0x75, 0x06, 0x48, 0x83, 0xc4, 0x08, 0x5b, 0xc3, 0xe8, 0xf3, 0x0f, 0x00, 0x00];
        assert_eq!(x86(&guarded), Ok(vec![(0x1000, false, 16, false)]));
        // jne 4; mov -8(%rbp), %rbx; leave; ret; call the guard
        let framed = [0x75, 0x06, 0x48, 0x8b, 0x5d, 0xf8, 0xc9, 0xc3, 0xe8, 0xf3, 0x0f, 0x00, 0x00];
        assert_eq!(x86(&framed), Ok(vec![(0x1000, true, 8, false)]));
        // The same, and a jump behind the guard's.
        let joined = [&framed[..], &[0xeb, 0xf7]].concat();
        assert_eq!(x86(&joined), Ok(vec![(0x1007, false, 0, true)]));
        // Of another call nobody knows that it ends the process.
        let other = [0x75, 0x06, 0x48, 0x8b, 0x5d, 0xf8, 0xc9, 0xc3, 0xe8, 0xf4, 0x0f, 0x00, 0x00];
        assert_eq!(x86(&other), Ok(vec![(0x1007, false, 0, true)]));
    }

    #[test]
    fn a_jump_through_a_pointer_is_not_one_through_a_table() {
        assert!(x86(&[0xff, 0xe0]).unwrap_err().starts_with("it ends in a jump through a pointer"));
        // movslq (%rdx,%rax,4), %rax; add %rdx, %rax; jmp *%rax; ret
        let table = [0x48, 0x63, 0x04, 0x82, 0x48, 0x01, 0xd0, 0xff, 0xe0, 0xc3];
        assert_eq!(x86(&table), Ok(vec![(0x1009, false, 0, true)]));
        assert!(
            x86(&[0x90]).unwrap_err().contains("no return")
                && x86(&[0x06]).unwrap_err().contains("no instruction")
        );
    }

    #[test]
    fn a_function_that_ends_in_a_jump_is_left_where_the_other_one_is() {
        // jmp to the second function: mov %edi, %eax; ret
        let bytes = [0xeb, 0x02, 0x90, 0x90, 0x89, 0xf8, 0xc3];
        let mut code = code(Architecture::X86_64, &bytes);
        // Named, and of a file whose symbols of local functions were taken away.
        for named in [&[0x1000..0x1004, 0x1004..0x1007][..], slice::from_ref(&(0x1000..0x1002))] {
            code.named = named.to_vec();
            assert_eq!(code.exits(0x1000).unwrap().iter().map(|one| one.at).collect::<Vec<_>>(), [0x1006]);
        }
    }

    #[test]
    fn returns_of_aarch64_are_found() {
        let words = |words: &[u32]| words.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<_>>();
        let at = |bytes: &[u8]| {
            let exits = code(Architecture::Aarch64, bytes).exits(0x1000);
            exits.map(|exits| exits.into_iter().map(|one| (one.at, one.stepped)).collect::<Vec<_>>())
        };
        // cbz x0, 12; mov w0, #1; ret; b 4 back
        assert_eq!(
            at(&words(&[0xb400_0060, 0x5280_0020, 0xd65f_03c0, 0x17ff_fffe])),
            Ok(vec![(0x1008, false)])
        );
        // retaa; br x1
        assert_eq!(at(&words(&[0xd65f_0bff])), Ok(vec![(0x1000, false)]));
        assert!(at(&words(&[0xd61f_0020])).unwrap_err().contains("through a pointer"));
        // ldrb w1, [x1, w0, uxtw]; adr; add; br x1; ret: a table
        assert_eq!(
            at(&words(&[0x3860_4821, 0x1000_0062, 0x8b21_8041, 0xd61f_0020, 0xd65f_03c0])),
            Ok(vec![(0x1010, false)])
        );
    }
}
