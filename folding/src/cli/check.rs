//! `stackfold check`

use crate::check::{self, Verdict};
use crate::error::{EXIT_OK, EXIT_PARTIAL, Error};
use std::io::{self, Write};
use std::path::PathBuf;

pub const EXAMPLES: &str = "\
EXAMPLES
  stackfold check perf.data
  stackfold check --only-pid 4711 perf.data

Folds a recording and compares it with `perf report`: the total of each event, and the self weight of
each symbol. Exit code 1 when a total differs.";

const SHOWN: usize = 20;

#[derive(clap::Args)]
pub struct Args {
    /// A recording
    #[arg(value_name = "FILE", default_value = "perf.data")]
    input: PathBuf,
    /// Compare the samples of one process
    #[arg(long, value_name = "PID")]
    only_pid: Option<i64>,
}

pub fn run(args: &Args) -> Result<u8, Error> {
    let verdicts = check::check(&args.input, args.only_pid)?;
    if verdicts.is_empty() {
        return Err(Error::partial("there are no samples to compare"));
    }
    let text: String = verdicts.iter().map(verdict_text).collect();
    let _ = io::stdout().write_all(text.as_bytes());
    let equal = verdicts.iter().all(|verdict| verdict.folded == verdict.reported);
    Ok(if equal { EXIT_OK } else { EXIT_PARTIAL })
}

fn verdict_text(verdict: &Verdict) -> String {
    let Verdict { event, folded, reported, symbols, differences } = verdict;
    let total = if folded == reported { "equal" } else { "DIFFERENT" };
    let mut text = format!(
        "{event}: total {total}: folded {folded}, perf report {reported}; {} of {symbols} symbols differ\n",
        differences.len()
    );
    for difference in differences.iter().take(SHOWN) {
        let check::Difference { symbol, folded, reported, reason } = difference;
        text.push_str(&format!("  {symbol}: folded {folded}, perf report {reported} ({reason})\n"));
    }
    if differences.len() > SHOWN {
        text.push_str(&format!("  and {} more\n", differences.len() - SHOWN));
    }
    text
}
