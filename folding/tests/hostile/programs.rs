//! Programs and libraries, whose symbols, debug information and unwind tables are read.

use super::{add_copied, bounded, of_copied_stacks};
use crate::common::Files;
use crate::common::recording::*;
use std::os::unix::fs::FileExt;

const MAPPED: u64 = 0x1000_0000;
const DEBUG: u32 = 1;

/// A section: name, kind, the number of another one, bytes.
type Section<'a> = (&'a str, u32, u32, Vec<u8>);

/// A file of x86-64 whose sections lie at their addresses, all of it code, the sections numbered from 1.
fn elf(sections: &[Section]) -> Vec<u8> {
    let (mut names, mut table) = (vec![0], vec![0; 64]);
    let mut bytes = vec![0; 64 + 56];
    let named = [("", 3, 0, Vec::new())];
    for (name, kind, link, data) in sections.iter().chain(&named) {
        let name_at = names.len() as u64;
        names.extend([name.as_bytes(), &[0]].concat());
        let data = if name.is_empty() { &names } else { data };
        bytes.resize(bytes.len().next_multiple_of(16), 0);
        let at = bytes.len() as u64;
        table.extend(words(&[
            name_at | u64::from(*kind) << 32,
            2,
            at,
            at,
            data.len() as u64,
            u64::from(*link),
            1,
            24,
        ]));
        bytes.extend(data);
    }
    bytes.resize(bytes.len().next_multiple_of(0x1_0000), 0);
    let headers = bytes.len() as u64;
    let count = table.len() as u16 / 64;
    bytes.extend(&table);
    let mut put = |at: usize, part: &[u8]| bytes[at..][..part.len()].copy_from_slice(part);
    put(0, b"\x7fELF\x02\x01\x01");
    put(16, &[3_u16, 62].map(u16::to_le_bytes).concat());
    put(32, &words(&[64, headers]));
    put(52, &[64_u16, 56, 1, 64, count, count - 1].map(u16::to_le_bytes).concat());
    put(64, &words(&[1 | 5 << 32, 0, 0, 0, headers, headers, 0x1000]));
    bytes
}

/// Samples at these places of a program, whose frames are the addresses of each.
fn sampled(path: &str, chains: impl Iterator<Item = Vec<u64>>) -> Vec<u8> {
    let mut records = Records::default();
    records.comm(0, 7, 7, "t", true).mmap(0, 7, MAPPED, 0x4000_0000, 0, path);
    for (chain, time) in chains.zip(1..) {
        let chain: Vec<u64> = std::iter::once(USER).chain(chain.iter().map(|at| MAPPED + at)).collect();
        records.sample(time, 7, 7, 1, &chain);
    }
    file(&[Event::default()], &records)
}

/// Ten thousand places of a program.
fn many_places(path: &str) -> Vec<u8> {
    sampled(path, (0..100).map(|n| (0..100).map(|k| 0x1000 + 4 * (100 * n + k)).collect()))
}

/// Folds a recording of such a program: what is written, and what is said.
fn fold(program: &[u8], recording: impl Fn(&str) -> Vec<u8>) -> (String, String) {
    let files = Files::new();
    let path = files.write("program", program);
    let recording = files.write("recording", recording(&path));
    let (code, out, said) = bounded(&[&recording]);
    assert_eq!(code, 0, "{said}");
    (out, said)
}

/// A unit of DWARF 4 with these entries, which are described from an offset of `.debug_abbrev` on.
fn unit(abbreviations: u32, entries: &[u8]) -> Vec<u8> {
    let head = [&[4, 0][..], &abbreviations.to_le_bytes(), &[8]].concat();
    [&((head.len() + entries.len()) as u32).to_le_bytes()[..], &head, entries].concat()
}

/// A description: number, tag, whether others are below it, names and forms of the attributes.
fn shape(number: u8, tag: u8, below: bool, attributes: &[[u8; 2]]) -> Vec<u8> {
    [&[number, tag, u8::from(below)][..], &attributes.concat(), &[0, 0]].concat()
}

const UNIT: u8 = 0x11;
const FUNCTION: u8 = 0x2e;
const LOW: [u8; 2] = [0x11, 0x01];
const HIGH: [u8; 2] = [0x12, 0x07];
const RANGES: [u8; 2] = [0x55, 0x17];

/// From the first address to the last.
fn everywhere() -> Vec<u8> {
    words(&[8, 0x4000_0000])
}

/// So many ranges, each of which has all addresses.
fn ranges(count: usize) -> Vec<u8> {
    [words(&[8, 0x4000_0000]).repeat(count), words(&[0, 0])].concat()
}

fn with_debug(info: Vec<u8>, abbreviations: Vec<u8>, ranges: Vec<u8>) -> Vec<u8> {
    elf(&[
        (".debug_info", DEBUG, 0, info),
        (".debug_abbrev", DEBUG, 0, abbreviations),
        (".debug_ranges", DEBUG, 0, ranges),
    ])
}

#[test]
fn ranges_of_a_unit_that_all_hold_an_address_count_it_once() {
    let shapes = [shape(1, UNIT, false, &[RANGES]), vec![0]].concat();
    fold(&with_debug(unit(0, &[1, 0, 0, 0, 0]), shapes, ranges(50_000)), many_places);
}

#[test]
fn ranges_of_a_function_that_all_hold_an_address_count_it_once() {
    let shapes = [shape(1, UNIT, true, &[LOW, HIGH]), shape(2, FUNCTION, false, &[RANGES]), vec![0]].concat();
    let entries = [&[1][..], &everywhere(), &[2, 0, 0, 0, 0, 0]].concat();
    fold(&with_debug(unit(0, &entries), shapes, ranges(50_000)), many_places);
}

#[test]
fn functions_that_share_their_ranges_do_not_read_them_without_end() {
    let shapes = [shape(1, UNIT, true, &[LOW, HIGH]), shape(2, FUNCTION, false, &[RANGES]), vec![0]].concat();
    let entries = [&[1][..], &everywhere(), &[2, 0, 0, 0, 0].repeat(400_000), &[0]].concat();
    // They hold none of the places.
    let list = [words(&[0x8000_0000, 0x8000_0001]).repeat(50_000), words(&[0, 0])].concat();
    let (_, said) = fold(&with_debug(unit(0, &entries), shapes, list), many_places);
    assert!(said.contains("it is damaged"), "{said}");
}

#[test]
fn units_that_share_their_descriptions_read_them_once() {
    let mut shapes = shape(1, UNIT, false, &[LOW, HIGH]);
    (0..150_000_u32).for_each(|n| {
        shapes.extend([0x80 | n as u8, 0x80 | (n >> 7) as u8, (n >> 14) as u8 + 8, UNIT, 0, 0, 0])
    });
    shapes.push(0);
    let one = unit(0, &[&[1][..], &everywhere()].concat());
    fold(&with_debug(one.repeat(30_000), shapes, Vec::new()), many_places);
}

#[test]
fn entries_with_attributes_that_take_no_room_end_the_unit() {
    const FLAG: [u8; 2] = [0x3f, 0x19];
    let shapes = [
        shape(1, UNIT, true, &[LOW, HIGH]),
        shape(2, FUNCTION, false, &[&[FLAG].repeat(200_000)[..], &[LOW]].concat()),
        vec![0],
    ]
    .concat();
    let entries =
        [&[1][..], &everywhere(), &[&[2][..], &words(&[0])].concat().repeat(200_000), &[0]].concat();
    let (_, said) = fold(&with_debug(unit(0, &entries), shapes, Vec::new()), many_places);
    assert!(said.contains("it is damaged"), "{said}");
}

/// A program whose one function is described by these instructions: after a common beginning, which says where the return
/// address and the frame are.
fn unwound(section: &str, instructions: &[u8]) -> Vec<u8> {
    let padded = |mut entry: Vec<u8>| {
        entry.resize(entry.len().next_multiple_of(8) + 4, 0);
        [&(entry.len() as u32).to_le_bytes()[..], &entry].concat()
    };
    let id: u32 = if section == ".eh_frame" { 0 } else { u32::MAX };
    // Version 1, no augmentation, factors 1 and -8, return address in 16; CFA = rsp + 8, the return address at CFA - 8.
    let common = padded([&id.to_le_bytes()[..], &[1, 0, 1, 0x78, 16, 0x0c, 7, 8, 0x90, 1]].concat());
    let back = if section == ".eh_frame" { common.len() as u32 + 4 } else { 0 };
    let function = padded([&back.to_le_bytes()[..], &words(&[0x1000, 0x1000_0000]), instructions].concat());
    // Where sections lie: see `elf`.
    let frames = 128;
    let entry = frames + common.len() as u32;
    let entries = [common, function, vec![0; 4]].concat();
    if section != ".eh_frame" {
        return elf(&[(section, 1, 0, entries)]);
    }
    let table = (frames + entries.len() as u32).next_multiple_of(16);
    let row = [1, 0x1000_u32.wrapping_sub(table), entry.wrapping_sub(table)];
    let head = [&[1, 0x1b, 3, 0x3b][..], &frames.wrapping_sub(table + 4).to_le_bytes()].concat();
    let listed = [head, row.map(u32::to_le_bytes).concat()].concat();
    elf(&[(section, 1, 0, entries), (".eh_frame_hdr", 1, 0, listed)])
}

/// Samples with copied stacks that begin in such a program; rbx is where the stack begins.
fn with_stacks(path: &str, stack: &[u64], samples: u64, registers: [u64; 20]) -> Vec<u8> {
    let mut records = Records::default();
    records.comm(0, 7, 7, "t", true).mmap(0, 7, MAPPED, 0x2000_0000, 0, path);
    (1..=samples).for_each(|time| add_copied(&mut records, time, MAPPED + 0x2000, &registers, stack));
    file(&[of_copied_stacks()], &records)
}

const STACK: u64 = 0x7000_0000;

fn at_stack() -> [u64; 20] {
    let mut registers = [0; 20];
    // In perf's order: ax bx cx dx si di bp sp ip.
    (registers[1], registers[6], registers[7], registers[8]) = (STACK, STACK, STACK, MAPPED + 0x2000);
    registers
}

/// An expression that jumps to itself, as the rule of the return address.
#[test]
fn a_rule_that_never_ends_ends_the_stack() {
    const JUMP: [u8; 3] = [0x2f, 0xfd, 0xff];
    let stack: Vec<u64> = (0..64).map(|_| MAPPED + 0x3000).collect();
    for section in [".eh_frame", ".debug_frame"] {
        for rule in [[0x16, 16, 3], [0x10, 16, 3], [0x16, 6, 3]] {
            fold(&unwound(section, &[rule, JUMP].concat()), |path| with_stacks(path, &stack, 3, at_stack()));
        }
        let whole = [&[0x0f, 3][..], &JUMP].concat();
        // The frame pointer, where there is one, still leads to a caller.
        for (frame_pointer, callers) in [(STACK, ";[program]"), (0, "")] {
            let mut registers = at_stack();
            registers[6] = frame_pointer;
            let (out, _) = fold(&unwound(section, &whole), |path| with_stacks(path, &stack, 3, registers));
            assert_eq!(out, format!("t{callers};[program] 3\n"), "{section}");
        }
    }
}

/// Thousands of frames, each found by a register that those before it saved.
#[test]
fn frames_in_another_register_are_found_in_one_pass() {
    // CFA = rbx + 16, rbx at CFA - 16.
    let stack: Vec<u64> = (0..3_900).flat_map(|n| [STACK + 16 * (n + 1), MAPPED + 0x3000]).collect();
    let program = unwound(".eh_frame", &[0x0c, 3, 16, 0x83, 2]);
    let (out, _) = fold(&program, |path| with_stacks(path, &stack, 120, at_stack()));
    assert_eq!(out.matches(';').count(), 3_901, "{}", out.chars().take(200).collect::<String>());
}

/// A million instructions, read again for each of thousands of frames.
#[test]
fn functions_described_at_great_length_are_left_out() {
    let stack: Vec<u64> = (0..8_000).map(|_| MAPPED + 0x3000).collect();
    // The frame pointer's rule is none that could be kept ready.
    let long = [&[0x16, 6, 1, 0x30][..], &[0; 1 << 20]].concat();
    for section in [".eh_frame", ".debug_frame"] {
        let (_, said) = fold(&unwound(section, &long), |path| with_stacks(path, &stack, 20, at_stack()));
        assert!(said.contains("unwind tables are damaged"), "{said}");
    }
}

/// Each function's name is a part of one long text.
#[test]
fn names_that_share_their_text_are_not_copied_without_end() {
    let symbol =
        |n: u64| [&(n as u32 + 1).to_le_bytes()[..], &[0x12, 0, 1, 0], &words(&[0x1000 + 4 * n, 4])].concat();
    let table = [vec![0; 24], (0..10_000).flat_map(symbol).collect()].concat();
    let text = [&[0][..], &[b'x'; 1 << 20], &[0]].concat();
    let (_, said) = fold(&elf(&[(".symtab", 2, 2, table), (".strtab", 3, 0, text)]), many_places);
    assert!(said.contains("it is damaged"), "{said}");
}

/// Sections as long as they like, of a file whose end is a hole.
#[test]
fn sections_larger_than_memory_are_left_in_the_file() {
    const KEPT: [&str; 10] = [
        ".rela.plt",
        ".rela.dyn",
        ".plt.got",
        ".gnu_debuglink",
        ".gnu_debugaltlink",
        ".note.gnu.build-id",
        ".gopclntab",
        ".gnu_debugdata",
        ".eh_frame",
        ".go.buildinfo",
    ];
    let function =
        [vec![0; 24], [&1_u32.to_le_bytes()[..], &[0x12, 0, 1, 0], &words(&[0x1000, 0x100])].concat()]
            .concat();
    let tables = [
        (".symtab", 2, 3, function.clone()),
        (".dynsym", 11, 3, function),
        (".strtab", 3, 0, b"\0main\0".to_vec()),
    ];
    let kind = |name: &str| if name.starts_with(".note") { 7 } else { 1 };
    let kept = KEPT.map(|name| (name, kind(name), 0, vec![0; 64]));
    let sections: Vec<Section> = tables.into_iter().chain(kept).collect();
    let program = elf(&sections);
    let headers = u64::from_le_bytes(program[40..48].try_into().expect("a word"));
    for (number, (name, ..)) in (1..).zip(&sections) {
        let files = Files::new();
        let path = files.write("program", &program);
        let opened = std::fs::OpenOptions::new().write(true).open(&path).expect("the program");
        opened.set_len(1 << 30).expect("a hole");
        opened.write_all_at(&words(&[600 << 20]), headers + 64 * number + 32).expect("the size");
        let recording = files.write("recording", sampled(&path, std::iter::once(vec![0x1008])));
        let (code, _, said) = bounded(&[&recording]);
        assert_eq!(code, 0, "{name}: {said}");
        if *name == ".strtab" {
            assert!(said.contains("some of its symbols (.symtab"), "{said}");
        }
    }
}
