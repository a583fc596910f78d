//! Symbols read while the records still are.
//!
//! The header of a recording lists the files in which samples were taken, so what will be needed is known before the
//! first record is read.

use super::build_ids::BuildIds;
use super::files::{self, DebugInfo};
use super::inlines::{self, Inlines};
use super::kernel::{self, Kernel, RecordedKernel};
use super::options::SymbolOptions;
use super::table::SymbolTable;
use crate::budget::BudgetShare;
use crate::dso;
use crate::threads;
use std::path::PathBuf;

/// What is read of an object to name its addresses.
#[derive(Default)]
pub struct Loaded {
    pub symbols: SymbolTable,
    pub inlines: Option<Box<Inlines>>,
    /// What the debug information takes of the budget.
    pub share: Option<BudgetShare>,
    pub note: Option<String>,
}

/// Something to read.
pub enum PrefetchJob {
    Kernel { recorded: RecordedKernel, cache: Option<PathBuf> },
    File { path: Vec<u8>, build_id: Vec<u8>, options: SymbolOptions },
}

/// What was read.
pub enum PrefetchedPart {
    Kernel(Kernel, Option<String>),
    File(Loaded),
}

pub type SymbolPrefetch = threads::BackgroundWork<PrefetchJob, PrefetchedPart>;

/// Begins to read these files and the kernel's symbols, if there is anything to read.
pub fn start(
    build_ids: &BuildIds,
    recorded: &RecordedKernel,
    options: &SymbolOptions,
) -> Option<SymbolPrefetch> {
    let mut jobs = Vec::new();
    if build_ids.get(b"[kernel.kallsyms]").is_some() && recorded.reference.is_some() {
        jobs.push(PrefetchJob::Kernel { recorded: recorded.clone(), cache: options.cache.clone() });
    }
    let is_file = |path: &[u8]| path.starts_with(b"/") && !dso::is_kernel(path);
    let mut files: Vec<_> = build_ids.iter().filter(|(path, _)| is_file(path)).collect();
    files.sort();
    let file = |(path, build_id): (&Vec<u8>, &Vec<u8>)| PrefetchJob::File {
        path: path.clone(),
        build_id: build_id.clone(),
        options: options.clone(),
    };
    jobs.extend(files.into_iter().map(file));
    (!jobs.is_empty()).then(|| SymbolPrefetch::start("names", jobs, read))
}

fn read(job: &PrefetchJob) -> PrefetchedPart {
    match job {
        PrefetchJob::Kernel { recorded, cache } => {
            let (kernel, note) = kernel::load(recorded, cache.as_deref());
            PrefetchedPart::Kernel(kernel, note)
        }
        PrefetchJob::File { path, build_id, options } => {
            let (found, _) = files::find(path, Some(build_id), options);
            let found = found.as_ref();
            let (symbols, note) = found.map(|found| found.symbols(&options.budget)).unwrap_or_default();
            let info = found.and_then(|found| found.debug_info.as_ref()).filter(|_| options.inlines);
            // What does not fit is left for when it is known which of them are needed.
            let share = info.map(inlines::sizes).and_then(|(len, size)| options.budget.take_of(len, size));
            let inlines = info.filter(|_| share.is_some()).and_then(|info| load(info, options));
            PrefetchedPart::File(Loaded { symbols, inlines, share, note })
        }
    }
}

/// Reads debug information, for which a share of the budget was taken.
pub fn load(info: &DebugInfo, options: &SymbolOptions) -> Option<Box<Inlines>> {
    Inlines::load(&info.path, &options.budget).map(Box::new)
}
