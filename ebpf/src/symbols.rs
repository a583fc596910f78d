//! The functions of an engine in the files that a process really has mapped: found by demangled name, as file offsets.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fs::{self, File};
use std::os::linux::fs::MetadataExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::exits::{Code, Exit};
use observer::Failure;
use recording::parse;
use symbolize::addresses::ObjectAddress;
use symbolize::budget::Budget;
use symbolize::regular::PartsOfFile;
use symbolize::symbols::elf::{self, Elf};
use symbolize::{regular, symbols};

/// Which functions matter, by engine: `workloads/engines/NAME/symbols.toml`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rules {
    pub engine: String,
    /// Where a query begins; kinds in order of preference.
    pub query: Vec<Rule>,
    /// Where it reads a file.
    pub reader: Vec<Rule>,
    /// What is not followed.
    #[serde(default)]
    pub other: Vec<Rule>,
    /// The write path: a rule's name is the stage that the function begins, or its part (`writes::plan`).
    #[serde(default)]
    pub write: Vec<Rule>,
}

impl Rules {
    /// With writes as the last kind of query, by the name of the function that all of them end in.
    pub fn with_writes(mut self) -> Self {
        let named = |rule: &&Rule| rule.name == "write";
        let name =
            |prefix: &str| prefix.trim_end_matches('(').rsplit("::").next().unwrap_or_default().to_owned();
        self.query.extend(self.write.iter().filter(named).map(|rule| Rule {
            name: name(&rule.prefix),
            kind: "write".to_owned(),
            prefix: rule.prefix.clone(),
        }));
        self
    }
}

/// Functions whose demangled name, with its arguments, begins with `prefix`; `name` is what people call them.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rule {
    pub name: String,
    pub prefix: String,
    /// Of a query: all functions of a kind are followed together.
    #[serde(default = "Rule::first_kind")]
    pub kind: String,
}

impl Rule {
    fn first_kind() -> String {
        "get".to_owned()
    }
}

/// One function in one mapped file.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Function {
    /// Demangled, with arguments.
    pub name: String,
    /// The path as the process sees it.
    #[serde(rename = "file")]
    pub shown: String,
    /// A path by which we can open the file, whatever the process' mount namespace.
    #[serde(skip)]
    pub file: PathBuf,
    /// Where its probe goes: the entry, behind a landing pad (endbr64), which is no different to a caller.
    #[serde(skip)]
    pub offset: u64,
    /// Outermost calls in a trial before the window.
    pub calls: u64,
    /// Its first instruction is not one that the kernel emulates: it single-steps it, which is dearer by far in a VM.
    pub stepped: bool,
    /// Where it is left, as offsets in the file; or why that is not known.
    #[serde(skip)]
    pub exits: Result<Vec<Exit>, String>,
    #[serde(skip)]
    pub is_go: bool,
}

/// A file of the target's choice, of which no more is read than is asked for, and that within bounds.
struct CodeFile {
    shown: String,
    path: PathBuf,
    bytes: File,
    parts: PartsOfFile,
    elf: Elf,
}

impl CodeFile {
    /// None where it is none.
    fn open(shown: &str, path: &Path) -> Option<Self> {
        let (bytes, parts, elf) =
            (regular::open(path).ok()?, PartsOfFile::open(path).ok()?, Elf::read(path)?);
        Some(Self { shown: shown.to_owned(), path: path.to_owned(), bytes, parts, elf })
    }

    fn code(&self) -> Option<Code<'_>> {
        object::File::parse(&self.parts).ok().map(|file| Code::of(&file))
    }

    fn offset_of(&self, address: u64) -> Option<u64> {
        self.elf.offset_of(ObjectAddress(address)).map(|offset| offset.0)
    }

    /// The function there; None where the file has no bytes of it.
    fn function(&self, code: &Code, name: String, address: u64) -> Option<Function> {
        let (offset, stepped) = probe_place(&self.bytes, self.offset_of(code.entry(address))?);
        let place = |exit: Exit| Some(Exit { at: self.offset_of(exit.at)?, ..exit });
        let exits = code.exits(address).map(|exits| exits.into_iter().filter_map(place).collect());
        let (shown, file) = (self.shown.clone(), self.path.clone());
        Some(Function { name, shown, file, offset, calls: 0, stepped, exits, is_go: code.is_go })
    }
}

/// What was looked through, for an error message that can be acted on.
#[derive(Debug, Default)]
pub struct Searched {
    pub files: usize,
    /// Mapped files of the engine's process without any function symbol.
    pub stripped: Vec<String>,
}

/// Rules that are part of the program, by the engine's name; the build script lists them.
const BUILT_IN: &[(&str, &str)] = include!(concat!(env!("OUT_DIR"), "/symbol_rules.rs"));

/// Rules of the program by the engine's name, or of a file.
pub fn load_rules(name: &str) -> Result<Rules, Failure> {
    if let Some((_, text)) = BUILT_IN.iter().find(|(known, _)| *known == name) {
        return parse_rules(text);
    }
    let text = fs::read_to_string(name).map_err(|error| {
        let known: Vec<_> = BUILT_IN.iter().map(|(name, _)| *name).collect();
        Failure::usage(format!("--symbols {name}: {error}; built in are: {}", known.join(", ")))
    })?;
    parse_rules(&text)
}

fn parse_rules(text: &str) -> Result<Rules, Failure> {
    toml::from_str(text).map_err(|error| Failure::usage(format!("the symbol rules are wrong: {error}")))
}

/// Every function of `rules` in the executable mappings of `pid`, the rule's place in the list first.
pub fn find(pid: u32, rules: &[Rule]) -> Result<(Vec<(usize, Function)>, Searched), Failure> {
    let mut found = Vec::new();
    let mut searched = Searched::default();
    for (shown, file) in mapped_files(pid)? {
        searched.files += 1;
        let Some(functions) = functions(&file, rules) else {
            searched.stripped.push(shown);
            continue;
        };
        if functions.is_empty() {
            continue;
        }
        let Some(file) = CodeFile::open(&shown, &file) else { continue };
        let Some(code) = file.code() else { continue };
        found.extend(
            functions
                .into_iter()
                .filter_map(|(rule, name, address)| Some((rule, file.function(&code, name, address)?))),
        );
    }
    found.sort_by_key(|(rule, _)| *rule);
    Ok((found, searched))
}

/// Executable mappings backed by files, each file once: the path as shown, and one that we can open.
fn mapped_files(pid: u32) -> Result<Vec<(String, PathBuf)>, Failure> {
    let root = PathBuf::from(format!("/proc/{pid}"));
    let maps = fs::read(root.join("maps"))
        .map_err(|error| Failure::usage(format!("the mappings of process {pid} cannot be read: {error}")))?;
    let mut files = BTreeMap::new();
    let code = parse::maps(&maps).into_iter().filter(|map| map.executable);
    for map in code.filter(|map| map.inode != 0 && map.path.starts_with(b"/")) {
        // Through the process' root the path is right in its own mount namespace; a replaced or deleted file is
        // still there under map_files.
        let direct = root.join("root").join(OsStr::from_bytes(&map.path[1..]));
        let same = fs::metadata(&direct).is_ok_and(|found| found.st_ino() == map.inode);
        let range = format!("map_files/{:x}-{:x}", map.range.start, map.range.end);
        let file = if same { direct } else { root.join(range) };
        let shown = String::from_utf8_lossy(&map.path).into_owned();
        files.entry((map.device, map.inode)).or_insert((shown, file));
    }
    Ok(files.into_values().collect())
}

/// Where probes go on the functions of a file, by their linker names.
pub struct Entries {
    pub pid: u32,
    pub shown: String,
    /// By which we can open it.
    pub file: PathBuf,
    pub offsets: BTreeMap<String, u64>,
}

/// Of the functions whose linker names are wanted, in the first mapped file of the process that has any; and how many
/// files were looked through.
pub fn entries(pid: u32, wanted: impl Fn(&str) -> bool) -> Result<(Option<Entries>, usize), Failure> {
    let files = mapped_files(pid)?;
    let many = files.len();
    for (shown, file) in files {
        let mut found = BTreeMap::new();
        elf::each_function(&file, &Budget::default(), |name, range| {
            if let Some(name) = std::str::from_utf8(name).ok().filter(|name| range.start != 0 && wanted(name))
            {
                found.insert(name.to_owned(), range.start);
            }
        });
        let Some(held) = (!found.is_empty()).then(|| CodeFile::open(&shown, &file)).flatten() else {
            continue;
        };
        let Some(code) = held.code() else { continue };
        let place = |address| Some(probe_place(&held.bytes, held.offset_of(code.entry(address))?).0);
        let offsets = found.into_iter().filter_map(|(name, address)| Some((name, place(address)?))).collect();
        return Ok((Some(Entries { pid, shown, file, offsets }), many));
    }
    Ok((None, many))
}

/// Rule, demangled name and address of each function that a rule names; None where the file has no function symbols.
fn functions(path: &Path, rules: &[Rule]) -> Option<Vec<(usize, String, u64)>> {
    let mangled: Vec<Vec<String>> = rules.iter().map(|rule| mangled_parts(&rule.prefix)).collect();
    let mut found = Vec::new();
    let mut seen = BTreeSet::new();
    elf::each_function(path, &Budget::default(), |name, range| {
        let address = range.start;
        let Some(name) = std::str::from_utf8(name).ok().filter(|_| address != 0) else { return };
        // Demangling every symbol of a large library takes seconds; its parts are spelt out in the mangled name.
        for (rule, _) in
            mangled.iter().enumerate().filter(|(_, parts)| parts.iter().all(|part| name.contains(part)))
        {
            let Some(demangled) = demangle(name) else { continue };
            if !demangled.starts_with(&rules[rule].prefix)
                || is_fragment(name)
                || !seen.insert((rule, address))
            {
                continue;
            }
            found.push((rule, demangled, address));
        }
    })?;
    Some(found)
}

/// `rocksdb::DBImpl::Get(` as a mangled name spells it: `7rocksdb`, `6DBImpl`, `3Get`; a name of C is unchanged. An
/// argument list is left out.
fn mangled_parts(prefix: &str) -> Vec<String> {
    // A parenthesis behind `::` is part of a name.
    let arguments = prefix.match_indices('(').find(|(at, _)| *at > 0 && !prefix[..*at].ends_with("::"));
    let plain = arguments.map_or(prefix, |(at, _)| &prefix[..at]);
    if !plain.contains("::") {
        return vec![plain.to_owned()];
    }
    let names = plain.split("::");
    let spelt = |name: &str| match name {
        "(anonymous namespace)" => "12_GLOBAL__N_1".to_owned(),
        _ => format!("{}{name}", name.len()),
    };
    names.map(spelt).collect()
}

/// A piece of a function that the compiler split off: it is jumped to, not called, so no return can be watched.
fn is_fragment(mangled: &str) -> bool {
    mangled.contains(".cold") || mangled.contains(".part.")
}

/// With the argument list, which is empty for a name of C.
pub fn demangle(mangled: &str) -> Option<String> {
    // A clone's suffix (`.constprop.0`) does not belong to the name; other points may (Go: `main.serve`).
    const CLONES: [&str; 7] = [".constprop.", ".isra.", ".part.", ".cold", ".lto_priv.", ".llvm.", ".clone."];
    let end = CLONES.iter().filter_map(|suffix| mangled.find(suffix)).min();
    let plain = end.map_or(mangled, |end| &mangled[..end]);
    if !plain.starts_with("_Z") {
        return Some(format!("{plain}()"));
    }
    let plain = plain.split('.').next().unwrap_or(plain);
    symbols::with_arguments(plain)
}

/// File offset of the instruction that the probe of a function goes to, and whether it will be single-stepped.
fn probe_place(file: &File, entry: u64) -> (u64, bool) {
    let mut code = [0; 8];
    let len = if cfg!(target_arch = "x86_64") {
        file.read_at(&mut code, entry).unwrap_or(0)
    } else {
        return (entry, false);
    };
    let (landing_pad, stepped) = first_instruction(&code[..len]);
    (entry + landing_pad, stepped)
}

/// How long a function's landing pad is, and whether the instruction behind it is single-stepped.
fn first_instruction(code: &[u8]) -> (u64, bool) {
    const ENDBR64: &[u8] = &[0xf3, 0x0f, 0x1e, 0xfa];
    match code.strip_prefix(ENDBR64) {
        Some(rest) => (ENDBR64.len() as u64, !is_emulated(rest)),
        None => (0, !is_emulated(code)),
    }
}

/// push, nop, jumps and calls: what arch/x86/kernel/uprobes.c carries out itself.
fn is_emulated(code: &[u8]) -> bool {
    matches!(
        code,
        [0x50..=0x57 | 0x90 | 0x70..=0x7f | 0xe8 | 0xe9 | 0xeb, ..] | [0x41, 0x50..=0x57, ..] | [0x0f, 0x80..=0x8f, ..]
    )
}

/// A function of this very program, by its plain name.
pub fn own_function(name: &str) -> Result<Function, Failure> {
    let file = PathBuf::from("/proc/self/exe");
    let mut address = None;
    elf::each_function(&file, &Budget::default(), |symbol, range| {
        address = address.or((symbol == name.as_bytes()).then_some(range.start));
    });
    let ours = CodeFile::open(&file.display().to_string(), &file);
    let function = ours.zip(address).and_then(|(ours, address)| {
        let code = ours.code()?;
        ours.function(&code, name.to_owned(), address)
    });
    function.ok_or_else(|| Failure::host(format!("this program was stripped of its symbol {name}")))
}

/// The file a process was started from, for messages.
pub fn executable(pid: u32) -> String {
    fs::read_link(Path::new("/proc").join(pid.to_string()).join("exe"))
        .map_or_else(|_| format!("process {pid}"), |path| path.display().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rules_that_come_with_it_are_right() {
        for (name, _) in BUILT_IN {
            let rules = load_rules(name).unwrap();
            assert_eq!(rules.engine, *name);
            assert!(!rules.query.is_empty() && !rules.reader.is_empty());
        }
    }

    #[test]
    #[cfg(target_arch = "x86_64")]
    fn a_probe_goes_behind_the_landing_pad_and_knows_what_is_stepped() {
        let push = [0x55, 0x48, 0x89, 0xe5];
        let landing = [&[0xf3, 0x0f, 0x1e, 0xfa][..], &push[..]].concat();
        let sub = [0x48, 0x83, 0xec, 0x08];
        assert_eq!(first_instruction(&push), (0, false));
        assert_eq!(first_instruction(&landing), (4, false));
        assert_eq!(first_instruction(&sub), (0, true));
        assert_eq!(first_instruction(&[0x41, 0x57]), (0, false));
    }

    #[test]
    fn parts_are_spelt_as_a_mangled_name_spells_them() {
        assert_eq!(mangled_parts("rocksdb::DBImpl::Get("), ["7rocksdb", "6DBImpl", "3Get"]);
        let name = "_ZN7rocksdb6DBImpl3GetERKNS_11ReadOptionsE";
        assert!(mangled_parts("rocksdb::DBImpl::Get(").iter().all(|part| name.contains(part)));
        assert_eq!(demangle(name).unwrap(), "rocksdb::DBImpl::Get(rocksdb::ReadOptions const&)");
        assert_eq!(demangle(&format!("{name}.constprop.0")), demangle(name));
        assert!(is_fragment(&format!("{name}.cold")) && !is_fragment(name));
        let seek = "_ZN7leveldb12_GLOBAL__N_16DBIter4SeekERKNS_5SliceE";
        let prefix = "leveldb::(anonymous namespace)::DBIter::Seek(";
        assert!(mangled_parts(prefix).iter().all(|part| seek.contains(part)));
        assert!(demangle(seek).unwrap().starts_with(prefix));
        assert_eq!(mangled_parts("mdb_get("), ["mdb_get"]);
        assert_eq!(
            mangled_parts("rocksdb::DBImpl::Get(rocksdb::ReadOptions"),
            ["7rocksdb", "6DBImpl", "3Get"]
        );
        assert_eq!(demangle("mdb_get.constprop.0").unwrap(), "mdb_get()");
        assert_eq!(demangle("main.(*Store).Get").unwrap(), "main.(*Store).Get()");
    }
}
