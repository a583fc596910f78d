//! What an output is written as.

use super::write_output;
use crate::error::Error;
use crate::output::write_folded;
use crate::pprof::write_pprof;
use crate::profile::Profile;
use crate::stats::Stats;
use serde::Serialize;
use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum StacksFormat {
    /// `comm;root;...;leaf WEIGHT`, one line a stack
    Folded,
    /// pprof, packed with gzip
    Pprof,
}

/// How a result is printed that has no format of its own.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
pub enum TextFormat {
    /// For people: the summary, and what deserves attention
    Text,
    /// Everything, schema 1
    Json,
}

impl StacksFormat {
    /// What the name of the file says.
    pub fn of(path: Option<&Path>) -> Self {
        let name = path.and_then(Path::to_str).unwrap_or("");
        if name.ends_with(".pb") || name.ends_with(".pb.gz") { Self::Pprof } else { Self::Folded }
    }
}

/// Writes the stacks in that format.
pub fn write(
    format: StacksFormat,
    path: Option<&PathBuf>,
    profile: &Profile,
    stats: &Stats,
    threads: usize,
) -> Result<(), Error> {
    if format == StacksFormat::Pprof && path.is_none() && io::stdout().is_terminal() {
        return Err(Error::usage("pprof is no text, and is not written to a terminal: -o out.pb.gz"));
    }
    write_output(path, |out| match format {
        StacksFormat::Folded => write_folded(profile, out, |tally| tally.weight),
        StacksFormat::Pprof => write_pprof(profile, stats, threads, out),
    })
}

/// Statistics, or another result, for programs.
pub fn json(value: &impl Serialize, out: &mut dyn Write) -> io::Result<()> {
    serde_json::to_writer_pretty(&mut *out, value)?;
    out.write_all(b"\n")
}

/// The same in one line, for what is large.
pub fn compact_json(value: &impl Serialize, out: &mut dyn Write) -> io::Result<()> {
    serde_json::to_writer(&mut *out, value)?;
    out.write_all(b"\n")
}
