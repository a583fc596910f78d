use super::*;

/// `comm|pid|tid|event|period|rest`, `-` for what is missing.
fn shown(line: &str) -> String {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let id = |id: Option<i64>| id.map_or("-".to_owned(), |id| id.to_string());
    match parse(line.as_bytes()) {
        Some(HeaderLine::SampleHeader(s)) => format!(
            "{}|{}|{}|{}|{}|{}",
            text(s.comm),
            id(s.pid),
            id(s.tid),
            s.event.map_or("-".to_owned(), text),
            s.period.map_or("-".to_owned(), |p| p.to_string()),
            text(s.rest)
        ),
        Some(HeaderLine::Lost(n)) => format!("lost {n}"),
        Some(HeaderLine::Record) => "record".to_owned(),
        None => "none".to_owned(),
    }
}

/// The numbered variants of the survey of `perf script` text that concern headers; folding/tests/variants.rs has more, with
/// the frames below them.
#[test]
fn variants() {
    for (line, expected) in [
        // perf 3.13: no period, thread or process and thread
        ("java  3244 cpu-clock: ", "java|-|3244|cpu-clock|-|"),
        ("func_ab 15285 28075374.517811: cpu-clock: ", "func_ab|-|15285|cpu-clock|-|"),
        ("java 12688/12764 6544038.708352: cpu-clock: ", "java|12688|12764|cpu-clock|-|"),
        // period column
        ("dd 29776 666709.771979:   10101010 cpu-clock: ", "dd|-|29776|cpu-clock|10101010|"),
        // processor
        ("t 17640 [000]  1968.424864:          1 page-faults: ", "t|-|17640|page-faults|1|"),
        ("t  2802  1121.820280:          1 page-faults: ", "t|-|2802|page-faults|1|"),
        // process and thread, wide threads
        ("t 17640/17640 [000]  1968.424864:          1 page-faults: ", "t|17640|17640|page-faults|1|"),
        ("t    12/34    [000]  1968.424864:          1 page-faults: ", "t|12|34|page-faults|1|"),
        ("t   14809  1651.142735:          1 page-faults: ", "t|-|14809|page-faults|1|"),
        ("t 4194303/4194304 [000]  1968.424864:          1 cycles: ", "t|4194303|4194304|cycles|1|"),
        // modifiers, PMUs, colons
        ("t  2802  1121.824249:    2004008 cycles:ppp: ", "t|-|2802|cycles:ppp|2004008|"),
        ("t  2802  1121.824249:    2004008 cpu-clock:u: ", "t|-|2802|cpu-clock:u|2004008|"),
        ("t  2802  1121.824249:    2004008 cpu_core/cycles/: ", "t|-|2802|cpu_core/cycles/|2004008|"),
        (
            "t  2802  1121.824249:    7 cpu/event=0x3c,umask=0x00,name=cyc/: ",
            "t|-|2802|cpu/event=0x3c,umask=0x00,name=cyc/|7|",
        ),
        ("t  2802  1121.824249:    7 my own name: ", "t|-|2802|my own name|7|"),
        // tracepoints and probes
        (
            "t  5597 [001]  1224.294710: sched:sched_switch: prev_comm=t prev_pid=5597 ==> next_comm=u",
            "t|-|5597|sched:sched_switch|-|prev_comm=t prev_pid=5597 ==> next_comm=u",
        ),
        (
            "t  5597 [001]  1224.294710:          1 sched:sched_switch: a=b",
            "t|-|5597|sched:sched_switch|1|a=b",
        ),
        (
            "t  5597 [001]  1224.294710: probe_libc:malloc: (7f1e2215d058)",
            "t|-|5597|probe_libc:malloc|-|(7f1e2215d058)",
        ),
        // no call chain
        (
            "               t 17640 [000]  1968.424864:          1 page-faults:  ffffffff817554ea elf_load+0x28a ([kernel.kallsyms])",
            "t|-|17640|page-faults|1|ffffffff817554ea elf_load+0x28a ([kernel.kallsyms])",
        ),
        // --ns, --reltime, no time
        ("t 17640 [000]  1968.424864807:          1 page-faults: ", "t|-|17640|page-faults|1|"),
        ("t 17640 [000]     0.000450:          1 page-faults: ", "t|-|17640|page-faults|1|"),
        ("t          1 ", "t|-|-|-|1|"),
        ("t 17640          1 page-faults: ", "t|-|17640|page-faults|1|"),
        ("t 17640 [000]          1 page-faults: ", "t|-|17640|page-faults|1|"),
        ("   1001001 cpu-clock: ", "|-|-|cpu-clock|1001001|"),
        ("17640    1001001 cpu-clock: ", "17640|-|-|cpu-clock|1001001|"),
        // +misc, -L
        ("t 17640 [000] K      1968.424864:          1 page-faults: ", "t|-|17640|page-faults|1|"),
        ("t 17640 U      1968.424864:          1 page-faults: ", "t|-|17640|page-faults|1|"),
        ("       t 17640   0  1968.424864:          1 page-faults: ", "t|-|17640|page-faults|1|"),
        // +tod, alone and before the time
        ("t 17640 [000] 2026-11-28 18:11:21.490141  1968.424864:   1 cycles: ", "t|-|17640|cycles|1|"),
        ("t 1/17640 2026-11-28 18:11:21.490141317 1968.424864317:   1 cycles: ", "t|1|17640|cycles|1|"),
        ("t 17640 2026-11-28 18:11:21.490141    5025125 cycles: ", "t|-|17640|cycles|5025125|"),
        ("t 17640 2026-11-28 18:11:21.490141 cycles: ", "t|-|17640|cycles|-|"),
        ("t 17640 2026-11-28 18:11:21.490141 ", "t|-|17640|-|-|"),
        ("at 18:11:21.490141 17640  1968.424864:   1 cycles: ", "at 18:11:21.490141|-|17640|cycles|1|"),
        // tabs, as simpleperf prints them
        ("my app\t17640 [001] 1968.424864:\t\t7 cpu-cycles:", "my app|-|17640|cpu-cycles|7|"),
        ("t\t1/17640\t1968.424864:\t7\tcpu-cycles:", "t|1|17640|cpu-cycles|7|"),
        // records
        ("t  5389  1217.587827: PERF_RECORD_LOST lost 17", "lost 17"),
        ("t 17640  PERF_RECORD_COMM exec: t:17640/17640", "record"),
        ("PERF_RECORD_SWITCH OUT preempt", "record"),
        // commands
        ("pool 12   640  1968.424864:          1 cycles: ", "pool 12|-|640|cycles|1|"),
        (":-1    -1 [000]  1968.424864:          1 cycles: ", ":-1|-|-1|cycles|1|"),
        // no event
        ("t 17640  1968.424864:    2004008 ", "t|-|17640|-|2004008|"),
        // no header
        ("", "none"),
        ("# captured on    : Fri Nov 20", "none"),
    ] {
        assert_eq!(shown(line), expected, "{line:?}");
    }
}

#[test]
fn without_time_and_event_a_header_is_doubtful() {
    for line in ["t          1 ", "t 17640 ", "db_bench ", "some words", "Warning:", "Processed 12 events"] {
        assert!(matches!(parse(line.as_bytes()), Some(HeaderLine::SampleHeader(s)) if s.weak), "{line:?}");
    }
    for line in ["t 17640 cpu-clock: ", "t 1.000001: ", "t 17640 [000] 10 cycles: "] {
        assert!(matches!(parse(line.as_bytes()), Some(HeaderLine::SampleHeader(s)) if !s.weak), "{line:?}");
    }
}
