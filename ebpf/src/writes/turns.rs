//! How much longer a write takes while it is watched: turns with and without, one after the other.

use std::mem::MaybeUninit;
use std::thread;
use std::time::Duration;

use serde::Serialize;

use super::plan::WritePlan;
use super::{Gate, WritesCounter, attached, loaded, rows};
use crate::uprobes::Way;
use observer::{Failure, Process};

const TURN: Duration = Duration::from_millis(500);

/// Writes that began and ended in half of a turn, and their durations together.
#[derive(Clone, Copy, Serialize)]
pub struct Half {
    pub count: u64,
    pub sum_ns: u64,
}

/// Unwatched but for the entry and the return of a write, which its duration is taken at; and watched as in the window.
#[derive(Serialize)]
pub struct Turn {
    unwatched: Half,
    watched: Half,
}

/// Every other turn begins with the watched half: what changes steadily is no difference then.
pub fn take(
    number: u32,
    process: &Process,
    plan: &WritePlan,
    way: Way,
    full: bool,
) -> Result<Vec<Turn>, Failure> {
    (0..number)
        .map(|turn| {
            let first = half(turn % 2 == 1, process, plan, way, full)?;
            let second = half(turn % 2 == 0, process, plan, way, full)?;
            let (unwatched, watched) = if turn % 2 == 0 { (first, second) } else { (second, first) };
            Ok(Turn { unwatched, watched })
        })
        .collect()
}

fn half(watched: bool, process: &Process, plan: &WritePlan, way: Way, full: bool) -> Result<Half, Failure> {
    let mut storage = MaybeUninit::uninit();
    let mut skeleton = loaded(&mut storage, process, plan, way, full)?;
    let links = if watched {
        attached(&mut skeleton, plan, way, process.pid(), full)?
    } else {
        plan.attach_writes(&mut skeleton, way, process.pid())?
    };
    process.must_be_alive()?;
    let mut counter = WritesCounter::new(&mut skeleton, process);
    counter.gate(if watched { Gate::OPEN } else { Gate::PILOT });
    thread::sleep(TURN);
    counter.gate(Gate::SHUT);
    drop(links);
    if watched {
        let (count, sum_ns) = rows::ended(&skeleton)?;
        return Ok(Half { count, sum_ns });
    }
    let ended = rows::pilot(&skeleton)?;
    Ok(Half { count: ended.count, sum_ns: ended.sum_ns })
}
