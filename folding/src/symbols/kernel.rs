//! The kernel's symbols: of the running kernel if it is the recorded one, else of a copy kept by build id.

use super::elf::{self, build_id_path, hex};
use super::table::{Binding, Builder, Table};
use std::collections::HashMap;
use std::path::{Path, PathBuf};

/// What the recording says of its kernel.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recorded {
    pub build_id: Option<Vec<u8>>,
    pub os_release: Vec<u8>,
    /// Name and address of the symbol that perf noted to find out where the kernel was loaded.
    pub reference: Option<(Vec<u8>, u64)>,
}

#[derive(Default)]
pub struct Kernel {
    pub core: Table,
    /// How far the recorded kernel lay above the one the symbols are of.
    pub moved: u64,
    pub modules: HashMap<Vec<u8>, Table>,
}

/// The kernel's symbols, and what there is to say about them.
pub fn load(recorded: &Recorded, cache: Option<&Path>) -> (Kernel, Option<String>) {
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
        let Ok(text) = std::fs::read(&source) else { continue };
        let mut kernel = parse(text);
        let Some(moved) = moved(&kernel.core, recorded) else { continue };
        if recorded.build_id.is_none() {
            if moved != 0 {
                continue;
            }
            note = Some(
                "the recording has no build id of its kernel; the running one has the same release and \
                 lies at the same address, its symbols are used"
                    .to_owned(),
            );
        }
        kernel.moved = moved;
        if moved != 0 {
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
fn image(id: &[u8], cache: Option<&Path>, recorded: &Recorded) -> Option<Kernel> {
    let debug = build_id_path(Path::new(elf::DEBUG_ROOT), id).map(|path| path.with_extension("debug"));
    let cached = cache.and_then(|cache| build_id_path(cache, id)).map(|path| path.join("elf"));
    let path = [cached, debug]
        .into_iter()
        .flatten()
        .find(|path| elf::Elf::read(path).is_some_and(|elf| elf.build_id.as_deref() == Some(id)))?;
    let core = elf::symbols(&path, &path)?;
    let moved = moved(&core, recorded)?;
    Some(Kernel { core, moved, modules: HashMap::new() })
}

/// How far the recorded kernel lay from the addresses of this table; `None` if that cannot be told.
fn moved(core: &Table, recorded: &Recorded) -> Option<u64> {
    let (name, address) = recorded.reference.as_ref()?;
    // Several names stand at the first address, and the table keeps one.
    let here =
        [&name[..], b"_stext", b"_text", b"__pi__text"].iter().find_map(|name| core.address_of(name))?;
    (here != 0).then(|| address.wrapping_sub(here))
}

/// The lines of kallsyms: address, type, name, and for modules `[module]`.
fn parse(text: Vec<u8>) -> Kernel {
    /// Shorter than nearly every line, so that the table need not grow.
    const LINE: usize = 40;
    let mut core = Builder::with_room(text.len() / LINE);
    let mut modules: HashMap<Vec<u8>, Builder> = HashMap::new();
    let mut begin = 0;
    for end in memchr::memchr_iter(b'\n', &text).chain([text.len()]) {
        let line = &text[begin..end];
        begin = end + 1;
        let Some((address, kind, rest)) = function(line) else { continue };
        let (name, module) = match rest {
            [.., b']'] => match memchr::memchr2(b'\t', b' ', rest) {
                Some(end) => (&rest[..end], rest[end + 1..].trim_ascii()),
                None => (rest, &b""[..]),
            },
            _ => (rest, &b""[..]),
        };
        let weak = kind.eq_ignore_ascii_case(&b'W');
        let binding = Binding { weak, global: kind.is_ascii_uppercase() && !weak };
        match module {
            b"" => {
                let at = end - rest.len();
                core.push_at(address, 0, at..at + name.len(), binding);
            }
            b"[bpf]" | b"[__builtin__kprobes]" | b"[__builtin__ftrace]" => {}
            _ => modules.entry(module.to_vec()).or_default().push(address, 0, name, binding),
        }
    }
    let modules = modules.into_iter().map(|(name, builder)| (name, builder.build())).collect();
    Kernel { core: core.in_text(text).build(), moved: 0, modules }
}

/// Address, type and name of a line, if it is that of a function.
fn function(line: &[u8]) -> Option<(u64, u8, &[u8])> {
    let is_function = |kind: u8| matches!(kind, b'T' | b't' | b'W' | b'w');
    // Addresses have 16 digits on every machine of 64 bits.
    if let Some(([address @ .., b' ', kind, b' '], rest)) = line.split_first_chunk::<19>() {
        if let Some(address) = sixteen_digits(address) {
            return is_function(*kind).then_some((address, *kind, rest));
        }
    }
    let (address, rest) = number(line)?;
    let [b' ', kind, b' ', rest @ ..] = rest else { return None };
    is_function(*kind).then_some((address, *kind, rest))
}

fn sixteen_digits(digits: &[u8; 16]) -> Option<u64> {
    const WRONG: u8 = 0xff;
    const VALUES: [u8; 256] = {
        let mut values = [WRONG; 256];
        let mut digit = 0;
        while digit < 16 {
            values[b"0123456789abcdef"[digit] as usize] = digit as u8;
            values[b"0123456789ABCDEF"[digit] as usize] = digit as u8;
            digit += 1;
        }
        values
    };
    let (mut number, mut all) = (0, 0);
    for &digit in digits {
        let value = VALUES[usize::from(digit)];
        all |= value;
        number = number << 4 | u64::from(value & 15);
    }
    (all != WRONG).then_some(number)
}

/// The hexadecimal number a line begins with.
pub fn number(line: &[u8]) -> Option<(u64, &[u8])> {
    let mut value = 0_u64;
    for (at, &byte) in line.iter().enumerate() {
        let digit = match byte {
            b'0'..=b'9' => byte - b'0',
            b'a'..=b'f' => byte - b'a' + 10,
            b'A'..=b'F' => byte - b'A' + 10,
            _ => return (at > 0).then_some((value, &line[at..])),
        };
        if at == 16 {
            return None;
        }
        value = value << 4 | u64::from(digit);
    }
    (!line.is_empty()).then_some((value, &[]))
}

fn running_release() -> Option<Vec<u8>> {
    Some(std::fs::read("/proc/sys/kernel/osrelease").ok()?.trim_ascii().to_vec())
}

/// The build id in the notes of the running kernel.
fn running_build_id() -> Option<Vec<u8>> {
    build_id_note(&std::fs::read("/sys/kernel/notes").ok()?)
}

fn build_id_note(mut notes: &[u8]) -> Option<Vec<u8>> {
    const BUILD_ID: u32 = 3;
    loop {
        let (head, rest) = notes.split_first_chunk::<12>()?;
        let word = |at: usize| u32::from_le_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
        let padded = |len: u32| (len as usize).next_multiple_of(4);
        let (name, rest) = rest.split_at_checked(padded(word(0)))?;
        let (value, rest) = rest.split_at_checked(padded(word(4)))?;
        if word(8) == BUILD_ID && name.starts_with(b"GNU\0") {
            return value.get(..word(4) as usize).map(<[u8]>::to_vec);
        }
        notes = rest;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KALLSYMS: &[u8] = b"ffffffff81000000 T _stext\nffffffff81000000 T _text\n\
        ffffffff81000010 t inner\nffffffff81000020 D data\nffffffff81000030 T last\n\
        ffffffffc0000000 t mod_f\t[ext4]\nffffffffc1000000 t bpf_prog_x\t[bpf]\n";

    #[test]
    fn kallsyms_has_functions_modules_and_no_sizes() {
        let kernel = parse(KALLSYMS.to_vec());
        let find = |address| kernel.core.find(address).map(|name| String::from_utf8_lossy(name).into_owned());
        assert_eq!(find(0xffff_ffff_8100_0001).as_deref(), Some("_text"));
        assert_eq!(find(0xffff_ffff_8100_002f).as_deref(), Some("inner"));
        assert_eq!(find(0xffff_ffff_c100_0000), None);
        assert_eq!(number(b"1fF g"), Some((0x1ff, &b" g"[..])));
        assert_eq!(sixteen_digits(b"ffffFFFF81000030"), Some(0xffff_ffff_8100_0030));
        assert_eq!(sixteen_digits(b"ffffffff8100003g"), None);
        assert_eq!([number(b""), number(b"g"), number(b"00112233445566778 f")], [None; 3]);
        assert_eq!(kernel.modules[&b"[ext4]"[..]].find(0xffff_ffff_c000_0001), Some(&b"mod_f"[..]));
    }

    #[test]
    fn a_kernel_of_another_boot_is_moved() {
        let kernel = parse(KALLSYMS.to_vec());
        let recorded =
            |address| Recorded { reference: Some((b"_text".to_vec(), address)), ..Recorded::default() };
        assert_eq!(moved(&kernel.core, &recorded(0xffff_ffff_8200_0000)), Some(0x100_0000));
        assert_eq!(moved(&parse(b"0000000000000000 T _text\n".to_vec()).core, &recorded(0x1000)), None);
        assert_eq!(moved(&kernel.core, &Recorded::default()), None);
    }
}
