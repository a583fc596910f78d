//! Lines and sums that are larger than one expects.

use crate::common::{Files, code, printed, refused, stackfold, text, told};
use serde_json::Value;

/// Some hundred frames of a program full of templates: what is written is read again, whatever its length.
#[test]
fn stacks_of_any_length_come_back() {
    let frame = "x".repeat(4_000);
    let chain: String = (0..300).map(|n| format!("\t {:x} f{n}{frame} (/bin/t)\n", 4096 + n)).collect();
    let short = "t 1 1.000001: 5 cycles: \n\t 1 g (/bin/t)\n\n";
    let folded = stackfold(&["-q"], format!("{short}t 1 1.000001: 7 cycles: \n{chain}\n").as_bytes());
    assert_eq!(code(&folded), 0);
    assert!(folded.stdout.len() > 1 << 20);
    for args in [&["-q"][..], &["-q", "--input-format", "folded"]] {
        let again = stackfold(args, &folded.stdout);
        assert!(again.stdout == folded.stdout, "{args:?}: {}", text(&again.stderr));
    }
    let files = Files::new();
    let counts = files.write("counts", &folded.stdout);
    let report = printed(&["categories", "--format", "json", "--counts", &counts], &folded.stdout);
    let report: Value = serde_json::from_str(&report).expect("JSON");
    assert_eq!((&report["total_weight"], &report["total_samples"]), (&12.into(), &12.into()));
}

#[test]
fn a_line_of_text_that_had_to_be_cut_is_reported() {
    let long = "x".repeat(3 << 20);
    let input = format!("t 1 1.000001: 7 cycles: \n\t 1 {long} (/bin/t)\n\t 2 main (/bin/t)\n\n");
    for threads in ["1", "3"] {
        let (_, said) = told(&["--threads", threads], input.as_bytes());
        assert!(said.contains("WARNING: 1 lines not understood"), "{said}");
    }
}

const LARGEST: &str = "340282366920938463463374607431768211455";

#[test]
fn sums_that_cannot_be_counted_are_refused() {
    let files = Files::new();
    let both = format!("t;f {LARGEST}\nt;g 1\n");
    for args in [&["-q"][..], &["categories"], &["--comm", "nobody"]] {
        refused(args, both.as_bytes(), "add up to 2^128");
    }
    // One less fits.
    let fits = stackfold(&["-q"], both.replace("455\n", "454\n").as_bytes());
    assert_eq!((code(&fits), fits.stdout.len()), (0, both.len()));
    let counts = files.write("counts", "t;f 18446744073709551615\nt;g 1\n");
    let why = "line 2: the numbers of samples add up to 2^64";
    refused(&["categories", "--counts", &counts], b"t;f 1\nt;g 1\n", why);
}

/// perf script expands inlined functions, which the kernel recorded no frame of.
#[test]
fn chains_as_long_as_the_kernel_records_are_counted() {
    let sample = |inlined, depth| {
        let (inlined, frames) =
            ("\t 401136 g (inlined)\n".repeat(inlined), "\t 401136 f (/bin/t)\n".repeat(depth));
        format!("t 1 1.000001: 7 cycles: \n{inlined}{frames}\n")
    };
    let input = [sample(0, 126), sample(0, 127), sample(0, 128), sample(9, 120), sample(2, 127)].concat();
    let report = printed(&["-q", "--stats", "/dev/stdout", "-o", "/dev/null"], input.as_bytes());
    let report: Value = serde_json::from_str(&report).expect("JSON");
    assert_eq!(report["truncated_chains"], 3);
}
