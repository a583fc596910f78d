//! `stackfold fold`

use super::output::{ArtifactOptions, Fold, Format, Output};
use super::overwrite::refuse_overwriting;
use super::{input, say};
use crate::categories::Rules;
use crate::check::{self, PerfReport};
use crate::collector::{Collector, Label, Options, StackDetail, Window};
use crate::error::{EXIT_OK, EXIT_PARTIAL, Error};
use crate::input::folded;
use crate::intervals::Intervals;
use crate::names::Tidy;
use crate::profile::Profile;
use crate::stats::Stats;
use crate::threads;
use std::num::NonZeroU64;
use std::path::PathBuf;
use std::sync::Arc;

pub const EXAMPLES: &str = "\
EXAMPLES
  stackfold perf.data > out.folded
  perf record -g -o - -- ./program | stackfold > out.folded
  perf script | stackfold > out.folded
  perf script -F +pid | stackfold --only-pid 4711 --tid > out.folded
  perf script | stackfold --event cycles --counts counts.folded --stats stats.json -o cycles.folded
  perf script -F comm,tid,ip,sym | stackfold --weight count > out.folded
  perf script -F +pid | stackfold -o out.pb.gz --threads 2
  stackfold --from rocksdb::DBImpl::Get --time 452.1,460 perf.txt > get.folded

Folds a recording of perf, or the text of `perf script`, into `comm;root;...;leaf WEIGHT`, one line a stack, or into pprof.
Folded text and pprof are folded again, with the filters that make sense for them. All may be packed with gzip, xz or zstd.
The weight of a sample is its period.";

/// In a millisecond.
const NANOSECONDS: NonZeroU64 = NonZeroU64::new(1_000_000).unwrap();

#[derive(clap::Args)]
pub struct FoldArgs {
    /// A recording (perf.data), text of perf script, folded text or pprof, packed or not; - is standard input
    #[arg(value_name = "FILE", default_value = "-")]
    input: PathBuf,
    /// Write the stacks here instead of standard output (with --profile, they are not written unless this is given)
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// What to write; else the name of --output tells: pprof for .pb and .pb.gz
    #[arg(long, value_enum, value_name = "FORMAT")]
    format: Option<Format>,
    /// Write pprof as well (gzip)
    #[arg(long, value_name = "FILE")]
    pprof: Option<PathBuf>,
    #[command(flatten)]
    selection: input::Selection,
    /// Write the same stacks with the number of samples as weight
    #[arg(long, value_name = "FILE")]
    counts: Option<PathBuf>,
    /// Take the numbers of samples of folded text from here (what --counts wrote)
    #[arg(long, value_name = "FILE")]
    counts_from: Option<PathBuf>,
    /// Write what each second holds: number of the slice, samples, weight, stack, by tabs
    #[arg(long, value_name = "FILE")]
    slices: Option<PathBuf>,
    /// Length of a slice of --slices and --profile [default: 1000 for --slices, none for --profile]
    #[arg(long, value_name = "MS")]
    slice_ms: Option<NonZeroU64>,
    /// Write everything in one file, as JSON: stacks by object and thread, categories, slices, statistics
    #[arg(long, value_name = "FILE")]
    profile: Option<PathBuf>,
    /// Rules that sort the stacks of --profile: a built-in name or a path
    #[arg(long, value_name = "NAME|PATH", requires = "profile")]
    rules: Option<String>,
    /// Views of --rules [default: all they have]
    #[arg(long, value_name = "NAMES", value_delimiter = ',', requires = "rules")]
    views: Vec<String>,
    /// Views of --rules to leave out, where they have them
    #[arg(long, value_name = "NAMES", value_delimiter = ',', requires = "rules", conflicts_with = "views")]
    without_views: Vec<String>,
    /// Frames that are the state of their thread: columns of --profile and no frames
    #[arg(long, value_name = "NAMES", value_delimiter = ',', requires = "profile")]
    states: Vec<String>,
    /// Take the numbers of samples from the periods of this event, which counts what --event weighs (recordings)
    #[arg(long, value_name = "NAME", requires = "event", conflicts_with_all = ["pprof", "counts_from", "slices", "slice_ms"])]
    count_event: Option<String>,
    /// Write the profile of another event of callgrind's output as well, by the same read
    #[arg(long, value_name = "EVENT=FILE", value_parser = event_file, requires = "profile", conflicts_with = "check")]
    profile_of: Vec<(String, PathBuf)>,
    /// Put the comparison with perf report into --profile (a recording, --no-inlines): of symbols, or of totals alone
    #[arg(long, value_name = "WHAT", num_args = 0..=1, require_equals = true, default_missing_value = "symbols")]
    #[arg(requires = "profile", requires = "no_inlines")]
    #[arg(conflicts_with_all = ["comm", "time", "from", "skip_after", "skip_time", "max_depth"])]
    check: Option<check::Detail>,
    /// Write statistics as JSON
    #[arg(long, value_name = "FILE")]
    stats: Option<PathBuf>,
    /// Put the process in the command frame: comm-PID
    #[arg(long, conflicts_with = "tid")]
    pid: bool,
    /// Put process and thread in the command frame: comm-PID/TID
    #[arg(long)]
    tid: bool,
    /// Keep the samples of one process, or of several: 17,18
    #[arg(long, value_name = "PID", value_delimiter = ',')]
    only_pid: Vec<i64>,
    /// Keep the samples of one command
    #[arg(long, value_name = "NAME")]
    comm: Option<String>,
    /// Keep the samples from A to B, in seconds of the trace's clock as perf script prints them; A or B may be missing
    #[arg(long, value_name = "A,B")]
    time: Option<Window>,
    /// Leave out the samples from A to B, written as for --time. May be given again
    #[arg(long, value_name = "A,B")]
    skip_time: Vec<Window>,
    /// Keep the samples of threads at times: FILE has lines of TID BEGIN END GROUP, in ns of the trace's clock, END left
    /// out. Groups stand in the place of slices in --slices and --profile
    #[arg(long, value_name = "FILE", conflicts_with_all = ["slice_ms", "check"])]
    intervals: Option<PathBuf>,
    /// Make FRAME the root: keep the stacks that have it, without what called its outermost occurrence
    #[arg(long, value_name = "FRAME")]
    from: Option<String>,
    /// Cut what called FRAME, at its innermost occurrence; other stacks stay. May be given again
    #[arg(long, value_name = "FRAME")]
    skip_after: Vec<String>,
    /// What to cut from symbol names: nothing, the last argument list, template arguments too
    #[arg(long, value_enum, default_value_t, value_name = "HOW")]
    tidy: Tidy,
    /// Keep at most N frames from the root; what is deeper counts for the last one kept
    #[arg(long, value_name = "N")]
    max_depth: Option<usize>,
    /// Mark kernel frames with _[k]
    #[arg(long)]
    kernel: bool,
    /// Mark inlined frames with _[i]
    #[arg(long)]
    inlines: bool,
    /// Do not make frames of inlined functions (recordings only; the text of perf script has its own)
    #[arg(long)]
    no_inlines: bool,
    /// Mark frames of run-time compiled code with _[j]
    #[arg(long)]
    jit: bool,
    /// Where copies of files lie by the paths that they were mapped under: read before those paths; DIR/.debug is perf's
    /// build-id cache of another machine (recordings)
    #[arg(long, value_name = "DIR")]
    symfs: Option<PathBuf>,
    /// Put the address in the name of frames without symbol: [libc.so.6 0x1234]
    #[arg(long)]
    addrs: bool,
    /// Put the object in front of symbols: libc.so.6`read
    #[arg(long)]
    dso: bool,
    /// All three marks
    #[arg(long)]
    all_annotations: bool,
    /// No summary on standard error
    #[arg(short, long)]
    quiet: bool,
}

/// What was read.
struct Input {
    collector: Collector,
    /// Those of `--profile-of`.
    of_events: Vec<Collector>,
    reported: Option<PerfReport>,
    /// Why there is nothing to compare with, though that was asked for.
    unchecked: Option<Error>,
}

impl FoldArgs {
    /// What is to be written: the stacks, and what is written beside them.
    fn outputs(&self) -> Vec<Output<'_>> {
        let format = self.format.unwrap_or_else(|| Format::of(self.output.as_deref()));
        let stacks = Output { option: "-o", format, path: self.output.as_deref() };
        let stacks = Some(stacks).filter(|_| self.output.is_some() || self.profile.is_none());
        let beside = [
            ("--pprof", Format::Pprof, &self.pprof),
            ("--profile", Format::Profile, &self.profile),
            ("--counts", Format::Counts, &self.counts),
            ("--slices", Format::Slices, &self.slices),
            ("--stats", Format::Stats, &self.stats),
        ];
        let beside = beside.into_iter().filter_map(|(option, format, path)| {
            path.as_deref().map(|path| Output { option, format, path: Some(path) })
        });
        stacks.into_iter().chain(beside).collect()
    }

    /// Reads the input, and the other events of callgrind's output; or has it compared meanwhile with perf report.
    fn read(&self, options: &Options) -> Result<Input, Error> {
        let read = || self.selection.read(&self.input, options);
        let (mut of_events, mut reported, mut unchecked) = (Vec::new(), None, None);
        let collector = if !self.profile_of.is_empty() {
            let events = self.profile_of.iter().map(|(event, _)| event);
            let (first, others) = self.selection.read_events(&self.input, options, events)?;
            of_events = others;
            first
        } else if let Some(detail) = self.check {
            let (collector, report) = check::beside_perf(&self.input, &self.only_pid, detail, read)?;
            // A recording that perf report cannot read is folded all the same; the failure is reported at the end.
            match report {
                Ok(report) => reported = Some(report),
                Err(error) => unchecked = Some(error),
            }
            collector?
        } else {
            read()?
        };
        Ok(Input { collector, of_events, reported, unchecked })
    }

    /// Takes numbers of samples from where the options say.
    fn count(&self, options: &Options, profile: &mut Profile, stats: &mut Stats) -> Result<(), Error> {
        if let Some(path) = &self.counts_from {
            if stats.samples > 0 {
                return Err(Error::usage(
                    "--counts-from is for folded text; this input has its numbers of samples",
                ));
            }
            folded::add_counts(&mut input::open(path)?, profile)?;
            stats.samples = profile.total().samples;
        }
        if let Some(event) = &self.count_event {
            let options = Options { event: Some(event.clone()), ..options.clone() };
            let (counts, _) = self.selection.read(&self.input, &options)?.finish()?;
            profile.take_counts(&counts)?;
            stats.samples = profile.total().samples;
        }
        if self.counts.is_some() && stats.samples == 0 && stats.weight > 0 {
            return Err(Error::usage("--counts: the input has no numbers of samples"));
        }
        Ok(())
    }

    /// The length of a slice in ns, where slices are wanted.
    fn slice(&self) -> Option<NonZeroU64> {
        if self.intervals.is_some() {
            return Some(NonZeroU64::MIN);
        }
        let milliseconds = self.slice_ms.or(self.slices.is_some().then_some(SECOND))?;
        Some(milliseconds.saturating_mul(NANOSECONDS))
    }

    fn options(&self) -> Result<Options, Error> {
        let label = match (self.pid, self.tid) {
            (_, true) => Label::Tid,
            (true, _) => Label::Pid,
            _ => Label::Comm,
        };
        Ok(Options {
            label,
            only_pids: self.only_pid.iter().copied().collect(),
            comm: self.comm.clone(),
            tidy: self.tidy,
            max_depth: self.max_depth,
            kernel: self.kernel || self.all_annotations,
            inlines: self.inlines || self.all_annotations,
            jit: self.jit || self.all_annotations,
            time: self.time,
            skip_time: self.skip_time.clone(),
            slice: self.slice(),
            from: self.from.clone(),
            skip_after: self.skip_after.clone(),
            symfs: self.symfs.clone(),
            addrs: self.addrs,
            dso: self.dso,
            detail: StackDetail::Names,
            no_inlines: self.no_inlines,
            intervals: self.intervals.as_deref().map(Intervals::load).transpose()?.map(Arc::new),
            ..self.selection.options()
        })
    }
}

fn event_file(text: &str) -> Result<(String, PathBuf), String> {
    let (event, path) = text.split_once('=').ok_or("EVENT=FILE: the event's name and a path")?;
    Ok((event.to_owned(), path.into()))
}

/// In ms.
const SECOND: NonZeroU64 = NonZeroU64::new(1000).unwrap();

pub fn run(args: &FoldArgs) -> Result<u8, Error> {
    let outputs = args.outputs();
    let inputs = [Some(&*args.input), args.counts_from.as_deref(), args.intervals.as_deref()];
    let named = outputs.iter().map(|output| (output.option, output.path));
    let beside = args.profile_of.iter().map(|(_, path)| ("--profile-of", Some(&**path)));
    refuse_overwriting(inputs.into_iter().flatten(), named.chain(beside))?;
    let options = args.options()?;
    let options = Options { detail: detail(&outputs, &options), ..options };
    let mut rules = args.rules.as_deref().map(Rules::load).transpose()?;
    if let Some(rules) = &mut rules {
        rules.leave_out(&args.without_views);
    }
    let Input { mut collector, of_events, reported, unchecked } = args.read(&options)?;
    let slices = collector.take_slices();
    let (mut profile, mut stats) = collector.finish()?;
    args.count(&options, &mut profile, &mut stats)?;
    if args.slices.is_some() && slices.is_empty() && stats.weight > 0 {
        return Err(Error::usage("--slices: the input has no time of each sample"));
    }
    let threads = args.selection.threads.number();
    let artifact = ArtifactOptions { rules: rules.as_ref(), views: &args.views, states: &args.states };
    let mut fold = Fold::new(profile, stats, options.detail, threads);
    // Groups have numbers of their own.
    let first = if options.intervals.is_some() { 0 } else { slices.first() };
    (fold.slices, fold.slice) = (slices, options.slice.map(|length| (length, first)));
    let event = fold.stats.event.as_deref();
    fold.check = reported.map(|reported| check::compare_profile(fold.by_name(), event, reported));
    fold.unchecked = unchecked;
    let written = threads::each(&outputs, threads, |output| fold.write(output, &artifact));
    written.into_iter().collect::<Result<(), Error>>()?;
    for (collector, (_, path)) in of_events.into_iter().zip(&args.profile_of) {
        let (profile, stats) = collector.finish()?;
        let output = Output { option: "--profile-of", format: Format::Profile, path: Some(path) };
        Fold::new(profile, stats, options.detail, threads).write(&output, &artifact)?;
    }
    let Fold { stats, unchecked, .. } = fold;
    summarise(&stats, args.quiet);
    refuse_empty(&stats, &options)?;
    if let Some(error) = unchecked {
        return Err(error);
    }
    Ok(if stats.is_whole() { EXIT_OK } else { EXIT_PARTIAL })
}

/// What the outputs need of the stacks.
fn detail(outputs: &[Output], options: &Options) -> StackDetail {
    let any = |format| outputs.iter().any(|output| output.format == format);
    match (any(Format::Profile), any(Format::Pprof)) {
        (true, true) if !options.cut_stacks() => StackDetail::ObjectsAndSites,
        (true, _) => StackDetail::Objects,
        (false, true) if !options.cut_stacks() => StackDetail::Sites,
        (false, true) => StackDetail::Addresses,
        (false, false) => StackDetail::Names,
    }
}

fn refuse_empty(stats: &Stats, options: &Options) -> Result<(), Error> {
    if stats.samples > 0 || stats.weight > 0 {
        return Ok(());
    }
    let filters = options.filters();
    Err(Error::partial(match (stats.filtered_samples, stats.filtered_weight) {
        (0, 0) => "no samples in the input. A recording: what was recorded used no CPU while it lasted. \
                   Text: is it that of perf script, and did perf script succeed?"
            .to_owned(),
        (0, weight) => format!("none of the weight, {weight}, passed {filters}"),
        (n, _) => format!("none of the {n} samples passed {filters}"),
    }))
}

/// What is known of a fold, on standard error; with `quiet` only what makes the exit code 1: without it the reason would be missing.
fn summarise(stats: &Stats, quiet: bool) {
    match quiet {
        true => stats.losses().iter().for_each(|loss| say(&format!("stackfold: {loss}\n"))),
        false => say(&stats.summary()),
    }
}
