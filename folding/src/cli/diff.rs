//! `stackfold diff`

use super::overwrite::refuse_overwriting;
use super::write_output;
use crate::error::{EXIT_OK, Error};
use crate::frame_request::FrameRequest;
use framediff::MatchRule;
use std::path::PathBuf;

pub const EXAMPLES: &str = r#"EXAMPLES
  stackfold --profile a.json before.data; stackfold --profile b.json after.data
  stackfold diff --runs request.json -o frames.json

Each side is one or many profiles (stackfold fold --profile), of several sessions: costs in us per query,
an interval for the difference of every frame, names matched across builds, and what the difference is in few lines.
The request is JSON:
  {"schema": 1, "aliases": ["aliases.toml"], "apart": ["f"], "sides": [
    {"name": "A", "runs": [{"profile": "a/profile.json", "queries": 120000, "us_per_query": 19.2, "session": "1"}]},
    {"name": "B", "runs": [...]}]}
us_per_query: CPU of the whole profile per query; without it its weight in ns by the queries.
"intervals": "samples" has intervals of chance in sampling alone, for one profile a side, which has no repeats; "shares"
where us_per_query is the same for both, and shares are compared. Where samples of a side are not counted, a frame is
different by 1 % of the whole or more."#;

#[derive(clap::Args)]
pub struct DiffArgs {
    /// Which profiles to compare; what is written is JSON, schema 1
    #[arg(long, value_name = "FILE")]
    runs: PathBuf,
    /// How names of the two sides may be matched beside those that are equal
    #[arg(
        long,
        value_enum,
        value_delimiter = ',',
        default_value = "canonical,alias,thread,similar,callees",
        value_name = "RULES"
    )]
    matching: Vec<MatchRule>,
    /// Match equal names alone
    #[arg(long, conflicts_with = "matching")]
    exact: bool,
    /// Write here instead of standard output
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

pub fn run(args: &DiffArgs) -> Result<u8, Error> {
    let request = FrameRequest::open(&args.runs)?;
    refuse_overwriting(request.files().chain([&*args.runs]), [("-o", args.output.as_deref())])?;
    let rules = if args.exact { &[][..] } else { &args.matching };
    let report = request.compare(rules)?.report();
    // In one line: it is large.
    write_output(args.output.as_deref(), |out| {
        serde_json::to_writer(&mut *out, &report)?;
        out.write_all(b"\n")
    })?;
    Ok(EXIT_OK)
}
