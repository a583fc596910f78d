//! Any bytes as a mapped file: its symbols, packed ones too, its debug information, compressed or not, and its unwind
//! tables are read or left, and every address gets a frame.

#![no_main]

use libfuzzer_sys::fuzz_target;
use stackfold::symbols::{Options, Symbols, Wanted};
use stackfold::unwind::{Machine, MappedObject, Registers, Tables, Walker};
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
    let mut symbols = Symbols::new(Options { inlines: true, cache: None, ..Options::default() });
    let (object, absolute) = symbols.user_object(path, None, 1);
    assert!(!absolute);
    let mut addresses: Vec<u64> = (0..ADDRESSES).map(|n| n * len / ADDRESSES).collect();
    addresses.dedup();
    let wanted = [Wanted { object, addresses }];
    let answers = symbols.name(&wanted, 1);
    assert_eq!(answers.len(), wanted.len());
    for index in 0..wanted[0].addresses.len() {
        let (function, inlined) = answers[0].frames(index).split_last().expect("a frame");
        assert!(!function.inlined && inlined.iter().all(|frame| frame.inlined));
    }

    // Some that point into the stack.
    let general = std::array::from_fn(|number| BASE + 8 * number as u64);
    for offset in [0, 0x1000, len & !0xfff] {
        let Some((sections, bias)) = symbols.unwind(object, offset) else { continue };
        for machine in [Machine::X86_64, Machine::Aarch64] {
            let bias = BASE.wrapping_sub(offset).wrapping_sub(bias);
            let mapped = MappedObject { range: BASE..BASE + 0x10_0000, bias, sections: sections.clone() };
            let tables = Tables::new(machine, vec![mapped]);
            let mut walker = Walker::default();
            for &address in &wanted[0].addresses {
                let ip = BASE.wrapping_add(address);
                let registers = Registers { ip, sp: BASE, fp: BASE + 64, lr: BASE + len / 2, general };
                let walk = walker.walk(&tables, registers, data);
                assert_eq!(walk.ip, ip);
            }
        }
    }
});
