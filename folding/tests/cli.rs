//! The program's command line: exit codes, refusals, files, help.

use crate::common::{Files, capture, code, printed, program, refused, stackfold, text, told};
use serde_json::Value;
use std::process::{Command, Stdio};

const SAMPLE: &str =
    "t 1/2 [000] 1.000001:   7 cpu-clock: \n\t 401136 f (/bin/t)\n\t 401200 main (/bin/t)\n\n";

#[test]
fn fold_is_the_default() {
    for args in [&["-q"][..], &["fold", "-q"], &["-q", "-"], &["fold", "-q", "-"]] {
        let output = stackfold(args, SAMPLE.as_bytes());
        assert_eq!((code(&output), text(&output.stdout)), (0, "t;main;f 7\n".to_owned()), "{args:?}");
        assert_eq!(text(&output.stderr), "");
    }
}

#[test]
fn files_in_and_out() {
    let files = Files::new();
    let (out, counts, stats) = (&files.path("out"), &files.path("counts"), &files.path("stats"));
    let args = [&files.write("in", SAMPLE.repeat(3)), "-o", out, "--counts", counts, "--stats", stats];
    let output = stackfold(&args, b"");
    assert_eq!((code(&output), text(&output.stdout)), (0, String::new()));
    assert_eq!((files.read("out"), files.read("counts")), ("t;main;f 21\n".into(), "t;main;f 3\n".into()));
    let stats: Value = serde_json::from_str(&files.read("stats")).expect("JSON");
    for (key, value) in [
        ("schema", 1.into()),
        ("event", "cpu-clock".into()),
        ("unit", "ns".into()),
        ("samples", 3.into()),
        ("weight", 21.into()),
        ("unique_stacks", 1.into()),
        ("largest_sample_weight", 7.into()),
        ("period_min", 7.into()),
        ("period_max", 7.into()),
        ("truncated_input", Value::Null),
    ] {
        assert_eq!(stats[key], value, "{key}");
    }
    let none = "lost_samples lost_records dropped_lines incomplete_samples incomplete_weight unresolved_weight \
        truncated_chains filtered_samples";
    assert!(none.split(' ').all(|key| stats[key] == 0), "{stats}");
    assert!(text(&output.stderr).contains("stackfold: cpu-clock: 3 samples, weight 21 ns, 1 stacks"));
}

#[test]
fn several_events_are_refused_with_their_list() {
    let message = refused(&[], &capture("two_events.txt"), "several events");
    for part in [
        "  page-faults: 3 samples, weight 83\n",
        "  cpu-clock: 9 samples, weight 18000000\n",
        "--event 'page-faults'",
    ] {
        assert!(message.contains(part), "{part}: {message}");
    }
}

#[test]
fn the_event_not_chosen_is_named_in_the_summary() {
    let (code, said) = told(&["--event", "cpu-clock"], &capture("two_events.txt"));
    assert!(code == 0 && said.contains("left out: page-faults: "), "{said}");
    refused(&["--event", "cycles"], &capture("two_events.txt"), "no sample of the event 'cycles'");
}

#[test]
fn samples_without_period_are_refused_unless_counted() {
    let input = SAMPLE.replace("   7 cpu-clock", "cpu-clock");
    refused(&[], input.as_bytes(), "perf script -F comm,tid,time,period,event,ip,sym,dso");
    assert_eq!(printed(&["-q", "--weight", "count"], input.as_bytes()), "t;main;f 1\n");
}

#[test]
fn options_about_processes_need_processes() {
    let input = SAMPLE.replace("1/2", "2");
    for args in [&["--pid"][..], &["--tid"], &["--only-pid", "2"]] {
        refused(args, input.as_bytes(), "perf script -F +pid");
    }
    assert_eq!(printed(&["-q", "--only-pid", "1", "--tid"], SAMPLE.as_bytes()), "t-1/2;main;f 7\n");
}

#[test]
fn what_filters_leave_out_is_told() {
    let input = SAMPLE.repeat(2)
        + &SAMPLE.replace("1.000001", "2.5").replace("2.5", "2.500000").replace(" f ", " g ");
    for (args, stacks, said) in [
        (&["--time", "1,2"][..], "t;main;f 14\n", "filtered: 1 samples, weight 7\n"),
        (&["--time", "2.5,"], "t;main;g 7\n", "filtered: 2 samples, weight 14\n"),
        (&["--skip-time", "1,2"], "t;main;g 7\n", "filtered: 2 samples, weight 14\n"),
        (&["--skip-time", "2,3", "--skip-time", "0,1"], "t;main;f 14\n", "filtered: 1 samples, weight 7\n"),
        (&["--time", ",2.5", "--from", "g"], "t;g 7\n", "filtered: 2 samples, weight 14\n"),
        (&["--from", "main", "--max-depth", "1"], "t;main 21\n", ""),
        (&["--skip-after", "g"], "t;g 7\nt;main;f 14\n", ""),
        (
            &["--skip-after", "g", "--skip-after", "h"],
            "t;g 7\nt;main;f 14\n",
            "WARNING: no stack has the frame of --skip-after h\n",
        ),
        (&["--dso"], "t;t`main;t`f 14\nt;t`main;t`g 7\n", ""),
    ] {
        let output = stackfold(args, input.as_bytes());
        assert_eq!((code(&output), text(&output.stdout)), (0, stacks.to_owned()), "{args:?}");
        assert!(text(&output.stderr).contains(said), "{args:?}: {}", text(&output.stderr));
        assert_eq!(text(&output.stderr).contains("filtered"), said.contains("filtered"), "{args:?}");
    }
    for args in [&["--time", "3,4"][..], &["--skip-time", "1,3"], &["--from", "h"]] {
        let output = stackfold(args, input.as_bytes());
        assert_eq!((code(&output), text(&output.stdout)), (1, String::new()));
        assert!(text(&output.stderr).contains(&format!("none of the 3 samples passed {}", args[0])));
    }
    let without_time = input.replace("1.000001:", "").replace("2.500000:", "");
    for option in ["--time", "--skip-time"] {
        refused(&[option, "1,2"], without_time.as_bytes(), option);
    }
    refused(&["--time", "2,1"], input.as_bytes(), "2,1");
}

#[test]
fn folded_text_is_filtered_by_what_it_tells() {
    let input = b"my_app;main;f 3\nt;main;g 4\n";
    let out = |args: &[&str]| {
        let output = stackfold(args, input);
        (code(&output), text(&output.stdout))
    };
    assert_eq!(out(&["--comm", "my app"]), (0, "my_app;main;f 3\n".to_owned()));
    assert_eq!(out(&["--from", "g"]), (0, "t;g 4\n".to_owned()));
    assert_eq!(out(&["--max-depth", "1"]), (0, "my_app;main 3\nt;main 4\n".to_owned()));
    assert_eq!(out(&["--comm", "nobody"]), (1, String::new()));
    assert!(told(&["--comm", "nobody"], input).1.contains("none of the weight, 7, passed --comm"));
    for args in [
        &["--time", "1,2"][..],
        &["--skip-time", "1,2"],
        &["--only-pid", "1"],
        &["--tid"],
        &["--event", "cycles"],
        &["--weight", "count"],
        &["--counts", "/dev/null"],
    ] {
        refused(args, input, args[0]);
    }
}

#[test]
fn recursion_keeps_its_outermost_root_and_its_innermost_caller() {
    let input =
        "t 1 1.000001: 7 cycles: \n\t 1 f (/a)\n\t 2 r (/a)\n\t 3 g (/a)\n\t 4 r (/a)\n\t 5 main (/a)\n\n";
    let out = |args: &[&str]| printed(args, input.as_bytes());
    assert_eq!(out(&["--from", "r"]), "t;r;g;r;f 7\n");
    assert_eq!(out(&["--skip-after", "r"]), "t;r;f 7\n");
    assert_eq!(out(&["--skip-after", "r", "--from", "g"]), "t;r;f 7\n");
}

#[test]
fn cut_input_is_folded_and_told() {
    let output = stackfold(&[], &SAMPLE.as_bytes()[..SAMPLE.len() - 8]);
    assert_eq!((code(&output), text(&output.stdout)), (1, "t;f 7\n".to_owned()));
    assert!(text(&output.stderr).contains("WARNING: the input is cut short"));
}

#[test]
fn nothing_in_nothing_measured() {
    // The last is nearly a recording's first word.
    for (input, args, why) in [
        ("", &[][..], "no samples in the input"),
        ("\n\n", &[], "no samples in the input"),
        ("# only comments\n", &[], "no samples in the input"),
        ("PERFILE1 is not the magic\n", &[], "no samples in the input"),
        (SAMPLE, &["--comm", "nobody"], "none of the 1 samples passed"),
    ] {
        let (code, said) = told(args, input.as_bytes());
        assert!(code == 1 && said.contains(why), "{input:?}: {said}");
    }
}

#[test]
fn bad_usage() {
    for args in [
        &["--no-such-option"][..],
        &["/no/such/file"],
        &["categories", "--view", "no"],
        &["categories", "--rules", "/no/such"],
    ] {
        refused(args, SAMPLE.as_bytes(), args[args.len() - 1]);
    }
}

#[test]
fn a_reader_that_goes_away_is_no_failure() {
    let many: String =
        (0..20_000).map(|n| format!("t 1 1.000001:   7 cycles: \n\t 401136 f{n} (/bin/t)\n\n")).collect();
    let folded: String = (0..20_000).map(|n| format!("t;f{n} 1\n")).collect();
    for (args, input) in [(&["-q"][..], &many), (&["categories", "--format", "stacks"], &folded)] {
        let mut command = Command::new(program());
        command.args(args).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("the program starts");
        drop(child.stdout.take());
        std::io::Write::write_all(&mut child.stdin.take().expect("a pipe"), input.as_bytes())
            .expect("input is read");
        let output = child.wait_with_output().expect("the program ends");
        assert_eq!((code(&output), text(&output.stderr)), (0, String::new()), "{args:?}");
    }
}

#[test]
fn counts_join_the_same_stacks() {
    let files = Files::new();
    let counts = files.write("joined", "t;pread 2\nt;g 5\n");
    let args = ["categories", "--counts", &counts, "--format", "stacks"];
    let output = printed(&args, b"t;pread 30\nt;g 10\n");
    assert_eq!(output, "other\t-1\t5\t10\tt;g\nlibc+k\t1\t2\t30\tt;pread\n");
    files.write("joined", "t;pread 2\nt;h 5\n");
    refused(&args, b"t;pread 30\nt;g 10\n", "line 2: the stack is not among the weighted ones: t;h");
}

/// The rest is in golden.rs.
#[test]
fn json_has_the_event_and_the_unit_that_were_told() {
    let args = ["categories", "--format", "json", "--event", "cycles", "--unit", "cycles"];
    let report: Value = serde_json::from_str(&printed(&args, b"t;pread 30\nt;ns::g 10\n")).expect("JSON");
    assert_eq!([&report["event"], &report["unit"]], ["cycles", "cycles"]);
    assert_eq!([&report["queries"], &report["reads"]], [&Value::Null, &Value::Null]);
    assert_eq!(report["other_frames"][0]["frame"], "ns::g");
}

#[test]
fn printed_shares_add_up_to_a_hundred() {
    let table = printed(&["categories"], b"t;pread 1\nt;VerifyBlockChecksum 1\nt;FindFileInRange 1\n");
    let shares: Vec<u32> = table
        .lines()
        .skip(2)
        .take(9)
        .filter_map(|line| line.split_whitespace().nth(1)?.replace('.', "").parse().ok())
        .collect();
    assert_eq!((shares.len(), shares.iter().sum::<u32>()), (9, 10_000), "{table}");
}

#[test]
fn help_begins_with_examples() {
    for args in ["--help", "fold --help", "categories --help", "merge --help", "diff --help", "stats --help"]
    {
        let help = printed(&args.split(' ').collect::<Vec<_>>(), b"");
        assert!(help.starts_with("EXAMPLES\n"), "{args}: {help}");
    }
}

/// Samples of two stacks at 1.0, 1.9, 2.2 and 4.0 s: what a slice holds is what was sampled in it, for any number of
/// threads, and all slices together are the profile.
#[test]
fn slices_are_the_profile_by_time() {
    let sample = |time: &str, period: u32, leaf: &str| {
        format!(
            "t 1/2 [000] {time}:   {period} cpu-clock: \n\t 401136 {leaf} (/bin/t)\n\t 401200 main (/bin/t)\n\n"
        )
    };
    let input = [sample("1.000001", 7, "f"), sample("1.900000", 1, "g"), sample("2.200000", 2, "f")].concat()
        + &sample("1.950000", 3, "f")
        + &sample("4.000000", 5, "g");
    let files = Files::new();
    let (slices, out) = (&files.path("slices"), &files.path("out"));
    for threads in ["1", "3"] {
        printed(&["-q", "--threads", threads, "--slices", slices, "-o", out], input.as_bytes());
        let second = "0\t2\t10\tt;main;f\n0\t1\t1\tt;main;g\n1\t1\t2\tt;main;f\n3\t1\t5\tt;main;g\n";
        assert_eq!(files.read("slices"), second);
        assert_eq!(files.read("out"), "t;main;f 12\nt;main;g 6\n");
    }
    let args = ["-q", "--slices", slices, "--slice-ms", "2000", "--format", "pprof", "-o", out];
    printed(&args, input.as_bytes());
    assert_eq!(
        files.read("slices"),
        "0\t2\t10\tt;main;f\n0\t1\t1\tt;main;g\n1\t1\t2\tt;main;f\n2\t1\t5\tt;main;g\n"
    );
    refused(&["-q", "--slices", slices], b"t;main;f 7\n", "--slices: the input has no time");
}
