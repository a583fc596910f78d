//! Recordings of perf.

use super::{add_copied, folded, of_copied_stacks, recorded, refused, written};
use crate::common::Files;
use crate::common::recording::*;
use std::io::Write;

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
    refused(bytes, &[], 1, "more ids");
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
    refused(pipe(&events, &records), &[], 1, "a sample of 56 bytes");
    let many: Vec<Event> = (0..70_000).map(|id| Event { id, ..Event::default() }).collect();
    refused(pipe(&many, &one_sample()), &[], 1, "65536 events");
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
    refused(pipe(&events, &records), &[], 1, "between");
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
    let mut records = Records::default();
    records.comm(0, 7, 7, "t", true);
    let own = std::env::current_exe().expect("this program").to_str().expect("text").to_owned();
    for n in 0..30_000_u64 {
        let start = 0x10_0000_0000 + 0x1000_0000 * n;
        records.mmap(2 * n + 1, 7, start, 0x1000_0000, 0, &own);
        add_copied(&mut records, 2 * n + 2, start + 0x1000, &[0x7000; 20], &[0, 0]);
    }
    let (_, said) = written(file(&[of_copied_stacks()], &records), &["--no-inlines"]);
    assert!(said.contains("30000 samples"), "{said}");
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

/// Adds a record of a number.
type Add<'r> = dyn Fn(&mut Records, i32) + 'r;

/// What is known of processes, their names and what they mapped is bounded, whatever a few compressed bytes unpack to.
#[test]
fn what_is_known_of_processes_is_bounded() {
    let (long, path) = ("n".repeat(60_000), format!("/{}", "p".repeat(60_000)));
    // Each with a number of its own beside what repeats, so that it takes a few bytes.
    let kinds: [(&str, i32, &Add); 4] = [
        ("names", 20_000, &|records, n| {
            records.comm(0, n, n, &long, false);
        }),
        ("paths", 5_000, &|records, n| {
            records.file_map(7, (0x1000, 0x1000), 0, (8, 1, n as u64 + 1), &path);
        }),
        ("threads", 1_000_000, &|records, n| {
            records.fork(0, n, n, 1);
        }),
        ("maps", 300_000, &|records, n| {
            records.mmap(0, 7, 0x2000 * (n as u64 + 1), 0x1000, 0, "/no/such/file");
        }),
    ];
    for (kind, count, add) in kinds {
        let mut packer = zstd::Encoder::new(Vec::new(), 1).expect("zstd");
        for from in (0..count).step_by(1_000) {
            let mut some = Records::default();
            (from..from + 1_000).for_each(|n| add(&mut some, n));
            packer.write_all(&some.0).expect("memory");
        }
        let mut records = one_sample();
        packer.finish().expect("memory").chunks(60_000).for_each(|piece| {
            records.record(81, 0, piece);
        });
        let (code, _, said) = folded(recorded(&records), &[]);
        assert!(code == 1 && said.contains("processes, mappings and names"), "{kind}: {code} {said}");
    }
}

/// A mapping that covers all those that a process has from the one it was forked of, in each of many processes.
#[test]
fn mappings_of_forked_processes_are_not_covered_without_end() {
    let mut records = one_sample();
    for n in 0..100_000 {
        records.mmap(0, 7, 0x2000 * (n + 1), 0x1000, 0, "/no/such/file");
    }
    for pid in 100..10_000 {
        records.fork(0, pid, pid, 7).mmap(0, pid, 0, 1 << 40, 0, "/no/such/file");
    }
    refused(recorded(&packed(&records.0, 1)), &[], 1, "mappings");
}

/// Records of kinds that are not known, in a file of a megabyte: hours of nothing.
#[test]
fn nothing_is_unpacked_without_end() {
    let mut records = one_sample();
    let packed = packed(&vec![8; 256 << 20], 1);
    (0..128).for_each(|_| records.0.extend(&packed.0));
    refused(recorded(&records), &[], 1, "unpacks to");
}

/// A sample of thousands of frames: the thread is at byte 20, the time at byte 24.
fn deep_sample() -> Vec<u8> {
    let mut records = Records::default();
    let chain: Vec<u64> = std::iter::once(USER).chain((0..8_000).map(|n| 0x1_0000 + 8 * n)).collect();
    records.sample(5, 7, 7, 1, &chain);
    records.0
}

/// One chain in many places, by mappings that change under it.
#[test]
fn places_that_one_chain_has_in_turn_are_bounded() {
    let mut records = Records::default();
    records.comm(0, 7, 7, "t", true);
    let mut sample = deep_sample();
    for n in 0..2_000_u64 {
        records.mmap(2 * n + 1, 7, 0x1_0000, 0x10_0000, 0x10_0000 * n, "/no/such/file");
        sample[24..32].copy_from_slice(&(2 * n + 2).to_le_bytes());
        records.0.extend(&sample);
    }
    let recording = recorded(&packed(&records.0, 1));
    for args in [&[][..], &["--format", "pprof"]] {
        let (code, _, said) = folded(&recording, args);
        let bounded =
            code == 0 && said.contains("2000 samples") || said.contains("different stacks take more");
        assert!(bounded, "{args:?}: {code} {said}");
    }
}

/// Many stacks of thousands of frames, which differ in one.
#[test]
fn stacks_that_differ_a_little_are_bounded() {
    let mut records = Records::default();
    let mut sample = deep_sample();
    for tid in 1..16_000_u32 {
        sample[20..24].copy_from_slice(&tid.to_le_bytes());
        records.0.extend(&sample);
    }
    let recording = recorded(&packed(&records.0, 1));
    for args in [&["--tid"][..], &["--profile", "/dev/null"]] {
        refused(&recording, args, 1, "different stacks take more");
    }
}

/// A hundred maps of run-time compilers, each of two million functions.
#[test]
fn maps_of_run_time_compilers_are_read_as_far_as_there_is_room() {
    let files = Files::new();
    std::fs::create_dir_all(files.path("symfs/tmp")).expect("a directory");
    let map = files.write("symfs/tmp/perf-100.map", "1000 8 f\n".repeat(2 << 20));
    let mut records = Records::default();
    for pid in 100..200 {
        if pid > 100 {
            std::fs::hard_link(&map, map.replace("-100", &format!("-{pid}"))).expect("a link");
        }
        records.comm(0, pid, pid, "t", true).mmap(0, pid, 0x1000, 0x1000, 0, "//anon");
        records.sample(5, pid, pid, 1, &[USER, 0x1004]);
    }
    let path = files.write("recording", recorded(&records));
    let (code, out, said) = super::bounded(&[&path, "--symfs", &files.path("symfs")]);
    assert!(code == 0 && said.contains("that all files may take"), "{code} {said}");
    assert!(out.starts_with("t;[perf-"), "{out}");
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
    let features = [(12, one_name), (17, groups)];
    refused(file_with(&events, &one_sample(), &features), &[], 1, "a sample of 56 bytes");
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
