//! Which functions the compiler put inside which, from DWARF debug information.

use addr2line::Context;
use gimli::{Dwarf, EndianArcSlice, RunTimeEndian, SectionId};
use object::read::{File, ReadCache};
use object::{Object, ObjectSection};
use std::path::{Path, PathBuf};
use std::sync::Arc;

type Slice = EndianArcSlice<RunTimeEndian>;

/// The debug information of one file.
pub struct Inlines {
    context: Context<Slice>,
}

impl Inlines {
    pub fn load(path: &Path) -> Option<Self> {
        let cache = ReadCache::new(std::fs::File::open(path).ok()?);
        let file = File::parse(&cache).ok()?;
        let mut dwarf = Dwarf::load(|id| section(&file, id)).ok()?;
        if let Some(shared) = shared_file(&file, path) {
            let cache = ReadCache::new(std::fs::File::open(shared).ok()?);
            let file = File::parse(&cache).ok()?;
            dwarf.load_sup(|id| section(&file, id)).ok()?;
        }
        Context::from_dwarf(dwarf).ok().map(|context| Self { context })
    }

    /// The names of what was inlined at this address, innermost first, as mangled as the file has them.
    pub fn at(&self, address: u64) -> Vec<Vec<u8>> {
        let mut names = Vec::new();
        let Ok(mut frames) = self.context.find_frames(address).skip_all_loads() else { return names };
        while let Ok(Some(frame)) = frames.next() {
            let name = frame.function.as_ref().and_then(|function| function.raw_name().ok());
            names.push(name.map_or_else(Vec::new, |name| name.as_bytes().to_vec()));
        }
        // The last one is the function that all others were inlined into.
        names.pop();
        names
    }
}

fn section<'a, R: object::ReadRef<'a>>(file: &File<'a, R>, id: SectionId) -> Result<Slice, gimli::Error> {
    let bytes = file.section_by_name(id.name()).and_then(|section| section.uncompressed_data().ok());
    let endian = if file.is_little_endian() { RunTimeEndian::Little } else { RunTimeEndian::Big };
    Ok(EndianArcSlice::new(Arc::from(&bytes.unwrap_or_default()[..]), endian))
}

/// The file of what several debug files share (dwz).
fn shared_file<'a, R: object::ReadRef<'a>>(file: &File<'a, R>, path: &Path) -> Option<PathBuf> {
    let (name, id) = file.gnu_debugaltlink().ok().flatten()?;
    let name = Path::new(std::str::from_utf8(name).ok()?);
    let beside = std::fs::canonicalize(path).ok()?.parent()?.join(name);
    let by_id = super::elf::build_id_path(Path::new(super::elf::DEBUG_ROOT), id)?.with_extension("debug");
    [beside, by_id]
        .into_iter()
        .find(|path| super::elf::Elf::read(path).is_some_and(|elf| elf.build_id.as_deref() == Some(id)))
}
