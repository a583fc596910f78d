//! What an observer of ours sees of a process and its kernel; with the writer of `perf.data`, which stackfold and perf read.
//!
//! Frames are addresses here, kept with build ids; they are resolved when the recording is folded.

#![forbid(unsafe_code)]

pub mod kernel;
pub mod modules;
pub mod parse;

pub use kernel::Kernel;
pub use modules::Modules;
pub use parse::Mapping;
pub use perfdata::format::{CONTEXT_KERNEL, CONTEXT_USER};
pub use perfdata::writer::{Copied, LARGEST_STACK, Recording, Registers, Sample};
