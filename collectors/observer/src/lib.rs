//! What the programs that observe a process share: how they hold on to it, and how they fail.

mod failure;
mod process;

pub use failure::Failure;
pub use process::Process;
