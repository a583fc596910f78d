//! `perf.data`: the one place that knows its bytes.

#![deny(unsafe_code)]

pub mod format;
