//! `stackfold check` beside the real perf report, on recordings made in code.

use crate::common::recording::*;
use crate::common::{Files, code, stackfold, text};

const FILE: &str = "/no/such/program";

/// Exit code, standard output and standard error of a check.
fn checked(recording: &[u8]) -> (i32, String, String) {
    let done = stackfold(&["check", &Files::new().write("recording", recording)], b"");
    (code(&done), text(&done.stdout), text(&done.stderr))
}

fn two_samples() -> Records {
    let mut records = Records::default();
    records.comm(0, 7, 7, "t", true).mmap(0, 7, 0x40_0000, 0x1000, 0, FILE);
    records.sample(1, 7, 7, 100, &[USER, 0x40_0010]).sample(2, 7, 7, 11, &[USER, 0x40_0020]).round();
    records
}

#[test]
fn samples_with_branches_are_compared_by_their_periods() {
    let event = Event { sample_type: Event::default().sample_type | BRANCH_STACK, ..Event::default() };
    let mut records = Records::default();
    records.comm(0, 7, 7, "t", true).mmap(0, 7, 0x40_0000, 0x1000, 0, FILE);
    let chain = [USER, 0x40_0010];
    let branches = [2, 0x40_0080, 0x40_0010, 0, 0x40_0040, 0x40_0080, 0];
    let head = [chain[1], 7 | 7 << 32, 1, 1000, 2];
    records.record(9, 2, &words(&[&head[..], &chain, &branches].concat())).round();
    let (exit, out, error) = checked(&file(&[event], &records));
    assert_eq!(exit, 0, "{out}{error}");
    assert!(out.starts_with("cpu-clock: total equal: folded 1000, perf report 1000;"), "{out}");
}

#[test]
fn an_event_is_the_same_with_the_modifiers_that_perf_adds() {
    // The processor's event of number 0: in user mode alone, as precise as can be.
    const ONLY_USER: u64 = 1 << 5 | 1 << 6;
    const PRECISE: u64 = 2 << 15;
    let cycles = Event { kind: 0, flags: ONLY_USER | PRECISE, ..Event::default() };
    let (exit, out, error) = checked(&file(&[cycles], &two_samples()));
    assert_eq!(exit, 0, "{out}{error}");
    assert_eq!(out.lines().count(), 1, "{out}");
    assert!(out.starts_with("cycles: total equal: folded 111, perf report 111;"), "{out}");
}

#[test]
fn what_perf_report_gives_up_on_is_told_in_its_words() {
    let mut records = two_samples();
    records.record(9, 2, &[0; 8]);
    let (exit, out, error) = checked(&file(&[Event::default()], &records));
    assert_eq!((exit, &out[..]), (2, ""), "{error}");
    assert!(error.contains("perf report failed: ") && error.contains("0x"), "{error}");
    assert!(!error.contains("was made by perf"), "{error}");
    // A perf that is older than the recording is told from one that finds it damaged.
    let later = text_feature(5, "99.7.rc1");
    let (exit, out, error) = checked(&file_with(&[Event::default()], &records, &[later]));
    assert_eq!((exit, &out[..]), (2, ""), "{error}");
    for part in ["perf report failed: ", "was made by perf 99.7.rc1, this is perf ", "stackfold check "] {
        assert!(error.contains(part), "{part}: {error}");
    }
}
