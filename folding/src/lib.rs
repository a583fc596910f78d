//! Folds profiler samples into weighted stacks, and weighted stacks into categories.
//!
//! ```text
//! perf script text ─┐                                   ┌──> folded text
//! folded text ──────┼─ input::Source ──> Collector ─────┼──> pprof
//! pprof ────────────┘                    └──> Stats     ├──> categories
//!                                                       └──> diff
//! ```
//!
//! Everything is bytes: symbols, commands and paths need not be UTF-8. Memory grows with the number of
//! different stacks, never with the number of samples.

#![forbid(unsafe_code)]

pub mod addresses;
pub mod artifact;
pub mod budget;
pub mod categories;
pub mod check;
pub mod cli;
pub mod collector;
pub mod columns;
pub mod diff;
pub mod diff_report;
pub mod dso;
pub mod error;
pub mod events;
pub mod frame_request;
pub mod input;
pub mod intern;
pub mod locations;
pub mod options;
pub mod origin;
pub mod output;
pub mod pprof;
pub mod profile;
mod regular;
pub mod roots;
pub mod runs;
pub mod samples;
pub mod slices;
pub mod stacks;
pub mod stats;
pub mod symbols;
pub mod terminal;
mod threads;
pub mod unwind;

pub use function_names as names;
