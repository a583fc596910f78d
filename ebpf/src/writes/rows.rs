//! What the programs counted: writes by their role, and the stages of each.

use serde::Serialize;

use super::plan::STAGES;
use super::skeleton::types::{cell, counter as Counter};
use super::skeleton::{self, WritesSkel};
use crate::histogram::{Histogram, read_all, read_counts, read_rows_and_own, settled};
use crate::layout::{names, plain};
use observer::Failure;

const ROLES: [&str; 5] = names!(role[0..ROLES]: LEADER MEMTABLE_LEADER PARALLEL DONE ROLE_UNKNOWN);
const SLOTS: usize = STAGES.len();
const PILOT: usize = ROLES.len();
const SIZES: usize = 65;

plain!(cell);

/// Time of one stage, summed over the writes of a role that were in it.
#[derive(Clone, Serialize)]
pub struct StageSum {
    name: &'static str,
    count: u64,
    sum_ns: u64,
    most_ns: u64,
    /// Of it within our programs.
    own_ns: u64,
}

/// The writes of one role.
#[derive(Serialize)]
pub struct RoleRows {
    name: &'static str,
    #[serde(flatten)]
    histogram: Histogram,
    own_ns: u64,
    stages: Vec<StageSum>,
    /// Of the stage `join`: what the leaders did meanwhile; `wake_up` and `in_queue` are the writer's own.
    join: Vec<StageSum>,
}

/// Once no program counts any more.
pub fn read(skeleton: &WritesSkel) -> Result<Vec<RoleRows>, Failure> {
    let counted = [Counter::COUNTING.0, Counter::COUNTED_WHOLE.0];
    settled(&skeleton.maps.counters, counted, || look(skeleton))
}

fn look(skeleton: &WritesSkel) -> Result<Vec<RoleRows>, Failure> {
    let sums: Vec<Vec<cell>> = read_all(&skeleton.maps.cells, 0, ROLES.len() * 2 * SLOTS)?;
    let sums: Vec<cell> = sums.iter().map(|cpus| added(cpus)).collect();
    let rows = ROLES.iter().zip(sums.chunks(2 * SLOTS)).enumerate();
    rows.map(|(number, (name, sums))| {
        let (histogram, own_ns) = row(skeleton, number)?;
        let (stages, join) = sums.split_at(SLOTS);
        let mut waits = STAGES;
        waits[..2].copy_from_slice(&["wake_up", "in_queue"]);
        Ok(RoleRows { name, histogram, own_ns, stages: named(&STAGES, stages), join: named(&waits, join) })
    })
    .collect()
}

fn added(cpus: &[cell]) -> cell {
    cpus.iter().fold(cell::default(), |sum, one| cell {
        count: sum.count + one.count,
        ns: sum.ns + one.ns,
        most: sum.most.max(one.most),
        own_ns: sum.own_ns + one.own_ns,
    })
}

fn named(names: &[&'static str; SLOTS], sums: &[cell]) -> Vec<StageSum> {
    let there = names.iter().zip(sums).filter(|(_, sum)| sum.count > 0);
    there
        .map(|(name, sum)| StageSum {
            name,
            count: sum.count,
            sum_ns: sum.ns,
            most_ns: sum.most,
            own_ns: sum.own_ns,
        })
        .collect()
}

/// How many writes of all roles ended, and their durations together in ns.
pub fn ended(skeleton: &WritesSkel) -> Result<(u64, u64), Failure> {
    let roles = read(skeleton)?;
    let sum = |of: fn(&Histogram) -> u64| roles.iter().map(|role| of(&role.histogram)).sum();
    Ok((sum(|one| one.count), sum(|one| one.sum_ns)))
}

/// Writes of the pilot that ended.
pub fn pilot(skeleton: &WritesSkel) -> Result<Histogram, Failure> {
    Ok(row(skeleton, PILOT)?.0)
}

fn row(skeleton: &WritesSkel, number: usize) -> Result<(Histogram, u64), Failure> {
    Ok(read_rows_and_own(&skeleton.maps.rows, number, 1)?.remove(0))
}

/// `[size, groups]` of the groups that there were; the largest size includes all above it.
pub fn group_sizes(skeleton: &WritesSkel) -> Result<Vec<[u64; 2]>, Failure> {
    let counts = read_counts(&skeleton.maps.sizes, 0, SIZES)?;
    let there = counts.into_iter().enumerate().filter(|(_, count)| *count > 0);
    Ok(there.map(|(place, count)| [place as u64 + 1, count]).collect())
}
