//! `perf.data`: the one place that knows its bytes.

// One function maps recordings into memory.
#![deny(unsafe_code)]

pub mod format;
#[cfg(feature = "reader")]
pub mod reader;
#[cfg(all(test, feature = "reader"))]
mod round_trip_tests;
pub mod writer;
