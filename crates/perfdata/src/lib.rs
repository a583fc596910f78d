//! `perf.data`: the one place that knows its bytes.

// One function maps recordings into memory.
#![deny(unsafe_code)]

pub mod format;
#[cfg(feature = "reader")]
pub mod reader;
pub mod writer;
