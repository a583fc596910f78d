//! What can be asked of writes.

use clap::{Args, ValueEnum};

use crate::session::WindowOptions;
use crate::uprobes::ReturnOptions;

#[derive(Clone, Copy, PartialEq, ValueEnum)]
pub enum Depth {
    /// All stages, where watching them takes no more than a fifth of a write; few otherwise
    Auto,
    /// All stages
    Full,
    /// The queue, stalls, and the log's write and sync calls
    Few,
}

#[derive(Args)]
pub struct WritesOptions {
    /// The process whose writes are followed
    #[arg(long)]
    pub pid: u32,
    /// Which stages are told apart
    #[arg(long, value_enum, default_value_t = Depth::Auto)]
    pub stages: Depth,
    /// Follow them even where the traps alone would cost more than 5 % of a CPU
    #[arg(long)]
    pub force: bool,
    /// Before the window, take so many turns with and without watching: by how much longer a write takes
    #[arg(long, default_value_t = 0, value_name = "N")]
    pub cost_turns: u32,
    /// Watch whoever sets the state of a writer, so that a wake-up begins there: 1 to 3 us of each write
    #[arg(long)]
    pub exact_wake_ups: bool,
    #[command(flatten)]
    pub returns: ReturnOptions,
    /// Rules that name the engine's functions: a built-in name or a file
    #[arg(long, default_value = "rocksdb", value_name = "NAME|FILE")]
    pub symbols: String,
    #[command(flatten)]
    pub window: WindowOptions,
}
