//! What can be asked of the ladder.

use clap::{Args, ValueEnum};

use crate::queries::QueryOptions;
use crate::session::{TurnOptions, WindowOptions};
use crate::uprobes::ReturnOptions;

#[derive(Clone, Copy, PartialEq, ValueEnum)]
pub enum Start {
    /// At the query where its function is found and called, at the read call otherwise
    Auto,
    /// At the query, or not at all
    Query,
    /// At the read call: no uprobes
    Syscall,
}

#[derive(Args)]
pub struct LadderOptions {
    /// The process whose queries are followed
    #[arg(long)]
    pub pid: u32,
    /// Follow one query in so many; the gaps are drawn at random
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub sample: u32,
    /// Where the ladder starts
    #[arg(long, value_enum, default_value_t = Start::Auto)]
    pub start: Start,
    /// Leave out the uprobes on the file reader: cheaper, and its two stages become part of the query's
    #[arg(long)]
    pub no_reader: bool,
    #[command(flatten)]
    pub returns: ReturnOptions,
    #[command(flatten)]
    pub queries: QueryOptions,
    #[command(flatten)]
    pub turns: TurnOptions,
    #[command(flatten)]
    pub window: WindowOptions,
}
