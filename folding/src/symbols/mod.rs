//! Names for addresses: of files, of the kernel, of the vDSO and of code made at run time.
//!
//! A file is used only if its build id is the recorded one, where the recording has one. Everything that
//! could not be used is told once, never passed over.

mod demangle;
pub mod elf;
mod files;
mod inlines;
mod kernel;
mod table;

use crate::collector::RawFrame;
use crate::unwind::Sections;
use demangle::Demangler;
use files::Found;
use inlines::Inlines;
use kernel::{Kernel, Recorded};
use std::collections::HashMap;
use std::path::PathBuf;
use std::rc::Rc;
use table::{Binding, Builder, Table};

/// The number of a mapped object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ObjectId(pub u32);

/// An address as its object counts: an offset in a file, an address in the kernel or in run-time code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    pub object: ObjectId,
    pub address: u64,
}

#[derive(Clone, Debug)]
pub struct Options {
    /// Whether inlined functions become frames.
    pub inlines: bool,
    /// perf's cache of files by build id.
    pub cache: Option<PathBuf>,
}

impl Default for Options {
    fn default() -> Self {
        let home = std::env::var_os("HOME");
        Self { inlines: true, cache: home.map(|home| PathBuf::from(home).join(".debug")) }
    }
}

enum Kind {
    File,
    Vdso,
    /// Code made by this process at run time.
    Jit(i32),
    Kernel,
    Module,
    /// The object is one function, and this is its name.
    Named,
    /// Memory that no file stands behind.
    Nameless,
}

struct Object {
    /// As perf prints it.
    name: Vec<u8>,
    kind: Kind,
    build_id: Option<Vec<u8>>,
    loaded: Option<Loaded>,
}

#[derive(Default)]
struct Loaded {
    /// Where a file's parts are mapped; `None` where addresses are used as they are.
    elf: Option<elf::Elf>,
    symbols: Table,
    inlines: Option<Inlines>,
    unwind: Unwind,
}

/// How to unwind the functions of a file: read when it is first asked for.
#[derive(Default)]
enum Unwind {
    #[default]
    None,
    In(PathBuf),
    Read(Rc<Sections>),
}

pub struct Symbols {
    options: Options,
    objects: Vec<Object>,
    known: HashMap<(Vec<u8>, Vec<u8>), ObjectId>,
    build_ids: HashMap<Vec<u8>, Vec<u8>>,
    recorded: Recorded,
    kernel: Option<Kernel>,
    core: Option<ObjectId>,
    notes: Vec<String>,
    names: Demangler,
}

impl Symbols {
    pub fn new(options: Options) -> Self {
        Self {
            options,
            objects: Vec::new(),
            known: HashMap::new(),
            build_ids: HashMap::new(),
            recorded: Recorded::default(),
            kernel: None,
            core: None,
            notes: Vec::new(),
            names: Demangler::default(),
        }
    }

    /// What the recording's header says of the files in it.
    pub fn set_recorded(&mut self, build_ids: &HashMap<Vec<u8>, Vec<u8>>, os_release: &[u8]) {
        self.build_ids.clone_from(build_ids);
        self.recorded.os_release = os_release.to_vec();
    }

    /// What there is to say about files that could not be used; each thing once.
    pub fn notes(&mut self) -> Vec<String> {
        std::mem::take(&mut self.notes)
    }

    /// What a process mapped, and whether its addresses are used as they are.
    pub fn user_object(&mut self, path: &[u8], build_id: Option<&[u8]>, pid: i32) -> (ObjectId, bool) {
        let anonymous =
            path == b"//anon" || path.starts_with(b"/dev/zero") || path.starts_with(b"/anon_hugepage");
        if anonymous {
            let name = format!("/tmp/perf-{pid}.map").into_bytes();
            return (self.object(&name, None, Kind::Jit(pid)), true);
        }
        let kind = if path == b"[vdso]" {
            Kind::Vdso
        } else if path.starts_with(b"[") || path.starts_with(b"/SYSV") || path.is_empty() {
            Kind::Nameless
        } else {
            Kind::File
        };
        (self.object(path, build_id, kind), false)
    }

    /// What was mapped in the kernel, and what to add to an address in it.
    pub fn kernel_object(
        &mut self,
        path: &[u8],
        build_id: Option<&[u8]>,
        start: u64,
        offset: u64,
    ) -> (ObjectId, u64) {
        // `[kernel.kallsyms]_text`: the kernel itself, and the symbol whose address is given as offset.
        if let Some(end) = path.strip_prefix(b"[kernel.kallsyms]").map(|_| b"[kernel.kallsyms]".len()) {
            let (name, reference) = path.split_at(end);
            self.recorded.reference = Some((reference.to_vec(), if offset == 0 { start } else { offset }));
            let object = self.object(name, build_id, Kind::Kernel);
            self.core = Some(object);
            return (object, 0);
        }
        (self.object(path, build_id, Kind::Module), 0)
    }

    /// Code of the kernel that is one function.
    pub fn named_object(&mut self, name: &[u8]) -> ObjectId {
        self.object(name, None, Kind::Named)
    }

    /// An address of the kernel outside of everything that was mapped: parts that only boot uses.
    pub fn kernel_place(&mut self, address: u64) -> Option<Place> {
        let object = self.core?;
        let kernel = self.kernel();
        kernel.core.find(address.wrapping_sub(kernel.moved)).is_some().then_some(Place { object, address })
    }

    fn object(&mut self, name: &[u8], build_id: Option<&[u8]>, kind: Kind) -> ObjectId {
        let key = (name.to_vec(), build_id.unwrap_or(b"").to_vec());
        let objects = &mut self.objects;
        *self.known.entry(key).or_insert_with(|| {
            let build_id = build_id.filter(|id| !id.is_empty()).map(<[u8]>::to_vec);
            objects.push(Object { name: name.to_vec(), kind, build_id, loaded: None });
            ObjectId(objects.len() as u32 - 1)
        })
    }

    fn kernel(&mut self) -> &Kernel {
        if self.kernel.is_none() {
            let core = self.core.map(|id| &self.objects[id.0 as usize]);
            let recorded_id = core.and_then(|core| core.build_id.clone());
            self.recorded.build_id =
                recorded_id.or_else(|| self.build_ids.get(&b"[kernel.kallsyms]"[..]).cloned());
            let (kernel, note) = kernel::load(&self.recorded, self.options.cache.as_deref());
            self.notes.extend(note);
            self.kernel = Some(kernel);
        }
        self.kernel.get_or_insert_default()
    }

    /// The frames at a place, innermost first: what was inlined there, then the function itself.
    pub fn frames(&mut self, place: Place, mut each: impl FnMut(RawFrame)) {
        let index = place.object.0 as usize;
        match self.objects[index].kind {
            Kind::Kernel | Kind::Module => {
                let is_core = matches!(self.objects[index].kind, Kind::Kernel);
                self.kernel();
                let name = &self.objects[index].name;
                let symbol = self.kernel.as_ref().and_then(|kernel| match is_core {
                    true => kernel.core.find(place.address.wrapping_sub(kernel.moved)),
                    false => kernel.modules.get(&module_name(name))?.find(place.address),
                });
                each(RawFrame { symbol: symbol.unwrap_or(b""), dso: Some(name), ..RawFrame::default() });
            }
            Kind::Named => {
                let name = &self.objects[index].name;
                each(RawFrame { symbol: name, dso: Some(name), ..RawFrame::default() });
            }
            Kind::Nameless => {
                each(RawFrame { dso: Some(&self.objects[index].name), ..RawFrame::default() });
            }
            Kind::File | Kind::Vdso | Kind::Jit(_) => {
                self.load(index);
                let object = &self.objects[index];
                let loaded = object.loaded.as_ref();
                let address = loaded.and_then(|loaded| match &loaded.elf {
                    Some(elf) => elf.address_at(place.address),
                    None => Some(place.address),
                });
                let at = loaded.zip(address);
                if let Some(inlines) = at.and_then(|(loaded, _)| loaded.inlines.as_ref()) {
                    for name in inlines.at(address.unwrap_or(0)) {
                        each(RawFrame {
                            symbol: self.names.name(&name),
                            inlined: true,
                            ..RawFrame::default()
                        });
                    }
                }
                let symbol = at.and_then(|(loaded, address)| loaded.symbols.find(address)).unwrap_or(b"");
                let dso = Some(&object.name[..]);
                each(RawFrame { symbol: self.names.name(symbol), dso, ..RawFrame::default() });
            }
        }
    }

    /// The unwind tables of a mapped file, and what to add to an offset in the mapping that begins at
    /// `offset` to get an address in the file's own numbers.
    pub fn unwind(&mut self, object: ObjectId, offset: u64) -> Option<(Rc<Sections>, u64)> {
        let index = object.0 as usize;
        if !matches!(self.objects[index].kind, Kind::File | Kind::Vdso) {
            return None;
        }
        self.load(index);
        let loaded = self.objects[index].loaded.as_mut()?;
        let bias = loaded.elf.as_ref()?.bias_at(offset)?;
        if let Unwind::In(path) = &loaded.unwind {
            loaded.unwind = Sections::read(path).map_or(Unwind::None, |read| Unwind::Read(Rc::new(read)));
        }
        match &loaded.unwind {
            Unwind::Read(sections) => Some((Rc::clone(sections), bias)),
            _ => None,
        }
    }

    /// Reads the symbols of a file when its first address is asked for.
    fn load(&mut self, index: usize) {
        if self.objects[index].loaded.is_some() {
            return;
        }
        let object = &self.objects[index];
        let build_id = object.build_id.as_ref().or_else(|| self.build_ids.get(&object.name)).cloned();
        let cache = self.options.cache.as_deref();
        let loaded = match object.kind {
            Kind::Jit(pid) => Loaded { symbols: perf_map(pid), ..Loaded::default() },
            Kind::Vdso => match files::vdso(build_id.as_deref(), cache) {
                Some((elf, symbols, sections)) => {
                    let unwind = Unwind::Read(Rc::new(sections));
                    Loaded { elf: Some(elf), symbols, inlines: None, unwind }
                }
                None => Loaded::default(),
            },
            _ => {
                let (found, note) = files::find(&object.name, build_id.as_deref(), cache);
                self.notes.extend(note);
                found.map_or_else(Loaded::default, |found| read_file(found, self.options.inlines))
            }
        };
        self.objects[index].loaded = Some(loaded);
    }
}

fn read_file(found: Found, inlines: bool) -> Loaded {
    let symbols = elf::symbols(&found.symbols, &found.binary).unwrap_or_default();
    let inlines = found.debug_info.filter(|_| inlines).and_then(|path| Inlines::load(&path));
    Loaded { elf: Some(found.elf), symbols, inlines, unwind: Unwind::In(found.binary) }
}

/// The symbols that a run-time compiler wrote down: address, size, name.
fn perf_map(pid: i32) -> Table {
    const LARGEST: u64 = 256 << 20;
    let path = format!("/tmp/perf-{pid}.map");
    let mut builder = Builder::default();
    let small = std::fs::metadata(&path).is_ok_and(|file| file.is_file() && file.len() <= LARGEST);
    for line in std::fs::read(&path).ok().filter(|_| small).unwrap_or_default().split(|&byte| byte == b'\n') {
        let entry = kernel::number(line).and_then(|(start, rest)| {
            let (size, rest) = kernel::number(rest.strip_prefix(b" ")?)?;
            Some((start, size, rest.strip_prefix(b" ")?))
        });
        if let Some((start, size, name)) = entry {
            builder.push(start, size, name.trim_ascii_end(), Binding { weak: false, global: true });
        }
    }
    builder.build()
}

/// `[ext4]` for `[ext4]` and for `/lib/modules/.../ext4.ko.xz`, whose dashes the kernel calls underscores.
fn module_name(path: &[u8]) -> Vec<u8> {
    if path.starts_with(b"[") {
        return path.to_vec();
    }
    let base = path.rsplit(|&byte| byte == b'/').next().unwrap_or(path);
    let stem = memchr::memmem::find(base, b".ko").map_or(base, |dot| &base[..dot]);
    let stem: Vec<u8> = stem.iter().map(|&byte| if byte == b'-' { b'_' } else { byte }).collect();
    [b"[", &stem[..], b"]"].concat()
}
