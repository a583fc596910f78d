//! Against the real perf: `cargo test --test perf -- --ignored`, where `perf record` is allowed.

mod common;

use common::{stackfold, text};
use std::path::PathBuf;
use std::process::Command;

fn perf(args: &[&str]) -> Vec<u8> {
    let output = Command::new("perf").args(args).output().expect("perf is there");
    assert!(output.status.success(), "perf {args:?}: {}", text(&output.stderr));
    output.stdout
}

/// The sum of the self periods that perf itself reports.
fn reported(data: &str) -> u128 {
    let args = [
        "report",
        "-i",
        data,
        "--no-inline",
        "--no-children",
        "--stdio",
        "-g",
        "none",
        "-F",
        "period,sym",
        "-t",
        "|",
    ];
    let report = text(&perf(&args));
    let period = |line: &str| line.split('|').next()?.trim().parse::<u128>().ok();
    report.lines().filter(|line| !line.starts_with('#')).filter_map(period).sum()
}

#[test]
#[ignore = "needs perf and the right to record"]
fn the_total_is_the_one_perf_reports() {
    let data = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("{}.perf.data", std::process::id()));
    let data = data.to_str().expect("a path of text");
    for event in ["cpu-clock", "page-faults"] {
        let busy = [
            "sh",
            "-c",
            "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done; ls -R /usr/share/doc > /dev/null",
        ];
        perf(&[&["record", "-q", "-e", event, "-F", "999", "-g", "-o", data, "--"][..], &busy].concat());
        let script = perf(&["script", "--no-inline", "-i", data]);
        let folded = stackfold(&["-q"], &script);
        let total: u128 = text(&folded.stdout)
            .lines()
            .filter_map(|line| line.rsplit_once(' ')?.1.parse::<u128>().ok())
            .sum();
        assert!(total > 0, "{event}: nothing recorded");
        assert_eq!(total, reported(data), "{event}");
        let _ = std::fs::remove_file(data);
    }
}
