//! Recordings of perf.

use super::{folded, recorded, written};
use crate::common::Files;
use crate::common::recording::*;

fn pair(a: u32, b: u32) -> Vec<u8> {
    [a.to_le_bytes(), b.to_le_bytes()].concat()
}

fn one_sample() -> Records {
    let mut records = Records::default();
    records.comm(0, 7, 7, "t", true).sample(5, 7, 7, 1, &[USER, 0x40_0010]);
    records
}

/// Records as `perf record -z` writes them, so many times.
fn packed(records: &[u8], times: usize) -> Records {
    let whole = zstd::bulk::compress(records, 3).expect("compressed");
    let mut packed = Records::default();
    for piece in (0..times).flat_map(|_| whole.chunks(60_000)) {
        packed.record(81, 0, piece);
    }
    packed
}

/// 20,000 events, whose ids are one section of the file: each would have its own copy of it.
#[test]
fn events_that_share_their_ids_are_refused() {
    let events: Vec<Event> = (0..20_000).map(|_| Event::default()).collect();
    let mut bytes = file(&events, &one_sample());
    let ids_len = 8 * events.len();
    for event in 0..events.len() {
        let section = 104 + ids_len + 144 * event + 128;
        bytes[section..section + 16].copy_from_slice(&words(&[104, ids_len as u64]));
    }
    let (code, _, said) = folded(bytes, &[]);
    assert!(code == 1 && said.contains("more ids"), "{said}");
}

/// Each event of a pipe, each new name of one and each feature is told in a record of its own.
#[test]
fn what_is_known_of_the_events_is_not_copied_for_each_record() {
    let events: Vec<Event> = (0..60_000).map(|id| Event { id, ..Event::default() }).collect();
    let mut records = Records::default();
    for id in 0..60_000 {
        records.record(78, 0, &[words(&[2, id]), b"renamed\0".to_vec()].concat());
        records.record(80, 0, &[words(&[17]), pair(1, 0), words(&[0, 0]), pair(0, 60_000)].concat());
    }
    records.0.extend(one_sample().0);
    let (_, said) = written(pipe(&events[..1], &one_sample()), &[]);
    assert!(said.contains("1 samples"), "{said}");
    let (code, _, said) = folded(pipe(&events, &records), &[]);
    assert!(code == 1 && said.contains("a sample of 56 bytes"), "{code} {said}");
    let many: Vec<Event> = (0..70_000).map(|id| Event { id, ..Event::default() }).collect();
    let (code, _, said) = folded(pipe(&many, &one_sample()), &[]);
    assert!(code != 0 && said.contains("65536 events"), "{said}");
}

/// Events and samples in turns.
#[test]
fn events_told_between_samples_are_refused_when_there_are_many() {
    let mut records = one_sample();
    for _ in 0..40_000 {
        records.record(78, 0, &[words(&[2, 1]), b"renamed\0".to_vec()].concat());
        records.0.extend(one_sample().0);
    }
    let (out, _) = written(pipe(&[Event::default()], &records), &["--event", "renamed"]);
    assert_eq!(out, "t;[unknown] 40001\n");
    let events: Vec<Event> = (0..10_000).map(|id| Event { id, ..Event::default() }).collect();
    let (code, _, said) = folded(pipe(&events, &records), &[]);
    assert!(code != 0 && said.contains("between"), "{said}");
}

/// Every sample is of another event than the one before.
#[test]
fn events_are_found_however_many_there_are() {
    let event = |id| Event { id, sample_type: Event::default().sample_type | IDENTIFIER, ..Event::default() };
    let events: Vec<Event> = (0..60_000).map(|id| Event { config: id + 1000, ..event(id) }).collect();
    let mut records = Records::default();
    for time in 0..300_000_u64 {
        let body = [words(&[time % 60_000, 0x40_0010]), pair(7, 7), words(&[time + 5, 1, 0])].concat();
        records.record(9, 2, &body);
    }
    let (code, _, said) = folded(file(&events, &records), &[]);
    assert!(code == 2 && said.contains("choose one with its full name"), "{said}");
    assert!(said.len() < 10_000, "{} bytes", said.len());
}

/// After each new mapping a sample is taken, which is of the mappings of that time.
#[test]
fn mappings_that_change_all_the_time_are_not_copied() {
    let mut records = Records::default();
    records.comm(0, 7, 7, "t", true);
    for n in 0..100_000 {
        records.mmap(2 * n + 1, 7, 0x1_0000 * (n + 1), 0x1000, 0, "/no/such/file");
        records.sample(2 * n + 2, 7, 7, 1, &[USER, 0x1_0000 * (n + 1) + 8]);
    }
    assert_eq!(written(recorded(&records), &[]).0, "t;[file] 100000\n");
}

/// Files of any number were mapped under one path, as by containers.
#[test]
fn files_that_share_a_path_are_told_apart_however_many_there_are() {
    let mut records = Records::default();
    records.comm(0, 7, 7, "t", true);
    for n in 1..60_000 {
        records.file_map(7, (0x1_0000 * n, 0x1000), 0, (8, 1, n), "/no/such/file");
        records.sample(n, 7, 7, 1, &[USER, 0x1_0000 * n + 8]);
    }
    let (_, said) = written(recorded(&records), &[]);
    assert!(said.contains("59999 samples"), "{said}");
}

/// Mappings that change, of a program whose stacks are walked.
#[test]
fn mappings_that_change_all_the_time_do_not_make_unwind_tables_without_end() {
    let event = Event {
        sample_type: Event::default().sample_type | REGS_USER | STACK_USER,
        registers: 0xff_0fff,
        ..Event::default()
    };
    let mut records = Records::default();
    records.comm(0, 7, 7, "t", true);
    let own = std::env::current_exe().expect("this program").to_str().expect("text").to_owned();
    for n in 0..30_000_u64 {
        let start = 0x10_0000_0000 + 0x1000_0000 * n;
        records.mmap(2 * n + 1, 7, start, 0x1000_0000, 0, &own);
        let body = [
            words(&[start + 0x1000]),
            pair(7, 7),
            words(&[2 * n + 2, 1, 1, USER, 2]),
            words(&[0x7000; 20]),
            words(&[16, 0, 0, 16]),
        ];
        records.record(9, 2, &body.concat());
    }
    let (code, _, said) = folded(file(&[event], &records), &["--no-inlines"]);
    assert!(code == 0 && said.contains("30000 samples"), "{said}");
    assert!(said.contains("mapped too often, or too many"), "{said}");
}

/// One record waits for its turn, and everything else is counted at once: what was read is not kept.
#[test]
fn a_record_that_waits_does_not_keep_what_was_read() {
    let mut unordered = Records::default();
    let long = "x".repeat(60_000);
    for _ in 0..100 {
        unordered.comm(0, 8, 8, &long, false);
    }
    let mut records = packed(&one_sample().0, 1);
    records.0.extend(packed(&unordered.0, 300).0);
    assert_eq!(written(recorded(&records), &[]).0, "t;[unknown] 1\n");
}

/// Samples whose other half never comes.
#[test]
fn samples_that_wait_for_their_user_side_are_not_kept_without_end() {
    let mut records = Records::default();
    let chain = [vec![KERNEL; 8_000], vec![USER_DEFERRED, 1]].concat();
    for _ in 0..100 {
        records.sample(5, 7, 7, 1, &chain);
    }
    records.round();
    let (out, said) = written(recorded(&packed(&records.0, 300)), &[]);
    assert_eq!(out, ":7 30000\n", "{said}");
}

/// A list of names that repeats one, a group of all events a million times.
#[test]
fn features_of_any_length_are_read_once() {
    let events: Vec<Event> = (1..=20_000).map(|id| Event { id, ..Event::default() }).collect();
    let count = 1_000_000;
    let one_name: Vec<u8> = [pair(1, 0), words(&[20_000])].concat();
    let one_name = [pair(count, 0), one_name.repeat(count as usize)].concat();
    let groups = [
        &count.to_le_bytes()[..],
        &[pair(0, 0), 20_000_u32.to_le_bytes().to_vec()].concat().repeat(count as usize),
    ]
    .concat();
    let (code, _, said) = folded(file_with(&events, &one_sample(), &[(12, one_name), (17, groups)]), &[]);
    assert!(code == 1 && said.contains("a sample of 56 bytes"), "{code} {said}");
}

#[test]
fn threads_that_cannot_be_started_are_done_without() {
    let files = Files::new();
    let path = files.write("recording", recorded(&one_sample()));
    // Each would have a stack larger than all memory.
    let (code, out, said) =
        super::bounded_with(&[&path, "--threads", "4"], &[("RUST_MIN_STACK", "4000000000")]);
    assert_eq!((code, &*out), (0, "t;[unknown] 1\n"), "{said}");
}
