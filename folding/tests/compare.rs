//! `diff --runs`: names of two builds are matched, and what one side cannot show is no difference.

use crate::common::{Files, printed, refused};
use serde_json::{Value, json};

/// Folded stacks as a profile of ten seconds, all alike.
fn profile(files: &Files, name: &str, stacks: &[(&str, &str, u64)]) -> String {
    let mut script = String::new();
    for second in 0..10 {
        for (frames, object, samples) in stacks {
            for sample in 0..*samples {
                script += &format!("prog 1/1 [000] {second}.{sample:06}:   1000000 cpu-clock: \n");
                for frame in frames.split(';').rev() {
                    let dso = if frame.ends_with("_[k]") { "[kernel.kallsyms]" } else { object };
                    let frame = frame.trim_end_matches("_[k]");
                    let (frame, dso) = match frame.strip_suffix("_[i]") {
                        Some(frame) => (frame, "inlined"),
                        None => (frame, dso),
                    };
                    script += &format!("\t 401136 {frame} ({dso})\n");
                }
                script.push('\n');
            }
        }
    }
    let path = files.path(name);
    let options = ["-q", "--kernel", "--all-annotations", "--slice-ms", "1000", "--profile", &path];
    printed(&options, script.as_bytes());
    path
}

/// What a comparison of two profiles says; each side is one session of 1,000 queries.
fn diff(before: &[(&str, &str, u64)], after: &[(&str, &str, u64)], options: &[&str], more: Value) -> Value {
    let files = Files::new();
    let side = |name: &str, stacks| {
        let run = |session| json!({"profile": profile(&files, &format!("{name}{session}"), stacks), "queries": 1000});
        json!({"name": name, "runs": (0..4).map(run).collect::<Vec<_>>()})
    };
    let mut request = json!({"schema": 1, "sides": [side("A", before), side("B", after)]});
    request.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
    answer(&files, &request, options)
}

fn answer(files: &Files, request: &Value, options: &[&str]) -> Value {
    let path = files.write("request.json", request.to_string());
    serde_json::from_str(&printed(&[&["diff", "--runs", &path], options].concat(), b"")).expect("JSON")
}

/// Rule, name before and name after of each match.
fn matches(found: &Value) -> Vec<(String, String, String)> {
    let text = |value: &Value| value.as_str().expect("a text").to_owned();
    let rows = found["matches"].as_array().expect("matches").iter();
    rows.map(|row| (text(&row["rule"]), text(&row["before"]), text(&row["after"]))).collect()
}

fn different_names(found: &Value) -> Vec<String> {
    let nodes = &found["nodes"];
    let different = nodes["different"].as_array().expect("a column").iter().enumerate();
    let name = |place: usize| {
        let number = nodes["name"][place].as_u64().expect("a number") as usize;
        found["names"][number].as_str().expect("a name").to_owned()
    };
    different.filter(|(_, is)| **is == 1).map(|(place, _)| name(place)).collect()
}

const LIB: &str = "/a/libeng.so.1.2";

#[test]
fn spellings_aliases_and_guesses_join_names_by_their_rule() {
    let before = [
        ("main;eng::Table::Get(int);eng::ReadBlock;pread;entry_SYSCALL_64_after_hwframe_[k]", LIB, 20),
        ("main;eng::Table::Get(int);eng::hash_block.isra.0", LIB, 20),
        ("main;eng::Table::Get(int);eng::OldCache::Lookup;memcpy", LIB, 20),
        ("main;eng::Table::Get(int);decode;memcmp", LIB, 20),
    ];
    let after = [
        (
            "main;eng::Table::Get(long);eng::ReadBlockContents;pread;entry_SYSCALL_64_[k]",
            "/b/libeng.so.1.3",
            20,
        ),
        ("main;eng::Table::Get(long);eng::hash_blocks", "/b/libeng.so.1.3", 20),
        ("main;eng::Table::Get(long);eng::NewCache::Lookup;memcpy", "/b/libeng.so.1.3", 20),
        ("main;eng::Table::Get(long);entirely_other;memcmp", "/b/libeng.so.1.3", 20),
    ];
    let same = "[[same]]\nname = 'eng::ReadBlock'\naliases = ['eng::ReadBlockContents']\n";
    let files = Files::new();
    let more = json!({"aliases": [files.write("aliases.toml", same)]});
    let found = diff(&before, &after, &[], more.clone());
    let wanted = [
        ("canonical", "entry_SYSCALL_64_after_hwframe_[k]", "entry_SYSCALL_64_[k]"),
        ("alias", "eng::ReadBlock", "eng::ReadBlockContents"),
        ("similar", "eng::OldCache::Lookup", "eng::NewCache::Lookup"),
        ("similar", "eng::hash_block.isra.0", "eng::hash_blocks"),
        ("callees", "decode", "entirely_other"),
    ];
    let wanted: Vec<_> =
        wanted.iter().map(|(r, a, b)| (r.to_string(), a.to_string(), b.to_string())).collect();
    assert_eq!(matches(&found), wanted);
    assert_eq!(different_names(&found), [""; 0]);
    // Each can be undone: by rule, and by name.
    let exact = diff(&before, &after, &["--exact"], more.clone());
    assert!(different_names(&exact).contains(&"eng::ReadBlock".to_owned()), "{exact}");
    let apart = diff(&before, &after, &[], json!({"aliases": more["aliases"], "apart": ["decode"]}));
    assert_eq!(matches(&apart), wanted[..4]);
    assert!(different_names(&apart).contains(&"decode".to_owned()));
    let moved = &apart["moved"][0];
    assert_eq!((&moved["losing"], &moved["gaining"]), (&json!(["decode"]), &json!(["entirely_other"])));
}

#[test]
fn what_one_side_inlined_is_no_difference_and_what_is_new_is() {
    let named = [("main;run;work;leaf", LIB, 30), ("main;run;work", LIB, 20), ("main;run", LIB, 20)];
    let inlined = [("main;run;leaf", LIB, 30), ("main;run", LIB, 40)];
    let found = diff(&named, &inlined, &[], json!({}));
    assert_eq!(different_names(&found), [""; 0]);
    let level = &found["levels"][0];
    assert_eq!((&level["below"], &level["why"]), (&json!("run"), &json!("inlined differently")));
    // With debug information the inlined frame has its name, and is that frame.
    let told = [("main;run;work_[i];leaf", LIB, 30), ("main;run;work_[i]", LIB, 20), ("main;run", LIB, 20)];
    let found = diff(&named, &told, &[], json!({}));
    assert_eq!((different_names(&found), &found["levels"]), (vec![], &json!([])));
    let new = [
        ("main;run;work;leaf", LIB, 30),
        ("main;run;work", LIB, 20),
        ("main;run", LIB, 20),
        ("main;run;spin", LIB, 40),
    ];
    let found = diff(&named, &new, &[], json!({}));
    let line = &found["explanation"][0];
    assert_eq!((&line["name"], &line["seen"]), (&json!("spin"), &json!("new")));
    assert_eq!((&line["delta"], &line["of"]), (&json!(400.0), &json!(400.0)));
}

#[test]
fn where_one_side_has_no_names_the_rest_is_compared() {
    let named = [
        ("__libc_start_main;main;run;work;pread;vfs_read_[k]", "/a/prog", 40),
        ("__libc_start_main;main;run;work", "/a/prog", 40),
    ];
    let stripped = [
        ("__libc_start_main;[prog];[prog];[prog];pread;vfs_read_[k]", "/b/prog", 40),
        ("__libc_start_main;[prog];[prog];[prog]", "/b/prog", 40),
    ];
    let found = diff(&named, &stripped, &[], json!({}));
    assert_eq!(different_names(&found), [""; 0], "{found}");
    assert_eq!(found["levels"][0]["why"], "one side has no names");
    assert_eq!((&found["levels"][0]["before"], &found["levels"][0]["after"]), (&json!(800.0), &json!(800.0)));
}

#[test]
fn states_of_threads_are_told_apart_though_their_brackets_look_like_code_without_names() {
    let before = [("main;read;[io]", 40), ("main;read;[libeng.so.1]", 20), ("main;[woken by]", 40)];
    let after = [("main;read;[lock]", 40), ("main;read;[unknown]", 20), ("main;[waker db_bench]", 40)];
    let files = Files::new();
    let run = |name: &str, stacks: &[(&str, u64)]| {
        let path = files.path(name);
        let input: String = stacks.iter().map(|(stack, weight)| format!("t;{stack} {weight}\n")).collect();
        printed(&["-q", "--profile", &path], input.as_bytes());
        json!({"name": name, "runs": [{"profile": path, "queries": 1, "us_per_query": 100}]})
    };
    let sides = [run("A", &before), run("B", &after)];
    let found = answer(&files, &json!({"schema": 1, "sides": sides, "intervals": "shares"}), &[]);
    let mut different = different_names(&found);
    different.sort();
    assert_eq!(different, ["[io]", "[lock]", "[waker db_bench]", "[woken by]"], "{found}");
    assert_eq!((matches(&found), &found["levels"]), (vec![], &json!([])));
}

#[test]
fn a_request_that_cannot_be_served_says_why() {
    let files = Files::new();
    let path = files.path("request.json");
    let profile = profile(&files, "p", &[("main", LIB, 2)]);
    let one = |run: Value| json!({"schema": 1, "sides": [{"name": "A", "runs": [run]}, {"name": "B", "runs": [run]}]});
    for (request, words) in [
        (
            json!({"schema": 2, "sides": [{"name": "A", "runs": []}, {"name": "B", "runs": []}]}),
            "has schema 2",
        ),
        (
            json!({"schema": 1, "sides": [{"name": "A", "runs": []}, {"name": "B", "runs": []}]}),
            "no profile is given",
        ),
        (one(json!({"profile": profile, "queries": 0})), "no cost of a query"),
        (one(json!({"profile": "gone", "queries": 1})), "cannot be read"),
        (one(json!({"profile": profile, "queries": 1, "query": 2})), "unknown field"),
        (one(json!({"profile": path, "queries": 1})), "is no profile"),
    ] {
        files.write("request.json", request.to_string());
        refused(&["diff", "--runs", &path], b"", words);
    }
}
