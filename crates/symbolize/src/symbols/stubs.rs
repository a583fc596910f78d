//! `name@plt`: the stubs through which functions of other files are called, which no symbol table names.

use super::table::{Binding, TableBuilder};
use object::read::elf::{FileHeader, SectionHeader, Sym, SymbolTable};
use object::read::{File, ReadRef};
use object::{Object, ObjectSection, SymbolIndex, elf};
use std::collections::HashMap;

const RELOCATION: usize = 24;
const ENDBR64: [u8; 4] = [0xf3, 0x0f, 0x1e, 0xfa];
/// `jmp *displacement(%rip)`, and how long it is.
const JUMP: [u8; 2] = [0xff, 0x25];
const JUMP_LENGTH: usize = 6;

/// Adds a name for each stub of `.plt` or `.plt.sec`, and of `.plt.got`: functions that are called by address as well.
pub fn add<'a, R: ReadRef<'a>>(file: &File<'a, R>, builder: &mut TableBuilder) {
    let File::Elf64(elf) = file else { return };
    let (endian, data) = (elf.endian(), elf.data());
    let sections = elf.elf_section_table();
    let Ok(symbols) = sections.symbols(endian, data, elf::SHT_DYNSYM) else { return };
    let Some(names) = sections.section(symbols.string_section()).ok().and_then(|s| s.data(endian, data).ok())
    else {
        return;
    };
    let mut push = |start, size, symbol| {
        if let Some(name) = name_of(&symbols, names, endian, symbol).filter(|name| !name.is_empty()) {
            let binding = Binding { weak: false, global: true };
            builder.push(start, size, &[name, &b"@plt"[..]].concat(), binding);
        }
    };
    in_order(file, &mut push);
    if file.architecture() == object::Architecture::X86_64 {
        by_address(file, &mut push);
    }
}

fn name_of<'a, H: FileHeader, R: ReadRef<'a>>(
    symbols: &SymbolTable<'a, H, R>,
    names: &'a [u8],
    endian: H::Endian,
    symbol: usize,
) -> Option<&'a [u8]> {
    let name = names.get(symbols.symbol(SymbolIndex(symbol)).ok()?.st_name(endian) as usize..)?;
    Some(&name[..memchr::memchr(0, name).unwrap_or(name.len())])
}

/// Stubs that are in the order of their relocations.
fn in_order<'a, R: ReadRef<'a>>(file: &File<'a, R>, push: &mut impl FnMut(u64, u64, usize)) -> Option<()> {
    const STUB: u64 = 16;
    let header = match file.architecture() {
        object::Architecture::X86_64 => 16,
        object::Architecture::Aarch64 => 32,
        _ => return None,
    };
    let relocations = file.section_by_name(".rela.plt")?.data().ok()?;
    let start = match file.section_by_name(".plt.sec") {
        Some(section) => section.address(),
        None => file.section_by_name(".plt")?.address().checked_add(header)?,
    };
    for (number, relocation) in relocations.chunks_exact(RELOCATION).enumerate() {
        push(start.checked_add(STUB * number as u64)?, STUB, symbol_of(relocation)?);
    }
    Some(())
}

/// Stubs that are known by the address that they jump to, which a relocation of `.rela.dyn` fills.
fn by_address<'a, R: ReadRef<'a>>(file: &File<'a, R>, push: &mut impl FnMut(u64, u64, usize)) -> Option<()> {
    let section = file.section_by_name(".plt.got")?;
    let stubs = jumps(section.address(), section.data().ok()?);
    for relocation in file.section_by_name(".rela.dyn")?.data().ok()?.chunks_exact(RELOCATION) {
        let kind = u32::from_le_bytes(relocation[8..12].try_into().ok()?);
        let target = u64::from_le_bytes(relocation[..8].try_into().ok()?);
        if let Some(&(start, size)) = stubs.get(&target).filter(|_| kind == elf::R_X86_64_GLOB_DAT.0) {
            push(start, size, symbol_of(relocation)?);
        }
    }
    Some(())
}

/// Start and size of each stub in `code`, by the address that it takes its function from. A stub is `jmp *GOT(%rip)` in
/// 8 bytes, or in 16 with `endbr64` before it.
fn jumps(address: u64, code: &[u8]) -> HashMap<u64, (u64, u64)> {
    let mut found = HashMap::new();
    let mut at = 0;
    while let Some(stub) = code.get(at..).filter(|rest| !rest.is_empty()) {
        let (size, jump) = if stub.starts_with(&ENDBR64) { (16, ENDBR64.len()) } else { (8, 0) };
        let displacement = stub.get(jump..jump + JUMP_LENGTH).and_then(|jump| jump.strip_prefix(&JUMP));
        if let Some(displacement) = displacement.and_then(|bytes| <[u8; 4]>::try_from(bytes).ok()) {
            let next = address.wrapping_add((at + jump + JUMP_LENGTH) as u64);
            let target = next.wrapping_add_signed(i64::from(i32::from_le_bytes(displacement)));
            found.insert(target, (address.wrapping_add(at as u64), size));
        }
        at += size as usize;
    }
    found
}

fn symbol_of(relocation: &[u8]) -> Option<usize> {
    Some(u32::from_le_bytes(relocation.get(12..16)?.try_into().ok()?) as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stubs_are_known_by_what_they_jump_through() {
        let plain = [0xff, 0x25, 0xf2, 0x0f, 0x00, 0x00, 0x66, 0x90];
        let pad =
            [0xf3, 0x0f, 0x1e, 0xfa, 0xff, 0x25, 0xee, 0x0f, 0x00, 0x00, 0x66, 0x0f, 0x1f, 0x44, 0x00, 0x00];
        let code = [&plain[..], &pad[..], &[0xff, 0x25]].concat();
        let found = jumps(0x1000, &code);
        assert_eq!(found, HashMap::from([(0x1ff8, (0x1000, 8)), (0x2000, (0x1008, 16))]));
    }
}
