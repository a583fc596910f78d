//! Folds profiler samples into weighted stacks, and weighted stacks into categories.
//!
//! ```text
//! perf script text ─┐                                   ┌──> folded text
//! folded text ──────┼─ input::Source ──> Collector ─────┼──> pprof
//! pprof, callgrind ─┘                    └──> Stats     ├──> categories
//!                                                       └──> diff
//! ```
//!
//! Everything is bytes: symbols, commands and paths need not be UTF-8. Memory grows with the number of
//! different stacks, never with the number of samples.

#![forbid(unsafe_code)]

pub mod artifact;
pub mod categories;
pub mod check;
pub mod cli;
pub mod collector;
pub mod columns;
pub mod diff;
pub mod diff_report;
pub mod error;
pub mod events;
pub mod frame;
pub mod frame_request;
pub mod input;
pub mod intervals;
pub mod locations;
pub mod options;
pub mod output;
pub mod pprof;
pub mod profile;
pub mod roots;
pub mod samples;
pub mod slices;
pub mod stacks;
pub mod stats;
pub mod terminal;
pub mod weights;

pub use function_names as names;
pub use symbolize::{addresses, budget, symbols, unwind};
use symbolize::{dso, intern, regular, runs, threads};
