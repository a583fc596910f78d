//! The debug sections of files, and the units in them.

use super::lookup::InlineLookup;
use crate::budget::Budget;
use crate::regular::{self, PartsOfFile};
use crate::symbols::debug_size::{debug_size, is_useless};
use crate::symbols::elf::{DEBUG_ROOT, Elf, build_id_path};
use crate::unpacked::{debug_section, unpacked, zeros};
use crate::unwind::DwarfSlice;
use gimli::{
    Abbreviations, AttributeValue, DebugAbbrev, DebugAbbrevOffset, Dwarf, DwarfPackage, DwarfPackageSections,
    DwarfSections, DwoId, EndianSlice, LittleEndian, Section, SectionId, Unit,
};
use object::read::{CompressedData, CompressionFormat, File, ReadRef};
use object::{Object, ObjectSection};
use std::cell::RefCell;
use std::collections::HashMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub type UnitHeader<'a> = gimli::UnitHeader<DwarfSlice<'a>>;

/// The sections of one file.
pub struct DebugSections(DwarfSections<Vec<u8>>);

impl DebugSections {
    /// Those of a file, and where that of the sections it shares with others is (dwz).
    pub fn read(path: &Path) -> Option<(Self, Option<PathBuf>)> {
        let source = regular::open(path).ok()?;
        let parts = PartsOfFile::of(source.try_clone().ok()?);
        let file = File::parse(&parts).ok()?;
        let sections = Self::load(&file, &source, |id| Some(id.name()))?;
        Some((sections, shared_file(&file, path)))
    }

    /// Those of a file of split units (`.dwo`), if they fit into what is left of the budget; they are dropped with the unit.
    pub fn split(path: &Path, budget: &Budget) -> Option<Self> {
        let source = regular::open(path).ok()?;
        let parts = PartsOfFile::of(source.try_clone().ok()?);
        let file = File::parse(&parts).ok()?;
        let _share = budget.take_of(source.metadata().ok()?.len(), debug_size(&file))?;
        Self::load(&file, &source, SectionId::dwo_name)
    }

    /// All or none: without those of names, inlined functions would be frames without a name.
    fn load<'a, R: ReadRef<'a>>(
        file: &File<'a, R>,
        source: &std::fs::File,
        name: impl Fn(SectionId) -> Option<&'static str>,
    ) -> Option<Self> {
        let load = |id: SectionId| match name(id).filter(|name| !is_useless(name)) {
            Some(name) => contents(file, source, name).ok_or(()),
            None => Ok(Vec::new()),
        };
        let sections = DwarfSections::load(load).ok()?;
        file.is_little_endian().then_some(Self(sections))
    }

    /// Bytes of all of them.
    pub fn size(&self) -> u64 {
        let mut size = 0;
        self.0.borrow(|section| size += section.len() as u64);
        size
    }

    pub fn borrow<'a>(&'a self, shared: Option<&'a Self>) -> Dwarf<DwarfSlice<'a>> {
        self.0.borrow_with_sup(shared.map(|shared| &shared.0), |bytes| EndianSlice::new(bytes, LittleEndian))
    }
}

/// The split units of a whole program in one file (`.dwp`).
pub struct Package(DwarfPackageSections<Vec<u8>>, u64);

impl Package {
    /// That of a binary, which lies beside it.
    pub fn read(binary: &Path) -> Option<Self> {
        let source = regular::open(&Self::path(binary)).ok()?;
        let parts = PartsOfFile::of(source.try_clone().ok()?);
        let file = File::parse(&parts).ok()?;
        // All of them: a unit's part of each is cut out of it, and one that is missing would fail them all.
        let mut size = 0;
        let load = |id: SectionId| {
            let section = id.dwo_name().map_or(Some(Vec::new()), |name| contents(&file, &source, name));
            size += section.as_ref().map_or(0, |section| section.len() as u64);
            section.ok_or(gimli::Error::Io)
        };
        let sections = DwarfPackageSections::load(load).ok()?;
        file.is_little_endian().then_some(Self(sections, size))
    }

    fn path(binary: &Path) -> PathBuf {
        let mut path = binary.as_os_str().to_owned();
        path.push(".dwp");
        path.into()
    }

    /// Bytes of all sections.
    pub fn size(&self) -> u64 {
        self.1
    }

    pub fn borrow(&self) -> Option<DwarfPackage<DwarfSlice<'_>>> {
        let slice = |bytes| EndianSlice::new(bytes, LittleEndian);
        self.0.borrow(|bytes: &Vec<u8>| slice(bytes), slice(&[])).ok()
    }
}

/// Files that hold a part of a file's debug information: what it shares with others, and its package.
pub fn beside(path: &Path, shares: bool) -> impl Iterator<Item = PathBuf> {
    let shared = || {
        let parts = PartsOfFile::open(path).ok()?;
        shared_file(&File::parse(&parts).ok()?, path)
    };
    shares.then(shared).flatten().into_iter().chain([Package::path(path)])
}

/// A section, unpacked; empty where there is none, and `None` where it cannot be read or there is no memory for it. `file`
/// was read from `source`: what is large is read from there, as it would be kept twice otherwise.
fn contents<'a, R: ReadRef<'a>>(file: &File<'a, R>, source: &std::fs::File, name: &str) -> Option<Vec<u8>> {
    let Some(section) = debug_section(file, name) else { return Some(Vec::new()) };
    let place = section.compressed_file_range().ok()?;
    // A damaged file may say that a section is longer than the file.
    let len = source.metadata().ok()?.len().checked_sub(place.offset)?;
    let size = Some(place.compressed_size).filter(|&size| size <= len)?;
    let mut data = zeros(size)?;
    source.read_exact_at(&mut data, place.offset).ok()?;
    let (format, uncompressed_size) = (place.format, place.uncompressed_size);
    if format == CompressionFormat::None {
        return Some(data);
    }
    Some(unpacked(CompressedData { format, data: &data, uncompressed_size })?.into_owned())
}

fn shared_file<'a, R: ReadRef<'a>>(file: &File<'a, R>, path: &Path) -> Option<PathBuf> {
    let (name, id) = file.gnu_debugaltlink().ok().flatten()?;
    let beside = std::fs::canonicalize(path).ok()?.parent()?.join(OsStr::from_bytes(name));
    let by_id = build_id_path(Path::new(DEBUG_ROOT), id)?.with_extension("debug");
    [beside, by_id]
        .into_iter()
        .find(|path| Elf::read(path).is_some_and(|elf| elf.build_id.as_deref() == Some(id)))
}

/// A unit without its line table, whose section was not read.
pub fn unit<'a>(
    dwarf: &Dwarf<DwarfSlice<'a>>,
    header: UnitHeader<'a>,
    abbreviations: Arc<Abbreviations>,
) -> Option<Unit<DwarfSlice<'a>>> {
    let encoding = header.encoding();
    let mut unit = Unit {
        abbreviations,
        name: None,
        comp_dir: None,
        low_pc: 0,
        str_offsets_base: gimli::DebugStrOffsetsBase::default_for_encoding_and_file(
            encoding,
            dwarf.file_type,
        ),
        addr_base: gimli::DebugAddrBase(0),
        loclists_base: gimli::DebugLocListsBase::default_for_encoding_and_file(encoding, dwarf.file_type),
        rnglists_base: gimli::DebugRngListsBase::default_for_encoding_and_file(encoding, dwarf.file_type),
        line_program: None,
        dwo_id: match header.type_() {
            gimli::UnitType::Skeleton(id) | gimli::UnitType::SplitCompilation(id) => Some(id),
            _ => None,
        },
        header,
    };
    let (mut directory, mut low) = (None, None);
    {
        let mut cursor = unit.header.entries(&unit.abbreviations);
        cursor.next_dfs().ok()?;
        for attribute in cursor.current()?.attrs() {
            match (attribute.name(), attribute.value()) {
                (gimli::DW_AT_comp_dir, value) => directory = Some(value),
                (gimli::DW_AT_low_pc, value) => low = Some(value),
                (_, AttributeValue::DebugStrOffsetsBase(base)) => unit.str_offsets_base = base,
                (_, AttributeValue::DebugAddrBase(base)) => unit.addr_base = base,
                (_, AttributeValue::DebugRngListsBase(base)) => unit.rnglists_base = base,
                (_, AttributeValue::DwoId(id)) => unit.dwo_id = unit.dwo_id.or(Some(id)),
                _ => {}
            }
        }
    }
    unit.comp_dir = directory.and_then(|value| dwarf.attr_string(&unit, value).ok());
    if let Some(low) = low.and_then(|value| dwarf.attr_address(&unit, value).ok().flatten()) {
        unit.low_pc = low;
    }
    Some(unit)
}

/// How entries are laid out: each table is read once for all units that share it, and not beyond where that of another begins.
#[derive(Default)]
pub struct Descriptions {
    /// Where each begins.
    starts: Vec<usize>,
    /// Those of several units; `None`: damaged.
    shared: RefCell<HashMap<usize, Option<Arc<Abbreviations>>>>,
}

impl Descriptions {
    pub fn of(headers: &[UnitHeader]) -> Self {
        let mut starts: Vec<usize> = headers.iter().map(|header| header.debug_abbrev_offset().0).collect();
        starts.sort_unstable();
        Self { starts, shared: RefCell::default() }
    }

    pub fn read<'a>(
        &self,
        dwarf: &Dwarf<DwarfSlice<'a>>,
        header: &UnitHeader<'a>,
        lookup: &mut InlineLookup,
    ) -> Option<Arc<Abbreviations>> {
        let start = header.debug_abbrev_offset().0;
        let after = self.starts.partition_point(|&other| other <= start);
        let units = after - self.starts.partition_point(|&other| other < start);
        let mut read = || {
            let whole = dwarf.debug_abbrev.reader().slice();
            let end = self.starts.get(after).copied().unwrap_or(whole.len()).min(whole.len());
            lookup.step(end.saturating_sub(start)).ok()?;
            let table = DebugAbbrev::new(whole.get(start..end)?, LittleEndian);
            table.abbreviations(DebugAbbrevOffset(0)).ok().map(Arc::new)
        };
        if units == 1 {
            return read();
        }
        self.shared.borrow_mut().entry(start).or_insert_with(read).clone()
    }
}

/// Where the entries of a unit lie that has only its addresses here.
pub struct SplitUnit {
    pub id: DwoId,
    pub path: PathBuf,
}

pub fn split_unit(dwarf: &Dwarf<DwarfSlice>, unit: &Unit<DwarfSlice>) -> Option<SplitUnit> {
    let id = unit.dwo_id?;
    let name = dwarf.attr_string(unit, unit.dwo_name().ok()??).ok()?;
    let directory = unit.comp_dir.map_or(&b""[..], |directory| directory.slice());
    let path = Path::new(OsStr::from_bytes(directory)).join(OsStr::from_bytes(name.slice()));
    Some(SplitUnit { id, path })
}

pub fn headers<'a>(dwarf: &Dwarf<DwarfSlice<'a>>) -> Vec<UnitHeader<'a>> {
    let mut headers = dwarf.units();
    std::iter::from_fn(|| headers.next().ok().flatten()).collect()
}
