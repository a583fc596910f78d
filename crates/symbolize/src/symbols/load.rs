//! What the names of addresses need, read.

use super::inlines::{self, Inlines};
use super::kernel::{self, Kernel};
use super::prefetch::{self, Loaded, PrefetchJob, PrefetchedPart, SymbolPrefetch};
use super::table::SymbolTable;
use super::{AddressesToName, ObjectId, ObjectKind, Symbols, perf_map};
use crate::budget::{Budget, BudgetShare};
use crate::threads;
use std::collections::HashMap;

impl Symbols {
    /// Reads what the names need, each file once.
    pub(super) fn load(&mut self, wanted: &[AddressesToName], threads: usize) -> Vec<Loaded> {
        enum LoadedPart {
            Kernel(Kernel, Option<String>),
            Symbols(SymbolTable, Option<String>),
            Inlines(Option<Box<Inlines>>),
        }
        enum LoadJob {
            Kernel,
            Symbols(usize),
            Inlines(usize),
        }
        let of_kernel =
            wanted.iter().any(|wanted| matches!(self.kind(wanted), ObjectKind::Kernel | ObjectKind::Module));
        self.recorded.build_id = self.kernel_build_id();
        let mut begun = HashMap::new();
        for (job, part) in self.prefetch.take().map_or_else(Vec::new, SymbolPrefetch::finish) {
            match (job, part) {
                (PrefetchJob::Kernel { recorded, .. }, PrefetchedPart::Kernel(kernel, note))
                    if of_kernel && self.kernel.is_none() && recorded == self.recorded =>
                {
                    self.notes.extend(note);
                    self.kernel = Some(kernel);
                }
                (PrefetchJob::File { path, build_id, .. }, PrefetchedPart::File(mut loaded)) => {
                    // It gives its share back: who gets one must not depend on who was read first.
                    loaded.share = None;
                    begun.insert((path, build_id), loaded);
                }
                _ => {}
            }
        }
        let mut loaded: Vec<Loaded> = Vec::new();
        let mut jobs = Vec::new();
        if of_kernel && self.kernel.is_none() && self.options.host {
            jobs.push(LoadJob::Kernel);
        }
        for (index, wanted) in wanted.iter().enumerate() {
            let key = self
                .build_id(wanted.object)
                .map(|id| (self.object_name(wanted.object).to_vec(), id.to_vec()));
            let of_file =
                matches!(self.kind(wanted), ObjectKind::File | ObjectKind::Vdso | ObjectKind::Jit(..));
            let known = key
                .filter(|_| matches!(self.kind(wanted), ObjectKind::File))
                .and_then(|key| begun.remove(&key));
            let symbols_too = known.is_none() && self.options.host && of_file;
            let mut known = known.unwrap_or_default();
            known.share = self.share(wanted.object);
            match &known.share {
                None => known.inlines = None,
                Some(_) if known.inlines.is_none() => jobs.push(LoadJob::Inlines(index)),
                Some(_) => {}
            }
            if symbols_too {
                jobs.push(LoadJob::Symbols(index));
            }
            loaded.push(known);
        }
        drop(begun);
        let this = &*self;
        let object = |index: usize| &this.objects[wanted[index].object.0 as usize];
        let found = |index: usize| object(index).found.as_ref()?.as_deref();
        let parts = threads::each(&jobs, threads, |job| match *job {
            LoadJob::Kernel => {
                let (kernel, note) = kernel::load(&this.recorded, this.options.cache.as_deref());
                LoadedPart::Kernel(kernel, note)
            }
            LoadJob::Symbols(index) => {
                let (symbols, note) = match object(index).kind {
                    ObjectKind::Jit(pid, namespace) => perf_map::load(pid, namespace, &this.options),
                    _ => found(index).map(|found| found.symbols(&this.options.budget)).unwrap_or_default(),
                };
                LoadedPart::Symbols(symbols, note)
            }
            LoadJob::Inlines(index) => {
                let info = found(index).and_then(|found| found.debug_info.as_ref());
                LoadedPart::Inlines(info.and_then(|info| prefetch::load(info, &this.options)))
            }
        });
        for (job, part) in jobs.iter().zip(parts) {
            match (job, part) {
                (_, LoadedPart::Kernel(kernel, note)) => {
                    self.notes.extend(note);
                    self.kernel = Some(kernel);
                }
                (LoadJob::Symbols(index), LoadedPart::Symbols(symbols, note)) => {
                    (loaded[*index].symbols, loaded[*index].note) = (symbols, note);
                }
                (LoadJob::Inlines(index), LoadedPart::Inlines(inlines)) => loaded[*index].inlines = inlines,
                _ => {}
            }
        }
        for (loaded, wanted) in loaded.iter_mut().zip(wanted) {
            self.notes.extend(loaded.note.take());
            if loaded.share.is_some() && loaded.inlines.is_none() {
                self.notes.push(format!(
                    "{}: functions inlined in it are no frames: its debug information is damaged, or there is no memory \
                     for it",
                    String::from_utf8_lossy(self.object_name(wanted.object))
                ));
            }
        }
        loaded
    }

    /// What the debug information of an object takes, if it has some and there is room for it.
    fn share(&mut self, object: ObjectId) -> Option<BudgetShare> {
        let found = self.objects[object.0 as usize].found.as_ref()?.as_ref()?;
        let info = found.debug_info.as_ref().filter(|_| self.options.inlines)?;
        let (len, size) = inlines::sizes(info);
        let share = self.options.budget.take_of(len, size);
        if share.is_none() {
            let more_than = match Budget::most_of(len) {
                most if size > most => format!("files of {len} bytes can need: it is damaged"),
                _ => format!("is left of {} that all files may take", self.options.budget.whole()),
            };
            self.notes.push(format!(
                "{}: functions inlined in it are no frames: its debug information takes {size} bytes unpacked, more than \
                 {more_than}; with --no-inlines no file's are",
                info.path.display()
            ));
        }
        share
    }
}
