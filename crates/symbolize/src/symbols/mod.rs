//! Names for addresses: of files, of the kernel, of the vDSO and of code made at run time.
//!
//! A file is used only if its build id is the recorded one, where there is one. What could not be used is said once.

mod build_ids;
mod calls;
mod debug_size;
mod debugdata;
mod demangle;
pub mod elf;
mod files;
mod files_at_paths;
mod go;
mod inlines;
mod kallsyms;
mod kernel;
mod load;
mod named;
mod options;
mod perf_map;
mod prefetch;
mod stubs;
mod table;
mod unwind_tables;

use crate::addresses::{FileOffset, ObjectAddress};
use crate::budget::BudgetShare;
use crate::threads;
use crate::unwind::UnwindSections;
use build_ids::BuildIds;
pub use demangle::with_arguments;
use files::ObjectFile;
pub use files_at_paths::DeviceInode;
use kernel::{Kernel, RecordedKernel};
pub use named::{NamedFrame, Symbolized};
pub use options::SymbolOptions;
use prefetch::{Loaded, SymbolPrefetch};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// The number of a mapped object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectId(pub u32);

impl ObjectId {
    /// No object is known.
    pub const NONE: Self = Self((1 << 30) - 1);
}

/// What to name of one object: the places in its file, in order.
pub struct AddressesToName {
    pub object: ObjectId,
    pub offsets: Vec<FileOffset>,
}

/// A file that a process mapped, or memory in place of one.
pub struct UserMapping<'a> {
    pub path: &'a [u8],
    pub build_id: Option<&'a [u8]>,
    /// Which file it was, where the recording has no build id of the mapping itself.
    pub file: Option<DeviceInode>,
    pub pid: i32,
    /// The inode of the process's pid namespace.
    pub pid_namespace: Option<u64>,
}

enum ObjectKind {
    File,
    Vdso,
    /// Code made by this process at run time, and the inode of its pid namespace.
    Jit(i32, Option<u64>),
    Kernel,
    Module,
    /// Its name is that of the function.
    SingleFunction,
    /// Memory without a file.
    Nameless,
}

/// Bytes that an object takes, and how often its name is kept: in the object, in two keys, in what is said of it.
const OBJECT: u64 = 512;
const NAMED: u64 = 4;

struct Object {
    /// As perf prints it.
    name: Arc<[u8]>,
    kind: ObjectKind,
    build_id: Option<Vec<u8>>,
    file: Option<DeviceInode>,
    /// The file that was mapped; the outer `None` means that it was not looked for yet.
    found: Option<Option<Arc<ObjectFile>>>,
    _share: BudgetShare,
    unwind: Option<Option<Arc<UnwindSections>>>,
}

/// What was mapped under one path.
#[derive(Default)]
struct Rivals {
    objects: Vec<ObjectId>,
    files: HashSet<DeviceInode>,
}

/// Path, build id and identity.
type ObjectKey = (Vec<u8>, Vec<u8>, Option<DeviceInode>);

pub struct Symbols {
    options: SymbolOptions,
    objects: Vec<Object>,
    known: HashMap<ObjectKey, ObjectId>,
    /// Objects whose files are known by their inodes, by path.
    of_path: HashMap<Vec<u8>, Rivals>,
    build_ids: BuildIds,
    recorded: RecordedKernel,
    kernel: Option<Kernel>,
    core: Option<ObjectId>,
    /// Whether anything was read ahead, and what was and is not used yet.
    begun: bool,
    prefetch: Option<SymbolPrefetch>,
    notes: Vec<String>,
}

impl Symbols {
    pub fn new(options: SymbolOptions) -> Self {
        Self {
            notes: [&options.copied, &options.packed]
                .into_iter()
                .flatten()
                .filter_map(|files| files.problem.clone())
                .collect(),
            options,
            objects: Vec::new(),
            known: HashMap::new(),
            of_path: HashMap::new(),
            build_ids: BuildIds::default(),
            recorded: RecordedKernel::default(),
            kernel: None,
            core: None,
            begun: false,
            prefetch: None,
        }
    }

    /// What the recording says of the files in it: paths, and the build id of each.
    pub fn add_build_ids(&mut self, build_ids: impl IntoIterator<Item = (Vec<u8>, Vec<u8>)>) {
        for (path, build_id) in build_ids {
            let share = self.options.budget.hold(OBJECT + path.len() as u64);
            self.build_ids.add(path, build_id, share);
        }
    }

    pub fn set_release(&mut self, os_release: &[u8]) {
        self.recorded.os_release = os_release.to_vec();
    }

    /// Begins to read, in a thread of its own, what the recording's header says that samples were taken in.
    pub fn begin(&mut self) {
        if self.options.host && !self.begun {
            self.begun = true;
            self.recorded.build_id = self.kernel_build_id();
            self.prefetch = prefetch::start(&self.build_ids, &self.recorded, &self.options);
        }
    }

    fn kernel_build_id(&self) -> Option<Vec<u8>> {
        let core = self.core.and_then(|core| self.build_id(core)).map(<[u8]>::to_vec);
        core.or_else(|| self.build_ids.get(b"[kernel.kallsyms]").cloned())
    }

    /// What there is to say about files that could not be used; each thing once.
    pub fn notes(&mut self) -> Vec<String> {
        std::mem::take(&mut self.notes)
    }

    /// What a process mapped, and whether its addresses are used as they are.
    pub fn user_object(&mut self, mapped: &UserMapping) -> (ObjectId, bool) {
        let &UserMapping { path, build_id, file, pid, pid_namespace } = mapped;
        let anonymous =
            path == b"//anon" || path.starts_with(b"/dev/zero") || path.starts_with(b"/anon_hugepage");
        if anonymous {
            let name = format!("/tmp/perf-{pid}.map").into_bytes();
            return (self.object(&name, None, ObjectKind::Jit(pid, pid_namespace)), true);
        }
        let kind = if path == b"[vdso]" {
            ObjectKind::Vdso
        } else if path.starts_with(b"[") || path.starts_with(b"/SYSV") || path.is_empty() {
            ObjectKind::Nameless
        } else {
            ObjectKind::File
        };
        let file = file.filter(|_| matches!(kind, ObjectKind::File));
        (self.object_of_file(path, build_id, file, kind), false)
    }

    /// What was mapped in the kernel; its addresses are used as they are.
    pub fn kernel_object(
        &mut self,
        path: &[u8],
        build_id: Option<&[u8]>,
        start: u64,
        offset: u64,
    ) -> ObjectId {
        // `[kernel.kallsyms]_text`: the kernel itself, and the symbol whose address is given as offset.
        if let Some(end) = path.strip_prefix(b"[kernel.kallsyms]").map(|_| b"[kernel.kallsyms]".len()) {
            let (name, reference) = path.split_at(end);
            self.recorded.reference = Some((reference.to_vec(), if offset == 0 { start } else { offset }));
            let object = self.object(name, build_id, ObjectKind::Kernel);
            self.core = Some(object);
            return object;
        }
        let build_id = build_id.map(<[u8]>::to_vec).or_else(|| self.build_ids.get(path).cloned());
        self.object(&module_name(path), build_id.as_deref(), ObjectKind::Module)
    }

    /// Code of the kernel that is one function.
    pub fn named_object(&mut self, name: &[u8]) -> ObjectId {
        self.object(name, None, ObjectKind::SingleFunction)
    }

    /// The kernel itself, which also has parts outside of what was mapped: those that only boot uses.
    pub fn core(&self) -> Option<ObjectId> {
        self.core
    }

    fn object(&mut self, name: &[u8], build_id: Option<&[u8]>, kind: ObjectKind) -> ObjectId {
        self.object_of_file(name, build_id, None, kind)
    }

    fn object_of_file(
        &mut self,
        name: &[u8],
        build_id: Option<&[u8]>,
        file: Option<DeviceInode>,
        kind: ObjectKind,
    ) -> ObjectId {
        let key = (name.to_vec(), build_id.unwrap_or(b"").to_vec(), file);
        if let Some(&known) = self.known.get(&key) {
            return known;
        }
        let id = ObjectId(self.objects.len() as u32);
        self.known.insert(key, id);
        let build_id = build_id.filter(|id| !id.is_empty()).map(<[u8]>::to_vec);
        let _share = self.options.budget.hold(OBJECT + NAMED * name.len() as u64);
        let name_here = name.into();
        self.objects.push(Object {
            name: name_here,
            kind,
            build_id,
            file,
            found: None,
            _share,
            unwind: None,
        });
        if let Some(file) = file {
            let known = self.of_path.get(name).map_or(0, |rivals| rivals.objects.len());
            let is_here = known > 0 && self.file_at_path(&self.objects[id.0 as usize]) == Some(file);
            let rivals = self.of_path.entry(name.to_vec()).or_default();
            if known == 1 || is_here {
                // Which of them lies under the path has to be seen.
                rivals.objects.iter().for_each(|other| self.objects[other.0 as usize].found = None);
            }
            rivals.objects.push(id);
            rivals.files.insert(file);
        }
        id
    }

    /// Files of several identities were mapped under the path of this one, by containers or one after the other.
    fn has_rivals(&self, object: &Object) -> bool {
        object.file.is_some()
            && self.of_path.get(&*object.name).is_some_and(|rivals| rivals.objects.len() > 1)
    }

    /// The file at the path of this one: the one that a copy was made of, or what lies there now, or lay there when the
    /// run was packed.
    fn file_at_path(&self, object: &Object) -> Option<DeviceInode> {
        let copied = self.options.copied.as_ref().and_then(|copied| copied.file(&object.name));
        copied.or_else(|| match &self.options.packed {
            Some(packed) => packed.file(&object.name),
            None => DeviceInode::of_path(&object.name),
        })
    }

    /// Whether one of the rivals lies at the path.
    fn is_one_here(&self, object: &Object) -> bool {
        let rivals = self.of_path.get(&*object.name);
        rivals
            .is_some_and(|rivals| self.file_at_path(object).is_some_and(|here| rivals.files.contains(&here)))
    }

    /// Whether the path of this file has rivals, the file there is not this one, and no build id distinguishes them.
    fn is_other_file(&self, object: &Object, build_id: Option<&[u8]>) -> bool {
        build_id.is_none() && self.has_rivals(object) && self.file_at_path(object) != object.file
    }

    /// The name of an object as perf prints it.
    pub fn object_name(&self, object: ObjectId) -> &Arc<[u8]> {
        &self.objects[object.0 as usize].name
    }

    /// The build id of an object, where the recording has it.
    pub fn build_id(&self, object: ObjectId) -> Option<&[u8]> {
        let object = &self.objects[object.0 as usize];
        // perf reads it at the end, by the path, which several files may have had: then it is of any of them.
        let is_of_any = || self.has_rivals(object) && self.is_one_here(object);
        let of_path = || self.build_ids.get(&object.name).filter(|_| !is_of_any());
        object.build_id.as_ref().or_else(of_path).map(Vec::as_slice)
    }

    /// Names addresses: an answer for each object.
    pub fn name(&mut self, wanted: &[AddressesToName], threads: usize) -> Vec<Symbolized> {
        for wanted in wanted {
            self.find(wanted.object);
        }
        let loaded = self.load(wanted, threads);
        let this = &*self;
        let objects: Vec<_> = wanted.iter().zip(&loaded).collect();
        let mut named = threads::each(&objects, threads, |(wanted, loaded)| {
            this.named(wanted.object, &wanted.offsets, loaded)
        });
        for (wanted, _) in wanted.iter().zip(&named).filter(|(_, named)| named.is_endless) {
            let object = String::from_utf8_lossy(self.object_name(wanted.object)).into_owned();
            self.notes.push(format!(
                "{object}: not all functions and functions inlined in it are frames: its symbols or its debug information say more \
                 than so many bytes can, it is damaged"
            ));
        }
        // Names of templates take longer to be made readable than to be found.
        let mangled: Vec<_> = named.iter().flat_map(Symbolized::pieces).collect();
        let mut readable = threads::each(&mangled, threads, |piece| piece.readable()).into_iter();
        named.iter_mut().for_each(|named| named.take_readable(&mut readable));
        named
    }

    fn named(&self, object: ObjectId, offsets: &[FileOffset], loaded: &Loaded) -> Symbolized {
        let object = &self.objects[object.0 as usize];
        let as_they_are = || offsets.iter().map(|offset| Some(offset.without_file())).collect::<Vec<_>>();
        match object.kind {
            ObjectKind::SingleFunction => Symbolized::new(&as_they_are(), None, |_| Some(&object.name)),
            ObjectKind::Nameless => Symbolized::new(&as_they_are(), None, |_| None),
            ObjectKind::Kernel => Symbolized::new(&as_they_are(), None, |address| {
                let kernel = self.kernel.as_ref()?;
                kernel.core.find(ObjectAddress(address.0.wrapping_sub(kernel.kaslr_slide)))
            }),
            ObjectKind::Module => {
                let module = self.kernel.as_ref().and_then(|kernel| kernel.modules.get(&object.name[..]));
                Symbolized::new(&as_they_are(), None, |address| module?.find(address))
            }
            ObjectKind::Jit(..) => {
                Symbolized::new(&as_they_are(), None, |address| loaded.symbols.find(address))
            }
            ObjectKind::File | ObjectKind::Vdso => {
                let elf = object.found.as_ref().and_then(Option::as_ref).map(|found| &found.elf);
                let own: Vec<_> = offsets.iter().map(|&offset| elf?.address_at(offset)).collect();
                Symbolized::new(&own, loaded.inlines.as_deref(), |address| loaded.symbols.find(address))
            }
        }
    }

    fn kind(&self, wanted: &AddressesToName) -> &ObjectKind {
        &self.objects[wanted.object.0 as usize].kind
    }

    /// The file of an object: searched once.
    fn find(&mut self, object: ObjectId) -> Option<Arc<ObjectFile>> {
        let index = object.0 as usize;
        if self.objects[index].found.is_none() {
            let build_id = self.build_id(object).map(<[u8]>::to_vec);
            let cache = self.options.cache.as_deref();
            let (found, note) = match self.objects[index].kind {
                _ if !self.options.host => (None, None),
                _ if self.is_other_file(&self.objects[index], build_id.as_deref()) => {
                    let path = String::from_utf8_lossy(&self.objects[index].name);
                    let note = format!(
                        "{path}: not used for one of the files that were mapped under this path (by containers, or one \
                         after the other): it is another; perf record --buildid-mmap tells them apart"
                    );
                    (None, Some(note))
                }
                ObjectKind::File => {
                    files::find(&self.objects[index].name, build_id.as_deref(), &self.options)
                }
                ObjectKind::Vdso => (files::vdso(build_id.as_deref(), cache), None),
                _ => (None, None),
            };
            self.notes.extend(note);
            self.objects[index].found = Some(found.map(Arc::new));
        }
        self.objects[index].found.clone().flatten()
    }
}

/// `[ext4]` for `[ext4]` and for `/lib/modules/.../ext4.ko.xz`, as perf calls it; the kernel calls dashes underscores.
fn module_name(path: &[u8]) -> Vec<u8> {
    let base = path.rsplit(|&byte| byte == b'/').next().unwrap_or(path);
    let Some(dot) = memchr::memmem::find(base, b".ko").filter(|_| !path.starts_with(b"[")) else {
        return path.to_vec();
    };
    let stem = base[..dot].iter().map(|&byte| if byte == b'-' { b'_' } else { byte });
    [b'['].into_iter().chain(stem).chain([b']']).collect()
}
