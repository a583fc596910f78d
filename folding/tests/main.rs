//! All tests of stackfold but those within its modules, as one program.

// The fuzz targets name it.
extern crate self as libfuzzer_sys;

mod allocation;
mod arm64;
mod callgrind;
mod check;
mod cli;
mod common;
mod compare;
mod files;
mod fuzz;
mod golden;
mod hostile;
mod intervals;
mod kernel;
mod kinds;
mod limits;
mod parts;
mod perf_data;
mod pprof;
mod profile;
mod properties;
mod published;
mod texts;
mod variants;
