//! Which files on this machine belong to a mapped path: never one with another build id.

use super::elf::{self, DEBUG_ROOT, Elf, build_id_path, hex};
use super::options::SymbolOptions;
use super::table::SymbolTable;
use crate::budget::Budget;
use crate::regular;
use crate::unwind::UnwindSections;
use flate2::Crc;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Debug files larger than this are not checked by reading all of them.
const LARGEST_CHECKED: u64 = 1 << 30;
const LARGEST_VDSO: u64 = 1 << 20;

/// What to read of a mapped file.
pub struct ObjectFile {
    pub elf: Elf,
    image: Image,
    pub debug_info: Option<DebugInfo>,
}

/// A file of debug information.
pub struct DebugInfo {
    pub path: PathBuf,
    /// Bytes that its own sections take in memory.
    pub size: u64,
    /// It has more in a file that it shares with others.
    pub shares: bool,
}

impl DebugInfo {
    fn of(path: &Path, elf: &Elf) -> Option<Self> {
        let found = || Self { path: path.to_path_buf(), size: elf.debug_size, shares: elf.has_alt_link };
        elf.has_debug_info.then(found)
    }
}

enum Image {
    File {
        binary: PathBuf,
        /// Where the best symbols are: a debug file, or the binary itself.
        symbols: PathBuf,
    },
    /// The vDSO, which is in no file.
    Memory(Vec<u8>),
}

impl ObjectFile {
    /// The functions, and what there is to say about them.
    pub fn symbols(&self, budget: &Budget) -> (SymbolTable, Option<String>) {
        let (table, note) = match &self.image {
            Image::File { binary, symbols } => {
                let (table, left_out) = elf::symbols(symbols, binary, budget).unwrap_or_default();
                let note = || {
                    format!(
                        "{}: some of its symbols (.symtab, or what it keeps though it is stripped: .gnu_debugdata, \
                         .gopclntab) are left out: they are damaged, of an unknown form, or larger than what is left of \
                         {} bytes that all files may take",
                        symbols.display(),
                        budget.whole()
                    )
                };
                (Some(table), left_out.then(note))
            }
            Image::Memory(bytes) => (elf::symbols_of(bytes), None),
        };
        (table.unwrap_or_default(), note)
    }

    /// The file that the code is in.
    pub fn code(&self) -> Option<File> {
        match &self.image {
            Image::File { binary, .. } => regular::open(binary).ok(),
            Image::Memory(_) => None,
        }
    }

    pub fn sections(&self, budget: &Budget) -> Option<UnwindSections> {
        match &self.image {
            Image::File { binary, .. } => {
                let debug =
                    self.debug_info.as_ref().map(|debug| &*debug.path).filter(|debug| debug != binary);
                UnwindSections::read(binary, debug, budget)
            }
            Image::Memory(bytes) => UnwindSections::of_bytes(bytes),
        }
    }
}

/// perf 7 writes paths of processes that ran before it with their root before them (/proc/PID/root): in a chroot the
/// file is found without that of our own.
fn without_root(path: &Path, root: &Path) -> Option<PathBuf> {
    let inside = path.strip_prefix(root).ok().filter(|_| root != Path::new("/"))?;
    Some(Path::new("/").join(inside))
}

/// Finds the file that was mapped under this path; the second value says why there is none.
pub fn find(
    path: &[u8],
    build_id: Option<&[u8]>,
    options: &SymbolOptions,
) -> (Option<ObjectFile>, Option<String>) {
    let packed = options.packed.as_deref();
    let build_id = build_id.or_else(|| packed?.build_id(path));
    let deleted = path.strip_suffix(b" (deleted)");
    let shown = String::from_utf8_lossy(path).into_owned();
    let here = Path::new(OsStr::from_bytes(deleted.unwrap_or(path))).to_path_buf();
    let copy = options.symfs.as_deref().map(|symfs| below(symfs, &here));
    let cached = build_id
        .zip(options.cache.as_deref())
        .and_then(|(id, cache)| build_id_path(cache, id))
        .map(|path| path.join("elf"));
    // Without a build id, what lies at the path on another machine may be anything.
    let mine = build_id.is_some() || packed.is_none();
    let mut other = None;
    let mut chosen = None;
    let root = std::fs::read_link("/proc/self/root").ok();
    let inside = root.and_then(|root| without_root(&here, &root));
    for candidate in
        [copy.clone(), Some(here).filter(|_| mine), inside.filter(|_| mine), cached].into_iter().flatten()
    {
        let Some(elf) = Elf::read(&candidate) else { continue };
        let fits = match build_id {
            Some(id) => elf.build_id.as_deref() == Some(id),
            // A file put in the place of a deleted one may be anything; a copy was made of what was mapped.
            None => deleted.is_none() || copy.as_ref() == Some(&candidate),
        };
        if fits {
            chosen = Some((candidate, elf));
            break;
        }
        other = Some(elf.build_id.as_ref().map_or("none".to_owned(), |id| hex(id)));
    }
    let Some((binary, elf)) = chosen else {
        let recorded = build_id.map_or("none".to_owned(), hex);
        let why = match other {
            Some(other) => format!("{shown}: not used, its build id is {other}, the recorded one {recorded}"),
            None => format!("{shown}: not there, or no ELF file; its frames have no names"),
        };
        return (None, Some(why));
    };
    let debug = debug_file(&binary, &elf, options.cache.as_deref());
    let own = DebugInfo::of(&binary, &elf);
    let (symbols, debug_info) = match debug {
        Some((path, debug)) => {
            let symbols = if debug.has_symtab { path.clone() } else { binary.clone() };
            (symbols, DebugInfo::of(&path, &debug).or(own))
        }
        None => (binary.clone(), own),
    };
    (Some(ObjectFile { elf, image: Image::File { binary, symbols }, debug_info }), None)
}

/// Where a directory with copies has the file of this path.
pub fn below(symfs: &Path, path: &Path) -> PathBuf {
    symfs.join(path.strip_prefix("/").unwrap_or(path))
}

/// The file with what was stripped from a binary. By its build id it is where a package of debug symbols put it, where
/// perf keeps what it has used, or where the client of debuginfod keeps what it has fetched, for whatever tool.
fn debug_file(binary: &Path, elf: &Elf, cache: Option<&Path>) -> Option<(PathBuf, Elf)> {
    let root = Path::new(DEBUG_ROOT);
    if let Some(id) = &elf.build_id {
        let installed = build_id_path(root, id).map(|path| path.with_extension("debug"));
        let used = cache.and_then(|cache| build_id_path(cache, id)).map(|path| path.join("debug"));
        let fetched = fetched().map(|fetched| fetched.join(hex(id)).join("debuginfo"));
        for path in [installed, used, fetched].into_iter().flatten() {
            if let Some(debug) = Elf::read(&path).filter(|debug| debug.build_id == elf.build_id) {
                return Some((path, debug));
            }
        }
    }
    let (name, crc) = elf.debug_link.as_ref()?;
    let name = Path::new(OsStr::from_bytes(name));
    let directory = binary.parent()?;
    let below_root = root.join(directory.strip_prefix("/").unwrap_or(directory));
    [directory.join(name), directory.join(".debug").join(name), below_root.join(name)].into_iter().find_map(
        |path| {
            let debug = Elf::read(&path).filter(|_| path != binary)?;
            let fits = match (&debug.build_id, &elf.build_id) {
                (Some(theirs), Some(ours)) => theirs == ours,
                _ => checksum(&path).is_some_and(|theirs| theirs == *crc),
            };
            fits.then_some((path, debug))
        },
    )
}

/// The cache of debuginfod's client (debuginfod_find_debuginfo(3)).
fn fetched() -> Option<PathBuf> {
    let of = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    of("DEBUGINFOD_CACHE_PATH").or_else(|| {
        let home = of("HOME").map(|home| home.join(".cache"));
        Some(of("XDG_CACHE_HOME").or(home)?.join("debuginfod_client"))
    })
}

/// The checksum of a file, as `.gnu_debuglink` has it, if it is not too large for it.
fn checksum(path: &Path) -> Option<u32> {
    let mut file = regular::open(path).ok()?;
    if file.metadata().ok()?.len() > LARGEST_CHECKED {
        return None;
    }
    let (mut crc, mut piece) = (Crc::new(), vec![0; 1 << 16]);
    loop {
        match file.read(&mut piece).ok()? {
            0 => return Some(crc.sum()),
            n => crc.update(&piece[..n]),
        }
    }
}

/// The vDSO with this build id: the one kept by perf, or that of this process if it is the same.
pub fn vdso(build_id: Option<&[u8]>, cache: Option<&Path>) -> Option<ObjectFile> {
    let cached =
        build_id.zip(cache).and_then(|(id, cache)| build_id_path(cache, id)).map(|path| path.join("vdso"));
    let cached = cached.and_then(|path| regular::read(&path, LARGEST_VDSO).ok());
    let read = |bytes: Vec<u8>| {
        let elf = Elf::of_bytes(&bytes)?;
        let fits = build_id.is_none_or(|id| elf.build_id.as_deref() == Some(id));
        fits.then_some(ObjectFile { elf, image: Image::Memory(bytes), debug_info: None })
    };
    cached.into_iter().chain(own_vdso()).find_map(read)
}

fn own_vdso() -> Option<Vec<u8>> {
    let maps = std::fs::read_to_string("/proc/self/maps").ok()?;
    let line = maps.lines().find(|line| line.ends_with("[vdso]"))?;
    let (start, end) = line.split_whitespace().next()?.split_once('-')?;
    let (start, end) = (u64::from_str_radix(start, 16).ok()?, u64::from_str_radix(end, 16).ok()?);
    let mut memory = std::fs::File::open("/proc/self/mem").ok()?;
    memory.seek(SeekFrom::Start(start)).ok()?;
    let mut bytes = Vec::new();
    memory.take(end.checked_sub(start)?.min(LARGEST_VDSO)).read_to_end(&mut bytes).ok()?;
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_in_our_own_chroot_is_found_without_it() {
        let without = |path, root| without_root(Path::new(path), Path::new(root));
        assert_eq!(
            without("/srv/sid/usr/bin/db_bench", "/srv/sid"),
            Some(PathBuf::from("/usr/bin/db_bench"))
        );
        assert_eq!(without("/srv/sidecar/usr/bin/db_bench", "/srv/sid"), None);
        assert_eq!(without("/usr/bin/db_bench", "/"), None);
    }
}
