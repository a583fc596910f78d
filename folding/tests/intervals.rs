//! Samples by intervals of threads, as the program is called.

use crate::common::{Files, code, pieces, refused, stackfold, text, told};
use proptest::prelude::*;
use stackfold::intervals::Intervals;

const SAMPLE: &str =
    "t 1/2 [000] 1.000001:   7 cpu-clock: \n\t 401136 f (/bin/t)\n\t 401200 main (/bin/t)\n\n";

#[test]
fn samples_are_weighed_by_the_interval_of_their_thread() {
    let at = |time: &str, frame: &str| SAMPLE.replace("1.000001", time).replace(" f ", &format!(" {frame} "));
    let input = at("1.000000", "f") + &at("1.5", "g").replace("1.5", "1.500000") + &at("2.000000", "h");
    let files = Files::new();
    let file = |name: &str, text: &str| files.write(name, text);
    let slices = files.path("slices");
    // The thread of the samples is 2; an interval does not include its end, and the third one is of another thread.
    let intervals = file("a", "2 1500000000 2000000000 70\n2 0 1500000000 4\n1 0 9000000000 5\n");
    let output = stackfold(&["--intervals", &intervals, "--slices", &slices], input.as_bytes());
    assert_eq!((code(&output), text(&output.stdout)), (0, "t;main;f 7\nt;main;g 7\n".to_owned()));
    assert!(text(&output.stderr).contains("filtered: 1 samples, weight 7\n"));
    assert_eq!(files.read("slices"), "4\t1\t7\tt;main;f\n70\t1\t7\tt;main;g\n");
    for (args, why) in [
        (["--intervals", &file("b", "1 9 8 7\n")], "line 1 ends before it begins"),
        (["--intervals", "/nowhere/intervals"], "cannot read /nowhere/intervals"),
    ] {
        refused(&args, input.as_bytes(), why);
    }
    refused(&["--intervals", &intervals], b"t;main;f 3\n", "--intervals");
    let (_, said) = told(&["--intervals", &file("c", "")], input.as_bytes());
    assert!(said.contains("none of the 3 samples passed --intervals"));
}

proptest! {
    /// A moment has the group of the one interval of its thread that contains it; two that share a moment are refused.
    #[test]
    fn a_moment_is_in_the_interval_that_holds_it(
        given in prop::collection::vec((0..2_u64, 0..30_u64, 0..8_u64), 0..8)
    ) {
        let lines: String = given
            .iter()
            .enumerate()
            .map(|(group, (thread, begin, length))| format!("{thread} {begin} {} {group}\n", begin + length))
            .collect();
        let holds = |&(thread, begin, length): &(u64, u64, u64), of: i64, time: u64| {
            thread as i64 == of && (begin..begin + length).contains(&time)
        };
        let moments = (0..2).flat_map(|thread| (0..40).map(move |time| (thread, time)));
        match lines.parse::<Intervals>() {
            Ok(found) => {
                for (thread, time) in moments {
                    let group = given.iter().position(|one| holds(one, thread, time)).map(|group| group as u64);
                    prop_assert_eq!(found.group(thread, time), group, "{} {}\n{}", thread, time, lines);
                }
            }
            Err(why) => {
                let mut shared = moments.map(|at| given.iter().filter(|one| holds(one, at.0, at.1)).count());
                prop_assert!(shared.any(|count| count > 1), "{}\n{}", why, lines);
            }
        }
    }

    #[test]
    fn any_text_is_intervals_or_refused(text in pieces("0|9|1500000000|99999999999999999999|-|+| |\t|\n|x", 0..40)) {
        let _ = text.parse::<Intervals>();
    }
}
