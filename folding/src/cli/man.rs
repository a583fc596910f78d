//! `stackfold man`

use super::{Cli, write_output};
use crate::error::{EXIT_OK, Error};
use clap::CommandFactory;
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

pub fn run(args: &ManArgs) -> Result<u8, Error> {
    let mut command = Cli::command();
    command.build();
    if let Some(name) = &args.command {
        let found = command.find_subcommand(name).cloned();
        command = found
            .ok_or_else(|| Error::usage(format!("there is no subcommand '{name}': stackfold --help")))?;
    }
    write_output(args.output.as_ref(), |out| clap_mangen::Man::new(command).render(out))?;
    Ok(EXIT_OK)
}
