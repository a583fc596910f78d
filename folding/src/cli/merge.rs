//! `stackfold merge`

use super::overwrite::RequestFiles;
use super::{input, output, summarise, write_output};
use crate::collector::Options;
use crate::error::{EXIT_OK, EXIT_PARTIAL, Error};
use crate::profile::Profile;
use crate::stats::{Stats, UNSTATED};
use std::path::PathBuf;

pub const EXAMPLES: &str = "\
EXAMPLES
  stackfold merge run1.folded run2.folded run3.folded > all.folded
  stackfold merge *.pb.gz -o all.pb.gz
  perf script | stackfold merge - earlier.pb.gz -o all.folded

Adds up the stacks of many inputs: folded text, pprof, the text of perf script.
Inputs of different events are refused: their weights do not add up.";

#[derive(clap::Args)]
pub struct MergeArgs {
    /// Inputs; - is standard input
    #[arg(value_name = "FILE", required = true)]
    inputs: Vec<PathBuf>,
    #[command(flatten)]
    selection: input::Selection,
    /// Write here instead of standard output
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// What to write; else the name of --output tells: pprof for .pb and .pb.gz
    #[arg(long, value_enum, value_name = "FORMAT")]
    format: Option<output::StacksFormat>,
    /// Write statistics as JSON
    #[arg(long, value_name = "FILE")]
    stats: Option<PathBuf>,
    /// No summary on standard error
    #[arg(short, long)]
    quiet: bool,
}

pub fn run(args: &MergeArgs) -> Result<u8, Error> {
    let outputs = [("-o", args.output.as_deref())].into_iter();
    let outputs = outputs.chain(args.stats.as_deref().map(|path| ("--stats", Some(path))));
    RequestFiles::refuse_overwriting(args.inputs.iter().map(PathBuf::as_path), outputs)?;
    let format = args.format.unwrap_or_else(|| output::StacksFormat::of(args.output.as_deref()));
    let origins = format == output::StacksFormat::Pprof;
    let options = Options { origins, ..args.selection.options() };
    let threads = args.selection.threads.number();
    let mut merged = Profile::default();
    let mut sums = Stats::default();
    let mut stated: Vec<(&PathBuf, String)> = Vec::new();
    for path in &args.inputs {
        let (profile, stats) = args.selection.read(path, &options, threads)?.finish()?;
        if profile.stacks() > 0 {
            stated.push((path, stats.event_and_unit()));
            if sums.unit == UNSTATED || stated.len() == 1 {
                (sums.event, sums.unit) = (stats.event.clone(), stats.unit.clone());
            }
        }
        merged.absorb(&profile);
        sums.absorb(stats);
    }
    agree(&stated)?;
    sums.refuse_overflow()?;
    sums.unique_stacks = merged.stacks() as u64;
    output::write(format, args.output.as_ref(), &merged, &sums, threads)?;
    if let Some(path) = &args.stats {
        write_output(Some(path), |out| output::json(&sums, out))?;
    }
    summarise(&sums, args.quiet);
    if merged.stacks() == 0 {
        return Err(Error::partial("no stacks in the inputs"));
    }
    Ok(if sums.is_whole() { EXIT_OK } else { EXIT_PARTIAL })
}

/// Inputs whose events are known and differ are refused; folded text does not name its event.
pub fn agree(stated: &[(&PathBuf, String)]) -> Result<(), Error> {
    let mut known = stated.iter().filter(|(_, event)| event != UNSTATED);
    let Some((_, first)) = known.next() else { return Ok(()) };
    if known.all(|(_, event)| event == first) {
        return Ok(());
    }
    let list: Vec<String> =
        stated.iter().map(|(path, event)| format!("  {}: {event}", path.display())).collect();
    Err(Error::usage(format!(
        "the inputs are of different events, and weights of different events do not add up:\n{}\n\
         choose inputs of one event, or the event in each with --event",
        list.join("\n")
    )))
}
