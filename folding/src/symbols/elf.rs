//! What is read of an ELF file: where its code is mapped, its build id, and its symbols.

use super::table::{Binding, Builder, Table};
use object::read::{File, ReadCache, ReadRef};
use object::{
    Object, ObjectSection, ObjectSegment, ObjectSymbol, ObjectSymbolTable, SymbolFlags, SymbolKind,
};
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
}

impl Elf {
    /// Everything but the symbols.
    pub fn read(path: &Path) -> Option<Self> {
        let cache = ReadCache::new(std::fs::File::open(path).ok()?);
        Self::parse(&File::parse(&cache).ok()?)
    }

    pub fn parse<'a, R: ReadRef<'a>>(file: &File<'a, R>) -> Option<Self> {
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

/// The functions of a file: of its full table if it has one, else of the dynamic one; and the stubs of its
/// procedure linkage table.
pub fn symbols(path: &Path, stubs_of: &Path) -> Option<Table> {
    let mut builder = Builder::default();
    // Tens of thousands of names are read: from memory, not through a cache of pieces.
    let bytes = read_whole(path)?;
    add_symbols(&File::parse(&bytes[..]).ok()?, &mut builder);
    if path == stubs_of {
        add_stubs(&File::parse(&bytes[..]).ok()?, &mut builder);
    } else {
        let bytes = read_whole(stubs_of)?;
        add_stubs(&File::parse(&bytes[..]).ok()?, &mut builder);
    }
    Some(builder.build())
}

fn read_whole(path: &Path) -> Option<Vec<u8>> {
    const LARGEST: u64 = 4 << 30;
    let file = std::fs::metadata(path).ok()?;
    (file.is_file() && file.len() <= LARGEST).then(|| std::fs::read(path).ok())?
}

/// The same of a file in memory.
pub fn symbols_of(bytes: &[u8]) -> Option<(Elf, Table)> {
    let file = File::parse(bytes).ok()?;
    let mut builder = Builder::default();
    add_symbols(&file, &mut builder);
    Some((Elf::parse(&file)?, builder.build()))
}

fn add_symbols<'a, R: ReadRef<'a>>(file: &File<'a, R>, builder: &mut Builder) {
    let text: Vec<bool> = {
        let mut text = Vec::new();
        for section in file.sections() {
            let index = section.index().0;
            text.resize(text.len().max(index + 1), false);
            text[index] =
                section.name_bytes().is_ok_and(|name| memchr::memmem::find(name, b".text").is_some());
        }
        text
    };
    let is_text = |section: Option<object::SectionIndex>| {
        section.is_some_and(|index| text.get(index.0).copied().unwrap_or(false))
    };
    let mut add = |symbol: object::Symbol<'a, '_, R>| {
        let function = match symbol.kind() {
            SymbolKind::Text => !symbol.is_undefined(),
            SymbolKind::Unknown | SymbolKind::Label => {
                let hidden = match symbol.flags() {
                    SymbolFlags::Elf { st_other, .. } => matches!(st_other.0 & 3, 1 | 2),
                    _ => false,
                };
                !hidden && is_text(symbol.section_index())
            }
            _ => false,
        };
        let name = symbol.name_bytes().unwrap_or(b"");
        if function && !name.is_empty() && !name.starts_with(b"$") {
            let binding = Binding { weak: symbol.is_weak(), global: symbol.is_global() && !symbol.is_weak() };
            builder.push(symbol.address(), symbol.size(), name, binding);
        }
    };
    file.symbols().for_each(&mut add);
    if builder.is_empty() {
        let mut add = |symbol: object::Symbol<'a, '_, R>| {
            let name = symbol.name_bytes().unwrap_or(b"");
            if symbol.kind() == SymbolKind::Text && !symbol.is_undefined() && !name.is_empty() {
                let binding =
                    Binding { weak: symbol.is_weak(), global: symbol.is_global() && !symbol.is_weak() };
                builder.push(symbol.address(), symbol.size(), name, binding);
            }
        };
        file.dynamic_symbols().for_each(&mut add);
    }
}

/// `name@plt` for each stub through which a function of another file is called.
fn add_stubs<'a, R: ReadRef<'a>>(file: &File<'a, R>, builder: &mut Builder) -> Option<()> {
    const STUB: u64 = 16;
    let relocations = file.section_by_name(".rela.plt")?.data().ok()?;
    let dynamic = file.dynamic_symbol_table()?;
    let header = match file.architecture() {
        object::Architecture::X86_64 => 16,
        object::Architecture::Aarch64 => 32,
        _ => return None,
    };
    let start = match file.section_by_name(".plt.sec") {
        Some(section) => section.address(),
        None => file.section_by_name(".plt")?.address() + header,
    };
    for (number, relocation) in relocations.chunks_exact(24).enumerate() {
        let info = u64::from_le_bytes(relocation[8..16].try_into().ok()?);
        let index = object::SymbolIndex((info >> 32) as usize);
        let Ok(symbol) = dynamic.symbol_by_index(index) else { continue };
        let Some(name) = symbol.name_bytes().ok().filter(|name| !name.is_empty()) else { continue };
        let name = [name, &b"@plt"[..]].concat();
        let binding = Binding { weak: false, global: true };
        builder.push(start + STUB * number as u64, STUB, &name, binding);
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
pub fn crc32(bytes: &[u8]) -> u32 {
    let table: [u32; 256] = std::array::from_fn(|n| {
        (0..8).fold(n as u32, |crc, _| if crc & 1 == 1 { crc >> 1 ^ 0xedb8_8320 } else { crc >> 1 })
    });
    !bytes.iter().fold(u32::MAX, |crc, &byte| table[(crc as u8 ^ byte) as usize] ^ crc >> 8)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_checksum_is_the_usual_one() {
        assert_eq!(crc32(b"123456789"), 0xcbf4_3926);
    }

    #[test]
    fn build_ids_become_paths() {
        let path = build_id_path(Path::new("/usr/lib/debug"), &[0xab, 0xcd, 0x01]);
        assert_eq!(path, Some(PathBuf::from("/usr/lib/debug/.build-id/ab/cd01")));
    }
}
