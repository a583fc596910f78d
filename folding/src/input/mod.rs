//! Where samples come from: one file for each input, one trait for all.

use crate::collector::{Collector, Options};
use crate::error::Error;
use std::io::Read;

pub mod callgrind;
pub mod folded;
pub mod lines;
pub mod looks;
pub mod packed;
pub mod parallel;
pub mod perf_data;
pub mod perf_script;

pub use callgrind::Callgrind;
pub use folded::Folded;
pub use packed::Unpacker;
pub use perf_data::PerfData;
pub use perf_script::PerfScript;

/// An input format.
pub trait Source {
    /// Reads all of `input` into `collector`. Bytes that make no sense are reported to the collector and
    /// passed over; an error means that nothing useful can follow.
    fn read(&mut self, input: &mut dyn Read, collector: &mut Collector) -> Result<(), Error>;
}

/// Refuses what cannot be had of an input that has no times, and the others of `lacking` that were asked for: each with
/// its option and what the input does not have.
fn refuse_lacking(input: &str, options: &Options, lacking: &[(bool, &str, &str)]) -> Result<(), Error> {
    let times = options.needing_time().map(|option| (option, "times"));
    let others = lacking.iter().find(|(asked, ..)| *asked).map(|&(_, option, what)| (option, what));
    match times.or(others) {
        Some((option, what)) => {
            Err(Error::usage(format!("{input} has no {what}: use {option} on a recording")))
        }
        None => Ok(()),
    }
}
