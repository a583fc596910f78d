//! `diff --runs`: what differs is told, what does not is not, and names of two builds find each other.

mod common;

use common::{code, stackfold, text};
use serde_json::{Value, json};
use stackfold::compare::FrameComparison;
use stackfold::compare::explain::Explanation;
use stackfold::compare::matching::{MatchRule, Matching};
use stackfold::compare::runs::{Cell, NONE, Run, Side, Stack};
use std::path::Path;

const ALL_RULES: [MatchRule; 5] =
    [MatchRule::Canonical, MatchRule::Alias, MatchRule::Thread, MatchRule::Similar, MatchRule::Callees];

/// splitmix64, and from it what the simulations draw.
struct Dice(u64);

impl Dice {
    fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn part(&mut self) -> f64 {
        (self.number() >> 11) as f64 / (1_u64 << 53) as f64
    }

    fn normal(&mut self) -> f64 {
        (0..12).map(|_| self.part()).sum::<f64>() - 6.0
    }

    fn poisson(&mut self, mean: f64) -> u64 {
        if mean > 30.0 {
            return (mean + mean.sqrt() * self.normal()).max(0.0).round() as u64;
        }
        let (end, mut product, mut count) = ((-mean).exp(), self.part(), 0);
        while product > end {
            product *= self.part();
            count += 1;
        }
        count
    }
}

/// A program: frames with the one above each, and the samples a second of those that end there.
struct Program {
    parent: Vec<u32>,
    rate: Vec<f64>,
}

const SECONDS: u32 = 10;

impl Program {
    /// 120 frames, of which the lightest are seen once in a while.
    fn random(dice: &mut Dice) -> Self {
        let parent =
            (0..120).map(|node| if node == 0 { NONE } else { (dice.number() % node) as u32 }).collect();
        let rate = (0..120).map(|_| 0.02 * (8.0 * dice.part()).exp() / 8.0).collect();
        Self { parent, rate }
    }

    /// A session: all frames dearer by a common effect, each by one of its own; in a second, all by how busy it was.
    fn session(&self, dice: &mut Dice, matching: &mut Matching, side: usize, effect: f64) -> Vec<Run> {
        let object = matching.object("(program)");
        let thread = matching.thread(side, "t");
        let key =
            (0..self.parent.len()).map(|node| matching.frame(side, &format!("f{node}"), object)).collect();
        let common = 1.0 + effect * dice.normal();
        // Every tenth is a matter of chance, as interrupts are: half or twice as much in another session.
        let own = |node: usize, dice: &mut Dice| match node % 10 {
            9 => (20.0 * effect * dice.normal()).exp(),
            _ => (1.0 + effect * dice.normal()).max(0.0),
        };
        let costs: Vec<f64> =
            self.rate.iter().enumerate().map(|(node, rate)| rate * common * own(node, dice)).collect();
        let (mut slices, mut samples) = (Vec::new(), vec![0; costs.len()]);
        for slice in 0..SECONDS {
            let busy = 1.0 + 0.5 * (dice.part() - 0.5);
            for (stack, cost) in costs.iter().enumerate() {
                let seen = dice.poisson(cost * busy);
                samples[stack] += seen;
                if seen > 0 {
                    slices.push(Cell { slice, stack: stack as u32, weight: seen as f64 * 1e6 });
                }
            }
        }
        let stack = |(node, &samples): (usize, &u64)| Stack {
            thread,
            node: node as u32,
            weight: samples as f64 * 1e6,
            samples,
        };
        vec![Run {
            parent: self.parent.clone(),
            key,
            object: vec![object; self.parent.len()],
            inlined: vec![false; self.parent.len()],
            stacks: samples.iter().enumerate().map(stack).collect(),
            slices,
            slice_count: SECONDS,
            queries: 100_000.0,
            us: 1e-3,
            weight: samples.iter().sum::<u64>() as f64 * 1e6,
            samples: samples.iter().sum(),
        }]
    }
}

fn compared(
    before: &Program,
    after: &Program,
    sessions: usize,
    effect: f64,
    dice: &mut Dice,
) -> FrameComparison {
    let mut matching = Matching::new(Vec::new(), &[], &ALL_RULES);
    let mut side = |number: usize, program: &Program| Side {
        name: ["A", "B"][number].to_owned(),
        sessions: (0..sessions).map(|_| program.session(dice, &mut matching, number, effect)).collect(),
        event: None,
        unit: "ns".to_owned(),
    };
    let sides = [side(0, before), side(1, after)];
    FrameComparison::of(sides, matching)
}

fn different(comparison: &FrameComparison) -> usize {
    (0..comparison.tree.len() as u32).filter(|&node| comparison.inference.is_different(node)).count()
}

#[test]
fn the_same_against_itself_has_no_different_frame_in_95_of_100() {
    const TIMES: usize = 100;
    // One session a side knows nothing of the others: less than what is then assumed must stay quiet too.
    for (sessions, effect) in [(4, 0.03), (8, 0.0), (6, 0.1), (1, 0.04)] {
        let mut dice = Dice(sessions as u64);
        let alarms = (0..TIMES)
            .filter(|_| {
                let program = Program::random(&mut dice);
                different(&compared(&program, &program, sessions, effect, &mut dice)) > 0
            })
            .count();
        // 5 % are 5; 12 are as many as chance gives less than once in a hundred times.
        assert!(alarms <= 12, "{alarms} of {TIMES} with {sessions} sessions, effect {effect}");
    }
}

#[test]
fn a_frame_that_costs_more_is_found_and_named() {
    let mut dice = Dice(7);
    let mut before = Program::random(&mut dice);
    before.rate[40] = 80.0;
    let mut after = Program { parent: before.parent.clone(), rate: before.rate.clone() };
    after.rate[40] *= 1.5;
    let found = compared(&before, &after, 6, 0.02, &mut dice);
    let explained = Explanation::new(&found.tree, &found.inference);
    let named: Vec<&str> =
        explained.lines.iter().map(|line| found.matching.shown(found.tree.key[line.node as usize])).collect();
    assert_eq!(named, ["f40"]);
    let figure = found.inference.node(explained.lines[0].node);
    let wanted = 40.0 * f64::from(SECONDS) * 1e3 / 100_000.0;
    assert!((figure.delta() - wanted).abs() < figure.half, "{figure:?} {wanted}");
    assert!(explained.moved.is_empty());
}

/// Folded stacks as a profile of ten seconds, all alike.
fn profile(directory: &Path, name: &str, stacks: &[(&str, &str, u64)]) -> String {
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
    let path = directory.join(name);
    let path = path.to_str().expect("a path").to_owned();
    let done = stackfold(
        &["-q", "--kernel", "--all-annotations", "--slice-ms", "1000", "--profile", &path],
        script.as_bytes(),
    );
    assert_eq!(code(&done), 0, "{}", text(&done.stderr));
    path
}

/// What a comparison of two profiles says; each side is one session of 1,000 queries.
fn diff(before: &[(&str, &str, u64)], after: &[(&str, &str, u64)], options: &[&str], more: Value) -> Value {
    let directory = tempfile::tempdir().expect("a directory");
    let side = |name: &str, stacks| {
        json!({"name": name, "runs": (0..4).map(|session| json!({
        "profile": profile(directory.path(), &format!("{name}{session}"), stacks), "queries": 1000
    })).collect::<Vec<_>>()})
    };
    let mut request = json!({"schema": 1, "sides": [side("A", before), side("B", after)]});
    request.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
    let path = directory.path().join("request.json");
    std::fs::write(&path, request.to_string()).expect("writing");
    let done = stackfold(&[&["diff", "--runs", path.to_str().expect("a path")], options].concat(), b"");
    assert_eq!(code(&done), 0, "{}", text(&done.stderr));
    serde_json::from_slice(&done.stdout).expect("JSON")
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
    let directory = tempfile::tempdir().expect("a directory");
    let aliases = directory.path().join("aliases.toml");
    std::fs::write(&aliases, "[[same]]\nname = 'eng::ReadBlock'\naliases = ['eng::ReadBlockContents']\n")
        .expect("writing");
    let more = json!({"aliases": [aliases.to_str()]});
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
fn a_request_that_cannot_be_served_says_why() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("request.json");
    let profile = profile(directory.path(), "p", &[("main", LIB, 2)]);
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
        std::fs::write(&path, request.to_string()).expect("writing");
        let done = stackfold(&["diff", "--runs", path.to_str().expect("a path")], b"");
        assert_eq!(code(&done), 2);
        assert!(text(&done.stderr).contains(words), "{}", text(&done.stderr));
    }
}
