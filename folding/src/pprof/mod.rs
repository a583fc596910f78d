//! pprof's `profile.proto`, out and in.
//!
//! The format is seven flat messages of numbers and strings, so a writer and a reader of the wire format
//! (`wire`) do: a generated one (prost) would hold every sample of the profile as an object, need its own build
//! step or a copy of the schema, and save some hundred lines.

mod fields;
mod read;
mod sites;
mod tables;
mod wire;
mod write;

pub use read::Pprof;
pub use write::write_pprof;
