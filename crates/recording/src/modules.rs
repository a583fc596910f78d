//! What is mapped in the target, with build ids read from its memory: so that a file that was replaced, deleted or lies
//! in another mount namespace is named by what really runs.

use crate::parse::Mapping;
use nix::sys::uio::{RemoteIoVec, process_vm_readv};
use nix::unistd::Pid;
use std::io::IoSliceMut;

const PT_LOAD: u32 = 1;
const PT_NOTE: u32 = 4;
const NT_GNU_BUILD_ID: u32 = 3;
/// A larger program header table or note section is damage.
const HEADERS: usize = 4096;
const NOTES: usize = 4096;

/// The code of a process.
#[derive(Default)]
pub struct Modules {
    /// Executable mappings, by address.
    code: Vec<Mapping>,
}

impl Modules {
    /// Takes the mappings of now. Those of code that were not there before are returned.
    pub fn update(&mut self, process: Pid, maps: &[Mapping]) -> Vec<(Mapping, Option<Vec<u8>>)> {
        let code: Vec<Mapping> = maps.iter().filter(|map| map.executable).cloned().collect();
        let added = code.iter().filter(|map| !self.code.contains(map));
        let new = added.map(|map| (map.clone(), build_id(process, base_of(maps, map)))).collect();
        self.code = code;
        new
    }

    pub fn is_code(&self, address: u64) -> bool {
        let after = self.code.partition_point(|map| map.range.start <= address);
        self.code[..after].last().is_some_and(|map| map.range.contains(&address))
    }
}

/// Where the file of a mapping begins in memory: the mapping of its offset 0 nearest below.
fn base_of(maps: &[Mapping], map: &Mapping) -> u64 {
    let first = |other: &&Mapping| other.path == map.path && other.offset == 0;
    let mut before = maps.iter().filter(|other| other.range.start <= map.range.start);
    before.rfind(first).map_or(map.range.start, |first| first.range.start)
}

fn build_id(process: Pid, base: u64) -> Option<Vec<u8>> {
    build_id_at(base, |address, size| {
        let mut bytes = vec![0; size];
        let have = read(process, address, &mut bytes);
        bytes.truncate(have);
        bytes
    })
}

/// Reads from `address` on into `buffer`; how much could be read.
fn read(process: Pid, address: u64, buffer: &mut [u8]) -> usize {
    let Ok(base) = usize::try_from(address) else { return 0 };
    let remote = [RemoteIoVec { base, len: buffer.len() }];
    process_vm_readv(process, &mut [IoSliceMut::new(buffer)], &remote).unwrap_or(0)
}

/// The build id of the ELF file that is in memory from `base` on.
fn build_id_at(base: u64, read: impl Fn(u64, usize) -> Vec<u8>) -> Option<Vec<u8>> {
    let head = read(base, HEADERS);
    // 64 bits, little-endian: what this program is built for.
    if !head.starts_with(b"\x7fELF\x02\x01") {
        return None;
    }
    let (at, size, count) = (word(&head, 32)?, half(&head, 54)?, half(&head, 56)?);
    let at = usize::try_from(at).ok()?;
    let header = |index: usize| head.get(at.checked_add(index.checked_mul(size)?)?..);
    let headers = (0..count).map_while(header);
    let kind = |header: &[u8]| header.get(..4)?.try_into().ok().map(u32::from_le_bytes);
    let load = headers.clone().find(|h| kind(h) == Some(PT_LOAD))?;
    let lowest = word(load, 16)?.wrapping_sub(word(load, 8)?);
    headers.filter(|h| kind(h) == Some(PT_NOTE)).find_map(|h| {
        let (address, size) = (word(h, 16)?, usize::try_from(word(h, 32)?).ok()?);
        let memory = base.wrapping_add(address.wrapping_sub(lowest));
        note(&read(memory, size.min(NOTES)), usize::try_from(word(h, 48)?).ok()?)
    })
}

/// The build id among these notes.
pub fn note(mut notes: &[u8], align: usize) -> Option<Vec<u8>> {
    let align = if align == 8 { 8 } else { 4 };
    loop {
        let part = |at: usize| notes.get(at..at + 4)?.try_into().ok().map(u32::from_le_bytes);
        let (name, value, kind) = (part(0)? as usize, part(4)? as usize, part(8)?);
        let start = 12_usize.checked_add(name)?.next_multiple_of(align);
        let end = start.checked_add(value)?;
        let content = notes.get(start..end)?;
        if kind == NT_GNU_BUILD_ID && notes[12..].starts_with(b"GNU\0") {
            return Some(content.to_vec()).filter(|id| (1..=20).contains(&id.len()));
        }
        notes = notes.get(end.next_multiple_of(align)..)?;
    }
}

fn word(bytes: &[u8], at: usize) -> Option<u64> {
    bytes.get(at..at + 8)?.try_into().ok().map(u64::from_le_bytes)
}

fn half(bytes: &[u8], at: usize) -> Option<usize> {
    bytes.get(at..at + 2)?.try_into().ok().map(|bytes| usize::from(u16::from_le_bytes(bytes)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Kernel;
    use std::process::Command;

    #[test]
    fn this_program_and_its_libraries_have_the_ids_that_readelf_prints() {
        let maps = crate::parse::maps(&std::fs::read("/proc/self/maps").unwrap());
        let mut modules = Modules::default();
        let found = modules.update(Pid::this(), &maps);
        let mut checked = 0;
        for (map, id) in found.iter().filter(|(map, _)| map.path.starts_with(b"/")) {
            let path = String::from_utf8(map.path.clone()).unwrap();
            let output = Command::new("readelf").args(["-nW", &path]).output().unwrap().stdout;
            let text = String::from_utf8_lossy(&output).into_owned();
            let Some(expected) =
                text.split("Build ID: ").nth(1).map(|rest| rest.split_whitespace().next().unwrap())
            else {
                continue;
            };
            let id: String = id.as_ref().unwrap().iter().map(|byte| format!("{byte:02x}")).collect();
            assert_eq!(id, expected, "{path}");
            checked += 1;
        }
        assert!(checked >= 2, "{found:?}");
        assert!(modules.is_code(Kernel::running as *const () as u64));
        assert!(!modules.is_code(&raw const checked as u64) && !modules.is_code(0));
        assert!(modules.update(Pid::this(), &maps).is_empty());
    }

    /// A program of one page, linked at 0x40_0000, whose headers are not loaded by themselves.
    fn program(id: u8) -> Vec<u8> {
        let header = |kind: u32, at: u64, size: u64| {
            let words = [u64::from(kind), at, 0x40_0000 + at, 0, size, size, 4];
            words.map(u64::to_le_bytes).concat()
        };
        let mut bytes = vec![0; 64];
        bytes[..6].copy_from_slice(b"\x7fELF\x02\x01");
        (bytes[32], bytes[54], bytes[56]) = (64, 56, 2);
        bytes.extend([header(PT_LOAD, 0x100, 0x200), header(PT_NOTE, 0x200, 18)].concat());
        bytes.resize(0x200, 0);
        bytes.extend([4, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0, b'G', b'N', b'U', 0, id, id]);
        bytes.resize(4096, 0);
        bytes
    }

    #[test]
    fn a_file_where_another_was_has_its_own_id() {
        let mut memory = program(1);
        let start = memory.as_ptr() as u64;
        let map = |inode| Mapping {
            range: start..start + 4096,
            offset: 0,
            executable: true,
            device: b"fe:00".to_vec(),
            inode,
            path: format!("/plugin{inode}.so").into_bytes(),
        };
        let mut modules = Modules::default();
        assert_eq!(modules.update(Pid::this(), &[map(1)]), [(map(1), Some(vec![1, 1]))]);
        memory.copy_from_slice(&program(2));
        assert_eq!(modules.update(Pid::this(), &[map(2)]), [(map(2), Some(vec![2, 2]))]);
    }

    #[test]
    fn notes_of_any_shape_are_survived() {
        let id = [4, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0, b'G', b'N', b'U', 0, 0xab, 0xcd];
        assert_eq!(note(&id, 4), Some(vec![0xab, 0xcd]));
        let other = [4, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, b'G', b'N', b'U', 0];
        assert_eq!(note(&[&other[..], &id[..]].concat(), 4), Some(vec![0xab, 0xcd]));
        for cut in 0..id.len() {
            assert_eq!(note(&id[..cut], 4), None);
        }
        assert_eq!(note(&[0xff; 64], 8), None);
    }
}
