//! What threads of a benchmark do: operations of some kinds, on keys by some law, so many or at some rate.

use crate::distributions::{Sizes, TwoTermExponential};
use crate::keys::Order;
use crate::rate_steps::RateSteps;
use crate::tally::Kind;
use std::sync::Arc;

/// Threads that do the same, counted apart from the others.
#[derive(Clone, Debug)]
pub struct Role {
    pub name: &'static str,
    pub threads: u64,
    /// How often each kind comes: sums of shares, the last is 1.
    pub mix: [f64; 5],
    pub keys: KeyLaw,
    /// Whether the keys asked for are a byte longer than those that are there.
    pub missing: bool,
    pub values: Sizes,
    /// How many keys a scan looks at.
    pub scans: Sizes,
    /// Operations a second of all its threads; 0 for as fast as they go.
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
    /// Whether operations of this kind come at all: its share of the sums is above 0.
    pub fn has(&self, kind: Kind) -> bool {
        let at = kind as usize;
        self.mix[at] > if at == 0 { 0.0 } else { self.mix[at - 1] }
    }
}

/// How the operations of a rate follow one another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrivals {
    /// All gaps are equal.
    Fixed,
    /// Each arrival is independent of the others: gaps are exponential.
    Poisson,
}

impl Arrivals {
    pub fn name(self) -> &'static str {
        match self {
            Self::Fixed => "fixed",
            Self::Poisson => "poisson",
        }
    }
}

/// How many operations a role does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// Until `--duration`, or until the others have done theirs.
    Time,
    EachThread(u64),
    /// Parted between the threads, in order.
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

/// A benchmark, or a command of the engine's.
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
