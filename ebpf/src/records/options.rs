//! What can be asked of records.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use crate::queries::QueryOptions;
use crate::session::WindowOptions;
use crate::uprobes::ReturnOptions;

#[derive(Clone, Copy, PartialEq, ValueEnum)]
pub enum Keep {
    /// Those that are slow, and some of the others, drawn at random
    Slow,
    /// Every followed query
    All,
}

#[derive(Args)]
pub struct RecordsOptions {
    /// The process whose queries are followed
    #[arg(long)]
    pub pid: u32,
    /// Follow one query in so many; the gaps are drawn at random
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub sample: u32,
    /// A query of so many us is slow (default: the 95th percentile of a second before the window)
    #[arg(long, value_name = "US", value_parser = clap::value_parser!(u64).range(1..=1_000_000_000))]
    pub threshold_us: Option<u64>,
    /// Which records are kept
    #[arg(long, value_enum, default_value_t = Keep::Slow)]
    pub keep: Keep,
    /// How long the window will be, in seconds: about 2,000 queries that are not slow are kept of it
    #[arg(long, default_value_t = 20.0, value_name = "SECONDS")]
    pub expected: f64,
    /// Longest that queries under way at the window's end are waited for, in seconds
    #[arg(long, default_value_t = 2.0, value_name = "SECONDS")]
    pub linger: f64,
    /// Follow them even where the traps alone would cost more than 5 % of a CPU
    #[arg(long)]
    pub force: bool,
    #[command(flatten)]
    pub returns: ReturnOptions,
    #[command(flatten)]
    pub queries: QueryOptions,
    /// Where the records go
    #[arg(long, value_name = "FILE")]
    pub records: PathBuf,
    /// Where the stacks of waits go, as perf.data
    #[arg(long, value_name = "FILE")]
    pub recording: PathBuf,
    /// Size of the ring that records go through, to see what happens when it is full: a power of two
    #[arg(long, hide = true, value_name = "BYTES")]
    pub ring_bytes: Option<u32>,
    #[command(flatten)]
    pub window: WindowOptions,
}
