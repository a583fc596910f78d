//! `.gopclntab`: the functions of a Go program, by which its run time walks stacks. A stripped one has it, too.
//!
//! Its form is that of Go 1.18 and later (src/runtime/symtab.go, `pcHeader`, `functab`; src/debug/gosym/pclntab.go).

use super::table::{Binding, TableBuilder};
use object::read::{File, ReadRef};
use object::{Object, ObjectSection, RelocationTarget};

/// Of Go 1.18 and 1.20, with two bytes of padding.
const MAGICS: [[u8; 6]; 2] = [[0xf0, 0xff, 0xff, 0xff, 0, 0], [0xf1, 0xff, 0xff, 0xff, 0, 0]];
/// The second is of position-independent programs. Where these have C in them, the system's linker makes it a part of
/// the third until Go 1.25.
const SECTIONS: [&str; 3] = [".gopclntab", ".data.rel.ro.gopclntab", ".data.rel.ro"];
/// Words of the header after its first 8 bytes.
const FUNCTIONS: usize = 0;
const TEXT_START: usize = 2;
const NAMES: usize = 3;
const NAMES_END: usize = 4;
const TABLE: usize = 7;
/// Of `moduledata`, in words: six slices, two tables and the first and last address come before.
const TEXT_OF_MODULE: u64 = 22;
const WORD: usize = 8;

/// Whether the file is a Go program.
pub fn is_go<'a, R: ReadRef<'a>>(file: &File<'a, R>) -> bool {
    file.section_by_name(".go.buildinfo").is_some()
}

/// `None` where the table is damaged, or of an older or newer form.
pub fn functions<'a, R: ReadRef<'a>>(file: &File<'a, R>) -> Option<TableBuilder> {
    let section = SECTIONS.iter().find_map(|name| file.section_by_name(name))?;
    let (data, at) = table_in(section.data().ok()?)?;
    let address = section.address().checked_add(at as u64)?;
    let header = |word: usize| u64_at(data, WORD * (1 + word));
    let text = text_start(file, address.wrapping_add((WORD * (1 + TEXT_START)) as u64), header(TEXT_START)?)?;
    let place = |word| header(word).and_then(|at| usize::try_from(at).ok());
    let names = data.get(place(NAMES)?..place(NAMES_END)?)?;
    let table = data.get(place(TABLE)?..)?;
    let mut builder = TableBuilder::of_text(names.to_vec());
    for index in 0..place(FUNCTIONS)? {
        // A pair for each function: its address, and where it is described; the next pair's address is its end.
        let pair = index.checked_mul(WORD)?;
        let (start, end) = (u32_at(table, pair)?, u32_at(table, pair + WORD)?);
        let described = u32_at(table, pair + 4)? as usize;
        let name = u32_at(table, described.checked_add(4)?)? as usize;
        if start < end && name < names.len() {
            let binding = Binding { weak: false, global: false };
            builder.push_to_zero(text.checked_add(start.into())?, (end - start).into(), name, binding);
        }
    }
    Some(builder)
}

/// The first table in a section, and its place there: its header begins with a magic number, the size of the shortest
/// instruction and that of an address.
fn table_in(section: &[u8]) -> Option<(&[u8], usize)> {
    let begins = |at: &usize| matches!(section.get(at + 6..at + WORD), Some([1 | 2 | 4, 8]));
    let found = |magic: &[u8; 6]| memchr::memmem::find_iter(section, magic).find(begins);
    let at = MAGICS.iter().filter_map(found).min()?;
    Some((&section[at..], at))
}

/// The address that the table's addresses count from. `place`: of the header's word for it, which holds `written`.
///
/// Since Go 1.26 only `.go.module` has it. In a position-independent program the word may be zero, and the
/// relocation that fills it in has the address. In programs of 1.26 that have neither, code begins with `.text`.
fn text_start<'a, R: ReadRef<'a>>(file: &File<'a, R>, place: u64, written: u64) -> Option<u64> {
    let module = file.section_by_name(".go.module").and_then(|section| {
        let offset = TEXT_OF_MODULE * WORD as u64;
        Some((section.address().wrapping_add(offset), u64_at(section.data().ok()?, offset as usize)?))
    });
    for (place, written) in [Some((place, written)), module].into_iter().flatten() {
        if let Some(start) = Some(written).filter(|&start| start != 0).or_else(|| relocated(file, place)) {
            return Some(start);
        }
    }
    Some(file.section_by_name(".text")?.address())
}

/// What the dynamic linker writes to a place of a program that is loaded at 0.
fn relocated<'a, R: ReadRef<'a>>(file: &File<'a, R>, place: u64) -> Option<u64> {
    let (_, relocation) = file.dynamic_relocations()?.find(|(at, _)| *at == place)?;
    let own = matches!(relocation.target(), RelocationTarget::Absolute);
    u64::try_from(relocation.addend()).ok().filter(|&start| own && start != 0)
}

fn u32_at(data: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(data.get(at..at.checked_add(4)?)?.try_into().ok()?))
}

fn u64_at(data: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(data.get(at..at.checked_add(WORD)?)?.try_into().ok()?))
}
