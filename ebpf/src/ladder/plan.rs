//! Which functions of the engine are watched, and where the ladder starts.

use std::fs;
use std::time::Duration;

use clap::ValueEnum;
use libbpf_rs::Link;
use libbpf_rs::skel::Skel;
use serde::Serialize;

use super::Options;
use super::skeleton::LadderSkel;
use crate::symbols::{self, Function, ROCKSDB, Rule, Rules};
use crate::uprobes::{self, MOST_FUNCTIONS, Trap, Way};
use observer::Failure;

#[derive(Clone, Copy, PartialEq, ValueEnum)]
pub enum Start {
    /// At the query where its function is found and called, at the read call otherwise
    Auto,
    /// At the query, or not at all
    Query,
    /// At the read call: no uprobes
    Syscall,
}

#[derive(Clone, Copy, ValueEnum)]
pub enum WayName {
    Session,
    Pair,
}

#[derive(Serialize)]
pub struct Watched {
    name: String,
    file: String,
    /// Of a trial before the window.
    calls: u64,
    /// Its entry is single-stepped.
    stepped: bool,
}

/// What the uprobes go to.
pub struct Plan {
    pub way: Way,
    pub trap: Trap,
    pub query: Vec<(Function, u64)>,
    pub reader: Vec<(Function, u64)>,
}

impl Plan {
    pub fn attach(&self, skeleton: &mut LadderSkel, pid: u32) -> Result<Vec<Link>, Failure> {
        let functions = |watched: &[(Function, u64)]| {
            watched.iter().map(|(function, _)| function.clone()).collect::<Vec<_>>()
        };
        let object = skeleton.object_mut();
        let mut links = uprobes::attach(object, "query", self.way, pid, &functions(&self.query))?;
        links.extend(uprobes::attach(object, "reader", self.way, pid, &functions(&self.reader))?);
        Ok(links)
    }
}

/// Which functions to watch; None where the ladder starts at the read call, with the reason in `notes`.
pub fn choose(options: &Options, notes: &mut Vec<String>) -> Result<Option<Plan>, Failure> {
    if options.start == Start::Syscall {
        return Ok(None);
    }
    let rules = match &options.symbols {
        None => symbols::parse_rules(ROCKSDB)?,
        Some(path) => symbols::parse_rules(
            &fs::read_to_string(path)
                .map_err(|error| Failure::usage(format!("--symbols {}: {error}", path.display())))?,
        )?,
    };
    let way = options.uprobes.map(|way| match way {
        WayName::Session => Way::Session,
        WayName::Pair => Way::Pair,
    });
    let (way, trap) = uprobes::way_and_cost(way)?;
    match find_query(options, &rules, way)? {
        Ok(query) => {
            let reader =
                if options.no_reader { Vec::new() } else { find_reader(options, &rules, way, notes)? };
            Ok(Some(Plan { way, trap, query, reader }))
        }
        Err(why) if options.start == Start::Query => Err(Failure::measurement(why)),
        Err(why) => {
            notes.push(format!("the ladder starts at the read call: {why}"));
            Ok(None)
        }
    }
}

/// The functions that are a query's outermost call, with their calls in a trial; or why there are none.
fn find_query(
    options: &Options,
    rules: &Rules,
    way: Way,
) -> Result<Result<Vec<(Function, u64)>, String>, Failure> {
    let all: Vec<Rule> = rules.query.iter().chain(&rules.other).cloned().collect();
    let (found, searched) = symbols::find(options.pid, &all)?;
    let queries = rules.query.len();
    if !found.iter().any(|(rule, _)| *rule < queries) {
        let names: Vec<&str> = rules.query.iter().map(|rule| rule.prefix.as_str()).collect();
        let stripped = match searched.stripped.as_slice() {
            [] => String::new(),
            files => format!("; without any symbols: {}", files.join(", ")),
        };
        return Ok(Err(format!(
            "none of the {} files that {} has mapped names a query of {} ({}...)){stripped}",
            searched.files,
            symbols::executable(options.pid),
            rules.engine,
            names.join("...), "),
        )));
    }
    let found: Vec<(usize, Function)> = found.into_iter().take(MOST_FUNCTIONS).collect();
    let functions: Vec<Function> = found.iter().map(|(_, function)| function.clone()).collect();
    let calls = uprobes::trial(options.pid, &functions, way, Duration::from_secs_f64(options.trial))?;
    let outer = |rule: usize| -> Vec<(Function, u64)> {
        let of_rule = found.iter().zip(&calls).filter(|((of, _), calls)| *of == rule && calls.outer > 0);
        of_rule.map(|((_, function), calls)| (function.clone(), calls.outer)).collect()
    };
    if let Some(rule) = (0..queries).find(|rule| !outer(*rule).is_empty()) {
        return Ok(Ok(outer(rule)));
    }
    let there: Vec<String> = functions
        .iter()
        .zip(&found)
        .filter(|(_, (rule, _))| *rule < queries)
        .map(|(function, _)| format!("{} in {}", function.name, function.shown))
        .collect();
    let mut others: Vec<&str> = (queries..all.len())
        .filter(|rule| !outer(*rule).is_empty())
        .map(|rule| all[rule].name.as_str())
        .collect();
    others.dedup();
    let instead = if others.is_empty() {
        "nor any other query that we know".to_owned()
    } else {
        format!("but {} was", others.join(" and "))
    };
    Ok(Err(format!("not called within {} s: {}; {instead}", options.trial, there.join(", "))))
}

fn find_reader(
    options: &Options,
    rules: &Rules,
    way: Way,
    notes: &mut Vec<String>,
) -> Result<Vec<(Function, u64)>, Failure> {
    let (found, _) = symbols::find(options.pid, &rules.reader)?;
    let functions: Vec<Function> =
        found.into_iter().map(|(_, function)| function).take(MOST_FUNCTIONS).collect();
    if functions.is_empty() {
        let names: Vec<&str> = rules.reader.iter().map(|rule| rule.name.as_str()).collect();
        notes.push(format!("no stages of the file reader: no mapped file names {}", names.join(" or ")));
        return Ok(Vec::new());
    }
    let calls = uprobes::trial(options.pid, &functions, way, Duration::from_secs_f64(options.trial))?;
    if calls.iter().all(|calls| calls.outer == 0) {
        notes.push(format!(
            "the file reader was not called within {} s: all of its overloads are watched",
            options.trial
        ));
        return Ok(functions.into_iter().map(|function| (function, 0)).collect());
    }
    let called = functions.into_iter().zip(calls).filter(|(_, calls)| calls.outer > 0);
    Ok(called.map(|(function, calls)| (function, calls.outer)).collect())
}

/// Functions as the result names them.
pub fn watched(functions: &[(Function, u64)]) -> Vec<Watched> {
    let one = |(function, calls): &(Function, u64)| Watched {
        name: function.name.clone(),
        file: function.shown.clone(),
        calls: *calls,
        stepped: function.stepped,
    };
    functions.iter().map(one).collect()
}
