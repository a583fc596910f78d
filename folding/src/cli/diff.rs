//! `stackfold diff`

use super::merge::agree;
use super::overwrite::RequestFiles;
use super::{input, output, write_output, write_text};
use crate::diff::Diff;
use crate::diff_report::{self, DiffReport};
use crate::error::{EXIT_OK, EXIT_PARTIAL, Error};
use crate::frame_request::FrameRequest;
use crate::profile::Profile;
use crate::stats::Stats;
use framediff::MatchRule;
use std::path::{Path, PathBuf};

pub const EXAMPLES: &str = r#"EXAMPLES
  stackfold diff before.folded after.folded --format table
  stackfold diff before.pb.gz after.pb.gz --per 1200000,1450000 --format json
  stackfold diff before.folded after.folded | flamegraph.pl > diff.svg
  stackfold diff --runs request.json -o frames.json

Compares two inputs: folded text, pprof or the text of perf script. The first is scaled to compare with the
second: to the same total (default: shares are compared), or to the same number of operations (--per: costs
of one operation are compared). Stacks that vanished and stacks that are new are kept.

With --runs, each side is many profiles (stackfold fold --profile), of several sessions: costs in us per query,
an interval for the difference of every frame, names matched across builds, and what the difference is in few lines.
The request is JSON:
  {"schema": 1, "aliases": ["aliases.toml"], "apart": ["f"], "sides": [
    {"name": "A", "runs": [{"profile": "a/profile.json", "queries": 120000, "us_per_query": 19.2, "session": "1"}]},
    {"name": "B", "runs": [...]}]}
us_per_query: CPU of the whole profile per query; without it its weight in ns by the queries.
"intervals": "samples" has intervals of chance in sampling alone, for one profile a side, which has no repeats; "shares"
where us_per_query is the same for both, and shares are compared. Where samples of a side are not counted, a frame is
different by 1 % of the whole or more.

Output: `stack BEFORE AFTER` as difffolded prints it, BEFORE scaled; a table of frames; or JSON."#;

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum DiffFormat {
    /// One line a stack with both weights, the first scaled
    Folded,
    /// The frames that changed most
    Table,
    /// Every frame, schema 1
    Json,
}

#[derive(clap::Args)]
pub struct DiffArgs {
    #[arg(value_name = "BEFORE", required_unless_present = "runs")]
    before: Option<PathBuf>,
    #[arg(value_name = "AFTER", required_unless_present = "runs")]
    after: Option<PathBuf>,
    /// Compare the profiles of many runs a side, which this request names; writes JSON, schema 1
    #[arg(long, value_name = "FILE", conflicts_with_all = ["before", "after", "per", "raw", "format"])]
    runs: Option<PathBuf>,
    /// With --runs: how names of the two sides may be matched beside those that are equal
    #[arg(
        long,
        value_enum,
        value_delimiter = ',',
        default_value = "canonical,alias,thread,similar,callees",
        value_name = "RULES"
    )]
    matching: Vec<MatchRule>,
    /// With --runs: match equal names alone
    #[arg(long, conflicts_with = "matching")]
    exact: bool,
    /// Operations (queries, reads) done in each recording: compare the cost of one
    #[arg(long, value_name = "A,B", value_parser = operations, conflicts_with = "raw")]
    per: Option<(u64, u64)>,
    /// Scale nothing
    #[arg(long)]
    raw: bool,
    #[arg(long, value_enum, default_value = "folded", value_name = "FORMAT")]
    format: DiffFormat,
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

pub fn run(args: &DiffArgs) -> Result<u8, Error> {
    match (&args.runs, &args.before, &args.after) {
        (Some(request), ..) => compare_runs(args, request),
        (None, Some(before), Some(after)) => compare_two(args, before, after),
        _ => Err(Error::usage("BEFORE and AFTER, or --runs FILE")),
    }
}

fn compare_runs(args: &DiffArgs, request: &Path) -> Result<u8, Error> {
    let found = FrameRequest::open(request)?;
    RequestFiles::refuse_overwriting(found.files().chain([request]), [("-o", args.output.as_deref())])?;
    let rules = if args.exact { &[][..] } else { &args.matching };
    let report = found.compare(rules)?.report();
    write_output(args.output.as_ref(), |out| output::compact_json(&report, out))?;
    Ok(EXIT_OK)
}

fn compare_two(args: &DiffArgs, before: &Path, after: &Path) -> Result<u8, Error> {
    RequestFiles::refuse_overwriting([before, after], [("-o", args.output.as_deref())])?;
    let (options, threads) = (args.selection.options(), args.selection.threads.number());
    let read = |path: &Path| -> Result<(Profile, Stats), Error> {
        let (profile, stats) = args.selection.read(path, &options, threads)?.finish()?;
        if stats.weight == 0 {
            return Err(Error::partial(format!("no weight in {}", path.display())));
        }
        Ok((profile, stats))
    };
    let paths = [before.to_owned(), after.to_owned()];
    let (before, after) = (read(&paths[0])?, read(&paths[1])?);
    agree(&[(&paths[0], before.1.event_and_unit()), (&paths[1], after.1.event_and_unit())])?;
    let diff = Diff::new(&before.0, &after.0, args.per, args.raw);
    if !diff.fits() {
        return Err(Error::usage(format!(
            "the weight of {} is 2^128 or more when it is scaled, too much to be counted; --raw scales nothing",
            paths[0].display()
        )));
    }
    let report = || DiffReport::new(&diff, [&before.1, &after.1], args.per);
    let path = args.output.as_ref();
    match args.format {
        DiffFormat::Folded => write_output(path, |out| diff_report::write_folded(&diff, out))?,
        DiffFormat::Table => write_text(path, |out| diff_report::write_table(&report(), args.top, out))?,
        DiffFormat::Json => write_output(path, |out| output::json(&report(), out))?,
    }
    Ok(if before.1.is_whole() && after.1.is_whole() { EXIT_OK } else { EXIT_PARTIAL })
}
