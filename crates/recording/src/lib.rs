//! What an observer of ours sees of a process and its kernel, for the writer of `perf.data`.
//!
//! Frames are addresses here, kept with build ids; they are resolved when the recording is folded.

#![forbid(unsafe_code)]

pub mod kallsyms;
pub mod kernel;
pub mod modules;
pub mod parse;

pub use kernel::Kernel;
pub use modules::Modules;
pub use parse::Mapping;
