//! `--profile`: one file that holds what the other outputs separate.

use crate::common::{Files, capture, printed, refused, stackfold, text};
use serde_json::Value;
use std::collections::BTreeMap;

const CAPTURES: [&str; 2] = ["readrandom_fp.txt", "multireadrandom_fp.txt"];

/// The outputs of one fold.
struct Outputs {
    profile: Value,
    bytes: String,
    slices: String,
}

fn outputs(args: &[&str], input: &[u8]) -> Outputs {
    let files = Files::new();
    let [profile, slices] = &["profile", "slices"].map(|name| files.path(name));
    let named = ["-q", "--kernel", "--profile", profile, "-o", "/dev/null", "--slices", slices];
    printed(&[&named, args].concat(), input);
    let bytes = files.read("profile");
    let profile = serde_json::from_str(&bytes).expect("JSON");
    Outputs { profile, bytes, slices: files.read("slices") }
}

fn numbers(column: &Value) -> Vec<i64> {
    let number = |value: &Value| value.as_i64().expect("a number");
    column.as_array().expect("a column").iter().map(number).collect()
}

fn strings(column: &Value) -> Vec<&str> {
    column.as_array().expect("a column").iter().map(|value| value.as_str().expect("a text")).collect()
}

/// `comm;root;...;leaf` of each stack.
fn stacks(profile: &Value) -> Vec<String> {
    let names = strings(&profile["names"]);
    let frames = numbers(&profile["frames"]["name"]);
    let (depth, frame) = (numbers(&profile["nodes"]["depth"]), numbers(&profile["nodes"]["frame"]));
    let threads = numbers(&profile["threads"]["name"]);
    let place = |(&node, &thread): (&i64, &i64)| {
        // Up the tree: the next node before this one that is one less deep.
        let mut found = Vec::new();
        let mut wanted = if node < 0 { -1 } else { depth[node as usize] };
        for at in (0..=node).rev() {
            if depth[at as usize] == wanted {
                found.push(names[frames[frame[at as usize] as usize] as usize]);
                wanted -= 1;
            }
        }
        found.push(names[threads[thread as usize] as usize]);
        found.reverse();
        found.join(";")
    };
    let columns = &profile["stacks"];
    numbers(&columns["node"]).iter().zip(&numbers(&columns["thread"])).map(place).collect()
}

/// Its stacks and views: tests/folding/test_profile.py.
#[test]
fn its_slices_are_those_of_the_other_output() {
    for name in CAPTURES {
        let Outputs { profile, slices, .. } = outputs(&["--slice-ms", "500"], &capture(name));
        let stacks = stacks(&profile);
        assert_eq!(profile["schema"], 1);
        assert_eq!(
            profile["statistics"]["weight"],
            numbers(&profile["stacks"]["weight"]).iter().sum::<i64>()
        );
        let parts = &profile["slices"];
        let mut by_slice: BTreeMap<(i64, Vec<&str>), (i64, i64)> = BTreeMap::new();
        for (place, stack) in numbers(&parts["stack"]).into_iter().enumerate() {
            let at = |name: &str| numbers(&parts[name])[place];
            let frames = stacks[stack as usize].split(';').collect();
            let sums = by_slice.entry((at("slice"), frames)).or_default();
            *sums = (sums.0 + at("samples"), sums.1 + at("weight"));
        }
        let line = |((slice, frames), (samples, weight)): (&(i64, Vec<&str>), &(i64, i64))| {
            format!("{slice}\t{samples}\t{weight}\t{}\n", frames.join(";"))
        };
        assert_eq!(by_slice.iter().map(line).collect::<String>(), slices, "{name}");
    }
}

#[test]
fn its_bytes_depend_on_the_samples_alone() {
    for name in CAPTURES {
        let input = capture(name);
        let args = ["--rules", "rocksdb", "--slice-ms", "1000"];
        let one = outputs(&[&args[..], &["--threads", "1"]].concat(), &input);
        let three = outputs(&[&args[..], &["--threads", "3"]].concat(), &input);
        assert!(one.bytes == three.bytes, "{name}");
        // The same samples, the last first.
        let input = text(&input);
        let mut samples: Vec<&str> = input.trim().split("\n\n").collect();
        samples.reverse();
        let reversed = outputs(&args, (samples.join("\n\n") + "\n").as_bytes());
        assert!(one.bytes == reversed.bytes, "{name}");
    }
}

#[test]
fn pprof_and_folded_text_with_counts_make_the_same_one() {
    let input = capture(CAPTURES[0]);
    let ours = outputs(&["--rules", "rocksdb"], &input).profile;
    let pprof = stackfold(&["-q", "--kernel", "--format", "pprof"], &input).stdout;
    let files = Files::new();
    let (profile, counts) = (&files.path("profile")[..], &files.path("counts")[..]);
    let made = |args: &[&str], input: &[u8]| -> Value {
        let named = ["-q", "--kernel", "--rules", "rocksdb", "--profile", profile];
        // Nothing but the profile is written where nothing else is asked for.
        assert_eq!(printed(&[&named, args].concat(), input), "");
        serde_json::from_str(&files.read("profile")).expect("JSON")
    };
    let back = made(&[], &pprof);
    for part in ["names", "objects", "frames", "threads", "nodes", "stacks", "views"] {
        assert_eq!(back[part], ours[part], "{part}");
    }
    let folded = stackfold(&["-q", "--kernel"], &input).stdout;
    stackfold(&["-q", "--kernel", "-o", "/dev/null", "--counts", counts], &input);
    let back = made(&["--counts-from", counts], &folded);
    let totals = |profile: &Value| {
        let rows = profile["views"]["leaf"]["report"]["rows"].as_array().expect("rows").clone();
        rows.iter().map(|row| (row["weight"].clone(), row["samples"].clone())).collect::<Vec<_>>()
    };
    assert_eq!(totals(&back), totals(&ours));
    assert_eq!(strings(&back["objects"]), [""]);
}

#[test]
fn views_are_left_out() {
    let input = capture(CAPTURES[0]);
    let views = |options: &[&str]| -> Vec<String> {
        let whole = outputs(&[&["--rules", "rocksdb"], options].concat(), &input).profile;
        whole["views"].as_object().expect("views").keys().cloned().collect()
    };
    let all = views(&[]);
    let fewer = views(&["--without-views", "leaf,none"]);
    assert_eq!(
        all.iter().filter(|view| *view != "leaf").collect::<Vec<_>>(),
        fewer.iter().collect::<Vec<_>>()
    );
    assert_eq!(all.len(), fewer.len() + 1);
}

#[test]
fn what_does_not_go_together_is_refused() {
    for (args, why) in [
        (&["--rules", "rocksdb"][..], "--profile"),
        (&["--profile", "p", "--check"], "--no-inlines"),
        (&["--profile", "p", "--check", "--no-inlines", "--time", "1,2"], "cannot be used with"),
        (&["--profile", "p", "--rules", "rocksdb", "--views", "owner,none"], "no view 'none'"),
        (
            &["--profile", "p", "--rules", "rocksdb", "--views", "owner", "--without-views", "leaf"],
            "cannot be used with",
        ),
        (&["--counts-from", "Cargo.toml"], "for folded text"),
    ] {
        let input = capture(CAPTURES[0]);
        let place = &Files::new().path("p");
        let args: Vec<_> = args.iter().map(|arg| if *arg == "p" { place } else { *arg }).collect();
        refused(&args, &input, why);
    }
}

#[test]
fn a_frame_can_be_a_state_and_an_event_the_count_of_another() {
    let sample = |event: &str, period: u64, leaf: &str, waker: bool| {
        let waker = if waker { "\tffffffff81000009 waker ([kernel.kallsyms])\n" } else { "" };
        format!(
            "app 7/8 [000] 1.000000: {period} {event}:\n{waker}\tffffffff81000003 {leaf} ([kernel.kallsyms])\n\
             \tffffffff81000002 vfs_read ([kernel.kallsyms])\n\t401000 __libc_pread (/lib/c)\n\n"
        )
    };
    let input = [
        sample("off", 500, "[io]", true),
        sample("off", 70, "[io]", true),
        sample("count", 3, "[io]", true),
        sample("off", 9, "[lock]", false),
        sample("count", 1, "[lock]", false),
        sample("off", 4, "other", false),
        sample("count", 1, "other", false),
    ]
    .concat();
    let files = Files::new();
    let args = ["-q", "--kernel", "--event", "off", "--count-event", "count", "--states", "[io],[lock]"];
    let named = ["--rules", "rocksdb", "--profile", &files.path("profile"), &files.write("text", input)];
    printed(&[&args[..], &named].concat(), b"");
    let profile: Value = serde_json::from_str(&files.read("profile")).expect("JSON");
    let columns = &profile["stacks"];
    let rows: Vec<_> = stacks(&profile)
        .into_iter()
        .zip(numbers(&columns["state"]))
        .zip(numbers(&columns["weight"]))
        .zip(numbers(&columns["samples"]))
        .map(|(((stack, state), weight), samples)| (stack, state, weight, samples))
        .collect();
    let below = "app;__libc_pread;vfs_read_[k]";
    assert_eq!(
        rows,
        [
            (below.to_owned(), 1, 9, 1),
            (format!("{below};other_[k]"), -1, 4, 1),
            (format!("{below};waker_[k]"), 0, 570, 3),
        ]
    );
    assert_eq!(profile["statistics"]["samples"], 5);
    // What lies below the state decides nothing: the leaf is vfs_read, not the waker.
    let leaf = &profile["views"]["leaf"];
    let row = |place: usize| {
        let row = numbers(&leaf["row"])[place] as usize;
        leaf["report"]["rows"][row]["name"].as_str().expect("a name").to_owned()
    };
    assert_eq!([row(0), row(2)], ["k:fs", "k:fs"]);
}
