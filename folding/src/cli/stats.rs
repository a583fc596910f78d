//! `stackfold stats`

use super::output::{self, TextFormat};
use super::overwrite::RequestFiles;
use super::{input, write_output, write_text};
use crate::error::{EXIT_OK, EXIT_PARTIAL, Error};
use std::path::PathBuf;

pub const EXAMPLES: &str = "\
EXAMPLES
  perf script --show-lost-events | stackfold stats
  stackfold stats --format json profile.pb.gz
  stackfold stats --event cycles perf.txt

Says what is known about an input besides its stacks: samples, weight and unit, what was lost, dropped,
cut or unresolved. The JSON is that of `stackfold fold --stats`.";

#[derive(clap::Args)]
pub struct StatsArgs {
    /// Text of perf script, folded text or pprof; - is standard input
    #[arg(value_name = "FILE", default_value = "-")]
    input: PathBuf,
    #[command(flatten)]
    selection: input::Selection,
    #[arg(long, value_enum, default_value = "text", value_name = "FORMAT")]
    format: TextFormat,
    /// Write here instead of standard output
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

pub fn run(args: &StatsArgs) -> Result<u8, Error> {
    RequestFiles::refuse_overwriting([&*args.input], [("-o", args.output.as_deref())])?;
    let options = args.selection.options();
    let collector = args.selection.read(&args.input, &options, args.selection.threads.number())?;
    let (profile, stats) = collector.finish()?;
    let path = args.output.as_ref();
    match args.format {
        TextFormat::Text => write_text(path, |out| out.write_all(stats.summary().as_bytes()))?,
        TextFormat::Json => write_output(path, |out| output::json(&stats, out))?,
    }
    if profile.stacks() == 0 {
        return Err(Error::partial("no samples and no stacks in the input"));
    }
    Ok(if stats.is_whole() { EXIT_OK } else { EXIT_PARTIAL })
}
