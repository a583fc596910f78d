//! The fuzz targets, on inputs that a seed chooses: that they build and hold is shown here, `cargo fuzz` finds more.

use crate::common::pieces;
use crate::common::recording::{Event, file, pipe};
use crate::perf_data::{life, two_events};
use crate::properties::soup;
use proptest::prelude::*;
use proptest::sample::Index;

macro_rules! targets {
    ($($name:ident $path:literal),*) => {$(
        #[allow(unused_attributes, reason = "a program there, a module here")]
        #[path = $path]
        mod $name;
    )*};
}

targets!(elf "../fuzz/fuzz_targets/elf.rs", perf_data "../fuzz/fuzz_targets/perf_data.rs");
targets!(perf_script "../fuzz/fuzz_targets/perf_script.rs", stacks "../fuzz/fuzz_targets/stacks.rs");

// Behind the targets, which take it by its path: as libfuzzer-sys has it.
#[macro_export]
macro_rules! fuzz_target {
    (|$data:ident: &[u8]| $body:block) => {
        pub fn target($data: &[u8]) $body
    };
}

fn bytes(most: usize) -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(any::<u8>(), 0..most)
}

/// Of folded text and of callgrind's.
fn stack_pieces() -> impl Strategy<Value = String> {
    pieces("fn=|ob=|cfn=|calls=|t;f 1|totals: |(1)| |'|0|7|\n|x|events: Ir\n", 0..60)
}

/// Places, and the bytes that they get.
fn damage() -> impl Strategy<Value = Vec<(Index, u8)>> {
    prop::collection::vec(any::<(Index, u8)>(), 1..8)
}

fn damaged(mut bytes: Vec<u8>, damage: Vec<(Index, u8)>) -> Vec<u8> {
    for (at, value) in damage {
        let at = at.index(bytes.len());
        bytes[at] = value;
    }
    bytes
}

const PIPED: u8 = 1 << 5;

proptest! {
    #[test]
    fn any_bytes_are_a_recording_or_refused(flags in any::<u8>(), body in bytes(600)) {
        let size: u64 = if flags & PIPED != 0 { 16 } else { 104 };
        perf_data::target(&[&[flags][..], b"PERFILE2", &size.to_le_bytes(), &body].concat());
    }

    #[test]
    fn a_damaged_recording_is_read_or_refused(flags in any::<u8>(), damage in damage(), events in 1..3_usize) {
        let whole = match (flags & PIPED != 0, events) {
            (true, _) => pipe(&[Event::default()], &life()),
            (false, 1) => file(&[Event::default()], &life()),
            (false, _) => two_events(),
        };
        perf_data::target(&[vec![flags], damaged(whole, damage)].concat());
    }

    #[test]
    fn any_text_is_that_of_perf_script_or_refused(options in any::<[u8; 2]>(), text in soup(), other in bytes(400)) {
        perf_script::target(&[&options[..], &text].concat());
        perf_script::target(&[&options[..], &other].concat());
    }

    #[test]
    fn any_bytes_are_stacks_or_refused(flags in any::<u8>(), text in stack_pieces(), other in bytes(300)) {
        stacks::target(&[&[flags], text.as_bytes()].concat());
        stacks::target(&[&[flags][..], &other].concat());
    }
}

#[test]
fn a_damaged_program_has_frames_all_the_same() {
    let mut runner = proptest::test_runner::TestRunner::new(ProptestConfig::with_cases(64));
    let done = runner.run(&damage(), |damage| {
        elf::target(&damaged(crate::arm64::program(), damage));
        Ok(())
    });
    std::fs::remove_file(format!("/dev/shm/stackfold-fuzz-{}", std::process::id()))
        .expect("the target's file");
    done.unwrap();
}

/// One long line in parts that are smaller.
#[test]
fn a_line_of_several_parts_is_read_as_one() {
    perf_script::target(b"\0\x03401136 f401136 f401136 f401136 f");
}
