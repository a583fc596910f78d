//! Samples of a pprof, put together.

use super::fields::{profile as top, sample};
use super::wire::Message;
use crate::weights::Tally;
use std::io;

/// Which values samples have.
#[derive(Clone, Copy)]
pub struct ValueKinds {
    pub counts: bool,
    pub weights: bool,
}

/// Samples, one behind the other.
#[derive(Default)]
pub struct SampleWriter {
    pub text: Message,
    /// Those of the next sample, leaf first.
    pub locations: Message,
    head: Message,
    values: Message,
}

impl SampleWriter {
    /// Adds a sample at the locations put together before.
    pub fn add(&mut self, values: ValueKinds, tally: Tally, labels: &[u8]) -> io::Result<()> {
        let Tally { weight, samples } = tally;
        let weight = i64::try_from(weight)
            .map_err(|_| io::Error::other(format!("pprof has no number as large as the weight {weight}")))?;
        let values = [values.counts.then_some(samples), values.weights.then_some(weight as u64)];
        self.head.clear();
        self.head.begin_bytes(sample::LOCATION, self.locations.bytes.len());
        self.values.clear();
        self.values.packed(sample::VALUE, values.into_iter().flatten());
        let pieces = [&self.head.bytes, &self.locations.bytes, &self.values.bytes, labels];
        self.text.pieces(top::SAMPLE, &pieces);
        self.locations.clear();
        Ok(())
    }
}
