//! The kernel's symbols: of the running kernel if it is the recorded one, else of a copy kept by build id.

use super::elf::{self, build_id_path, hex};
use super::kallsyms::{self, Kallsyms};
use super::table::SymbolTable;
use crate::addresses::ObjectAddress;
use crate::budget::Budget;
use crate::regular;
use std::collections::HashMap;
use std::path::{Path, PathBuf};

/// Bytes of kallsyms; those of a kernel with all its modules are 20 MB.
const LARGEST_LIST: u64 = 512 << 20;

/// What the recording says of its kernel.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RecordedKernel {
    pub build_id: Option<Vec<u8>>,
    pub os_release: Vec<u8>,
    /// Name and address of the symbol that perf noted to find out where the kernel was loaded.
    pub reference: Option<(Vec<u8>, u64)>,
}

/// The functions of the kernel without its modules.
pub enum KernelSymbols {
    Kallsyms(Kallsyms),
    Elf(SymbolTable),
}

impl Default for KernelSymbols {
    fn default() -> Self {
        Self::Kallsyms(Kallsyms::default())
    }
}

impl KernelSymbols {
    pub fn find(&self, address: ObjectAddress) -> Option<&[u8]> {
        match self {
            Self::Kallsyms(lines) => lines.find(address),
            Self::Elf(table) => table.find(address),
        }
    }

    /// The address of a symbol, searched by name.
    fn address_of(&self, name: &[u8]) -> Option<ObjectAddress> {
        match self {
            Self::Kallsyms(lines) => lines.address_of(name),
            Self::Elf(table) => table.address_of(name),
        }
    }
}

#[derive(Default)]
pub struct Kernel {
    pub core: KernelSymbols,
    /// How far the recorded kernel was loaded above the one that the symbols are of.
    pub kaslr_slide: u64,
    pub modules: HashMap<Vec<u8>, SymbolTable>,
}

/// The kernel's symbols, and what there is to say about them.
pub fn load(recorded: &RecordedKernel, cache: Option<&Path>) -> (Kernel, Option<String>) {
    let running = running_build_id();
    let mut note = None;
    let mut sources: Vec<PathBuf> = Vec::new();
    match &recorded.build_id {
        Some(id) => {
            let cached = cache.and_then(|cache| build_id_path(cache, id));
            sources.extend(cached.map(|directory| directory.join("kallsyms")));
            if running.as_ref() == Some(id) {
                sources.push(PathBuf::from("/proc/kallsyms"));
            }
        }
        None if !recorded.os_release.is_empty()
            && Some(&recorded.os_release) == running_release().as_ref() =>
        {
            sources.push(PathBuf::from("/proc/kallsyms"));
        }
        None => {}
    }
    for source in sources {
        let Ok(text) = regular::read(&source, LARGEST_LIST) else { continue };
        let (core, modules) = kallsyms::parse(text);
        let mut kernel = Kernel { core: KernelSymbols::Kallsyms(core), kaslr_slide: 0, modules };
        let Some(slide) = kaslr_slide(&kernel.core, recorded) else { continue };
        if recorded.build_id.is_none() {
            if slide != 0 {
                continue;
            }
            note = Some(
                "the recording has no build id of its kernel; the running one has the same release and \
                 lies at the same address, its symbols are used"
                    .to_owned(),
            );
        }
        kernel.kaslr_slide = slide;
        if slide != 0 {
            kernel.modules.clear();
        }
        return (kernel, note);
    }
    if let Some(kernel) = recorded.build_id.as_ref().and_then(|id| image(id, cache, recorded)) {
        return (kernel, None);
    }
    let id = |id: &Option<Vec<u8>>| id.as_ref().map_or("unknown".to_owned(), |id| hex(id));
    let why = if recorded.build_id.is_some() && recorded.build_id == running {
        "/proc/kallsyms hides its addresses: sysctl kernel.kptr_restrict=0, or run as root".to_owned()
    } else {
        format!(
            "the recording's kernel has build id {}, the running one {}, and no copy is in ~/.debug",
            id(&recorded.build_id),
            id(&running)
        )
    };
    (Kernel::default(), Some(format!("kernel frames have no names: {why}")))
}

/// From an image of the kernel with this build id.
fn image(id: &[u8], cache: Option<&Path>, recorded: &RecordedKernel) -> Option<Kernel> {
    let debug = build_id_path(Path::new(elf::DEBUG_ROOT), id).map(|path| path.with_extension("debug"));
    let cached = cache.and_then(|cache| build_id_path(cache, id)).map(|path| path.join("elf"));
    let path = [cached, debug]
        .into_iter()
        .flatten()
        .find(|path| elf::Elf::read(path).is_some_and(|elf| elf.build_id.as_deref() == Some(id)))?;
    let (table, _) = elf::symbols(&path, &path, &Budget::new(0))?;
    let core = KernelSymbols::Elf(table);
    let kaslr_slide = kaslr_slide(&core, recorded)?;
    Some(Kernel { core, kaslr_slide, modules: HashMap::new() })
}

/// How far the recorded kernel lay from the addresses of this table; `None` if that cannot be computed.
fn kaslr_slide(core: &KernelSymbols, recorded: &RecordedKernel) -> Option<u64> {
    let (name, address) = recorded.reference.as_ref()?;
    // Several names have the first address, and the table keeps one.
    let ObjectAddress(here) =
        [&name[..], b"_stext", b"_text", b"__pi__text"].iter().find_map(|name| core.address_of(name))?;
    (here != 0).then(|| address.wrapping_sub(here))
}

fn running_release() -> Option<Vec<u8>> {
    Some(std::fs::read("/proc/sys/kernel/osrelease").ok()?.trim_ascii().to_vec())
}

/// The build id in the notes of the running kernel.
fn running_build_id() -> Option<Vec<u8>> {
    recording::modules::note(&std::fs::read("/sys/kernel/notes").ok()?, 4)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn core(text: &[u8]) -> KernelSymbols {
        KernelSymbols::Kallsyms(kallsyms::parse(text.to_vec()).0)
    }

    #[test]
    fn a_kernel_of_another_boot_is_moved() {
        let kernel = core(b"ffffffff81000000 T _stext\nffffffff81000000 T _text\nffffffff81000010 t inner\n");
        let recorded = |address| RecordedKernel {
            reference: Some((b"_text".to_vec(), address)),
            ..RecordedKernel::default()
        };
        assert_eq!(kaslr_slide(&kernel, &recorded(0xffff_ffff_8200_0000)), Some(0x100_0000));
        assert_eq!(kaslr_slide(&core(b"0000000000000000 T _text\n"), &recorded(0x1000)), None);
        assert_eq!(kaslr_slide(&kernel, &RecordedKernel::default()), None);
    }
}
