//! Samples on their way into a profile: who took one, and what belongs together.

use crate::weights::SampleTotals;

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
