//! Addresses of a recording into names of functions and into the callers of a stack, by the files of this machine.
//!
//! Any file may be damaged or made to harm: what cannot be read of one is left out and said, and what may be held of all
//! of them is bounded ([`budget`]).

#![forbid(unsafe_code)]

pub mod addresses;
pub mod budget;
pub mod dso;
pub mod intern;
#[cfg(test)]
mod one_path_tests;
pub mod regular;
pub mod runs;
pub mod symbols;
pub mod threads;
mod unpacked;
pub mod unwind;
