//! `stackfold check`

use super::input::ThreadCount;
use super::output;
use super::overwrite::refuse_overwriting;
use super::{say, write_output, write_text};
use crate::check::{self, Comparison, Verdict};
use crate::error::{EXIT_OK, EXIT_PARTIAL, Error};
use crate::terminal;
use std::path::PathBuf;

pub const EXAMPLES: &str = "\
EXAMPLES
  stackfold check perf.data
  stackfold check --only-pid 4711 --event cycles perf.data
  stackfold check --format json -o check.json perf.data

Folds a recording and compares it with `perf report`: the total of each event, and the self weight of
each symbol. Exit code 1 when a total differs.";

const SHOWN: usize = 20;

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum TextFormat {
    /// For people: the totals, and the largest differences
    Text,
    /// Everything, schema 1
    Json,
}

#[derive(clap::Args)]
pub struct CheckArgs {
    /// A recording
    #[arg(value_name = "FILE", default_value = "perf.data")]
    input: PathBuf,
    /// Write the comparison here instead of standard output
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// How to print it
    #[arg(long, value_enum, default_value = "text", value_name = "FORMAT")]
    format: TextFormat,
    /// Compare the samples of one process, or of several: 17,18
    #[arg(long, value_name = "PID", value_delimiter = ',')]
    only_pid: Vec<i64>,
    /// Compare one event; without it, each
    #[arg(long, value_name = "NAME")]
    event: Option<String>,
    #[command(flatten)]
    threads: ThreadCount,
}

pub fn run(args: &CheckArgs) -> Result<u8, Error> {
    refuse_overwriting([&*args.input], [("-o", args.output.as_deref())])?;
    let event = args.event.as_deref();
    let comparison = check::check(&args.input, &args.only_pid, event, args.threads.number())?;
    if comparison.events.is_empty() {
        return Err(Error::partial("there are no samples to compare"));
    }
    let path = args.output.as_deref();
    match args.format {
        TextFormat::Text => write_text(path, |out| out.write_all(text(&comparison).as_bytes()))?,
        TextFormat::Json => write_output(path, |out| output::json(&comparison, out))?,
    }
    if comparison.is_equal() {
        return Ok(EXIT_OK);
    }
    if let Some(why) = check::older_perf(&args.input) {
        say(&format!("stackfold: {why}\n"));
    }
    Ok(EXIT_PARTIAL)
}

fn text(comparison: &Comparison) -> String {
    comparison.events.iter().map(verdict_text).collect()
}

fn verdict_text(verdict: &Verdict) -> String {
    let Verdict { event, equal, folded, reported, symbols, differences } = verdict;
    let total = if *equal { "equal" } else { "DIFFERENT" };
    let mut text = format!(
        "{}: total {total}: folded {folded}, perf report {reported}; {} of {symbols} symbols differ\n",
        terminal::name(event),
        differences.len()
    );
    for difference in differences.iter().take(SHOWN) {
        let check::Difference { symbol, folded, reported, reason } = difference;
        text.push_str(&format!(
            "  {}: folded {folded}, perf report {reported} ({reason})\n",
            terminal::name(symbol)
        ));
    }
    if differences.len() > SHOWN {
        text.push_str(&format!("  and {} more\n", differences.len() - SHOWN));
    }
    text
}
