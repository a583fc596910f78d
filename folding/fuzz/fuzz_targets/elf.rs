//! Any bytes as a mapped file: its symbols, packed ones too, its debug information, compressed or not, and its unwind
//! tables are read or left, and every address gets a frame.
//!
//! Run with `ASAN_OPTIONS=allocator_may_return_null=1`: crate `object` asks for as much memory as the header
//! of a compressed section says, and continues without it. From the seeds, with address sanitizer and
//! overflow checks: 358,000 inputs in 661 s and 492,000 in 721 s without a finding. Found before, by shorter
//! runs: a compressed section that says it is larger than Zstandard can unpack (it is not unpacked now), and
//! gimli 0.33, which framehop uses, subtracting without a check where `.eh_frame_hdr` points before
//! `.eh_frame`: in a release the difference wraps and is no offset of an entry, a debug build panics
//! (`Cargo.toml` leaves overflow checks out for that crate alone).

#![no_main]

use libfuzzer_sys::fuzz_target;
use stackfold::addresses::{FileOffset, ProcessAddress};
use stackfold::symbols::{AddressesToName, UserMapping, SymbolOptions, Symbols};
use stackfold::unwind::{Machine, MappedObject, Registers, UnwindTables, Walker};
use std::path::PathBuf;
use std::sync::LazyLock;

/// A file in memory; reading goes the way that real files go.
static PLACE: LazyLock<PathBuf> =
    LazyLock::new(|| PathBuf::from(format!("/dev/shm/stackfold-fuzz-{}", std::process::id())));
const ADDRESSES: u64 = 64;
const BASE: u64 = 0x40_0000;

fuzz_target!(|data: &[u8]| {
    let len = data.len() as u64;
    if len == 0 {
        return;
    }
    std::fs::write(&*PLACE, data).expect("room in /dev/shm");
    let path = PLACE.to_str().expect("a path of text").as_bytes();
    let mut symbols = Symbols::new(SymbolOptions { inlines: true, cache: None, ..SymbolOptions::default() });
    let (object, absolute) = symbols.user_object(&UserMapping {
        path,
        build_id: None,
        file: None,
        pid: 1,
        pid_namespace: None,
    });
    assert!(!absolute);
    let mut offsets: Vec<FileOffset> = (0..ADDRESSES).map(|n| FileOffset(n * len / ADDRESSES)).collect();
    offsets.dedup();
    let wanted = [AddressesToName { object, offsets }];
    let answers = symbols.name(&wanted, 1);
    assert_eq!(answers.len(), wanted.len());
    for index in 0..wanted[0].offsets.len() {
        let (function, inlined) = answers[0].frames(index).split_last().expect("a frame");
        assert!(!function.inlined && inlined.iter().all(|frame| frame.inlined));
    }

    // Some that point into the stack.
    let general = std::array::from_fn(|number| BASE + 8 * number as u64);
    for offset in [0, 0x1000, len & !0xfff] {
        let Some((sections, first)) = symbols.unwind(object, FileOffset(offset)..FileOffset(len)) else { continue };
        for machine in [Machine::X86_64, Machine::Aarch64] {
            let range = ProcessAddress(BASE)..ProcessAddress(BASE + 0x10_0000);
            let mapped = MappedObject { range, first, sections: sections.clone() };
            let tables = UnwindTables::new(machine, vec![mapped]);
            let mut walker = Walker::default();
            for &FileOffset(offset) in &wanted[0].offsets {
                let ip = BASE.wrapping_add(offset);
                let registers = Registers { ip, sp: BASE, fp: BASE + 64, lr: BASE + len / 2, general };
                let walk = walker.walk(&tables, registers, data);
                assert_eq!(walk.ip, ip);
            }
        }
    }
});
