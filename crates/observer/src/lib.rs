//! What the programs that observe a process share: how they hold on to it, how they fail, their clock, and
//! what the kernel counted for the disks meanwhile, the control protocol, and the names of states.

pub mod clock;
pub mod control;
pub mod diskstats;
mod failure;
mod process;
pub mod states;

pub use failure::Failure;
pub use process::Process;
