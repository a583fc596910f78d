//! What is read of an ELF file: where its code is mapped, its build id, and its symbols.

use super::debug_size::debug_size;
use super::table::{Binding, SymbolTable, TableBuilder};
use super::{debugdata, go, stubs};
use crate::addresses::{FileOffset, ObjectAddress};
use crate::budget::Budget;
use crate::regular::{self, PartsOfFile};
use crate::unpacked::debug_section;
use object::read::elf::{ElfFile, FileHeader, SectionHeader, Sym};
use object::read::{File, ReadRef};
use object::{Architecture, Object, ObjectSection, ObjectSegment, SectionIndex, elf};
use std::ops::Range;
use std::path::{Path, PathBuf};

/// A part of a file that is loaded as code.
#[derive(Clone, Copy, Debug)]
pub struct Segment {
    pub offset: u64,
    pub size: u64,
    pub address: u64,
    pub executable: bool,
}

/// What one ELF file says.
#[derive(Default)]
pub struct Elf {
    /// Where a program begins.
    pub entry: u64,
    pub is_x86_64: bool,
    pub build_id: Option<Vec<u8>>,
    pub segments: Vec<Segment>,
    /// File name and checksum of the file that holds the debug information.
    pub debug_link: Option<(Vec<u8>, u32)>,
    pub has_symtab: bool,
    pub has_debug_info: bool,
    /// Bytes that its debug sections take when they are read.
    pub debug_size: u64,
    /// It shares debug sections with other files.
    pub has_alt_link: bool,
}

impl Elf {
    /// Everything but the symbols.
    pub fn read(path: &Path) -> Option<Self> {
        let parts = PartsOfFile::open(path).ok()?;
        Self::parse(&File::parse(&parts).ok()?)
    }

    pub fn of_bytes(bytes: &[u8]) -> Option<Self> {
        Self::parse(&File::parse(bytes).ok()?)
    }

    fn parse<'a, R: ReadRef<'a>>(file: &File<'a, R>) -> Option<Self> {
        let segment = |segment: object::Segment<'a, '_, R>| {
            let (offset, size) = segment.file_range();
            let executable = segment.permissions().executable();
            Segment { offset, size, address: segment.address(), executable }
        };
        Some(Self {
            entry: file.entry(),
            is_x86_64: file.architecture() == Architecture::X86_64,
            build_id: file.build_id().ok().flatten().map(<[u8]>::to_vec),
            segments: file.segments().map(segment).filter(|segment| segment.size > 0).collect(),
            debug_link: file.gnu_debuglink().ok().flatten().map(|(name, crc)| (name.to_vec(), crc)),
            has_symtab: file.section_by_name(".symtab").is_some_and(|section| {
                // A debug file may keep the name of a section whose bytes are in another file.
                section.size() > 0 && section.file_range().is_some()
            }),
            has_debug_info: debug_section(file, ".debug_info").is_some(),
            debug_size: debug_size(file),
            has_alt_link: file.section_by_name(".gnu_debugaltlink").is_some(),
        })
    }

    /// The address of where a mapping begins, by the offsets that it maps. It begins with a page, of whatever size the
    /// recorded machine had, and what it maps of a segment may begin further on.
    pub fn address_of_mapping(&self, mapped: Range<FileOffset>) -> Option<ObjectAddress> {
        let shared = |segment: &&Segment| {
            let end = segment.offset.saturating_add(segment.size).min(mapped.end.0);
            end.saturating_sub(segment.offset.max(mapped.start.0))
        };
        let code = self.segments.iter().filter(|segment| segment.executable && shared(segment) > 0);
        let segment = code.max_by_key(shared)?;
        Some(ObjectAddress(mapped.start.0.wrapping_sub(segment.offset).wrapping_add(segment.address)))
    }

    /// Where in the file an address lies.
    pub fn offset_of(&self, address: ObjectAddress) -> Option<FileOffset> {
        let ObjectAddress(address) = address;
        let segment = self.segments.iter().find(|s| address >= s.address && address - s.address < s.size)?;
        segment.offset.checked_add(address - segment.address).map(FileOffset)
    }

    /// The address of what lies at this offset.
    pub fn address_at(&self, offset: FileOffset) -> Option<ObjectAddress> {
        let FileOffset(offset) = offset;
        let segment = self.segments.iter().find(|s| offset >= s.offset && offset - s.offset < s.size)?;
        Some(ObjectAddress((offset - segment.offset).wrapping_add(segment.address)))
    }
}

/// The functions of a file: of its full table if it has one, else of the dynamic one and of what a stripped file keeps
/// beside it; and the stubs of its procedure linkage table. Whether some had to be left out.
pub fn symbols(path: &Path, stubs_of: &Path, budget: &Budget) -> Option<(SymbolTable, bool)> {
    let source = regular::open(path).ok()?;
    let parts = PartsOfFile::of(source.try_clone().ok()?);
    let file = File::parse(&parts).ok()?;
    let mut left_out = false;
    let mut shares = Vec::new();
    let mut take = |bytes: u64| {
        let share = budget.take(bytes);
        left_out |= share.is_none();
        shares.push(share?);
        Some(())
    };
    // Not by way of the parts, which would keep it a second time.
    let names = |range: Range<u64>| regular::read_part(&source, range).ok();
    let mut builder = match table(&file, elf::SHT_SYMTAB, &mut take, names) {
        Some(full) => full,
        None => {
            let mut builder = table(&file, elf::SHT_DYNSYM, &mut take, names).unwrap_or_default();
            let packed = file.section_by_name(".gnu_debugdata").is_some();
            if packed || go::is_go(&file) {
                let kept = if packed { packed_functions(&file) } else { go::functions(&file) };
                match kept.filter(|kept| take(kept.text().len() as u64).is_some()) {
                    Some(kept) => builder.absorb(&kept),
                    None => left_out = true,
                }
            }
            builder
        }
    };
    if path == stubs_of {
        stubs::add(&file, &mut builder);
    } else {
        let parts = PartsOfFile::open(stubs_of).ok()?;
        stubs::add(&File::parse(&parts).ok()?, &mut builder);
    }
    let mut table = builder.build();
    table.shares = shares;
    Some((table, left_out))
}

/// Calls `take` with name and addresses of each function of a file's symbol tables; `None` where it has none, or where they take
/// more than the budget has.
pub fn each_function(path: &Path, budget: &Budget, mut take: impl FnMut(&[u8], Range<u64>)) -> Option<()> {
    let source = regular::open(path).ok()?;
    let parts = PartsOfFile::of(source.try_clone().ok()?);
    let file = File::parse(&parts).ok()?;
    let mut any = None;
    for kind in [elf::SHT_SYMTAB, elf::SHT_DYNSYM] {
        let mut share = None;
        let room = &mut |bytes| {
            share = budget.take(bytes);
            share.is_some().then_some(())
        };
        if let Some(table) = table(&file, kind, room, |range| regular::read_part(&source, range).ok()) {
            table.each(&mut take);
            any = Some(());
        }
    }
    any
}

/// The functions of a file in memory.
pub fn symbols_of(bytes: &[u8]) -> Option<SymbolTable> {
    let names = |range: Range<u64>| Some(bytes.get(range.start as usize..range.end as usize)?.to_vec());
    let file = File::parse(bytes).ok()?;
    let take = &mut |_| Some(());
    let full = table(&file, elf::SHT_SYMTAB, take, names);
    Some(full.or_else(|| table(&file, elf::SHT_DYNSYM, take, names)).unwrap_or_default().build())
}

/// Those of `.gnu_debugdata`, which leaves out what the dynamic table has.
fn packed_functions<'a, R: ReadRef<'a>>(file: &File<'a, R>) -> Option<TableBuilder> {
    let packed = debugdata::unpacked(file.section_by_name(".gnu_debugdata")?.data().ok()?)?;
    let names = |range: Range<u64>| Some(packed.get(range.start as usize..range.end as usize)?.to_vec());
    table(&File::parse(&packed[..]).ok()?, elf::SHT_SYMTAB, &mut |_| Some(()), names)
}

/// `take` is asked for the memory that the table takes, `names` for the text of a range of the file.
fn table<'a, R: ReadRef<'a>>(
    file: &File<'a, R>,
    kind: elf::SectionType,
    take: &mut impl FnMut(u64) -> Option<()>,
    names: impl Fn(Range<u64>) -> Option<Vec<u8>>,
) -> Option<TableBuilder> {
    match file {
        File::Elf32(file) => functions_of(file, kind, take, names),
        File::Elf64(file) => functions_of(file, kind, take, names),
        _ => None,
    }
}

fn functions_of<'a, H: FileHeader, R: ReadRef<'a>>(
    file: &ElfFile<'a, H, R>,
    kind: elf::SectionType,
    take: &mut impl FnMut(u64) -> Option<()>,
    names: impl Fn(Range<u64>) -> Option<Vec<u8>>,
) -> Option<TableBuilder> {
    let (endian, data) = (file.endian(), file.data());
    let sections = file.elf_section_table();
    let text: Vec<bool> = sections
        .iter()
        .map(|section| {
            let name = sections.section_name(endian, section).unwrap_or(b"");
            memchr::memmem::find(name, b".text").is_some()
        })
        .collect();
    // Of names without a type, the dynamic table has none of functions.
    let all = kind == elf::SHT_SYMTAB;
    let symbols = sections.symbols(endian, data, kind).ok().filter(|symbols| !symbols.is_empty())?;
    let (at, len) = sections.section(symbols.string_section()).ok()?.file_range(endian)?;
    take(len.saturating_add(TableBuilder::size(symbols.len())))?;
    // Names are read of those symbols only that are asked for later.
    let mut builder = TableBuilder::of_text(names(at..at.checked_add(len)?)?);
    for (index, symbol) in symbols.enumerate() {
        let shndx = symbol.st_shndx(endian);
        let section = match shndx {
            elf::SHN_XINDEX => symbols.symbol_section(endian, symbol, index).ok().flatten(),
            _ => Some(SectionIndex(usize::from(shndx.0))),
        };
        let function = match symbol.st_type() {
            _ if shndx == elf::SHN_UNDEF => false,
            elf::STT_FUNC | elf::STT_GNU_IFUNC => true,
            elf::STT_NOTYPE if all => {
                let hidden = matches!(symbol.st_visibility(), elf::STV_INTERNAL | elf::STV_HIDDEN);
                let index = section.map_or(usize::MAX, |section| section.0);
                !hidden && text.get(index).copied().unwrap_or(false)
            }
            _ => false,
        };
        let name = symbol.st_name(endian) as usize;
        let first = builder.text().get(name).copied().unwrap_or(0);
        if function && first != 0 && first != b'$' {
            let weak = symbol.st_bind() == elf::STB_WEAK;
            let global = matches!(symbol.st_bind(), elf::STB_GLOBAL | elf::STB_GNU_UNIQUE);
            let (address, size) = (symbol.st_value(endian).into(), symbol.st_size(endian).into());
            builder.push_to_zero(address, size, name, Binding { weak, global });
        }
    }
    (!builder.is_empty()).then_some(builder)
}

/// Directories that hold files of debug information.
pub const DEBUG_ROOT: &str = "/usr/lib/debug";

/// `.build-id/ab/cdef...`
pub fn build_id_path(root: &Path, build_id: &[u8]) -> Option<PathBuf> {
    let (first, rest) = build_id.split_first()?;
    Some(root.join(".build-id").join(format!("{first:02x}")).join(hex(rest)))
}

pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mapping_is_of_the_segment_that_most_of_it_is() {
        let code = |offset, size, address| Segment { offset, size, address, executable: true };
        let segments = vec![code(0x1000, 0x1200, 0x1000), code(0x2200, 0x9000, 0x1_2200)];
        let elf = Elf { segments, ..Elf::default() };
        let at =
            |start, end| elf.address_of_mapping(FileOffset(start)..FileOffset(end)).map(|address| address.0);
        assert_eq!([at(0x1000, 0x3000), at(0x2000, 0xc000)], [Some(0x1000), Some(0x1_2000)], "4 KiB");
        assert_eq!(at(0, 0x1_0000), Some(0x1_0000), "64 KiB");
        assert_eq!([at(0, 0x1000), at(0xc000, 0xd000)], [None, None]);
    }
}
