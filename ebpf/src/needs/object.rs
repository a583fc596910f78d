//! What a compiled program asks of the kernel's types: its CO-RE relocations, by name, and the helpers that it calls.
//!
//! Layout of `.BTF` and `.BTF.ext`: Documentation/bpf/btf.rst and libbpf's `struct btf_ext_header`, `struct bpf_core_relo`.

use std::collections::{BTreeMap, BTreeSet};

use libbpf_rs::btf::types::{Array, Composite, Enum};
use libbpf_rs::btf::{Btf, BtfType};
use object::read::elf::ElfFile64;
use object::{
    Object as _, ObjectSection as _, ObjectSymbol as _, RelocationTarget, SectionIndex, SymbolKind,
};

use super::types::{Scalar as _, number};

/// `enum bpf_core_relo_kind`, those that we know what to do with.
const BYTE_OFFSET: u32 = 0;
const BYTE_SIZE: u32 = 1;
const EXISTS: u32 = 2;
const NUMBER_EXISTS: u32 = 10;
const INSTRUCTION: usize = 8;
/// `BPF_JMP | BPF_CALL`, and what says in its second byte that it calls another function of the object.
const CALL: u8 = 0x85;
/// Classes of instructions that load and store: libbpf fits their width to the field's.
const LOADS_AND_STORES: [u8; 3] = [1, 2, 3];

/// A field that a program reads: of a structure, by its path. Two flavours of a structure have the same.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Path {
    pub structure: String,
    pub members: Vec<String>,
}

impl Path {
    /// Whether it is the other one, or a member of it.
    fn is_within(&self, other: &Self) -> bool {
        self.structure == other.structure && self.members.starts_with(&other.members)
    }
}

impl std::fmt::Display for Path {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{}", self.structure, self.members.join("."))
    }
}

/// How a program reads a field.
#[derive(Clone, Copy, Debug, Default)]
pub struct Reading {
    /// It looks first whether the kernel has it, or reads it from a flavour (`NAME___OTHER`), which is one way of several.
    pub optional: bool,
    /// Bytes that it reads whatever the kernel's field has; None where it fits itself to that.
    pub bytes: Option<u32>,
}

struct Relocation {
    at: u64,
    kind: u32,
    path: Path,
    flavour: bool,
    /// Of an enumerator: its number.
    bytes: Option<u32>,
}

/// A function, or all of `.text`.
#[derive(Clone)]
struct Part {
    section: String,
    begin: u64,
    end: u64,
}

/// Of one object file.
pub struct ObjectNeeds<'a> {
    elf: ElfFile64<'a>,
    relocations: BTreeMap<String, Vec<Relocation>>,
}

impl<'a> ObjectNeeds<'a> {
    /// None for what clang did not make for the kernel: nothing of it can be held against anything.
    pub fn of(bytes: &'a [u8]) -> Option<Self> {
        let elf = ElfFile64::parse(bytes).ok()?;
        let btf = Btf::from_raw("needs", bytes).ok()??;
        let strings = strings(elf.section_by_name(".BTF")?.data().ok()?)?;
        let relocations = relocations(&elf, strings, &btf)?;
        Some(Self { elf, relocations })
    }

    /// Fields that a program reads, and how.
    pub fn fields(&self, program: &str) -> BTreeMap<Path, Reading> {
        let own = self.within(&self.parts(program));
        let mut found: BTreeMap<Path, Reading> = BTreeMap::new();
        for one in own.iter().filter(|one| one.kind == BYTE_OFFSET) {
            let looked_for = own.iter().any(|other| other.kind == EXISTS && one.path.is_within(&other.path));
            let fitted = own.iter().any(|other| other.kind == BYTE_SIZE && other.path == one.path);
            let reading =
                Reading { optional: one.flavour || looked_for, bytes: if fitted { None } else { one.bytes } };
            let known = found.entry(one.path.clone()).or_insert(reading);
            known.optional &= reading.optional;
            known.bytes = known.bytes.or(reading.bytes);
        }
        found
    }

    fn within(&self, parts: &[Part]) -> Vec<&Relocation> {
        let known = parts.iter().filter_map(|part| Some((part, self.relocations.get(&part.section)?)));
        known
            .flat_map(|(part, all)| all.iter().filter(|one| (part.begin..part.end).contains(&one.at)))
            .collect()
    }

    /// Numbers of the kernel's functions that a program calls (`enum bpf_func_id`) without looking whether it has them.
    pub fn helpers(&self, program: &str) -> BTreeSet<u32> {
        let parts = self.parts(program);
        let code = parts.iter().filter_map(|part| {
            let data = self.elf.section_by_name(&part.section)?.data().ok()?;
            data.get(usize::try_from(part.begin).ok()?..usize::try_from(part.end).ok()?)
        });
        let own = self.within(&parts);
        let looks = own.iter().filter(|one| one.kind == NUMBER_EXISTS && one.path.structure == "bpf_func_id");
        let looked_for: BTreeSet<u32> = looks.filter_map(|one| one.bytes).collect();
        code.flat_map(|code| code.chunks_exact(INSTRUCTION))
            // Its source register says whose function it is: the kernel's, or one of the object.
            .filter(|one| one[0] == CALL && one[1] >> 4 == 0)
            .filter_map(|one| number(one, 4))
            .filter(|helper| !looked_for.contains(helper))
            .collect()
    }

    /// The program, and all functions of the object where it refers to one.
    fn parts(&self, program: &str) -> Vec<Part> {
        let found =
            self.elf.symbols().find(|one| one.name() == Ok(program) && one.kind() == SymbolKind::Text);
        let Some(section) = found.and_then(|one| self.elf.section_by_index(one.section_index()?).ok()) else {
            return Vec::new();
        };
        let (begin, size) = found.map_or((0, 0), |one| (one.address(), one.size()));
        let name = section.name().unwrap_or_default().to_owned();
        let own = Part { section: name, begin, end: begin + size };
        let text = self.elf.section_by_name(".text").filter(|text| text.size() > 0);
        let refers = |to: SectionIndex| {
            section.relocations().any(|(at, relocation)| {
                let RelocationTarget::Symbol(symbol) = relocation.target() else { return false };
                let into = self.elf.symbol_by_index(symbol).ok().and_then(|symbol| symbol.section_index());
                (own.begin..own.end).contains(&at) && into == Some(to)
            })
        };
        let called = text.filter(|text| refers(text.index()));
        let called = called.map(|text| Part { section: ".text".to_owned(), begin: 0, end: text.size() });
        [own].into_iter().chain(called).collect()
    }
}

/// The names of a `.BTF`.
fn strings(btf: &[u8]) -> Option<&[u8]> {
    let header = usize::try_from(number(btf, 4)?).ok()?;
    let begin = header.checked_add(usize::try_from(number(btf, 16)?).ok()?)?;
    btf.get(begin..)
}

/// The CO-RE relocations of a `.BTF.ext`, by section.
fn relocations(elf: &ElfFile64, strings: &[u8], btf: &Btf) -> Option<BTreeMap<String, Vec<Relocation>>> {
    let section = elf.section_by_name(".BTF.ext")?;
    let ext = section.data().ok()?;
    let mut found: BTreeMap<String, Vec<Relocation>> = BTreeMap::new();
    let begin = number(ext, 4)?.checked_add(number(ext, 24)?)?;
    let end = begin.checked_add(number(ext, 28)?)?;
    let record = number(ext, begin as usize)?;
    let mut at = begin + 4;
    while at < end {
        let section = text(strings, number(ext, at as usize)?)?;
        let code = elf.section_by_name(section)?.data().ok()?;
        let count = number(ext, at as usize + 4)?;
        let first = at as usize + 8;
        for record_at in (0..count as usize).map(|index| first + index * record as usize) {
            let place = number(ext, record_at)?;
            let root: BtfType = btf.type_by_id(number(ext, record_at + 4)?.into())?;
            let access = text(strings, number(ext, record_at + 8)?)?;
            let kind = number(ext, record_at + 12)?;
            let (path, flavour, bytes) = if kind == NUMBER_EXISTS {
                let Some((path, value)) = enumerator(root, access) else { continue };
                (path, false, Some(value))
            } else {
                let Some((path, flavour, leaf)) = named(btf, root, access) else { continue };
                let fitted =
                    code.get(place as usize).is_none_or(|code| LOADS_AND_STORES.contains(&(code & 7)));
                (path, flavour, if fitted { None } else { leaf.scalar_size() })
            };
            found.entry(section.to_owned()).or_default().push(Relocation {
                at: place.into(),
                kind,
                path,
                flavour,
                bytes,
            });
        }
        at = u32::try_from(first).ok()?.checked_add(count.checked_mul(record)?)?;
    }
    Some(found)
}

/// An enumerator by its place, and its number.
fn enumerator(root: BtfType, place: &str) -> Option<(Path, u32)> {
    let all = Enum::try_from(root.skip_mods_and_typedefs()).ok()?;
    let found = all.get(place.parse().ok()?)?;
    let structure = all.name()?.to_str()?.split("___").next()?.to_owned();
    let members = vec![found.name?.to_str()?.to_owned()];
    Some((Path { structure, members }, u32::try_from(found.value).ok()?))
}

/// What an access string (`0:3:1`: of the pointer, then members by their index) leads to. None: not to a named field.
fn named<'s>(btf: &'s Btf, root: BtfType<'s>, access: &str) -> Option<(Path, bool, BtfType<'s>)> {
    let root = root.skip_mods_and_typedefs();
    let name = root.name()?.to_str()?;
    let structure = name.split("___").next()?;
    let (mut members, mut here) = (Vec::new(), root);
    for index in access.split(':').skip(1) {
        if let Ok(array) = Array::try_from(here) {
            here = array.contained_type().skip_mods_and_typedefs();
            continue;
        }
        let all = Composite::try_from(here).ok()?;
        let member = all.get(index.parse().ok()?)?;
        members.extend(member.name.and_then(|name| name.to_str()).map(str::to_owned));
        here = btf.type_by_id::<BtfType>(member.ty)?.skip_mods_and_typedefs();
    }
    let path = Path { structure: structure.to_owned(), members };
    (!path.members.is_empty()).then_some((path, name != structure, here))
}

fn text(strings: &[u8], at: u32) -> Option<&str> {
    let rest = strings.get(at as usize..)?;
    std::str::from_utf8(&rest[..rest.iter().position(|byte| *byte == 0)?]).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `enum bpf_func_id`
    const TAIL_CALL: u32 = 12;

    macro_rules! object {
        ($name:literal) => {
            ($name, include_bytes!(concat!(env!("OUT_DIR"), "/", $name, ".bpf.o")).as_slice())
        };
    }

    #[test]
    fn programs_of_uprobes_share_no_stack() {
        for (name, bytes) in [object!("ladder"), object!("records"), object!("uprobe"), object!("writes")] {
            let needs = ObjectNeeds::of(bytes).unwrap();
            let of_uprobes = |index| {
                let section = needs.elf.section_by_index(index).unwrap();
                let name = section.name().unwrap().trim_start_matches('?').to_owned();
                name.starts_with("uprobe") || name.starts_with("uretprobe")
            };
            let programs: Vec<&str> = needs
                .elf
                .symbols()
                .filter(|one| one.kind() == SymbolKind::Text && one.section_index().is_some_and(of_uprobes))
                .map(|one| one.name().unwrap())
                .collect();
            assert!(programs.len() >= 3, "{name}: {programs:?}");
            for program in programs {
                assert!(needs.helpers(program).contains(&TAIL_CALL), "{name}: {program}");
            }
        }
    }
}
