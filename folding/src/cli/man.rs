//! `stackfold man`

use super::write_output;
use crate::error::{EXIT_OK, Error};
use clap::Command;
use std::path::PathBuf;

pub const EXAMPLES: &str = "\
EXAMPLES
  stackfold man | man -l -
  stackfold man -o /usr/local/share/man/man1/stackfold.1
  stackfold man fold | man -l -

Prints the man page of stackfold, or of one of its subcommands.";

#[derive(clap::Args)]
pub struct ManArgs {
    /// A subcommand
    #[arg(value_name = "COMMAND")]
    command: Option<String>,
    /// Write here instead of standard output
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

/// `command`: the whole command line.
pub fn run(args: &ManArgs, mut command: Command) -> Result<u8, Error> {
    command.build();
    if let Some(name) = &args.command {
        let found = command.find_subcommand(name).cloned();
        command = found
            .ok_or_else(|| Error::usage(format!("there is no subcommand '{name}': stackfold --help")))?;
    }
    write_output(args.output.as_deref(), |out| clap_mangen::Man::new(command).render(out))?;
    Ok(EXIT_OK)
}
