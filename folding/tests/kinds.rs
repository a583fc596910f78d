//! Recordings of kinds that few perfs write: real ones with the total that perf reports, others made in code.

use crate::common::recording::*;
use crate::common::{Files, data, fold_recording, told};
use stackfold::collector::Options;
use stackfold::stats::Stats;
use std::os::unix::fs::MetadataExt;

const ID: u64 = 4;
const GROUP: u64 = 8;
const INHERIT: u64 = 1 << 1;

fn folded(bytes: &[u8]) -> (String, Stats) {
    fold(bytes, None)
}

fn fold(bytes: &[u8], event: Option<&str>) -> (String, Stats) {
    let options = Options { event: event.map(str::to_owned), ..Options::default() };
    fold_recording(bytes, options, None).expect("folded")
}

/// The program's exit code, and what it says.
fn run(bytes: &[u8], args: &[&str]) -> (i32, String) {
    told(&[&[&Files::new().write("recording", bytes)[..], "-o", "/dev/null"][..], args].concat(), b"")
}

/// What `perf report` 7.2 says of these files (perf 6.1 refuses the first, and keeps the values of the second by id
/// alone).
#[test]
fn totals_of_recordings_that_read_counters_are_those_of_perf_report() {
    for (file, event, weight, samples) in [
        ("group-inherited.perf-7.2.data", "cpu-clock", 99_231_544, 49),
        ("group-inherited.perf-7.2.data", "page-faults", 4_133, 13),
        ("single-read.perf-6.1.data", "cpu-clock", 109_480_906, 51),
    ] {
        let bytes = std::fs::read(data("recordings").join(file)).expect("a recording");
        let (_, stats) = fold(&bytes, Some(event));
        assert_eq!(
            (stats.weight, stats.samples, stats.is_whole()),
            (weight, samples, true),
            "{file} {event}"
        );
    }
}

/// The clock and the page faults of a thread, read together.
fn group(samples: &[(i32, u64, u64)], flags: u64) -> (Vec<Event>, Records) {
    let sample_type = Event::default().sample_type | IDENTIFIER | READ;
    let event =
        |config, id| Event { config, id, sample_type, read_format: ID | GROUP, flags, ..Event::default() };
    let mut records = Records(Vec::new(), Some(1));
    for (time, &(tid, clock, faults)) in (1..).zip(samples) {
        add_group(&mut records, time, tid, clock, faults);
    }
    (vec![event(0, 1), event(2, 2)], records)
}

fn add_group(records: &mut Records, time: u64, tid: i32, clock: u64, faults: u64) {
    let head = words(&[1, 0x40_0010, 10 | (tid as u64) << 32, time, 999]);
    records.record(9, 2, &[head, words(&[2, clock, 1, faults, 2, 0])].concat());
}

#[test]
fn counters_that_threads_inherit_are_read_for_each_thread() {
    let (events, mut records) = group(&[(10, 5000, 7), (11, 100, 1), (10, 6000, 7), (11, 300, 4)], INHERIT);
    // The number of a thread that has ended is given to a new one, whose counters begin with 0.
    records.exit(5, 10, 11).fork(6, 10, 11, 10);
    add_group(&mut records, 7, 11, 50, 2);
    let bytes = file(&events, &records);
    for (event, weight, samples) in [("cpu-clock", 6350, 5), ("page-faults", 13, 4)] {
        let (_, stats) = fold(&bytes, Some(event));
        assert_eq!((stats.weight, stats.samples), (weight, samples), "{event}");
    }
}

#[test]
fn counters_of_one_thread_have_grown_from_sample_to_sample() {
    let (events, records) = group(&[(10, 1000, 5), (10, 1500, 5), (10, 1700, 9)], 0);
    for (event, weight, samples) in [("cpu-clock", 1700, 3), ("page-faults", 9, 2)] {
        let (_, stats) = fold(&file(&events, &records), Some(event));
        assert_eq!((stats.weight, stats.samples), (weight, samples), "{event}");
    }
}

#[test]
fn a_counter_that_went_back_is_an_error_of_its_event() {
    let (events, records) = group(&[(10, 5000, 7), (11, 100, 9)], 0);
    let bytes = file(&events, &records);
    let (code, said) = run(&bytes, &["--event", "cpu-clock"]);
    assert_eq!(code, 1, "{said}");
    assert!(said.contains("cpu-clock: its counter in thread 11 went back from 5000 to 100"), "{said}");
    assert!(said.contains("stackfold --weight count"), "{said}");
    for args in [&["--event", "page-faults"][..], &["--event", "cpu-clock", "--weight", "count"]] {
        let (code, said) = run(&bytes, args);
        assert_eq!(code, 0, "{args:?}: {said}");
    }
}

/// Two processors, one second, 1 ms between two samples: as much as they can, and more.
#[test]
fn a_clock_that_ran_longer_than_all_processors_is_an_error() {
    const SECOND: u64 = 1_000_000_000;
    let recording = |weight| {
        let mut records = Records::default();
        records.comm(0, 10, 10, "t", false);
        records.sample(7, 10, 10, SECOND, &[USER, 0x40_0010]);
        records.sample(7 + SECOND, 10, 10, weight, &[USER, 0x40_0010]);
        file_with(&[Event::default()], &records, &[processors(2)])
    };
    let (_, stats) = folded(&recording(SECOND));
    assert_eq!(stats.weight, u128::from(2 * SECOND));
    let (code, said) = run(&recording(SECOND + 3_000_000), &[]);
    assert_eq!(code, 1, "{said}");
    assert!(said.contains("cpu-clock: its samples weigh 2003000000 ns, and 2 processors had 200"), "{said}");
}

/// perf writes what its BPF program saw as RAW: process, thread, period, chain, control group. The kernel's own words
/// are those of the thread that ran before. perf 7.2 reports 3500 of this file.
#[test]
fn off_cpu_samples_are_those_of_the_thread_that_waited() {
    let sample_type = IDENTIFIER | IP | TID | TIME | PERIOD | RAW;
    let clock = Event {
        sample_type: Event::default().sample_type | IDENTIFIER,
        name: "cpu-clock",
        ..Event::default()
    };
    let off_cpu = Event { config: 10, id: 2, sample_type, name: "offcpu-time", ..Event::default() };
    let mut records = Records(Vec::new(), Some(1));
    records.comm(0, 10, 10, "waits", false).comm(0, 10, 12, "reader", false).comm(0, 77, 77, "other", false);
    records.mmap(0, 10, 0x40_0000, 0x1000, 0, "/no/such/program");
    // At the end perf writes process and thread, its BPF program thread and process.
    for (time, (first, second), period) in [(5, (12, 10), 3000_u64), (6, (10, 12), 500)] {
        let chain = words(&[3, USER, 0x40_0010, 0x40_0020]);
        let raw = [words(&[first | second << 32, period]), chain, words(&[0])].concat();
        let size = (raw.len() as u32 + 4).to_le_bytes();
        let head = words(&[2, 0xffff_ffff_8100_0000, 77 | 77 << 32, time, 1]);
        records.record(9, 1, &[&head[..], &size, &raw, &[0; 4]].concat());
    }
    let events = [clock, off_cpu];
    let bytes = file_with(&events, &records, &[names(&events)]);
    keep("off-cpu", &bytes);
    let (text, stats) = fold(&bytes, Some("offcpu-time"));
    assert_eq!(text, "reader;[program];[program] 3500\n");
    assert_eq!((&*stats.unit, stats.samples, stats.is_whole()), ("ns", 2, true));
}

/// As `perf record --call-graph fp,defer` writes them. perf 7.2 reports 115 of this file.
#[test]
fn deferred_chains_are_joined_to_the_samples_that_wait_for_them() {
    const DEFER_CALLCHAIN: u64 = 1 << 38;
    let kernel = 0xffff_ffff_8100_0000;
    let mut records = Records::default();
    records.mmap(0, -1, kernel, 0x100_0000, kernel, "[kernel.kallsyms]_text");
    records.comm(0, 10, 10, "t", false).mmap(0, 10, 0x40_0000, 0x1000, 0, "/no/such/program");
    records.comm(0, 10, 11, "u", false);
    records
        .sample(1, 10, 10, 1, &[KERNEL, kernel + 8, USER_DEFERRED, 501])
        .sample(2, 10, 11, 2, &[KERNEL, kernel + 8, USER_DEFERRED, 601])
        .sample(3, 10, 10, 4, &[KERNEL, kernel + 8, kernel + 9, USER_DEFERRED, 501])
        .deferred_chain(4, 10, 501, &[USER, 0x40_0010, 0x40_0020])
        // The record of its first walk was lost.
        .sample(5, 10, 11, 8, &[USER_DEFERRED, 602])
        .deferred_chain(6, 11, 602, &[USER, 0x40_0010])
        .sample(7, 10, 10, 100, &[KERNEL, kernel + 8, USER_DEFERRED, 502])
        .round();
    let events = [Event { flags: DEFER_CALLCHAIN, ..Event::default() }];
    let bytes = file(&events, &records);
    keep("deferred", &bytes);
    let (text, stats) = folded(&bytes);
    assert_eq!(
        text,
        "t;[kernel.kallsyms] 100\nt;[program];[program];[kernel.kallsyms] 1\n\
         t;[program];[program];[kernel.kallsyms];[kernel.kallsyms] 4\nu;[kernel.kallsyms] 2\nu;[program] 8\n"
    );
    assert_eq!((stats.unknown_records, stats.is_whole()), (0, true));
    let said = stats.notes.iter().any(|note| note.starts_with("2 samples have no user frames"));
    assert!(said, "{:?}", stats.notes);
}

/// Branches, a counter's word for each (`-j any,counter`), then registers and a copied stack. The processor gives the
/// words to samples of all events of a group, if one of them asks.
#[test]
fn counters_of_branches_are_passed_over() {
    const BRANCH_COUNTERS: u64 = 1 << 19;
    let sample_type = Event::default().sample_type | BRANCH_STACK | REGS_USER | STACK_USER | IDENTIFIER;
    let event = |id, branch_type| Event { sample_type, branch_type, registers: 0b11, id, ..Event::default() };
    let mut records = Records(Vec::new(), Some(1));
    let chain = [2, USER, 0x40_0010];
    let branches = [2, 0x10, 0x20, 0, 0x30, 0x40, 0, 7, 7];
    let rest = [2, 0xaaaa, 0xbbbb, 8, 0, 0];
    let head = words(&[1, 0x40_0010, 10 | 10 << 32, 7, 9]);
    records.record(9, 2, &[head, words(&chain), words(&branches), words(&rest)].concat());
    let group = [event(1, 0), event(2, BRANCH_COUNTERS)];
    let group = file_with(&group, &records, &[one_group(2)]);
    for bytes in [file(&[event(1, BRANCH_COUNTERS)], &records), group] {
        let (text, stats) = folded(&bytes);
        assert_eq!((text.as_str(), stats.broken_samples), (":10;[unknown] 9\n", 0));
    }
}

/// Addresses of a 32-bit program's stack are 4 bytes each: as 8 they name code that did not run.
#[test]
fn stacks_of_32_bit_programs_are_not_walked_as_those_of_64_bits() {
    const IP_SP_BP: u64 = 1 << 8 | 1 << 7 | 1 << 6;
    let sample_type = Event::default().sample_type | REGS_USER | STACK_USER;
    // The caller's frame pointer, and the return address.
    let stack = [0, 0x40_0020, 0, 0, 0, 0, 0, 0];
    for (abi, frames, notes) in [(2, ";[program];[program]", 0), (1, ";[program]", 1)] {
        let event = Event { sample_type, registers: IP_SP_BP, ..Event::default() };
        let mut records = Records::default();
        records.mmap(0, 10, 0x40_0000, 0x1000, 0, "/no/such/program");
        let rest = [abi, 0x5000, 0x5000, 0x40_0010, 64];
        let (head, copied) = (words(&[0x40_0010, 10 | 10 << 32, 7, 9, 0]), words(&stack));
        records.record(9, 2, &[head, words(&rest), copied, words(&[64])].concat());
        let (text, stats) = folded(&file(&[event], &records));
        let said = stats.notes.iter().filter(|note| note.contains("32-bit programs")).count();
        assert_eq!((text, said), (format!(":10{frames} 9\n"), notes), "abi {abi}");
    }
}

#[test]
fn chains_are_cut_where_the_event_says_and_walked_stacks_are_not() {
    let recorded = |max_stack, frames: u64| {
        let chain: Vec<u64> = [USER].into_iter().chain((0..frames).map(|n| 0x40_0000 + n)).collect();
        let mut records = Records::default();
        records.sample(5, 10, 10, 1, &chain).sample(6, 10, 10, 1, &chain[..2]);
        folded(&file(&[Event { max_stack, ..Event::default() }], &records)).1.truncated_chains
    };
    assert_eq!([recorded(0, 126), recorded(0, 127), recorded(10, 9), recorded(10, 10)], [0, 1, 0, 1]);
    assert_eq!(recorded(512, 200), 0);
}

#[inline(never)]
fn a_function_of_this_test(count: u64) -> u64 {
    std::hint::black_box(count) + 1
}

/// Two containers have a file of the same path, and the recording has no build ids.
#[test]
fn files_of_one_path_and_different_inodes_are_told_apart() {
    let address = a_function_of_this_test as fn(u64) -> u64 as usize as u64 + 1;
    let own = std::fs::read_to_string("/proc/self/maps").expect("the maps of this process");
    let numbers = |line: &str| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let (start, end) = fields[0].split_once('-').expect("a range");
        let hex = |text| u64::from_str_radix(text, 16).expect("hexadecimal");
        (hex(start), hex(end), hex(fields[2]), fields.last().map(|path| (*path).to_owned()))
    };
    let map = own.lines().map(numbers).find(|map| (map.0..map.1).contains(&address)).expect("it is mapped");
    let (start, end, offset, path) = (map.0, map.1, map.2, map.3.expect("a path"));
    let entry = std::fs::metadata(&path).expect("the test itself");
    let file_here = (libc::major(entry.dev()), libc::minor(entry.dev()), entry.ino());
    let recorded = |first, second| {
        let mut records = Records::default();
        for (pid, identity) in [(10, first), (11, second)] {
            records.comm(0, pid, pid, &format!("t{pid}"), false);
            records.file_map(pid, (start, end - start), offset, identity, &path);
            records.sample(5, pid, pid, 1, &[USER, address]);
        }
        folded(&file(&[Event::default()], &records))
    };
    let named = |text: &str, comm: &str| {
        text.lines().any(|line| line.starts_with(comm) && line.contains("a_function_of_this_test"))
    };
    let other = (file_here.0, file_here.1, file_here.2 + 1);
    let (text, stats) = recorded(file_here, other);
    assert_eq!((named(&text, "t10"), named(&text, "t11")), (true, false), "{text}");
    assert!(stats.notes.iter().any(|note| note.contains("perf record --buildid-mmap")), "{:?}", stats.notes);
    // Copied to another machine a recording has inodes of that one, and one file has one name.
    let (text, _) = recorded(other, other);
    assert_eq!((named(&text, "t10"), named(&text, "t11")), (true, true), "{text}");
}

/// For a look with perf: STACKFOLD_KEEP=DIR cargo test --package stackfold-tests
fn keep(name: &str, bytes: &[u8]) {
    if let Some(directory) = std::env::var_os("STACKFOLD_KEEP") {
        std::fs::write(std::path::Path::new(&directory).join(format!("{name}.data")), bytes)
            .expect("writing");
    }
}
