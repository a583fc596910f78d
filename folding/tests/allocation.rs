//! What a recording from a pipe takes to read grows with its length, and not with its square.

use crate::common::recording::{Event, Records, USER, pipe};
use stackfold::collector::{Collector, Options};
use stackfold::input::{PerfData, Source};
use stackfold::symbols::SymbolOptions;
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

struct Counted;

thread_local! {
    // Other tests run meanwhile.
    static BYTES: Cell<usize> = const { Cell::new(0) };
}

// SAFETY: everything is left to the system's allocator.
unsafe impl GlobalAlloc for Counted {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        BYTES.set(BYTES.get() + layout.size());
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counted = Counted;

/// Bytes that reading takes, of a pipe with the build ids of so many files, each before a sample.
fn taken(files: u64) -> usize {
    let mut records = Records::default();
    records.comm(0, 10, 10, "t", false);
    for file in 0..files {
        let id = [file.to_le_bytes(), [1; 8], [1, 1, 1, 1, 20, 0, 0, 0]].concat();
        let path = format!("/no/such/library-{file:07}.so\0\0\0");
        records.record(67, 1 << 15, &[&10_i32.to_le_bytes()[..], &id, path.as_bytes()].concat());
        records.sample(5 + file, 10, 10, 1, &[USER, 0x40_0010]);
    }
    let bytes = pipe(&[Event::default()], &records);
    let symbols = SymbolOptions { host: false, ..SymbolOptions::default() };
    let mut collector = Collector::new(Options::default());
    let before = BYTES.get();
    PerfData::new(symbols, 1).read(&mut &bytes[..], &mut collector).expect("a recording");
    let taken = BYTES.get() - before;
    assert_eq!(collector.finish().expect("folded").1.weight, files.into());
    taken
}

#[test]
fn build_ids_of_a_pipe_are_not_copied_for_each_record() {
    let (few, many) = (taken(1000), taken(4000));
    assert!(many < 8 * few, "{many} bytes for 4000 files, {few} for 1000");
}
