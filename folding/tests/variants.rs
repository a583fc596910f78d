//! Every variant of `perf script` text that was seen, from perf 3.13 to 6.12, and the cases other folders
//! lose. Header lines alone are in `src/input/perf_script/header_tests.rs`, names of starts of threads in `src/roots.rs`.

use crate::common::{fold, text};
use stackfold::collector::{Label, Options, Weight};
use stackfold::stats::Stats;

fn folded(input: &str, options: Options) -> String {
    text(&fold(input.as_bytes(), options).0)
}

fn plain(input: &str) -> String {
    folded(input, Options::default())
}

fn stats(input: &str) -> Stats {
    fold(input.as_bytes(), Options::default()).1
}

fn count() -> Options {
    Options { weight: Weight::Count, ..Options::default() }
}

fn marked() -> Options {
    Options { kernel: true, inlines: true, jit: true, ..Options::default() }
}

const HEAD: &str = "t  2802  1121.820280:         10 cycles: ";

#[test]
fn without_period_thread_or_time() {
    let chain = "\t    401136 f (/bin/t)\n\n";
    for head in ["java  3244 cpu-clock: ", "java ", "java 17640 "] {
        assert_eq!(folded(&format!("{head}\n{chain}"), count()), "java;f 1\n", "{head:?}");
    }
    assert_eq!(plain(&format!("t          7 \n{chain}")), "t;f 7\n");
    assert_eq!(plain(&format!("t 17640          7 page-faults: \n{chain}")), "t;f 7\n");
}

#[test]
fn names_of_frames() {
    for (symbol, expected) in [
        ("(anonymous namespace)::f", "(anonymous namespace)::f"),
        ("rocksdb::DBImpl::Get(rocksdb::ReadOptions const&, rocksdb::Slice const&)", "rocksdb::DBImpl::Get"),
        ("std::function<void ()>::operator()", "std::function<void ()>::operator()"),
        ("clock_gettime@@GLIBC_2.17", "clock_gettime"),
        ("g [clone .cold]", "g"),
        ("g.cold", "g.cold"),
        ("Lorg/foo;.call(Lx;)V", "Lorg/foo:.call(Lx:)V"),
        ("a->b", "a->b"),
        ("RegExp:[&<>\\\"\\']", "RegExp:[&<>\\\"\\']"),
        ("operator new", "operator new"),
        ("X::operator()", "X::operator()"),
        ("operator<< <char>", "operator<< <char>"),
        ("{lambda(int)#1}", "{lambda(int)#1}"),
        ("foo(void (*)(int))", "foo"),
    ] {
        for frame in [
            format!("    13a80b608e0a {symbol}+0x1f (/tmp/perf-7539.map)"),
            format!("\t    13a80b608e0a {symbol}+0x1f (/opt/a b/lib.so)"),
            format!("\t    13a80b608e0a {symbol} (/opt/a b/lib.so)"),
            format!("\t    13a80b608e0a {symbol}"),
        ] {
            assert_eq!(plain(&format!("{HEAD}\n{frame}\n\n")), format!("t;{expected} 10\n"), "{frame:?}");
        }
    }
}

#[test]
fn unknown_symbols_take_the_object() {
    // How each object is called is in crates/symbolize/src/dso.rs.
    for (object, expected) in [
        ("(/usr/bin/db_bench)", "[db_bench]"),
        ("([unknown])", "[unknown]"),
        ("(/memfd:x (deleted))", "[memfd:x]"),
        ("([JIT] tid 123)", "[JIT]"),
        ("", "[unknown]"),
    ] {
        let input = format!("{HEAD}\n\t    7f6783cab997 [unknown] {object}\n\n");
        assert_eq!(plain(&input), format!("t;{expected} 10\n"), "{object}");
        assert_eq!(stats(&input).unresolved_weight, 10, "{object}");
    }
}

#[test]
fn marks_follow_the_object() {
    // Which objects are the kernel's and whose code was made at run time is in crates/symbolize/src/dso.rs.
    for (frame, expected) in [
        ("ffffffff8158e3e1 f ([kernel.kallsyms])", "f_[k]"),
        ("ffffffff8158e3e1 [unknown] ([unknown])", "[unknown]_[k]"),
        ("ffffffffffffffff [unknown] ([unknown])", "[unknown]"),
        ("7f6783cab997 sys_looking_name (/bin/t)", "sys_looking_name"),
        ("13a80b608e0a run (/tmp/perf-7539.map)", "run_[j]"),
        ("e6b4 elf_machine_rela+0xa94 (inlined)", "elf_machine_rela_[i]"),
    ] {
        let input = format!("{HEAD}\n\t{frame}\n\n");
        assert_eq!(folded(&input, marked()), format!("t;{expected} 10\n"), "{frame}");
        let unmarked = expected.rsplit_once("_[").map_or(expected, |(name, _)| name);
        assert_eq!(plain(&input), format!("t;{unmarked} 10\n"), "{frame}");
    }
}

#[test]
fn inlined_frames_keep_their_places() {
    let input = format!(
        "{HEAD}\n\t            e6b4 inner+0xa94 (inlined)\n\t            e6b4 middle+0xa94 (inlined)\n\
         \t            e6b4 outer+0xa94 (/usr/lib/ld.so)\n\n"
    );
    assert_eq!(folded(&input, marked()), "t;outer;middle_[i];inner_[i] 10\n");
}

#[test]
fn commands() {
    for (comm, expected) in [
        ("V8 WorkerThread", "V8_WorkerThread"),
        ("pool 12 x", "pool_12_x"),
        ("pool 12", "pool_12"),
        ("7", "7"),
        ("a: b 3 c:", "a:_b_3_c:"),
        ("  lead", "__lead"),
        ("tab\there", "tab_here"),
        ("semi;colon", "semi:colon"),
        ("(sd-pam)", "(sd-pam)"),
        ("kworker/0:1H", "kworker/0:1H"),
        (":-1", ":-1"),
        ("VM:  123 VCPU:000 CPU 0/KVM", "CPU_0/KVM"),
        ("", "[unknown]"),
    ] {
        for rest in ["17640 [000]  1968.424864:", "17640/17641  1968.424864:", "4194304/4194305  0.000450:"] {
            let input = format!("{comm} {rest}          5 cycles:ppp: \n\t 401136 f (/bin/t)\n\n");
            assert_eq!(plain(&input), format!("{expected};f 5\n"), "{comm:?} {rest}");
        }
    }
}

#[test]
fn bytes_that_are_no_text_pass_through() {
    let input = b"\xff\xfe 1 1.000001: 5 cycles: \n\t 401136 \xf0f\x80 (/bin/\xff)\n\n";
    assert_eq!(fold(input, Options::default()).0, b"\xff\xfe;\xf0f\x80 5\n");
}

#[test]
fn labels() {
    let input = "my app 12/34 [000] 1.000001: 5 cycles: \n\t 401136 f (/bin/t)\n\n";
    let label = |label| folded(input, Options { label, ..Options::default() });
    assert_eq!(label(Label::Comm), "my_app;f 5\n");
    assert_eq!(label(Label::Pid), "my_app-12;f 5\n");
    assert_eq!(label(Label::Tid), "my_app-12/34;f 5\n");
}

#[test]
fn events_without_call_chains() {
    let input = "               t 17640 [000]  1968.424864:          1 page-faults:  ffffffff817554ea elf_load+0x28a ([kernel.kallsyms])\n\
                 \u{20}              t 17640 [000]  1968.424865:          2 page-faults:      7fec09e797e0 __getrlimit+0x0 (/usr/lib/libc.so.6)\n\
                 \u{20}    longcommand 17640 [000]  1968.424865:          4 page-faults:      7fec09e797e0 [unknown] (/usr/lib/libc.so.6)\n";
    assert_eq!(plain(input), "longcommand;[libc.so.6] 4\nt;__getrlimit 2\nt;elf_load 1\n");
    assert_eq!(stats(input).dropped_lines, 0);
}

#[test]
fn a_sample_without_frames_keeps_its_weight() {
    let input = format!("{HEAD}\n\n{HEAD}\n\t 401136 f (/bin/t)\n\n{HEAD}\n{HEAD}\n\t 401136 f (/bin/t)\n\n");
    assert_eq!(plain(&input), "t 20\nt;f 20\n");
    assert_eq!(stats(&input).incomplete_samples, 4);
}

#[test]
fn the_last_sample_counts_without_an_empty_line() {
    let expected = "t;main;f 10\n";
    for end in ["\n\n\n", "\n\n", "\n", ""] {
        let input = format!("{HEAD}\n\t 401136 f (/bin/t)\n\t 401200 main (/bin/t){end}");
        assert_eq!(plain(&input), expected, "{end:?}");
        assert_eq!(stats(&input).truncated_input, None, "{end:?}");
    }
}

#[test]
fn tracepoints_with_fields() {
    let chain = "\tffffffff821facd8 __schedule+0x618 ([kernel.kallsyms])\n\n";
    let fields = "prev_comm=t prev_pid=5597 prev_state=S ==> next_comm=u: 1 next_pid=18";
    let with_period = format!("t  5597 [001]  1224.294710:          1 sched:sched_switch: {fields}\n{chain}");
    assert_eq!(plain(&with_period.repeat(3)), "t;__schedule 3\n");
    let without = format!("t  5597 [001]  1224.294710: sched:sched_switch: {fields}\n{chain}");
    assert_eq!(folded(&without.repeat(3), count()), "t;__schedule 3\n");
    let probe = format!("t  5597 [001]  1224.294710: probe_libc:malloc: (7f1e2215d058)\n{chain}");
    assert_eq!(folded(&probe, count()), "t;__schedule 1\n");
}

#[test]
fn addresses_behind_the_event_change_nothing() {
    let input =
        "t 17640 [000]  1968.424864:         50 page-faults:     7f0000001000 \n\t 401136 f (/bin/t)\n\n";
    assert_eq!(plain(input), "t;f 50\n");
    let data_source = "t 17640  1968.424864: 3 cpu/mem-loads,ldlat=30/P:     7f0000001000  5080144 |OP LOAD|LVL L1 hit| 7\n\t 401136 f (/bin/t)\n\n";
    assert_eq!(plain(data_source), "t;f 3\n");
}

#[test]
fn padded_event_names_are_one_event() {
    let input = "t  2802  1121.824249:    2004008   cpu-clock: \n\t 401136 f (/bin/t)\n\n\
                 t  2802  1121.824250:          1 page-faults: \n\t 401136 g (/bin/t)\n\n\
                 t  2802  1121.824251:    2004008   cpu-clock: \n\t 401136 f (/bin/t)\n\n";
    let event = |name: &str| folded(input, Options { event: Some(name.into()), ..Options::default() });
    assert_eq!(event("cpu-clock"), "t;f 4008016\n");
    assert_eq!(event("page-faults"), "t;g 1\n");
}

#[test]
fn lost_records_cost_nothing_but_what_they_say() {
    let input = format!(
        "{HEAD}\n\t 401136 f (/bin/t)\n\nt  5389  1217.587827: PERF_RECORD_LOST lost 17\n{HEAD}\n\t 401136 f (/bin/t)\n\n\
         t  5389  1217.587828: PERF_RECORD_LOST_SAMPLES lost 4\n{HEAD}\n\t 401136 f (/bin/t)\n\n"
    );
    assert_eq!(plain(&input), "t;f 30\n");
    let stats = stats(&input);
    assert_eq!((stats.lost_records, stats.lost_samples, stats.dropped_lines), (2, 21, 0));
}

#[test]
fn other_records_and_header_comments_are_no_samples() {
    let input = format!(
        "# ========\n# captured on    : some day\n#\nt     0     0.000000: PERF_RECORD_COMM: perf-exec:17640/17640\n\
         t 17640 [000]  1968.424864: PERF_RECORD_MMAP2 17640/17640: [0x1000(0x1000) @ 0x1000 fe:00 1 2]: r-xp /bin/t\n\
         {HEAD}\n\t 401136 f (/bin/t)\n\nt 17640  1.000000: PERF_RECORD_SWITCH OUT preempt\n"
    );
    assert_eq!(plain(&input), "t;f 10\n");
    assert_eq!(stats(&input).dropped_lines, 0);
}

#[test]
fn lines_below_frames_are_passed_over() {
    let input = format!(
        "{HEAD}\n\t 401136 f (/bin/t)\n  leaf.cc:12\n\tffffffff8158e3e1 g ([kernel.kallsyms])\n  [kernel.kallsyms][ffffffff817554ea]\n\
         \t 401200 main (/bin/t)\n  \n\t 401300 _start (/bin/t)\n 0x401b97/0x401b00/P/-/-/3  0x401000/0x401001/P/-/-/1 \n\n"
    );
    assert_eq!(plain(&input), "t;_start;main;g;f 10\n");
    assert_eq!(stats(&input).dropped_lines, 0);
}

#[test]
fn periods_of_any_size() {
    let input = "t 1  1.000001:          0 cycles: \n\t 401136 f (/bin/t)\n\n\
                 t 1  1.000002: 18446744073709551615 cycles: \n\t 401136 g (/bin/t)\n\n\
                 t 1  1.000003: 18446744073709551615 cycles: \n\t 401136 g (/bin/t)\n\n\
                 t 1  1.000004: 18446744073709551616 cycles: \n\t 401136 h (/bin/t)\n\n";
    assert_eq!(plain(input), "t;f 0\nt;g 36893488147419103230\n");
    let stats = stats(input);
    assert_eq!((stats.period_min, stats.period_max, stats.dropped_lines), (Some(0), Some(u64::MAX), 2));
}

#[test]
fn garbage_costs_its_own_lines_only() {
    let input = format!(
        "{HEAD}\n\t 401136 f (/bin/t)\n\nno header at all\n\t 401136 lost (/bin/t)\n\n{HEAD}\n\t 401136 f (/bin/t)\n\n"
    );
    assert_eq!(plain(&input), "t;f 20\n");
    let stats = stats(&input);
    assert_eq!(stats.dropped_lines, 2);
    let lines: Vec<&str> = stats.dropped_first.iter().map(|(_, line)| &line[..]).collect();
    assert_eq!(lines, ["no header at all", "\t 401136 lost (/bin/t)"]);
}

#[test]
fn input_cut_within_a_line_keeps_what_came_before() {
    let whole = format!("{HEAD}\n\t 401136 f (/bin/t)\n\t 401200 main (/bin/t)\n\n");
    for (tail, expected) in [
        ("t  2802  1121.8", "t;main;f 10\n"),
        ("t  2802  1121.820280:         10 cyc", "t;main;f 10\n"),
        ("t  2802  1121.820280:         10 cycles: ", "t;main;f 10\n"),
        (
            "t  2802  1121.820280:         10 cycles: \n\t 401136 f (/bin/t)\n\t 401200 mai",
            "t;f 10\nt;main;f 10\n",
        ),
    ] {
        let input = format!("{whole}{tail}");
        assert_eq!(plain(&input), expected, "{tail:?}");
        assert!(stats(&input).truncated_input.is_some(), "{tail:?}");
    }
}

#[test]
fn max_depth_keeps_the_weight() {
    let input = format!("{HEAD}\n\t 1 f (/b)\n\t 2 g (/b)\n\t 3 main (/b)\n\n");
    let depth = |max| folded(&input, Options { max_depth: Some(max), ..Options::default() });
    assert_eq!(depth(0), "t 10\n");
    assert_eq!(depth(2), "t;main;g 10\n");
    assert_eq!(depth(9), "t;main;g;f 10\n");
}

#[test]
fn complete_chains_reach_the_start_of_their_thread() {
    let kernel = "\tffffffff81000001 work ([kernel.kallsyms])\n";
    for (frames, complete) in [
        ("\t 1 f (/b)\n\t 2 start_thread (/c)\n", true),
        ("\t 1 f (/b)\n", false),
        ("\t 1 f (/b)\n\t 2 [unknown] (/b)\n", false),
        ("\t 1 f (/b)\n\t 2 start_thread (/c)\n\tffffffffffffffff [unknown] ([unknown])\n", true),
        ("\t 1 f (/b)\n\t7ffe [unknown] ([stack])\n\t6e61 [unknown] ([unknown])\n", false),
        ("\tffffffff81000002 ret_from_fork_asm ([kernel.kallsyms])\n", true),
        ("\tffffffff81000002 vfs_read ([kernel.kallsyms])\n", false),
        ("\tffffffff81000002 clone_mnt ([kernel.kallsyms])\n", false),
        ("\t 1 user (/b)\n\tffffffff81000002 entry_SYSCALL_64_after_hwframe ([kernel.kallsyms])\n", false),
    ] {
        let stats = stats(&format!("{HEAD}\n{kernel}{frames}\n"));
        let expected = if complete { (0, 0) } else { (1, 10) };
        assert_eq!((stats.incomplete_samples, stats.incomplete_weight), expected, "{frames}");
    }
}
