//! What is read of an ELF file: where its code is mapped, its build id, and its symbols.

use super::budget::{Budget, Share};
use super::table::{Binding, Builder, Table};
use super::{debugdata, inlines};
use crate::regular;
use object::read::elf::{ElfFile, FileHeader, SectionHeader, Sym};
use object::read::{File, ReadCache, ReadRef};
use object::{Object, ObjectSection, ObjectSegment, SectionIndex, SymbolIndex, elf};
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
        let cache = ReadCache::new(regular::open(path).ok()?);
        Self::parse(&File::parse(&cache).ok()?)
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
            build_id: file.build_id().ok().flatten().map(<[u8]>::to_vec),
            segments: file.segments().map(segment).filter(|segment| segment.size > 0).collect(),
            debug_link: file.gnu_debuglink().ok().flatten().map(|(name, crc)| (name.to_vec(), crc)),
            has_symtab: file.section_by_name(".symtab").is_some_and(|section| {
                // A debug file may keep the name of a section whose bytes are elsewhere.
                section.size() > 0 && section.file_range().is_some()
            }),
            has_debug_info: file.section_by_name(".debug_info").is_some(),
            debug_size: inlines::own_size(file),
            has_alt_link: file.section_by_name(".gnu_debugaltlink").is_some(),
        })
    }

    /// What to add to an offset in the page-wise mapping that begins here to get an address in the file's
    /// own numbers.
    pub fn bias_at(&self, offset: u64) -> Option<u64> {
        const PAGE: u64 = 4096;
        let mut mapped = self.segments.iter().filter(|segment| {
            let start = segment.offset & !(PAGE - 1);
            segment.executable && offset >= start && offset < segment.offset.saturating_add(segment.size)
        });
        mapped.next_back().map(|segment| segment.address.wrapping_sub(segment.offset))
    }

    /// The address in the file's own numbers of what lies at this offset.
    pub fn address_at(&self, offset: u64) -> Option<u64> {
        let segment = self.segments.iter().find(|s| offset >= s.offset && offset - s.offset < s.size)?;
        Some((offset - segment.offset).wrapping_add(segment.address))
    }
}

/// The functions of a file: of its full table if it has one, else of the dynamic one and of the packed symbols that
/// complete it; and the stubs of its procedure linkage table. Whether packed symbols had to be left out.
pub fn symbols(path: &Path, stubs_of: &Path, budget: &Budget) -> Option<(Table, bool)> {
    let cache = ReadCache::new(regular::open(path).ok()?);
    let file = File::parse(&cache).ok()?;
    let (mut builder, packed) = functions(&file, Some(budget));
    if path == stubs_of {
        add_stubs(&file, &mut builder);
    } else {
        let cache = ReadCache::new(regular::open(stubs_of).ok()?);
        add_stubs(&File::parse(&cache).ok()?, &mut builder);
    }
    let mut table = builder.build();
    let left_out = matches!(packed, Packed::LeftOut);
    if let Packed::Taken(share) = packed {
        table.share = Some(share);
    }
    Some((table, left_out))
}

/// The functions of a file in memory.
pub fn symbols_of(bytes: &[u8]) -> Option<Table> {
    Some(functions(&File::parse(bytes).ok()?, None).0.build())
}

/// What became of packed symbols.
enum Packed {
    NotThere,
    Taken(Share),
    LeftOut,
}

/// Packed ones are looked for where there is a budget for them.
fn functions<'a, R: ReadRef<'a>>(file: &File<'a, R>, budget: Option<&Budget>) -> (Builder, Packed) {
    if let Some(full) = table(file, elf::SHT_SYMTAB) {
        return (full, Packed::NotThere);
    }
    let mut builder = table(file, elf::SHT_DYNSYM).unwrap_or_default();
    let Some(budget) = budget.filter(|_| file.section_by_name(".gnu_debugdata").is_some()) else {
        return (builder, Packed::NotThere);
    };
    let packed = packed_functions(file);
    let share = packed.as_ref().and_then(|packed| budget.take(packed.text().len() as u64));
    match packed.zip(share) {
        Some((packed, share)) => {
            builder.absorb(&packed);
            (builder, Packed::Taken(share))
        }
        None => (builder, Packed::LeftOut),
    }
}

/// Those of `.gnu_debugdata`, which leaves out what the dynamic table has.
fn packed_functions<'a, R: ReadRef<'a>>(file: &File<'a, R>) -> Option<Builder> {
    let packed = debugdata::unpacked(file.section_by_name(".gnu_debugdata")?.data().ok()?)?;
    table(&File::parse(&packed[..]).ok()?, elf::SHT_SYMTAB)
}

fn table<'a, R: ReadRef<'a>>(file: &File<'a, R>, kind: elf::SectionType) -> Option<Builder> {
    match file {
        File::Elf32(file) => functions_of(file, kind),
        File::Elf64(file) => functions_of(file, kind),
        _ => None,
    }
}

fn functions_of<'a, H: FileHeader, R: ReadRef<'a>>(
    file: &ElfFile<'a, H, R>,
    kind: elf::SectionType,
) -> Option<Builder> {
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
    // Names are read of those symbols only that are asked for later.
    let names = sections.section(symbols.string_section()).ok()?.data(endian, data).ok()?;
    let mut builder = Builder::of_text(names.to_vec());
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

/// `name@plt` for each stub through which a function of another file is called.
fn add_stubs<'a, R: ReadRef<'a>>(file: &File<'a, R>, builder: &mut Builder) -> Option<()> {
    let header = match file.architecture() {
        object::Architecture::X86_64 => 16,
        object::Architecture::Aarch64 => 32,
        _ => return None,
    };
    let File::Elf64(file) = file else { return None };
    const STUB: u64 = 16;
    let (endian, data) = (file.endian(), file.data());
    let sections = file.elf_section_table();
    let relocations = file.section_by_name(".rela.plt")?.data().ok()?;
    let symbols = sections.symbols(endian, data, elf::SHT_DYNSYM).ok()?;
    let names = sections.section(symbols.string_section()).ok()?.data(endian, data).ok()?;
    let start = match file.section_by_name(".plt.sec") {
        Some(section) => section.address(),
        None => file.section_by_name(".plt")?.address() + header,
    };
    for (number, relocation) in relocations.chunks_exact(24).enumerate() {
        let info = u64::from_le_bytes(relocation[8..16].try_into().ok()?);
        let Ok(symbol) = symbols.symbol(SymbolIndex((info >> 32) as usize)) else { continue };
        let name = names.get(symbol.st_name(endian) as usize..).unwrap_or(&[]);
        let name = &name[..memchr::memchr(0, name).unwrap_or(name.len())];
        if !name.is_empty() {
            let binding = Binding { weak: false, global: true };
            builder.push(start + STUB * number as u64, STUB, &[name, &b"@plt"[..]].concat(), binding);
        }
    }
    Some(())
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

/// The checksum of `.gnu_debuglink`.
pub struct Crc32 {
    table: [u32; 256],
    rest: u32,
}

impl Default for Crc32 {
    fn default() -> Self {
        let of_byte = |n: usize| {
            (0..8).fold(n as u32, |crc, _| if crc & 1 == 1 { crc >> 1 ^ 0xedb8_8320 } else { crc >> 1 })
        };
        Self { table: std::array::from_fn(of_byte), rest: u32::MAX }
    }
}

impl Crc32 {
    pub fn add(&mut self, bytes: &[u8]) {
        let step = |crc: u32, &byte: &u8| self.table[(crc as u8 ^ byte) as usize] ^ crc >> 8;
        self.rest = bytes.iter().fold(self.rest, step);
    }

    pub fn value(&self) -> u32 {
        !self.rest
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_checksum_is_the_usual_one() {
        let mut crc = Crc32::default();
        [&b"1234"[..], b"", b"56789"].into_iter().for_each(|piece| crc.add(piece));
        assert_eq!(crc.value(), 0xcbf4_3926);
    }

    #[test]
    fn build_ids_become_paths() {
        let path = build_id_path(Path::new("/usr/lib/debug"), &[0xab, 0xcd, 0x01]);
        assert_eq!(path, Some(PathBuf::from("/usr/lib/debug/.build-id/ab/cd01")));
    }
}
