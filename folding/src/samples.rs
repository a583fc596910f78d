//! Samples on their way into a profile: who took one, what it weighs, and what several of them weigh together.

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

/// What one sample weighs: its period, or one.
#[derive(Clone, Copy, Debug)]
pub struct SampleWeight {
    pub weight: u64,
    pub period: Option<u64>,
}

/// A sample that passed the filters and waits for its frames.
#[derive(Clone, Copy, Debug)]
pub struct OpenSample {
    /// The number of its command frame.
    pub comm: u32,
    /// The slice of time it falls into, if slices are wanted.
    pub slice: Option<u64>,
    pub weight: SampleWeight,
}

/// What several samples weigh together.
#[derive(Clone, Copy, Debug)]
pub struct SampleTotals {
    pub weight: u128,
    pub count: u64,
    pub largest: u64,
    /// The shortest and the longest period; the other way round if there was none.
    periods: (u64, u64),
}

impl Default for SampleTotals {
    fn default() -> Self {
        Self { weight: 0, count: 0, largest: 0, periods: (u64::MAX, 0) }
    }
}

impl SampleTotals {
    #[inline]
    pub fn add(&mut self, sample: SampleWeight) {
        self.weight = self.weight.saturating_add(sample.weight.into());
        self.count += 1;
        self.largest = self.largest.max(sample.weight);
        if let Some(period) = sample.period {
            self.periods = (self.periods.0.min(period), self.periods.1.max(period));
        }
    }

    pub fn absorb(&mut self, other: &Self) {
        self.weight = self.weight.saturating_add(other.weight);
        self.count += other.count;
        self.largest = self.largest.max(other.largest);
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

/// Samples of one command, one slice of time and one chain.
#[derive(Clone, Copy, Debug)]
pub struct ChainSamples {
    /// The number of the command frame.
    pub comm: u32,
    pub slice: Option<u64>,
    pub totals: SampleTotals,
}
