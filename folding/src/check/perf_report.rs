//! perf's own account: self periods by symbol, as `perf report` prints them.

use super::account::{Account, Detail};
use crate::error::Error;
use crate::regular;
use crate::terminal;
use perfdata::reader::header::Header;
use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

/// What perf report says of a recording.
#[derive(Debug, PartialEq, Eq)]
pub struct PerfReport {
    /// With totals alone all symbols are one.
    pub(super) detail: Detail,
    pub(super) accounts: BTreeMap<String, Account>,
    /// Of the whole recording.
    pub lost_samples: u64,
}

/// Runs perf report, and adds up its rows for some processes or all.
pub fn ask(recording: &Path, only_pids: &[i64], detail: Detail) -> Result<PerfReport, Error> {
    let mut perf = Command::new("perf");
    perf.args(["report", "-i"]).arg(recording);
    perf.args(["--no-inline", "--no-children", "--stdio", "-g", "none", "-F", "period,pid,sym", "-t", "|"]);
    perf.args(["--percent-limit", "0", "--no-group"]).env("LC_ALL", "C").env("PERF_CONFIG", "/dev/null");
    // Samples, and not their branches, nor what perf makes of a trace of the processor's.
    perf.args(["--no-branch-stack", "--no-itrace"]);
    if detail == Detail::Totals {
        // No file is below it, so that no symbol is looked for: the rows are addresses.
        perf.args(["--symfs", "/dev/null"]);
    }
    // perf filters rows, not samples. What it calls pid in a row is the thread, so that each row is of one process.
    if !only_pids.is_empty() {
        perf.args(["--pid", &only_pids.iter().map(i64::to_string).collect::<Vec<_>>().join(",")]);
    }
    let output = perf
        .output()
        .map_err(|error| Error::usage(format!("perf report cannot be run: {error}; install linux-perf")))?;
    let report = parse(&String::from_utf8_lossy(&output.stdout), detail);
    let words = String::from_utf8_lossy(&output.stderr);
    // It exits with 0 as well where it gave up on the records; a recording without samples is no failure.
    let refused = report.accounts.is_empty() && !words.contains("has no samples");
    if refused || !output.status.success() {
        let older = older_perf(recording).map_or(String::new(), |why| format!("\n{why}"));
        return Err(Error::usage(format!("perf report failed: {}{older}", words.trim())));
    }
    Ok(report)
}

/// Why this machine's perf may not understand a recording: a later one wrote it.
pub fn older_perf(recording: &Path) -> Option<String> {
    let mut header = Header::default();
    // What its header says, whether all of it can be read or not.
    let _ = header.read_file(&mut regular::open(recording).ok()?);
    let recorded = String::from_utf8_lossy(&header.perf_version).into_owned();
    let output = Command::new("perf").arg("--version").output().ok()?;
    let own = String::from_utf8_lossy(&output.stdout);
    let own = own.trim().trim_start_matches("perf version ");
    (version(own)? < version(&recorded)?).then(|| {
        format!(
            "the recording was made by perf {}, this is perf {own}, which may not know all that is in it; compare with a perf of \
             that version or a later one, first in PATH: PATH=/its/directory:$PATH stackfold check {}",
            terminal::name(&recorded),
            recording.display()
        )
    })
}

/// The first two numbers of a version: `7.2` of `7.2.rc1.g8c1d`.
fn version(text: &str) -> Option<(u32, u32)> {
    let mut numbers = text.split(|c: char| !c.is_ascii_digit()).map(|number| number.parse().ok());
    Some((numbers.next()??, numbers.next()??))
}

/// Adds up the rows: period, thread, symbol. perf writes `.` for a `|` within a field.
fn parse(text: &str, detail: Detail) -> PerfReport {
    let mut report = PerfReport { detail, accounts: BTreeMap::new(), lost_samples: 0 };
    let mut event = String::new();
    let mut broken = String::new();
    for line in text.lines() {
        // A command with a line feed breaks its row.
        if !broken.is_empty() {
            broken.push_str(line);
        }
        let joined = std::mem::take(&mut broken);
        let line = if joined.is_empty() { line } else { &joined[..] };
        // "of event 'x'", or "of events 'x'" for one of a group.
        let section = line.strip_prefix("# Samples: ").and_then(|rest| rest.split_once('\''));
        if let Some((_, name)) = section {
            event = name.trim_end_matches('\'').to_owned();
            report.accounts.entry(event.clone()).or_default();
            continue;
        }
        if let Some(lost) = line.strip_prefix("# Total Lost Samples: ") {
            report.lost_samples += lost.trim().parse().unwrap_or(0);
        }
        if line.starts_with('#') {
            continue;
        }
        let mut fields = line.splitn(3, '|');
        let (Some(period), Some(_thread)) = (fields.next(), fields.next()) else { continue };
        let Ok(period) = period.trim().parse::<u128>() else { continue };
        let Some(symbol) = fields.next() else {
            broken = line.to_owned();
            continue;
        };
        let name = symbol.trim();
        let name = name.strip_prefix('[').and_then(|rest| Some(rest.split_once("] ")?.1)).unwrap_or(name);
        // BPF programs and the vdso have names in the recording itself, without any file.
        let name = if detail == Detail::Totals { "" } else { name };
        report.accounts.entry(event.clone()).or_default().add(name.as_bytes(), period);
    }
    report
}

#[cfg(test)]
mod tests {
    use super::*;

    const REPORT: &str = "# To display the perf.data header info, please use --header\n\
        #\n# Total Lost Samples: 3\n#\n\
        # Samples: 5  of event 'cpu-clock'\n# Event count (approx.): 50\n#\n\
        30|17:db_bench|[.] rocksdb::Get\n10|17:db_bench|[k] 0xffffffff81000000\n\
        10|18:two\nlines|[.] rocksdb::Get\n\n\
        # Samples: 2  of event 'page-faults'\n#\n7|17:db_bench|[.] clock@@GLIBC_2.17\n";

    #[test]
    fn rows_are_added_up_by_event() {
        let all = parse(REPORT, Detail::Symbols);
        assert_eq!(all.lost_samples, 3);
        assert_eq!(all.accounts["cpu-clock"].total, 50);
        assert_eq!(all.accounts["cpu-clock"].symbols["rocksdb::Get"], 40);
        assert_eq!(all.accounts["cpu-clock"].symbols["[no symbol]"], 10);
        assert_eq!(all.accounts["page-faults"].symbols["clock"], 7);
    }

    #[test]
    fn totals_are_one_row_even_where_the_recording_has_names() {
        let totals = parse(&format!("{REPORT}2|17:db_bench|[k] bpf_prog_1_watch\n"), Detail::Totals);
        assert_eq!(totals.accounts["cpu-clock"].total, 50);
        assert_eq!(totals.accounts["cpu-clock"].symbols, BTreeMap::from([("[no symbol]".to_owned(), 50)]));
        assert_eq!(totals.accounts["page-faults"].symbols, BTreeMap::from([("[no symbol]".to_owned(), 9)]));
    }
}
