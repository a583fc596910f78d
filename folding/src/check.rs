//! A fold held against perf's own account of the same recording.

mod account;
mod perf_report;

use crate::collector::{Collector, Options};
use crate::error::Error;
use crate::events;
use crate::input::PerfData;
use crate::input::packed::is_packed;
use crate::profile::Profile;
use crate::regular;
use crate::symbols;
use crate::threads;
pub use account::Detail;
use account::{Account, NAMELESS};
pub use perf_report::{PerfReport, older_perf};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Read};
use std::path::Path;

/// Bytes that tell whether a file is packed.
const HEAD: u64 = 8;

/// A symbol whose self weight differs.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub struct Difference {
    pub symbol: String,
    pub folded: u128,
    pub reported: u128,
    pub reason: &'static str,
}

/// One event of both sides; weights are sums of periods.
#[derive(Debug, Serialize)]
pub struct Verdict {
    pub event: String,
    pub equal: bool,
    pub folded: u128,
    pub reported: u128,
    /// Symbols that either side knows.
    pub symbols: usize,
    /// The largest first.
    pub differences: Vec<Difference>,
}

/// The comparison, as `stackfold check --format json` prints it.
#[derive(Debug, Serialize)]
pub struct Comparison {
    pub schema: u32,
    /// Samples of the whole recording that perf could not write, whatever the process, as perf report says.
    pub lost_samples: u64,
    /// Those that have samples on either side.
    pub events: Vec<Verdict>,
}

impl Comparison {
    /// Whether the totals of every event are equal to the unit.
    pub fn is_equal(&self) -> bool {
        self.events.iter().all(|verdict| verdict.equal)
    }
}

/// Folds a recording, each event or the one that is named, and asks perf report for its account of it meanwhile.
///
/// only_pids: the only processes to compare; none: all
pub fn check(
    recording: &Path,
    only_pids: &[i64],
    event: Option<&str>,
    threads: usize,
) -> Result<Comparison, Error> {
    let read = |event: Option<&str>| {
        let (only_pids, event) = (only_pids.iter().copied().collect(), event.map(str::to_owned));
        let mut collector = Collector::new(Options { only_pids, event, ..Options::default() });
        let file = regular::open(recording).map_err(|error| Error::unreadable(recording, &error))?;
        // perf report is asked for no inlined functions, so a leaf must be the function itself.
        let names = symbols::SymbolOptions { inlines: false, ..Default::default() };
        PerfData::new(names, threads).read_file(file, &mut collector)?;
        Ok(collector)
    };
    // In the order in which the events were seen.
    let fold = || {
        let all = read(event)?;
        if !all.is_ambiguous() || event.is_some() {
            return Ok(account_of(all)?.into_iter().collect());
        }
        let mut accounts = Vec::new();
        for event in all.into_events() {
            accounts.extend(account_of(read(Some(&event.name))?)?);
        }
        Ok(accounts)
    };
    let (folded, reported) = beside_perf(recording, only_pids, Detail::Symbols, fold)?;
    // What perf says of a file that is no recording, it says best.
    let reported = reported?;
    Ok(compare_accounts(folded?, reported, event))
}

/// Does `fold`, and asks perf report for its account of the recording meanwhile.
pub fn beside_perf<T>(
    recording: &Path,
    only_pids: &[i64],
    detail: Detail,
    fold: impl FnOnce() -> T,
) -> Result<(T, Result<PerfReport, Error>), Error> {
    // Both sides read it, so that a pipe would give each a part.
    let no_file = |error: io::Error| {
        Error::usage(format!(
            "cannot read {}: {error}; a recording is read twice here, by stackfold and by perf report, so it has to \
             be a file",
            recording.display()
        ))
    };
    let mut head = Vec::new();
    regular::open(recording).map_err(no_file)?.take(HEAD).read_to_end(&mut head).map_err(no_file)?;
    if is_packed(&head) {
        return Err(Error::usage(format!(
            "{} is packed, and perf report reads no packed file: unpack it first (gunzip, unxz, unzstd)",
            recording.display()
        )));
    }
    let (folded, mut reported) =
        threads::beside("perf", [|| perf_report::ask(recording, only_pids, detail)], |_| fold());
    Ok((folded, reported.remove(0)))
}

/// Holds the fold of one event, without inlined functions, against perf's account of it.
pub fn compare_profile(profile: &Profile, event: Option<&str>, reported: PerfReport) -> Comparison {
    let folded = event.map(|event| (event.to_owned(), Account::of(profile)));
    compare_accounts(folded.into_iter().collect(), reported, event)
}

/// A fold by event beside perf's account; `wanted`: the only event to compare.
fn compare_accounts(
    folded: Vec<(String, Account)>,
    mut reported: PerfReport,
    wanted: Option<&str>,
) -> Comparison {
    let totals = reported.detail == Detail::Totals;
    if let Some(wanted) = wanted {
        reported.accounts.retain(|event, _| events::selects(wanted.as_bytes(), event.as_bytes()));
    }
    let mut verdicts = Vec::new();
    for (event, mut ours) in folded {
        if totals {
            ours.symbols = BTreeMap::from([(NAMELESS.to_owned(), ours.total)]);
        }
        let theirs = take_event(&mut reported.accounts, &event);
        verdicts.push(compare(event, &ours, &theirs));
    }
    for (event, theirs) in reported.accounts {
        verdicts.push(compare(event, &Account::default(), &theirs));
    }
    // perf report lists an event without samples as well.
    verdicts.retain(|verdict| verdict.folded > 0 || verdict.reported > 0);
    Comparison { schema: 1, lost_samples: reported.lost_samples, events: verdicts }
}

/// perf's account of an event: where the recording does not say its name, perf makes one up with modifiers.
fn take_event(accounts: &mut BTreeMap<String, Account>, event: &str) -> Account {
    let exact = accounts.contains_key(event);
    let is = |name: &str| match exact {
        true => name == event,
        false => events::selects(event.as_bytes(), name.as_bytes()),
    };
    let (found, rest): (BTreeMap<_, _>, _) = std::mem::take(accounts).into_iter().partition(|one| is(&one.0));
    *accounts = rest;
    let mut all = Account::default();
    found.into_values().for_each(|account| all.absorb(account));
    all
}

/// The event that was folded, if it has samples, and its account.
fn account_of(collector: Collector) -> Result<Option<(String, Account)>, Error> {
    let (profile, stats) = collector.finish()?;
    Ok(stats.event.map(|event| (event, Account::of(&profile))))
}

fn compare(event: String, folded: &Account, reported: &Account) -> Verdict {
    let mut differences = Vec::new();
    let names: BTreeSet<&String> = folded.symbols.keys().chain(reported.symbols.keys()).collect();
    for symbol in &names {
        let ours = folded.symbols.get(*symbol).copied().unwrap_or(0);
        let theirs = reported.symbols.get(*symbol).copied().unwrap_or(0);
        if ours != theirs {
            let reason = match (ours, theirs) {
                _ if *symbol == NAMELESS && ours > theirs => {
                    "perf report has names for some of these addresses"
                }
                _ if *symbol == NAMELESS => "the fold has names for some of these addresses",
                (0, _) => "only perf report has this name: another alias of the address, or another spelling",
                (_, 0) => "only the fold has this name: another alias of the address, or another spelling",
                _ => "the symbols of the two sides end at different addresses",
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
    let (symbols, equal) = (names.len(), folded.total == reported.total);
    Verdict { event, equal, folded: folded.total, reported: reported.total, symbols, differences }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn side(symbols: &[(&str, u128)]) -> Account {
        let mut account = Account::default();
        symbols.iter().for_each(|(symbol, weight)| account.add(symbol.as_bytes(), *weight));
        account
    }

    #[test]
    fn differences_have_reasons_and_the_largest_is_first() {
        let verdict = compare("e".to_owned(), &side(&[("a", 5), ("b", 9)]), &side(&[("a", 6), ("c", 9)]));
        assert_eq!((verdict.folded, verdict.reported, verdict.equal), (14, 15, false));
        let found: Vec<_> =
            verdict.differences.iter().map(|d| (&d.symbol[..], d.folded, d.reported)).collect();
        assert_eq!(found, [("b", 9, 0), ("c", 0, 9), ("a", 5, 6)]);
        assert_eq!(verdict.differences[2].reason, "the symbols of the two sides end at different addresses");
    }

    #[test]
    fn names_that_differ_in_what_one_side_prints_are_one() {
        let ours = side(&[("f_[k]", 1), ("rocksdb::Get(int)", 2), ("[libc.so.6]", 3), ("a|b", 4)]);
        let theirs = side(&[("f", 1), ("rocksdb::Get", 2), ("0x00007f12", 3), ("a.b", 4)]);
        let verdict = compare("e".to_owned(), &ours, &theirs);
        assert!(verdict.equal && verdict.differences.is_empty(), "{:?}", verdict.differences);
        assert_eq!(verdict.symbols, 4);
    }
}
