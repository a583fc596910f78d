//! Costs that callgrind wrote: whose they are, what is refused, and what a damaged file loses.

use crate::common::{self, Files, printed, text, written};
use proptest::prelude::*;
use serde_json::{Value, json};
use stackfold::collector::{Collector, Label, Options, Weight};
use stackfold::error::Error;
use stackfold::input::{Callgrind, Source, looks};
use stackfold::profile::Profile;
use stackfold::stats::Stats;
use std::fmt::Write;

fn read(input: &str, options: Options) -> Result<(Profile, Stats), Error> {
    let mut collector = Collector::new(options);
    Callgrind::default().read(&mut input.as_bytes(), &mut collector)?;
    collector.finish()
}

fn folded(input: &str, options: Options) -> String {
    text(&written(&read(input, options).expect("a file of callgrind").0))
}

fn refused(input: &str, options: Options) -> String {
    read(input, options).err().expect("refused").to_string()
}

fn event(name: &str) -> Options {
    Options { event: Some(name.to_owned()), ..Options::default() }
}

const HEAD: &str = "# callgrind format\nversion: 1\ncreator: callgrind-3.19.0\npid: 42\ncmd:  ./bin/my_bench --num=1\n\
                    part: 1\nthread: 1\n\npositions: line\nevents: Ir Bc Bcm\nsummary: 60 7 2\n\n";

/// `leaf` costs 30 and 20 below two callers, one of them recursive, and `main` 10.
fn file() -> String {
    format!(
        "{HEAD}ob=(1) /lib/librocksdb.so.10\nfl=(1) a.cc\nfn=(1) ns::leaf(int)'ns::one<A>(A&)'main'(below main)\n\
         16 20 5\n+1 10 0 2\nfn=(2) ns::leaf(int)'ns::two()'2'main'(below main)\n* 20\n\n\
         ob=(2) /bin/my_bench\nfn=(3) main'(below main)\n3 10 2\ncfi=(1)\ncob=(1)\ncfn=(1)\ncalls=3 16\n* 30 5 2\n\
         cob=(1)\ncfn=(2)\ncalls=1 -4\n* 20\njump=2 +1\n*\n\ntotals: 60 7 2\n"
    )
}

#[test]
fn a_function_costs_what_it_did_itself_below_its_callers() {
    let whole = "my_bench;(below main);main 10\n\
                 my_bench;(below main);main;ns::one<A>;ns::leaf 30\n\
                 my_bench;(below main);main;ns::two;ns::leaf 20\n";
    assert_eq!(folded(&file(), Options::default()), whole);
    let (_, stats) = read(&file(), Options::default()).expect("whole");
    assert_eq!((stats.weight, &*stats.unit, stats.event.as_deref()), (60, "instructions", Some("Ir")));
    assert_eq!(stats.truncated_input, None);
    assert!(looks::like_callgrind(file().as_bytes()));
    assert!(looks::like_callgrind(b"version: 1\ncreator: callgrind-3.12.0\n"));
    assert!(!looks::like_callgrind(b"version: 1\nmain;f 3\n"));
}

/// `--collect-jumps=yes` names the file and the function that a jump goes to, which may be inlined ones.
#[test]
fn jumps_cost_nothing_and_may_name_a_function_first() {
    let jumps = "jfi=(7) b.h\njfn=(9) ns::inlined()'main'(below main)\njcnd=3/4 +2\n* \njump=2 7\n* \n";
    let input = file()
        .replace("ob=(2)", &format!("{jumps}fn=(9)\n9 7 1\n\nob=(2)"))
        .replace("summary: 60 7 2", "summary: 67 8 2")
        .replace("totals: 60 7 2", "totals: 67 8 2");
    let costs = folded(&file(), Options::default());
    assert_eq!(
        folded(&input, Options::default()),
        costs.replace("main 10\n", "main 10\nmy_bench;(below main);main;ns::inlined 7\n")
    );
}

#[test]
fn each_event_has_its_own_weights_and_zeros_that_were_not_written() {
    assert_eq!(folded(&file(), event("Bcm")), "my_bench;(below main);main;ns::one<A>;ns::leaf 2\n");
    assert_eq!(read(&file(), event("Bc")).expect("counted").1.unit, "Bc");
    assert!(refused(&file(), event("Ge")).contains("no event Ge; counted were Ir, Bc, Bcm, calls"));
}

#[test]
fn threads_and_options_are_those_of_any_input() {
    let tid = Options { label: Label::Tid, ..Options::default() };
    assert!(folded(&file(), tid).starts_with("my_bench-42/1;(below main);main 10\n"));
    let from = Options { from: Some("ns::two".to_owned()), ..Options::default() };
    assert_eq!(folded(&file(), from), "my_bench;ns::two;ns::leaf 20\n");
    for (options, said) in [
        (Options { weight: Weight::Count, ..Options::default() }, "--weight count"),
        (Options { time: Some("1,2".parse().expect("a window")), ..Options::default() }, "--time"),
    ] {
        assert!(refused(&file(), options).contains(said));
    }
}

#[test]
fn an_address_without_a_symbol_is_called_by_its_object() {
    let input = format!(
        "{HEAD}ob=(1) /lib/libz.so.1\nfn=(1) 0x0000000000004a20'0x4000'main\n3 60 7 2\ntotals: 60 7 2\n"
    );
    assert_eq!(folded(&input, Options::default()), "my_bench;main;[unknown];[libz.so.1] 60\n");
}

#[test]
fn parts_add_up_and_have_totals_of_their_own() {
    let second = file().split_once("part: 1").expect("a part").1.to_owned();
    // Names are written once for all parts.
    let second = second.replace("(1) ns::leaf(int)'ns::one<A>(A&)'main'(below main)", "(1)");
    let two = format!("{}part: 2{}", file(), second.replace("thread: 1", "thread: 2"));
    assert_eq!(read(&two, Options::default()).expect("two parts").1.weight, 120);
    let tid = Options { label: Label::Tid, ..Options::default() };
    assert!(folded(&two, tid).contains("my_bench-42/2;(below main);main;ns::one<A>;ns::leaf 30\n"));
}

#[test]
fn instructions_have_two_positions() {
    let input = format!("{HEAD}fn=(1) main\n0x401000 16 20\n+3 * 40 7 2\ntotals: 60 7 2\n")
        .replace("positions: line", "positions: instr line");
    assert_eq!(folded(&input, Options::default()), "my_bench;main 60\n");
}

#[test]
fn what_cannot_be_is_refused_with_its_line() {
    for (from, to, said) in [
        ("totals: 60", "totals: 61", "the costs above add up to 60, not to these totals"),
        ("16 20 5", "16 many 5", "not a number"),
        ("fn=(2) ns::leaf(int)'ns::two()'2'main'(below main)", "fn=(2)", "used before it is written"),
        ("events: Ir Bc Bcm\n", "", "before its events are named"),
        ("fl=(1) a.cc", "nonsense", "neither a cost nor a name"),
    ] {
        let said_now = refused(&file().replacen(from, to, 1), Options::default());
        assert!(said_now.contains(said), "{said_now}");
    }
}

#[test]
fn a_file_that_was_cut_keeps_what_came_before() {
    let file = file();
    let cut = &file[..file.find("totals").expect("totals")];
    let (profile, stats) = read(cut, Options::default()).expect("what came before");
    assert_eq!(profile.total().weight, 60);
    assert!(stats.truncated_input.is_some_and(|why| why.contains("before its totals")));
}

proptest! {
    /// Any costs of any functions come back as their sums; trailing zeros may be written or not.
    #[test]
    fn costs_come_back_as_they_went_in(
        costs in prop::collection::vec((0..5_usize, 0..1_000_000_u64, 0..3_u64, any::<bool>()), 1..60)
    ) {
        let mut input = HEAD.to_owned();
        let mut sums = [0_u64; 5];
        for (number, &(function, instructions, branches, written)) in costs.iter().enumerate() {
            sums[function] += instructions;
            let _ = writeln!(input, "fn=({function}) f{function}'main");
            let branches = if written || branches > 0 { format!(" {branches}") } else { String::new() };
            let _ = writeln!(input, "{number} {instructions}{branches}");
        }
        let _ = writeln!(input, "totals: {}", sums.iter().sum::<u64>());
        let wanted: String = (0..5)
            .filter(|&function| sums[function] > 0)
            .map(|function| format!("my_bench;main;f{function} {}\n", sums[function]))
            .collect();
        prop_assert_eq!(folded(&input, Options::default()), wanted);
    }
}

#[test]
fn calls_are_an_event_of_the_function_that_was_called() {
    let calls =
        "my_bench;(below main);main;ns::one<A>;ns::leaf 3\nmy_bench;(below main);main;ns::two;ns::leaf 1\n";
    assert_eq!(folded(&file(), event("calls")), calls);
    let nobody = file().replace("cfn=(1)\n", "").replace("cfn=(2)\n", "");
    assert!(refused(&nobody, event("calls")).contains("calls before it is named who was called"));
}

#[test]
fn several_events_of_one_read_are_those_of_a_read_each() {
    let events = ["Ir", "calls", "Bcm"];
    let mut collectors = events.map(|name| Collector::new(event(name)));
    Callgrind::default().read_events(&mut file().as_bytes(), &mut collectors).expect("a file of callgrind");
    for (name, collector) in events.iter().zip(collectors) {
        let (profile, stats) = collector.finish().expect("whole");
        assert_eq!(
            (text(&written(&profile)), stats.event.as_deref()),
            (folded(&file(), event(name)), Some(*name))
        );
    }
}

#[test]
fn the_profile_of_another_event_is_written_by_the_same_read() {
    let files = Files::new();
    let (first, calls) = (&files.path("Ir"), format!("calls={}", files.path("calls")));
    printed(&["-q", "--event", "Ir", "--profile", first, "--profile-of", &calls], file().as_bytes());
    for (event, weight) in [("Ir", 60), ("calls", 4)] {
        let written: Value = serde_json::from_str(&files.read(event)).expect("JSON");
        let statistics = &written["statistics"];
        assert_eq!((&statistics["event"], &statistics["weight"]), (&json!(event), &json!(weight)));
    }
    let args = ["--profile", first, "--profile-of", "a=b"];
    common::refused(&args, b"main;f 3\n", "--profile-of is for callgrind's output");
}
