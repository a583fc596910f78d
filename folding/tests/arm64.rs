//! A recording of an arm64 machine with pages of 64 KiB, made in code: chains of frame pointers and the link register.

use crate::common::recording::*;
use crate::common::{Files, written};
use stackfold::collector::{Collector, Options};
use stackfold::input::PerfData;
use stackfold::symbols::SymbolOptions;
use std::io::Cursor;

/// The offset of the code in the file, and how much higher its linked address is: ld.lld separates segments so.
const TEXT: u64 = 0x5c80;
const MOVED: u64 = 0x1_0000;
/// Where the mapping begins, with the file's first page.
const MAPPED: u64 = 0xffff_8000_0000;

/// Two functions of 64 bytes: the first has no frame, the second has one.
pub fn program() -> Vec<u8> {
    const FRAMES: u64 = 0x200;
    let cie: &[u8] = &[16, 0, 0, 0, 0, 0, 0, 0, 1, b'z', b'R', 0, 1, 0x78, 30, 1, 0x1b, 0x0c, 31, 0];
    let function = |at: u64, start: u64, rules: &[u8]| {
        let relative = (TEXT + MOVED + start).wrapping_sub(FRAMES + at + 8) as u32;
        let mut entry = [20, at as u32 + 4, relative, 64].map(u32::to_le_bytes).concat();
        entry.push(0);
        entry.extend(rules);
        entry.resize(24, 0);
        entry
    };
    // def_cfa_offset 16; x29 at cfa-16, x30 at cfa-8
    let framed = function(44, 64, &[0x0e, 16, 0x9d, 2, 0x9e, 1]);
    let frames = [cie, &function(20, 0, &[]), &framed, &[0; 4]].concat();
    let names = b"\0.text\0.eh_frame\0.shstrtab\0";
    let mut bytes = vec![0; 0x8000];
    let mut put = |at: u64, part: &[u8]| bytes[at as usize..][..part.len()].copy_from_slice(part);
    put(0, b"\x7fELF\x02\x01\x01");
    put(16, &[3_u16, 183].map(u16::to_le_bytes).concat());
    put(32, &words(&[64, 0x7000]));
    put(52, &[64_u16, 56, 2, 64, 4, 3].map(u16::to_le_bytes).concat());
    let segment = |flags: u64, at: u64, address: u64, size: u64| {
        words(&[1 | flags << 32, at, address, address, size, size, MOVED])
    };
    put(64, &segment(4, 0, 0, 0x400));
    put(64 + 56, &segment(5, TEXT, TEXT + MOVED, 128));
    put(FRAMES, &frames);
    put(0x6000, names);
    let section = |name: u64, kind: u64, flags: u64, address: u64, at: u64, size: usize| {
        words(&[name | kind << 32, flags, address, at, size as u64, 0, 1, 0])
    };
    put(0x7000 + 64, &section(1, 1, 6, TEXT + MOVED, TEXT, 128));
    put(0x7000 + 128, &section(7, 1, 2, FRAMES, FRAMES, frames.len()));
    put(0x7000 + 192, &section(17, 3, 0, 0, 0x6000, names.len()));
    bytes
}

#[test]
fn the_link_register_is_the_callers_of_a_function_without_a_frame() {
    const LINK_REGISTER: u64 = 1 << 30;
    let files = Files::new();
    let path = files.write("arm64-program", program());
    let sample_type = Event::default().sample_type | REGS_USER;
    let event = Event { sample_type, registers: LINK_REGISTER, ..Event::default() };
    let mut records = Records::default();
    records.comm(0, 7, 7, "t", true).mmap(0, 7, MAPPED, 0x1_0000, 0, &path);
    let (leaf, framed) = (MAPPED + TEXT, MAPPED + TEXT + 64);
    let mut sample = |time, chain: &[u64], lr: u64| {
        const ABI_64: u64 = 2;
        let head = [chain[1], 7 | 7 << 32, time, 1, chain.len() as u64];
        records.record(9, 2, &words(&[&head[..], chain, &[ABI_64, lr]].concat()));
    };
    let outer = MAPPED + 0x9000;
    sample(1, &[USER, leaf + 8, outer], framed + 16);
    // In a function with a frame the register holds whatever it called last.
    sample(2, &[USER, framed + 20, outer], framed + 16);
    // The frame pointer leads to the same caller.
    sample(3, &[USER, leaf + 12, framed + 16, outer], framed + 16);
    records.round();
    let recording = file_with(&[event], &records, &[text_feature(6, "aarch64")]);

    for threads in [1, 3] {
        let mut collector = Collector::new(Options { addrs: true, ..Options::default() });
        let names = SymbolOptions { cache: None, ..SymbolOptions::default() };
        PerfData::new(names, threads).read_file(Cursor::new(&recording), &mut collector).expect("read");
        let out = written(&collector.finish().expect("folded").0);
        let frame = |address: u64| format!("[arm64-program {address:#x}]");
        let (call, outer) = (frame(TEXT + 64 + 16), frame(0x9000));
        let mut expected = [
            format!("t;{outer};{call};{} 1", frame(TEXT + 8)),
            format!("t;{outer};{} 1", frame(TEXT + 64 + 20)),
            format!("t;{outer};{call};{} 1", frame(TEXT + 12)),
        ];
        expected.sort();
        assert_eq!(String::from_utf8_lossy(&out).lines().collect::<Vec<_>>(), expected, "{threads} threads");
    }
}
