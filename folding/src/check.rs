//! A fold held against perf's own account of the same recording.

use crate::collector::{Collector, Options};
use crate::error::Error;
use crate::input::PerfData;
use crate::names::{cut_arguments, cut_version, split_mark};
use crate::profile::Profile;
use crate::stats::EventTotals;
use crate::symbols;
use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

/// Self weight by symbol of one event.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Account {
    pub total: u128,
    pub symbols: BTreeMap<String, u128>,
}

/// A symbol whose self weight differs.
#[derive(Debug, PartialEq, Eq)]
pub struct Difference {
    pub symbol: String,
    pub folded: u128,
    pub reported: u128,
    pub reason: &'static str,
}

/// One event of both sides.
#[derive(Debug)]
pub struct Verdict {
    pub event: String,
    pub folded: u128,
    pub reported: u128,
    pub symbols: usize,
    pub differences: Vec<Difference>,
}

const NAMELESS: &str = "addresses without a symbol: perf names each, a fold names their file";

/// Compares every event of a recording.
pub fn check(recording: &Path, only_pid: Option<i64>) -> Result<Vec<Verdict>, Error> {
    let reported = reported(recording, only_pid)?;
    let mut verdicts = Vec::new();
    let mut events: Vec<String> = events(recording, only_pid)?.into_iter().map(|event| event.name).collect();
    events.extend(reported.keys().filter(|name| !events.contains(name)).cloned().collect::<Vec<_>>());
    for event in events {
        let folded = folded(recording, only_pid, &event)?;
        let empty = Account::default();
        let reported = reported.get(&event).unwrap_or(&empty);
        if folded.total > 0 || reported.total > 0 {
            verdicts.push(compare(event, &folded, reported));
        }
    }
    Ok(verdicts)
}

/// The events of a recording that have samples.
fn events(recording: &Path, only_pid: Option<i64>) -> Result<Vec<EventTotals>, Error> {
    // An event nobody has makes the fold list those there are, without keeping any stack.
    let options = Options { only_pid, event: Some("\u{0}".to_owned()), ..Options::default() };
    let mut collector = Collector::new(options);
    read(recording, &mut collector)?;
    Ok(collector.into_events())
}

fn folded(recording: &Path, only_pid: Option<i64>, event: &str) -> Result<Account, Error> {
    let options = Options { only_pid, event: Some(event.to_owned()), ..Options::default() };
    let mut collector = Collector::new(options);
    read(recording, &mut collector)?;
    match collector.finish() {
        Ok((profile, _)) => Ok(account(&profile)),
        // perf report lists an event without samples as well.
        Err(_) => Ok(Account::default()),
    }
}

fn read(recording: &Path, collector: &mut Collector) -> Result<(), Error> {
    let file = std::fs::File::open(recording)
        .map_err(|error| Error::usage(format!("cannot read {}: {error}", recording.display())))?;
    // perf report is asked for no inlined functions, so a leaf must be the function itself.
    PerfData::new(symbols::Options { inlines: false, ..Default::default() }, 1).read_file(file, collector)
}

fn account(profile: &Profile) -> Account {
    let mut account = Account::default();
    for stack in 0..profile.stacks() as u32 {
        let chain = profile.chain(stack);
        let weight = profile.tally(stack).weight;
        account.total += weight;
        // A sample without frames is its command alone, and has no symbol.
        let leaf = if chain.len() > 1 { profile.names.get(chain[chain.len() - 1]) } else { b"[no frames]" };
        *account.symbols.entry(comparable(leaf)).or_default() += weight;
    }
    account
}

fn reported(recording: &Path, only_pid: Option<i64>) -> Result<BTreeMap<String, Account>, Error> {
    let mut perf = Command::new("perf");
    perf.args(["report", "-i"]).arg(recording);
    perf.args(["--no-inline", "--no-children", "--stdio", "-g", "none", "-F", "period,pid,sym", "-t", "|"]);
    perf.args(["--percent-limit", "0", "--no-group"]).env("LC_ALL", "C").env("PERF_CONFIG", "/dev/null");
    let output = perf
        .output()
        .map_err(|error| Error::usage(format!("perf report cannot be run: {error}; install linux-perf")))?;
    if !output.status.success() {
        let words = String::from_utf8_lossy(&output.stderr);
        return Err(Error::usage(format!("perf report failed: {}", words.trim())));
    }
    Ok(parse_report(&String::from_utf8_lossy(&output.stdout), only_pid))
}

/// Adds up the rows: period, process, symbol. perf's own filter takes rows, not samples, and writes `.`
/// for a `|` within a field.
fn parse_report(text: &str, only_pid: Option<i64>) -> BTreeMap<String, Account> {
    let mut accounts: BTreeMap<String, Account> = BTreeMap::new();
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
            accounts.entry(event.clone()).or_default();
            continue;
        }
        if line.starts_with('#') {
            continue;
        }
        let mut fields = line.splitn(3, '|');
        let (Some(period), Some(process)) = (fields.next(), fields.next()) else { continue };
        let Ok(period) = period.trim().parse::<u128>() else { continue };
        let Some(symbol) = fields.next() else {
            broken = line.to_owned();
            continue;
        };
        let pid = process.split_once(':').and_then(|(pid, _)| pid.trim().parse::<i64>().ok());
        if only_pid.is_some() && pid != only_pid {
            continue;
        }
        let account = accounts.entry(event.clone()).or_default();
        account.total += period;
        let name = symbol.trim();
        let name = name.strip_prefix('[').and_then(|rest| Some(rest.split_once("] ")?.1)).unwrap_or(name);
        *account.symbols.entry(comparable(name.as_bytes())).or_default() += period;
    }
    accounts
}

/// A name without what only one side prints; addresses without a symbol are one row.
fn comparable(name: &[u8]) -> String {
    let (name, _) = split_mark(name);
    let is_address = name.strip_prefix(b"0x").is_some_and(|rest| rest.iter().all(u8::is_ascii_hexdigit));
    if is_address || name.is_empty() || name.starts_with(b"[") {
        return "[no symbol]".to_owned();
    }
    let mut name = cut_arguments(cut_version(name));
    crate::names::escape(&mut name);
    for byte in &mut name {
        if *byte == b'|' {
            *byte = b'.';
        }
    }
    String::from_utf8_lossy(&name).trim_end().to_owned()
}

fn compare(event: String, folded: &Account, reported: &Account) -> Verdict {
    let mut differences = Vec::new();
    let names: std::collections::BTreeSet<&String> =
        folded.symbols.keys().chain(reported.symbols.keys()).collect();
    for symbol in &names {
        let ours = folded.symbols.get(*symbol).copied().unwrap_or(0);
        let theirs = reported.symbols.get(*symbol).copied().unwrap_or(0);
        if ours != theirs {
            let reason = match (ours, theirs) {
                _ if *symbol == "[no symbol]" => NAMELESS,
                (0, _) => "only perf report has this name: another alias of the address, or another spelling",
                (_, 0) => "only the fold has this name: another alias of the address, or another spelling",
                _ => "the symbols of one side end elsewhere",
            };
            differences.push(Difference {
                symbol: (*symbol).clone(),
                folded: ours,
                reported: theirs,
                reason,
            });
        }
    }
    differences.sort_by_key(|difference| std::cmp::Reverse(difference.folded.abs_diff(difference.reported)));
    Verdict { event, folded: folded.total, reported: reported.total, symbols: names.len(), differences }
}

#[cfg(test)]
mod tests {
    use super::*;

    const REPORT: &str = "# To display the perf.data header info, please use --header\n\
        # Samples: 5  of event 'cpu-clock'\n# Event count (approx.): 50\n#\n\
        30|17:db_bench|[.] rocksdb::Get\n10|17:db_bench|[k] 0xffffffff81000000\n\
        10|18:two\nlines|[.] rocksdb::Get\n\n\
        # Samples: 2  of event 'page-faults'\n#\n7|17:db_bench|[.] clock@@GLIBC_2.17\n";

    #[test]
    fn rows_are_added_up_by_event_and_process() {
        let all = parse_report(REPORT, None);
        assert_eq!(all["cpu-clock"].total, 50);
        assert_eq!(all["cpu-clock"].symbols["rocksdb::Get"], 40);
        let one = parse_report(REPORT, Some(17));
        assert_eq!(one["cpu-clock"].total, 40);
        assert_eq!(one["cpu-clock"].symbols["[no symbol]"], 10);
        assert_eq!(one["page-faults"].symbols["clock"], 7);
    }

    #[test]
    fn differences_have_reasons_and_the_largest_is_first() {
        let mine = parse_report("# Samples: 2  of event 'e'\n5|1:x|[.] a\n9|1:x|[.] b\n", None);
        let theirs = parse_report("# Samples: 2  of event 'e'\n6|1:x|[.] a\n9|1:x|[.] c\n", None);
        let verdict = compare("e".to_owned(), &mine["e"], &theirs["e"]);
        assert_eq!((verdict.folded, verdict.reported), (14, 15));
        let found: Vec<_> =
            verdict.differences.iter().map(|d| (&d.symbol[..], d.folded, d.reported)).collect();
        assert_eq!(found, [("b", 9, 0), ("c", 0, 9), ("a", 5, 6)]);
    }
}
