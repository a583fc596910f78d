//! Which calls of a process are its queries: by the engine's names, of one kind, or of a function that is named.

use std::time::Duration;

use clap::Args;

use crate::symbols::{self, Function, Rule, Rules};
use crate::uprobes::{self, Calls, MOST_FUNCTIONS, Way};
use observer::Failure;

/// Calls that read, or that ask for reads and wait for them, within a query.
pub const READ_CALLS: [i64; 8] = [
    libc::SYS_pread64,
    libc::SYS_preadv,
    libc::SYS_preadv2,
    libc::SYS_read,
    libc::SYS_readv,
    libc::SYS_io_uring_enter,
    libc::SYS_io_submit,
    libc::SYS_io_getevents,
];

/// Where each of them is a query of its own: a read without a position is of a pipe or a socket more often than of a file.
pub const FILE_CALLS: [i64; 8] =
    [libc::SYS_pread64, libc::SYS_preadv, libc::SYS_preadv2, NONE, NONE, NONE, NONE, NONE];
const NONE: i64 = -1;
/// What queries are called that are read calls.
pub const READ: &str = "read";

const GOROUTINES: &str =
    "a goroutine that changes its thread within a query is not followed to its end: abandoned";

#[derive(Args)]
pub struct QueryOptions {
    /// Which kind of query is followed (default: the first of the engine's that is called; with --query-symbol: what
    /// its calls are called); read: each read call of a file, whoever makes it
    #[arg(long)]
    pub kind: Option<String>,
    /// The function that is a query, in place of the engine's: spaces, classes and name, without arguments
    #[arg(long, value_name = "FUNCTION")]
    pub query_symbol: Option<String>,
    /// Longest that a trial waits for the engine's functions to be called, in seconds
    #[arg(long, default_value_t = 1.0)]
    pub trial: f64,
    /// Rules that name the engine's functions: a built-in name or a file
    #[arg(long, default_value = "rocksdb", value_name = "NAME|FILE")]
    pub symbols: String,
}

/// The functions whose outermost calls are followed, with their calls in the trial.
pub struct Queries {
    pub kind: String,
    pub functions: Vec<Function>,
    /// What else was called, and the like.
    pub notes: Vec<String>,
}

impl QueryOptions {
    /// Whether each read call is a query of its own, and no function is.
    pub fn are_read_calls(&self) -> bool {
        self.query_symbol.is_none() && self.kind.as_deref() == Some(READ)
    }

    /// The engine's rules, with the function that was named as its only query.
    pub fn rules(&self) -> Result<Rules, Failure> {
        let rules = symbols::load_rules(&self.symbols)?;
        let Some(symbol) = &self.query_symbol else { return Ok(rules) };
        let name = symbol.trim_end_matches("()");
        let known = symbols::demangle(name).unwrap_or_default();
        let rule = Rule {
            name: name.to_owned(),
            prefix: known.trim_end_matches(')').to_owned(),
            kind: self.kind.clone().unwrap_or_else(|| "query".to_owned()),
        };
        Ok(Rules { query: vec![rule], other: Vec::new(), write: Vec::new(), ..rules })
    }

    /// The functions of one kind that are called in a trial, on their own and not within each other; or why there are
    /// none.
    pub fn find(&self, pid: u32, rules: &Rules, way: Way) -> Result<Result<Queries, String>, Failure> {
        let kinds = unique(rules.query.iter().map(|rule| rule.kind.as_str()));
        if let Some(kind) = self.kind.as_deref().filter(|kind| !kinds.contains(kind)) {
            return Err(Failure::usage(format!("--kind {kind}: {} has no such queries", rules.engine))
                .mend(format!("--kind with one of {}, {READ}", kinds.join(", "))));
        }
        let all: Vec<Rule> = rules.query.iter().chain(&rules.other).cloned().collect();
        let is_query = |rule: usize| rule < rules.query.len();
        let wanted =
            |rule: usize| is_query(rule) && self.kind.as_ref().is_none_or(|kind| *kind == all[rule].kind);
        let (found, searched) = symbols::find(pid, &all)?;
        if !found.iter().any(|(rule, _)| wanted(*rule)) {
            let names: Vec<&str> =
                (0..all.len()).filter(|rule| wanted(*rule)).map(|rule| all[rule].prefix.as_str()).collect();
            let stripped = match searched.stripped.as_slice() {
                [] => String::new(),
                files => format!("; without any symbols: {}", files.join(", ")),
            };
            return Ok(Err(format!(
                "none of the {} files that {} has mapped names a query of {} ({}...)){stripped}",
                searched.files,
                symbols::executable(pid),
                if self.query_symbol.is_some() { "this name" } else { &rules.engine },
                names.join("...), "),
            ) + if self.query_symbol.is_some() {
                "; a stripped file names exported functions only"
            } else {
                ""
            }));
        }
        let found: Vec<(usize, Function)> = found.into_iter().take(MOST_FUNCTIONS).collect();
        let functions: Vec<Function> = found.iter().map(|(_, function)| function.clone()).collect();
        let calls = uprobes::trial(pid, &functions, way, Duration::from_secs_f64(self.trial))?;
        let outer = |of: &dyn Fn(usize) -> bool| -> Vec<Function> {
            let of_rule = found.iter().zip(&calls).filter(|((rule, _), calls)| of(*rule) && calls.outer > 0);
            of_rule.map(|((_, function), calls)| called(function.clone(), calls)).collect()
        };
        let names_called = |of: &dyn Fn(usize) -> bool| {
            let of_them =
                (0..all.len()).filter(|rule| of(*rule) && !outer(&|other| other == *rule).is_empty());
            unique(of_them.map(|rule| all[rule].name.as_str())).join(" and ")
        };
        let of_kind = |kind: &str, rule: usize| is_query(rule) && all[rule].kind == kind;
        let is_called = |kind: &&&str| !outer(&|rule| wanted(rule) && of_kind(kind, rule)).is_empty();
        if let Some(kind) = kinds.iter().find(is_called) {
            let mut notes = Vec::new();
            let name =
                |kind: &str| all.iter().find(|rule| rule.kind == kind).map_or("", |rule| rule.name.as_str());
            if self.kind.is_none() && *kind != kinds[0] {
                let followed = names_called(&|rule| of_kind(kind, rule));
                notes.push(format!(
                    "{} was not called within {} s: {followed} is followed",
                    name(kinds[0]),
                    self.trial
                ));
            }
            let others = names_called(&|rule| is_query(rule) && !of_kind(kind, rule));
            if !others.is_empty() {
                notes.push(format!("{others} was called as well, and is not followed"));
            }
            let functions = outer(&|rule| of_kind(kind, rule));
            if let Some(why) = way.unseen(&functions) {
                return if self.query_symbol.is_some() { Err(uprobes::unseen(why)) } else { Ok(Err(why)) };
            }
            if functions.iter().any(|function| function.is_go) {
                notes.push(GOROUTINES.to_owned());
            }
            return Ok(Ok(Queries { kind: (*kind).to_owned(), functions, notes }));
        }
        let there = || found.iter().filter(|(rule, _)| wanted(*rule));
        let names = unique(there().map(|(rule, _)| all[*rule].name.as_str())).join(" and ");
        let files = unique(there().map(|(_, function)| function.shown.as_str())).join(" and ");
        let others = names_called(&|rule| !wanted(rule));
        let instead = if others.is_empty() {
            "nor any other query that we know".to_owned()
        } else {
            format!("but {others} was")
        };
        Ok(Err(format!("not called within {} s: {names} of {files}; {instead}", self.trial)))
    }
}

pub fn called(function: Function, calls: &Calls) -> Function {
    Function { calls: calls.outer, ..function }
}

fn unique<'a>(words: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let mut found = Vec::new();
    for word in words {
        if !found.contains(&word) {
            found.push(word);
        }
    }
    found
}
