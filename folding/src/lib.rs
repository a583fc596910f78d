//! Folds profiler samples into weighted stacks, and weighted stacks into categories.
//!
//! ```text
//! perf.data ────────┐
//! perf script text ─┤                                   ┌──> folded text
//! folded text ──────┼─ input::Source ──> Collector ─────┼──> pprof
//! pprof, callgrind ─┘                    └──> Stats     ├──> artifact (--profile) ──> frame_request (diff)
//!                                                       └──> categories
//! ```
//!
//! Everything is bytes: symbols, commands and paths need not be UTF-8. Memory grows with the number of different stacks, processes
//! and mappings; what waits for its turn, or for the user's side of its chain, is bounded.

#![forbid(unsafe_code)]

pub mod artifact;
pub mod categories;
pub mod check;
pub mod cli;
pub mod collector;
pub mod error;
pub mod events;
pub mod frame;
pub mod frame_request;
pub mod input;
pub mod intervals;
pub mod locations;
pub mod options;
pub mod pprof;
pub mod profile;
pub mod roots;
pub mod slices;
pub mod stacks;
pub mod stats;
pub mod terminal;
pub mod weights;

pub use function_names as names;
pub use symbolize::{addresses, budget, symbols, unwind};
use symbolize::{dso, intern, regular, runs, threads};
