//! Samples on their way into a profile: who took one, what it weighs, and what several weigh together.

use crate::options::Weight;
use serde::Serialize;

/// What one sample weighs.
#[derive(Clone, Copy, Debug)]
pub struct SampleWeight {
    /// `None`: its period is what it weighs, and was not recorded.
    pub weight: Option<u64>,
    pub period: Option<u64>,
}

impl SampleWeight {
    #[inline]
    pub fn new(what: Weight, period: Option<u64>) -> Self {
        let weight = match what {
            Weight::Count => Some(1),
            Weight::Period => period,
        };
        Self { weight, period }
    }

    /// What is added of it.
    #[inline]
    pub fn known(self) -> u64 {
        self.weight.unwrap_or(0)
    }
}

/// What several samples weigh together, and how many they are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Tally {
    pub samples: u64,
    pub weight: u128,
}

impl Tally {
    #[inline]
    pub fn plus(self, other: Self) -> Self {
        Self {
            samples: self.samples.saturating_add(other.samples),
            weight: self.weight.saturating_add(other.weight),
        }
    }
}

impl From<SampleWeight> for Tally {
    #[inline]
    fn from(sample: SampleWeight) -> Self {
        Self { samples: 1, weight: sample.known().into() }
    }
}

/// A tally, and what its sum does not tell.
#[derive(Clone, Copy, Debug)]
pub struct SampleTotals {
    pub tally: Tally,
    /// The shortest and the longest period; the other way round if there was none.
    periods: (u64, u64),
}

impl Default for SampleTotals {
    fn default() -> Self {
        Self { tally: Tally::default(), periods: (u64::MAX, 0) }
    }
}

impl SampleTotals {
    #[inline]
    pub fn add(&mut self, sample: SampleWeight) {
        self.tally = self.tally.plus(sample.into());
        if let Some(period) = sample.period {
            self.periods = (self.periods.0.min(period), self.periods.1.max(period));
        }
    }

    pub fn absorb(&mut self, other: &Self) {
        self.tally = self.tally.plus(other.tally);
        self.periods = (self.periods.0.min(other.periods.0), self.periods.1.max(other.periods.1));
    }

    /// The shortest and the longest period, if any sample has one.
    pub fn periods(&self) -> Option<(u64, u64)> {
        (self.periods.0 <= self.periods.1).then_some(self.periods)
    }
}

impl From<SampleWeight> for SampleTotals {
    fn from(sample: SampleWeight) -> Self {
        let mut totals = Self::default();
        totals.add(sample);
        totals
    }
}

/// The head of one sample.
#[derive(Clone, Copy, Debug, Default)]
pub struct SampleHead<'a> {
    pub comm: &'a [u8],
    pub pid: Option<i64>,
    pub tid: Option<i64>,
    pub event: &'a [u8],
    pub period: Option<u64>,
    /// Nanoseconds of the trace's clock.
    pub time: Option<u64>,
}

/// Samples of one command, one slice of time and one chain, or one whose chain is still to be read.
#[derive(Clone, Copy, Debug)]
pub struct ChainSamples {
    /// The number of the command frame.
    pub comm: u32,
    /// The slice of time they fall into, if slices are wanted.
    pub slice: Option<u64>,
    pub totals: SampleTotals,
}
