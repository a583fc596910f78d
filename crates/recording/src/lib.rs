//! What an observer of ours saw, written as `perf.data`: stackfold and perf read it.
//!
//! Frames are addresses here, kept with build ids; they are resolved when the recording is folded.

#![forbid(unsafe_code)]

pub mod kernel;
pub mod modules;
pub mod parse;
mod writer;

pub use kernel::Kernel;
pub use modules::Modules;
pub use parse::Mapping;
pub use perfdata::format::{CONTEXT_KERNEL, CONTEXT_USER};
pub use writer::{Copied, LARGEST_STACK, Recording, Registers, Sample};
