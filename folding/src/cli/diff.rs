//! `stackfold diff`

use super::merge::agree;
use super::overwrite::Files;
use super::{input, output, write_output, write_text};
use crate::diff::Diff;
use crate::diff_report::{self, Report};
use crate::error::{EXIT_OK, EXIT_PARTIAL, Error};
use crate::profile::Profile;
use crate::stats::Stats;
use std::path::{Path, PathBuf};

pub const EXAMPLES: &str = "\
EXAMPLES
  stackfold diff before.folded after.folded --format table
  stackfold diff before.pb.gz after.pb.gz --per 1200000,1450000 --format json
  stackfold diff before.folded after.folded | flamegraph.pl > diff.svg

Compares two inputs: folded text, pprof or the text of perf script. The first is scaled to stand beside the
second: to the same total (default: shares are compared), or to the same number of operations (--per: costs
of one operation are compared). Stacks that vanished and stacks that are new are kept.

Output: `stack BEFORE AFTER` as difffolded prints it, BEFORE scaled; a table of frames; or JSON.";

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Format {
    /// One line a stack with both weights, the first scaled
    Folded,
    /// The frames that changed most
    Table,
    /// Every frame, schema 1
    Json,
}

#[derive(clap::Args)]
pub struct Args {
    #[arg(value_name = "BEFORE")]
    before: PathBuf,
    #[arg(value_name = "AFTER")]
    after: PathBuf,
    /// Operations (queries, reads) done in each recording: compare the cost of one
    #[arg(long, value_name = "A,B", value_parser = operations, conflicts_with = "raw")]
    per: Option<(u64, u64)>,
    /// Scale nothing
    #[arg(long)]
    raw: bool,
    #[arg(long, value_enum, default_value = "folded", value_name = "FORMAT")]
    format: Format,
    /// Rows of each table
    #[arg(long, default_value_t = 20, value_name = "N")]
    top: usize,
    #[command(flatten)]
    selection: input::Selection,
    /// Write here instead of standard output
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

fn operations(text: &str) -> Result<(u64, u64), String> {
    let number = |text: &str| text.trim().parse().ok().filter(|n| *n > 0);
    let pair = text.split_once(',').and_then(|(a, b)| Some((number(a)?, number(b)?)));
    pair.ok_or_else(|| "A,B are two numbers of operations above 0, parted by a comma".to_owned())
}

pub fn run(args: &Args) -> Result<u8, Error> {
    Files::refuse_overwriting([&*args.before, &*args.after], [("-o", args.output.as_deref())])?;
    let (options, threads) = (args.selection.options(), args.selection.threads.number());
    let read = |path: &Path| -> Result<(Profile, Stats), Error> {
        let (profile, stats) = args.selection.read(path, &options, threads)?.finish()?;
        if stats.weight == 0 {
            return Err(Error::partial(format!("no weight in {}", path.display())));
        }
        Ok((profile, stats))
    };
    let (before, after) = (read(&args.before)?, read(&args.after)?);
    agree(&[(&args.before, before.1.event_and_unit()), (&args.after, after.1.event_and_unit())])?;
    let diff = Diff::new(&before.0, &after.0, args.per, args.raw);
    if !diff.fits() {
        return Err(Error::usage(format!(
            "the weight of {} is 2^128 or more when it is scaled, too much to be counted; --raw scales nothing",
            args.before.display()
        )));
    }
    let report = || Report::new(&diff, [&before.1, &after.1], args.per);
    let path = args.output.as_ref();
    match args.format {
        Format::Folded => write_output(path, |out| diff_report::write_folded(&diff, out))?,
        Format::Table => write_text(path, |out| diff_report::write_table(&report(), args.top, out))?,
        Format::Json => write_output(path, |out| output::json(&report(), out))?,
    }
    Ok(if before.1.is_whole() && after.1.is_whole() { EXIT_OK } else { EXIT_PARTIAL })
}
