//! merge, diff and stats: sums are kept, events are not mixed.

use crate::common::{Files, capture, code, printed, stackfold, text, told};
use proptest::prelude::*;
use serde_json::Value;
use stackfold::collector::Collector;
use stackfold::diff::{Basis, Diff};
use stackfold::input::{Folded, Source};
use stackfold::profile::Profile;

const ON_CPU: &str =
    "t 1/2 [000] 1.000001:   7 cpu-clock: \n\t 401136 f (/bin/t)\n\t 401200 main (/bin/t)\n\n";

#[test]
fn merge_adds_up_any_inputs() {
    let files = Files::new();
    let folded = files.write("a.folded", b"t;main;f 10\nt;main;g 1\n");
    let pprof = files.write("b.pb.gz", &stackfold(&["-q", "--format", "pprof"], ON_CPU.as_bytes()).stdout);
    let output = stackfold(&["merge", &folded, &pprof, "-"], ON_CPU.as_bytes());
    assert_eq!((code(&output), text(&output.stdout)), (0, "t;main;f 24\nt;main;g 1\n".to_owned()));
    let told = text(&output.stderr);
    assert!(told.starts_with("stackfold: cpu-clock: 2 samples, weight 25 ns, 2 stacks\n"), "{told}");
    let once = stackfold(&["-q", "--format", "pprof"], ON_CPU.as_bytes()).stdout;
    let twice = stackfold(&["merge", "-q", "--format", "pprof", &pprof, "-"], &once);
    assert_eq!(text(&stackfold(&["-q", "--tid"], &twice.stdout).stdout), "t-1/2;main;f 14\n");
}

#[test]
fn different_events_are_neither_added_nor_compared() {
    let files = Files::new();
    let first = files.write("first", ON_CPU.as_bytes());
    let second = files.write("second", ON_CPU.replace("cpu-clock", "page-faults").as_bytes());
    for args in [["merge", &first, &second], ["diff", &first, &second]] {
        let output = stackfold(&args, b"");
        assert_eq!((code(&output), text(&output.stdout)), (2, String::new()), "{args:?}");
        let told = text(&output.stderr);
        assert!(
            told.contains("first: cpu-clock (ns)") && told.contains("second: page-faults (events)"),
            "{told}"
        );
    }
    let counted = stackfold(&["merge", "-q", "--weight", "count", &first, &first], b"");
    assert_eq!(text(&counted.stdout), "t;main;f 2\n");
}

#[test]
fn nothing_to_merge_or_compare() {
    let files = Files::new();
    let (empty, full) = (files.write("empty", b""), files.write("full", b"a;b 1\n"));
    for args in
        [&["merge", &empty][..], &["diff", &empty, &full], &["diff", &full, &empty], &["stats", &empty]]
    {
        assert_eq!(told(args, b"").0, 1, "{args:?}");
    }
    for args in [
        &["merge"][..],
        &["diff", &full],
        &["diff", &full, &full, "--per", "0,1"],
        &["diff", &full, &full, "--per", "1"],
    ] {
        assert_eq!(told(args, b"").0, 2, "{args:?}");
    }
}

#[test]
fn diff_scales_the_first_and_keeps_what_vanished_and_what_is_new() {
    let files = Files::new();
    let before = files.write("before", b"t;main;f 30\nt;main;gone 10\nt;main;f;f 20\n");
    let after = files.write("after", b"t;main;f 60\nt;main;new 40\nt;main;f;f 20\n");
    let out = |args: &[&str]| printed(&[&["diff", &before, &after], args].concat(), b"");
    assert_eq!(out(&[]), "t;main;f 60 60\nt;main;f;f 40 20\nt;main;gone 20 0\nt;main;new 0 40\n");
    assert_eq!(out(&["--raw"]), "t;main;f 30 60\nt;main;f;f 20 20\nt;main;gone 10 0\nt;main;new 0 40\n");
    assert_eq!(
        out(&["--per", "10,5"]),
        "t;main;f 15 60\nt;main;f;f 10 20\nt;main;gone 5 0\nt;main;new 0 40\n"
    );

    let report: Value = serde_json::from_str(&out(&["--format", "json", "--per", "10,5"])).expect("JSON");
    for (key, value) in [
        ("schema", 1.into()),
        ("basis", "operations".into()),
        ("operations", serde_json::json!([10, 5])),
        ("weight", serde_json::json!([60, 120])),
        ("vanished_stacks", serde_json::json!({"stacks": 1, "weight": 10})),
        ("new_stacks", serde_json::json!({"stacks": 1, "weight": 40})),
    ] {
        assert_eq!(report[key], value, "{key}");
    }
    let frame = |name: &str| {
        let frames = report["frames"].as_array().expect("frames");
        frames.iter().find(|frame| frame["frame"] == name).expect("the frame").clone()
    };
    let change = |wb: u32, wa: u32, b: f64, a: f64| serde_json::json!({"weight_before": wb, "weight_after": wa, "before": b, "after": a, "delta": a - b});
    assert_eq!(frame("f")["self"], change(50, 80, 5.0, 16.0));
    assert_eq!(frame("f")["total"], change(50, 80, 5.0, 16.0));
    assert_eq!(frame("main")["self"], change(0, 0, 0.0, 0.0));
    assert_eq!(frame("main")["total"], change(60, 120, 6.0, 24.0));
    assert_eq!(report["frames"][0]["frame"], "f");
    assert_eq!(
        out(&["--format", "table", "--top", "2"]),
        "weight 60 before, 120 after (unstated); columns in % of each recording's weight\n\
         1 stacks vanished (weight 10), 1 are new (weight 40)\n\
         \n\
         \u{20} delta  before   after  self\n\
         +33.333   0.000  33.333  new\n\
         -16.667  83.333  66.667  f\n\
         \n\
         \u{20} delta  before   after  total\n\
         +33.333   0.000  33.333  new\n\
         -16.667  83.333  66.667  f\n"
    );
}

#[test]
fn stats_are_those_of_fold() {
    let files = Files::new();
    let input = capture("readrandom_fp.txt");
    let path = files.write("fold.json", b"");
    let fold = stackfold(&["--stats", &path], &input);
    let json = stackfold(&["stats", "--format", "json", "--threads", "2"], &input);
    assert_eq!(text(&json.stdout), files.read("fold.json"));
    assert_eq!(text(&stackfold(&["stats"], &input).stdout), text(&fold.stderr));
    let folded = stackfold(&["stats", "--format", "json"], &fold.stdout);
    let stats: Value = serde_json::from_slice(&folded.stdout).expect("JSON");
    let told: Value = serde_json::from_slice(&json.stdout).expect("JSON");
    assert_eq!((&stats["weight"], &stats["unique_stacks"]), (&told["weight"], &told["unique_stacks"]));
    assert_eq!((&stats["event"], &stats["unit"]), (&Value::Null, &"unstated".into()));
}

fn profile(stacks: &[(Vec<u8>, u64)]) -> Profile {
    let mut collector = Collector::default();
    let line = |(stack, weight): &(Vec<u8>, u64)| {
        let names: Vec<String> = stack.iter().map(|frame| format!("f{}", frame % 5)).collect();
        format!("{} {weight}\n", names.join(";"))
    };
    let input: String = stacks.iter().map(line).collect();
    Folded.read(&mut input.as_bytes(), &mut collector).expect("well-formed");
    collector.finish().expect("unambiguous").0
}

fn stacks() -> impl Strategy<Value = Vec<(Vec<u8>, u64)>> {
    prop::collection::vec((prop::collection::vec(any::<u8>(), 1..6), 1_u64..1 << 50), 1..30)
}

proptest! {
    #[test]
    fn merged_weight_is_the_sum(many in prop::collection::vec(stacks(), 1..5)) {
        let mut merged = Profile::default();
        let mut weight = 0;
        for one in &many {
            let one = profile(one);
            weight += one.total().weight;
            merged.absorb(&one);
        }
        prop_assert_eq!(merged.total().weight, weight);
        let all = profile(&many.concat());
        prop_assert_eq!(merged.stacks(), all.stacks());
    }

    #[test]
    fn differences_add_up(before in stacks(), after in stacks(), per in prop::option::of((1_u64..1 << 40, 1_u64..1 << 40)), raw in any::<bool>()) {
        let (before, after) = (profile(&before), profile(&after));
        let (a, b) = (before.total().weight, after.total().weight);
        let diff = Diff::new(&before, &after, per, raw);
        let rows = diff.rows();
        let scaled = match diff.basis {
            Basis::Weight => b,
            Basis::None => a,
            Basis::Operations => { let (n, m) = per.expect("given"); a * u128::from(m) / u128::from(n) }
        };
        prop_assert_eq!(rows.iter().map(|row| row.1).sum::<u128>(), scaled);
        prop_assert_eq!(rows.iter().map(|row| row.2).sum::<u128>(), b);
        let frames = diff.frames();
        prop_assert_eq!(frames.iter().map(|frame| frame.self_before).sum::<u128>(), a);
        prop_assert_eq!(frames.iter().map(|frame| frame.self_after).sum::<u128>(), b);
        prop_assert!(frames.iter().all(|f| f.self_before <= f.total_before && f.total_before <= a && f.total_after <= b));
        let [gone, new] = diff.only();
        let both = |mine: &[u128], other: &[u128]| mine.iter().zip(other).filter(|(_, o)| **o > 0).map(|(m, _)| m).sum::<u128>();
        prop_assert_eq!(gone.1 + both(&diff.before, &diff.after), a);
        prop_assert_eq!(new.1 + both(&diff.after, &diff.before), b);
    }
}
