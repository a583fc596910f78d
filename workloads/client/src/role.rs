//! The operations of a benchmark's threads: their kinds, keys, number and rate.

use crate::distributions::{Sizes, TwoTermExponential};
use crate::keys::Order;
use crate::rate_steps::RateSteps;
use crate::tally::Kind;
use serde::Serialize;
use std::sync::Arc;

/// Threads with the same operations, counted apart from the others.
#[derive(Clone, Debug)]
pub struct Role {
    pub name: &'static str,
    pub threads: u64,
    /// Cumulative shares of the kinds; the last is 1.
    pub mix: [f64; 5],
    pub keys: KeyLaw,
    /// Whether the keys are a byte longer than those in the database.
    pub missing: bool,
    pub values: Sizes,
    /// Entries that a scan reads.
    pub scans: Sizes,
    /// Operations a second of all its threads; 0 for as fast as possible.
    pub rate: f64,
    /// Of a rate.
    pub arrivals: Arrivals,
    /// How the rate changes; None where it stays.
    pub rate_steps: Option<Arc<RateSteps>>,
    /// Latency at the rate is what is measured, for which threads have to begin on time, at the price of CPU. A rate
    /// alone is held as cheaply as it can be: CPU per query is measured beside it.
    pub on_time: bool,
    /// Operations of each of its threads; None until the time is over.
    pub operations: Limit,
}

impl Role {
    /// Whether the share of this kind is above 0.
    pub fn has(&self, kind: Kind) -> bool {
        let at = kind as usize;
        self.mix[at] > if at == 0 { 0.0 } else { self.mix[at - 1] }
    }
}

/// How the operations of a rate follow one another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Arrivals {
    /// All gaps are equal.
    Fixed,
    /// Each arrival is independent of the others: gaps are exponential.
    Poisson,
}

/// The number of a role's operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// Until `--duration`, or until the others have done theirs.
    Time,
    EachThread(u64),
    /// Divided among the threads, in order.
    AllThreads(u64),
}

/// Which key comes next.
#[derive(Clone, Debug)]
pub enum KeyLaw {
    Uniform,
    InOrder(Order),
    Zipf(f64),
    Power { a: f64, b: f64 },
    Ranges { ranges: u64, weights: TwoTermExponential, power: Option<(f64, f64)> },
}

/// A benchmark, or a command of the engine.
#[derive(Clone, Debug)]
pub enum Step {
    Command(String),
    Benchmark { name: String, roles: Vec<Role> },
}

impl Step {
    pub fn has_a_rate(&self) -> bool {
        matches!(self, Self::Benchmark { roles, .. } if roles.iter().any(|role| role.rate > 0.0))
    }
}
