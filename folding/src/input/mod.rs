//! Where samples come from: one file for each input, one trait for all.

use crate::collector::Collector;
use crate::error::Error;
use std::io::Read;

pub mod callgrind;
pub mod folded;
pub mod lines;
pub mod looks;
pub mod parallel;
pub mod perf_data;
pub mod perf_script;

pub use callgrind::Callgrind;
pub use folded::Folded;
pub use perf_data::PerfData;
pub use perf_script::PerfScript;

/// An input format.
pub trait Source {
    /// Reads all of `input` into `collector`. Bytes that make no sense are reported to the collector and
    /// passed over; an error means that nothing useful can follow.
    fn read(&mut self, input: &mut dyn Read, collector: &mut Collector) -> Result<(), Error>;
}
