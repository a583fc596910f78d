//! Recordings made in code: what each record does to the stacks, and what damage does to them.

use crate::common::recording::*;
use crate::common::{Files, fold_recording, no_symbols, told, written};
use stackfold::collector::{Collector, Label, Options, StackDetail, Weight};
use stackfold::error::Error;
use stackfold::input::{Source, Unpacker};
use stackfold::pprof::{Pprof, write_pprof};
use stackfold::stats::Stats;
use std::io::Cursor;

const FILE: &str = "/no/such/program";

fn fold(bytes: &[u8], options: Options) -> Result<(String, Stats), Error> {
    fold_recording(bytes, options, None)
}

fn folded(bytes: &[u8]) -> (String, Stats) {
    fold(bytes, Options::default()).unwrap_or_else(|error| panic!("refused: {error}"))
}

/// Two threads, one process more, and everything that can happen to their names.
pub fn life() -> Records {
    let mut records = Records::default();
    records
        .mmap(0, -1, 0xffff_ffff_8100_0000, 0x100_0000, 0xffff_ffff_8100_0000, "[kernel.kallsyms]_text")
        .comm(0, 10, 10, "parent", false)
        .mmap(0, 10, 0x40_0000, 0x1000, 0, FILE)
        .mmap(0, 10, 0x7000, 0x1000, 0, "//anon")
        .sample(5, 10, 10, 100, &[KERNEL, 0xffff_ffff_8100_0010, USER, 0x40_0010, 0x40_0020])
        // The child's name was taken before, its sample is later; the file has them the other way round.
        .sample(30, 11, 11, 7, &[USER, 0x40_0010])
        .fork(10, 11, 11, 10)
        .round()
        .comm(20, 11, 11, "child;x y", false)
        .lost(21, 3)
        .round()
        .sample(40, 11, 12, 1, &[USER, 0x7010])
        .comm(50, 11, 11, "execed", true)
        .sample(60, 11, 11, 5, &[USER, 0x40_0010])
        .sample(70, 10, 10, 2, &[])
        .round();
    records
}

/// The kernel tells them as they are lost, or perf at its end: the larger sum is that of both.
#[test]
fn lost_samples_are_counted_whoever_tells_them() {
    for (told_at_once, told_at_the_end, lost) in [(3, 0, 3), (0, 40, 40), (3, 40, 40), (40, 3, 40)] {
        let mut records = life();
        records.lost(80, told_at_once).lost_samples(90, told_at_the_end);
        let (_, stats) = folded(&file(&[Event::default()], &records));
        // Three are lost in the life itself.
        let whole = if lost == told_at_once { lost + 3 } else { lost };
        assert_eq!(
            (stats.samples, stats.weight, stats.lost_samples),
            (5, 115, whole),
            "{told_at_once} {told_at_the_end}"
        );
    }
}

#[test]
fn names_and_maps_are_those_of_the_samples_time() {
    let (text, stats) = folded(&file(&[Event::default()], &life()));
    assert_eq!(
        text,
        ":12;[perf-*.map] 1\nchild:x_y;[program] 7\nexeced;[unknown] 5\nparent 2\n\
         parent;[program];[program];[kernel.kallsyms] 100\n"
    );
    assert_eq!((stats.samples, stats.weight, stats.lost_records, stats.lost_samples), (5, 115, 1, 3));
    assert_eq!(stats.event.as_deref(), Some("cpu-clock"));
    assert_eq!((stats.truncated_input, stats.dropped_lines), (None, 0));
    for start in ["/no/such/program: not there", "kernel frames have no names"] {
        assert!(stats.notes.iter().any(|note| note.starts_with(start)), "{:?}", stats.notes);
    }
}

#[test]
fn pprof_tells_the_same_of_stacks_by_place_and_by_name() {
    let bytes = file(&[Event::default()], &life());
    for addrs in [false, true] {
        let plain = Options { addrs, kernel: true, ..Options::default() };
        let (text, stats) = fold(&bytes, plain.clone()).expect("a recording");
        let read_back = |detail| {
            let options = Options { detail, ..plain.clone() };
            let mut collector = Collector::new(options);
            no_symbols(None).read_file(Cursor::new(&bytes[..]), &mut collector).expect("a recording");
            let (profile, _) = collector.finish().expect("one event");
            let by_name = profile.by_name(detail);
            let folded = written(by_name.as_ref().map_or(&profile, |(by_name, _)| by_name));
            assert_eq!(String::from_utf8_lossy(&folded), text, "{detail:?}");
            let mut pprof = Vec::new();
            write_pprof(&profile, &stats, 1, &mut pprof).expect("memory");
            let mut collector = Collector::new(Options { label: Label::Tid, ..plain.clone() });
            let mut unpacked = Unpacker::new(pprof, std::io::empty()).expect("gzip");
            Pprof.read(&mut unpacked, &mut collector).expect("a pprof");
            crate::common::text(&written(&collector.finish().expect("one event").0))
        };
        let by_place = read_back(StackDetail::Sites);
        assert_eq!(by_place, read_back(StackDetail::Addresses));
        assert!(by_place.contains("parent-10/10;[program"), "{by_place}");
    }
}

#[test]
fn compressed_records_are_unpacked() {
    let (first, second) = (zstd::encode_all(&life().0[..], 1).expect("packed"), life().0);
    let mut records = Records::default();
    for part in first.chunks(50) {
        records.record(81, 0, part);
    }
    // The newer kind says its length and is padded.
    let again = zstd::encode_all(&second[..], 1).expect("packed");
    let padded = [words(&[again.len() as u64]), again, vec![0; 5]].concat();
    records.record(83, 0, &padded);
    let (text, stats) = folded(&file(&[Event::default()], &records));
    assert_eq!(stats.weight, 230, "{text}");
    assert_eq!(stats.truncated_input, None);
}

#[test]
fn process_and_thread_filters_and_labels() {
    let bytes = file(&[Event::default()], &life());
    let options = Options { only_pids: [11].into(), label: Label::Tid, ..Options::default() };
    let (text, stats) = fold(&bytes, options).expect("folded");
    assert_eq!(text, ":12-11/12;[perf-*.map] 1\nchild:x_y-11/11;[program] 7\nexeced-11/11;[unknown] 5\n");
    assert_eq!(stats.filtered_samples, 2);
    let options = Options { weight: Weight::Count, ..Options::default() };
    assert_eq!(fold(&bytes, options).expect("folded").1.weight, 5);
}

pub fn two_events() -> Vec<u8> {
    let event = |config, id| Event {
        config,
        id,
        sample_type: Event::default().sample_type | IDENTIFIER,
        ..Event::default()
    };
    let mut records = Records::default();
    for (id, period) in [(1_u64, 100), (2, 1), (1, 100)] {
        let body = words(&[id, 0x40_0010, 10 | 10 << 32, 7, period, 2, USER, 0x40_0010]);
        records.record(9, 2, &body);
    }
    file(&[event(0, 1), event(2, 2)], &records)
}

#[test]
fn an_event_that_was_chosen_is_folded_alone() {
    let options = Options { event: Some("page-faults".to_owned()), ..Options::default() };
    let (text, stats) = fold(&two_events(), options).expect("folded");
    assert_eq!(text, ":10;[unknown] 1\n");
    assert_eq!(stats.other_events[0].tally.weight, 200);
}

#[test]
fn calls_kept_by_the_processor_make_the_users_side() {
    const CALL_STACK: u64 = 1 << 11;
    let event = Event {
        sample_type: Event::default().sample_type | BRANCH_STACK,
        branch_type: CALL_STACK,
        ..Event::default()
    };
    let mut records = Records::default();
    for (start, path) in [(0x1000, "/no/leaf"), (0x2000, "/no/caller"), (0x3000, "/no/main")] {
        records.mmap(0, 10, start, 0x1000, 0, path);
    }
    let chain = [KERNEL, 0xffff_ffff_8100_0010, USER, 0x1010];
    let branches = [2, 0x2020, 0x1000, 0, 0x3030, 0x2000, 0];
    let body = [words(&[0x1010, 10 | 10 << 32, 7, 9, 4]), words(&chain), words(&branches)].concat();
    records.record(9, 1, &body);
    assert_eq!(folded(&file(&[event], &records)).0, ":10;[main];[caller];[leaf];[unknown] 9\n");
}

#[test]
fn a_file_cut_anywhere_keeps_what_came_before_and_says_where() {
    // Two features: one that is read, and one that is not.
    let features = [text_feature(5, "6.1.76"), (8, vec![0; 24])];
    let bytes = file_with(&[Event::default()], &life(), &features);
    let whole = folded(&bytes).1;
    assert_eq!(whole.truncated_input, None);
    let mut before = 0;
    for len in 0..bytes.len() {
        match fold(&bytes[..len], Options::default()) {
            Err(error) => assert!(len < 300 && error.exit_code() > 0, "{len}: {error}"),
            Ok((_, stats)) => {
                let why = stats.truncated_input.expect("it is told");
                assert!(why.contains("byte "), "{len}: {why}");
                assert!(stats.weight >= before && stats.weight <= whole.weight, "{len}");
                before = stats.weight;
            }
        }
    }
    assert_eq!(before, whole.weight, "the last record is no sample");
}

#[test]
fn a_recording_that_was_killed_is_read_to_its_end() {
    let mut bytes = file(&[Event::default()], &life());
    bytes[48..56].fill(0);
    let (_, stats) = folded(&bytes);
    assert_eq!(stats.weight, 115);
    assert!(stats.truncated_input.expect("it is told").contains("did not finish"));
}

/// Kinds up to those of Linux 6.19 and its perf are read, or known to hold nothing that is folded.
#[test]
fn kinds_that_perf_writes_are_known() {
    let mut records = Records::default();
    records.comm(0, 10, 10, "t", false);
    let told_apart = [9, 64, 66, 67, 71, 78, 80, 81, 83];
    for kind in (1..=22).chain(64..=86).filter(|kind| !told_apart.contains(kind)) {
        records.record(kind, 0, &[0; 64]);
    }
    records.sample(5, 10, 10, 7, &[USER, 0x40_0010]);
    let (text, stats) = folded(&file(&[Event::default()], &records));
    assert_eq!((text, stats.unknown_records), ("t;[unknown] 7\n".to_owned(), 0));
}

/// One byte of every second sample is changed, so that its record is of a kind that nobody writes.
#[test]
fn records_of_unknown_kinds_are_counted_and_the_rest_is_folded() {
    for packed in [false, true] {
        for (kind, shown) in [(0, 0_u32), (23, 23), (63, 63), (87, 87), (200, 200)] {
            let mut records = Records::default();
            records.comm(0, 10, 10, "t", false);
            for time in 1..=20 {
                let at = records.0.len();
                records.sample(time, 10, 10, 100, &[USER, 0x40_0010]);
                if time % 2 == 0 {
                    records.0[at] = kind;
                }
            }
            if packed {
                let bytes = zstd::encode_all(&records.0[..], 1).expect("packed");
                records = Records::default();
                records.record(81, 0, &bytes);
            }
            let (text, stats) = folded(&file(&[Event::default()], &records));
            assert_eq!(text, "t;[unknown] 1000\n", "{kind}");
            assert_eq!((stats.unknown_records, &stats.unknown_kinds[..]), (10, &[shown][..]));
            assert!(!stats.is_whole());
            let said = stats.summary();
            let why = format!("10 records are of kinds that stackfold does not know (kind {shown})");
            assert!(said.contains(&why), "{said}");
        }
    }
}

#[test]
fn a_recording_that_lost_samples_to_damage_ends_with_exit_code_1() {
    let mut records = Records::default();
    records.comm(0, 10, 10, "t", false).sample(5, 10, 10, 7, &[USER, 0x40_0010]);
    let with = |kind| {
        let mut records = records.clone();
        records.record(kind, 2, &[0; 16]);
        file(&[Event::default()], &records)
    };
    let whole = file(&[Event::default()], &records);
    let files = Files::new();
    for (bytes, expected, said) in [
        (&whole[..], 0, ""),
        (&whole[..whole.len() - 8], 1, "the input is cut short"),
        (&with(200), 1, "1 records are of kinds that stackfold does not know (kind 200)"),
        (&with(9), 1, "1 samples could not be read"),
    ] {
        let path = &files.write("damaged", bytes)[..];
        let (code, told) = told(&["-q", path], b"");
        // The exit code alone would not say why.
        assert!(code == expected && told.contains(said), "{code} {told}");
    }
}

/// Chains of one side have nothing of samples of the other, and perf names those by the place that was executed.
#[test]
fn a_chain_without_its_leaf_gets_it_from_the_sample() {
    const KERNEL_MODE: u16 = 1;
    const USER_MODE: u16 = 2;
    const EXCLUDE_CALLCHAIN_KERNEL: u64 = 1 << 21;
    let kernel = 0xffff_ffff_8100_0000;
    let recorded = |flags, samples: &[(u16, u64, &[u64])]| {
        let mut records = Records::default();
        records.mmap(0, -1, kernel, 0x100_0000, kernel, "[kernel.kallsyms]_text");
        records.comm(0, 10, 10, "t", false).mmap(0, 10, 0x40_0000, 0x1000, 0, FILE);
        for &(misc, ip, chain) in samples {
            let body = [words(&[ip, 10 | 10 << 32, 7, 100, chain.len() as u64]), words(chain)].concat();
            records.record(9, misc, &body);
        }
        folded(&file(&[Event { flags, ..Event::default() }], &records))
    };
    // --kernel-callchains
    let (text, stats) = recorded(
        1 << 22,
        &[
            (USER_MODE, 0x40_0010, &[]),
            (USER_MODE, 0x40_0010, &[USER]),
            (KERNEL_MODE, kernel, &[KERNEL, kernel, kernel + 9]),
        ],
    );
    assert_eq!(text, "t;[kernel.kallsyms];[kernel.kallsyms] 100\nt;[program] 200\n");
    assert_eq!((stats.samples, stats.unresolved_weight), (3, 300));
    // --user-callchains
    let (text, _) = recorded(
        EXCLUDE_CALLCHAIN_KERNEL,
        &[
            (KERNEL_MODE, kernel + 9, &[USER, 0x40_0010, 0x40_0020]),
            (USER_MODE, 0x40_0010, &[USER, 0x40_0010]),
        ],
    );
    assert_eq!(text, "t;[program] 100\nt;[program];[program];[kernel.kallsyms] 100\n");
    // Where nobody told the place there is no leaf, and that is said.
    let (text, stats) = recorded(0, &[(USER_MODE, 0, &[])]);
    assert_eq!((text, stats.unresolved_weight), ("t 100\n".to_owned(), 100));
}
