//! Which functions of the engine are watched, and where the ladder starts.

use std::time::Duration;

use libbpf_rs::Link;
use libbpf_rs::skel::Skel;

use super::options::{LadderOptions, Start};
use super::skeleton::LadderSkel;
use crate::symbols::{self, Function, Rule, Rules};
use crate::uprobes::{self, Calls, MOST_FUNCTIONS, Trap, Way};
use observer::Failure;

/// What the uprobes go to.
pub struct Plan {
    pub way: Way,
    pub trap: Trap,
    pub query: Vec<Function>,
    pub reader: Vec<Function>,
}

impl Plan {
    pub fn attach(&self, skeleton: &mut LadderSkel, pid: u32) -> Result<Vec<Link>, Failure> {
        let object = skeleton.object_mut();
        let mut links = uprobes::attach(object, "query", self.way, pid, &self.query)?;
        links.extend(uprobes::attach(object, "reader", self.way, pid, &self.reader)?);
        Ok(links)
    }
}

/// Which functions to watch; None where the ladder starts at the read call, with the reason in `notes`.
pub fn choose(options: &LadderOptions, notes: &mut Vec<String>) -> Result<Option<Plan>, Failure> {
    if options.start == Start::Syscall {
        return Ok(None);
    }
    let rules = symbols::load_rules(&options.symbols)?;
    let (way, trap) = uprobes::way_and_cost(options.uprobes)?;
    match find_query(options.pid, options.trial, &rules, way)? {
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

/// The functions that are a query's outermost call, with their calls in a trial of so many seconds; or why there are
/// none.
pub fn find_query(
    pid: u32,
    seconds: f64,
    rules: &Rules,
    way: Way,
) -> Result<Result<Vec<Function>, String>, Failure> {
    let all: Vec<Rule> = rules.query.iter().chain(&rules.other).cloned().collect();
    let (found, searched) = symbols::find(pid, &all)?;
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
            symbols::executable(pid),
            rules.engine,
            names.join("...), "),
        )));
    }
    let found: Vec<(usize, Function)> = found.into_iter().take(MOST_FUNCTIONS).collect();
    let functions: Vec<Function> = found.iter().map(|(_, function)| function.clone()).collect();
    let calls = uprobes::trial(pid, &functions, way, Duration::from_secs_f64(seconds))?;
    let outer = |rule: usize| -> Vec<Function> {
        let of_rule = found.iter().zip(&calls).filter(|((of, _), calls)| *of == rule && calls.outer > 0);
        of_rule.map(|((_, function), calls)| called(function.clone(), calls)).collect()
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
    Ok(Err(format!("not called within {} s: {}; {instead}", seconds, there.join(", "))))
}

fn find_reader(
    options: &LadderOptions,
    rules: &Rules,
    way: Way,
    notes: &mut Vec<String>,
) -> Result<Vec<Function>, Failure> {
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
        return Ok(functions);
    }
    let outer = functions.into_iter().zip(&calls).filter(|(_, calls)| calls.outer > 0);
    Ok(outer.map(|(function, calls)| called(function, calls)).collect())
}

fn called(function: Function, calls: &Calls) -> Function {
    Function { calls: calls.outer, ..function }
}
