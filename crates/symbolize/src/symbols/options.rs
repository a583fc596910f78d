//! What is read to name addresses.

use super::files_at_paths::FilesAtPaths;
use crate::budget::Budget;
use std::path::PathBuf;
use std::sync::Arc;

#[derive(Clone, Debug)]
pub struct SymbolOptions {
    /// Whether inlined functions become frames.
    pub inlines: bool,
    /// Copies of mapped files, each below its path, and of maps of run-time compilers; they come before the paths.
    pub symfs: Option<PathBuf>,
    /// perf's cache of files by build id.
    pub cache: Option<PathBuf>,
    /// Which files the copies are of.
    pub copied: Option<Arc<FilesAtPaths>>,
    /// What lay at the paths where the copies were packed: what lies there on this machine is something else.
    pub packed: Option<Arc<FilesAtPaths>>,
    /// Whether anything of this machine is read: files, the kernel's symbols, maps of run-time compilers. Without it a
    /// recording gives the same stacks everywhere, most of their frames without names.
    pub host: bool,
    /// What may be held of the files at once.
    pub budget: Budget,
}

/// perf's cache of files by build id, below a home directory or below a directory with copies.
const CACHE: &str = ".debug";
const COPIED: &str = "copied-files";
const PACKED: &str = "packed-files";

impl SymbolOptions {
    /// The same with a directory of copies; a cache in it has all that there is.
    pub fn with_copies(self, symfs: Option<PathBuf>) -> Self {
        let own = symfs.as_ref().map(|symfs| symfs.join(CACHE)).filter(|cache| cache.is_dir());
        let read = |path: PathBuf| FilesAtPaths::read(&path).map(Arc::new);
        let packed = own.as_ref().and_then(|cache| read(cache.join(PACKED)));
        let copied = symfs.as_ref().and_then(|symfs| read(symfs.join(COPIED)));
        Self { cache: own.or(self.cache), symfs, copied, packed, ..self }
    }
}

impl Default for SymbolOptions {
    fn default() -> Self {
        let home = std::env::var_os("HOME");
        Self {
            inlines: true,
            symfs: None,
            copied: None,
            packed: None,
            cache: home.map(|home| PathBuf::from(home).join(CACHE)),
            host: true,
            budget: Budget::default(),
        }
    }
}
