//! A sample on its way through a collector.

use crate::stats::widest;

/// The head of one sample.
#[derive(Clone, Copy, Debug, Default)]
pub struct Head<'a> {
    pub comm: &'a [u8],
    pub pid: Option<i64>,
    pub tid: Option<i64>,
    pub event: &'a [u8],
    pub period: Option<u64>,
    /// Nanoseconds of the trace's clock.
    pub time: Option<u64>,
}

/// A sample that passed the filters and waits for its frames.
#[derive(Clone, Copy, Debug)]
pub struct OpenSample {
    pub(super) comm: u32,
    pub(super) weight: u64,
    pub(super) period: Option<u64>,
    /// The slice of time it falls into, if slices are wanted.
    pub(super) slice: Option<u64>,
}

impl OpenSample {
    /// The number of its command frame.
    pub fn comm(&self) -> u32 {
        self.comm
    }

    /// The slice of time it falls into, if slices are wanted.
    pub fn slice(&self) -> Option<u64> {
        self.slice
    }
}

/// Samples of one command, one slice of time and one chain.
#[derive(Clone, Copy, Debug)]
pub struct Samples {
    /// The number of the command frame.
    pub comm: u32,
    pub slice: Option<u64>,
    pub weight: u128,
    pub count: u64,
    pub largest: u64,
    /// The shortest and the longest period.
    pub periods: Option<(u64, u64)>,
}

impl From<OpenSample> for Samples {
    fn from(sample: OpenSample) -> Self {
        let OpenSample { comm, weight, period, slice } = sample;
        let periods = period.map(|period| (period, period));
        Self { comm, slice, weight: weight.into(), count: 1, largest: weight, periods }
    }
}

impl Samples {
    pub fn absorb(&mut self, other: &Self) {
        self.weight = self.weight.saturating_add(other.weight);
        self.count += other.count;
        self.largest = self.largest.max(other.largest);
        self.periods = widest(self.periods, other.periods);
    }
}
