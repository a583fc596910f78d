//! Which functions of the engine are watched, and where the ladder starts.

use std::time::Duration;

use libbpf_rs::Link;
use libbpf_rs::skel::Skel;

use super::skeleton::LadderSkel;
use super::{LadderOptions, Start};
use crate::queries::called;
use crate::symbols::{self, Function, Rules};
use crate::uprobes::{self, MOST_FUNCTIONS, Trap, Way};
use observer::Failure;

/// What the uprobes go to.
pub struct Plan {
    pub way: Way,
    pub trap: Trap,
    pub kind: String,
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
    if options.start == Start::Syscall || options.queries.are_read_calls() {
        return Ok(None);
    }
    let rules = options.queries.rules()?;
    let (way, trap) = uprobes::way_and_cost(options.returns)?;
    match options.queries.find(options.pid, &rules, way)? {
        Ok(query) => {
            notes.extend(query.notes);
            let reader =
                if options.no_reader { Vec::new() } else { find_reader(options, &rules, way, notes)? };
            Ok(Some(Plan { way, trap, kind: query.kind, query: query.functions, reader }))
        }
        Err(why) if options.start == Start::Query => Err(Failure::measurement(why)),
        Err(why) => {
            notes.push(format!("the ladder starts at the read call: {why}"));
            Ok(None)
        }
    }
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
    if let Some(why) = way.unseen(&functions) {
        notes.push(format!("no stages of the file reader: {why}"));
        return Ok(Vec::new());
    }
    let calls = uprobes::trial(options.pid, &functions, way, Duration::from_secs_f64(options.queries.trial))?;
    if calls.iter().all(|calls| calls.outer == 0) {
        notes.push(format!(
            "the file reader was not called within {} s: all of its overloads are watched",
            options.queries.trial
        ));
        return Ok(functions);
    }
    let outer = functions.into_iter().zip(&calls).filter(|(_, calls)| calls.outer > 0);
    Ok(outer.map(|(function, calls)| called(function, calls)).collect())
}
