//! `stackfold categories`

use super::overwrite::refuse_overwriting;
use super::{input, output, write_output, write_text};
use crate::categories::report::{ReportContext, classifications};
use crate::categories::{CategoryReport, Rules, table};
use crate::collector::Options;
use crate::error::{EXIT_OK, Error};
use crate::input::folded;
use crate::stats::UNSTATED;
use std::path::{Path, PathBuf};

pub const EXAMPLES: &str = "\
EXAMPLES
  stackfold categories < out.folded
  stackfold categories --view leaf --counts counts.folded --unit ns out.folded
  stackfold categories --us-per-query 19.246 --format tsv out.folded
  stackfold categories --rules ./my-engine.toml --view owner --format json out.folded

Sorts weighted stacks into categories. Rules are data: built in is `rocksdb`, a path takes yours.
Views of rocksdb: `owner` (from the root, the first anchor owns all below it), `leaf` (what the CPU
was doing at the bottom) and `parts` (what each part of the engine does itself; fold with --kernel).";

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum CategoriesFormat {
    /// Aligned text
    Table,
    /// Tab-separated rows
    Tsv,
    /// Everything, schema 1
    Json,
    /// One line a stack: category, depth of the anchor, samples, weight, stack
    Stacks,
}

#[derive(clap::Args)]
pub struct CategoriesArgs {
    /// Folded text or pprof, packed or not; - is standard input
    #[arg(value_name = "FILE", default_value = "-")]
    input: PathBuf,
    /// Rules: a built-in name or a path
    #[arg(long, default_value = "rocksdb", value_name = "NAME|PATH")]
    rules: String,
    /// The view of the rules
    #[arg(long, default_value = "owner", value_name = "NAME")]
    view: String,
    #[arg(long, value_enum, default_value = "table", value_name = "FORMAT")]
    format: CategoriesFormat,
    /// The same stacks with numbers of samples (stackfold fold --counts)
    #[arg(long, value_name = "FILE")]
    counts: Option<PathBuf>,
    /// Queries in the profile's window, printed along
    #[arg(long, value_name = "N")]
    queries: Option<u64>,
    /// Storage reads in the profile's window, printed along
    #[arg(long, value_name = "N")]
    reads: Option<u64>,
    /// CPU microseconds of one query, shared out among the rows
    #[arg(long, value_name = "US")]
    us_per_query: Option<f64>,
    /// The event of the weights, printed along
    #[arg(long, value_name = "NAME")]
    event: Option<String>,
    /// The unit of the weights, printed along
    #[arg(long, value_name = "UNIT")]
    unit: Option<String>,
    /// Write here instead of standard output
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

pub fn run(args: &CategoriesArgs) -> Result<u8, Error> {
    let inputs = [Some(&*args.input), args.counts.as_deref(), Some(Path::new(&args.rules))];
    refuse_overwriting(inputs.into_iter().flatten(), [("-o", args.output.as_deref())])?;
    let rules = Rules::load(&args.rules)?;
    let view = rules.view(&args.view)?;
    // Folded text has its marks already; pprof may be without.
    let options = Options { kernel: true, ..Options::default() };
    let (mut profile, stats) = input::read_stacks(&args.input, &options)?.finish()?;
    if let Some(path) = &args.counts {
        folded::add_counts(&mut input::open(path)?, &mut profile)?;
    }
    if profile.stacks() == 0 {
        return Err(Error::partial("no stacks in the input"));
    }
    if let CategoriesFormat::Stacks = args.format {
        let classifications = classifications(&rules, view, &profile);
        write_output(args.output.as_deref(), |out| {
            table::write_stacks(view, &profile, &classifications, out)
        })?;
        return Ok(EXIT_OK);
    }
    let counted = args.counts.is_some() || stats.samples > 0;
    let context = ReportContext {
        event: args.event.clone().or(stats.event),
        unit: args.unit.clone().or((stats.unit != UNSTATED).then(|| stats.unit.into_owned())),
        queries: args.queries,
        reads: args.reads,
        us_per_query: args.us_per_query,
    };
    let report = CategoryReport::new(&args.view, &rules, view, &profile, context, counted);
    let path = args.output.as_deref();
    match args.format {
        CategoriesFormat::Json => write_output(path, |out| output::json(&report, out))?,
        CategoriesFormat::Tsv => write_output(path, |out| table::write_tsv(&report, out))?,
        CategoriesFormat::Table | CategoriesFormat::Stacks => {
            write_text(path, |out| table::write_table(&report, out))?
        }
    }
    Ok(EXIT_OK)
}
