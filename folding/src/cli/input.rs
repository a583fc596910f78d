//! Which reader an input needs: by its first bytes, or as the user says.

use super::open_input;
use crate::collector::{Collector, Options, Weight};
use crate::error::Error;
use crate::input::{Callgrind, Folded, PerfData, PerfScript, Source, looks, parallel, perf_data};
use crate::pprof::Pprof;
use crate::symbols;
use std::fs::File;
use std::io::Read;
use std::num::NonZeroUsize;
use std::path::Path;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum InputFormat {
    /// What the first bytes say
    #[default]
    Auto,
    /// A recording of perf, perf.data
    PerfData,
    /// The text of perf script
    PerfScript,
    /// Folded text
    Folded,
    /// pprof, packed with gzip or not
    Pprof,
    /// The output of callgrind
    Callgrind,
}

/// What to take from an input, and how.
#[derive(clap::Args)]
pub struct Selection {
    /// What the input is
    #[arg(long, value_enum, default_value_t, value_name = "FORMAT")]
    pub input_format: InputFormat,
    /// The event (or the values of a pprof); needed when there are several
    #[arg(long, value_name = "NAME")]
    pub event: Option<String>,
    /// What a sample weighs
    #[arg(long, value_enum, default_value_t, value_name = "WHAT")]
    pub weight: Weight,
    #[command(flatten)]
    pub threads: ThreadCount,
}

/// How many threads fold.
#[derive(clap::Args)]
pub struct ThreadCount {
    /// Threads that fold; the result is the same for any number [default: one for each processor, at most 4]
    #[arg(long, value_name = "N")]
    threads: Option<NonZeroUsize>,
}

impl ThreadCount {
    /// Those asked for, or as many as are worth while.
    pub fn number(&self) -> usize {
        const MOST: usize = 4;
        let processors = || std::thread::available_parallelism().map_or(1, NonZeroUsize::get).min(MOST);
        self.threads.map_or_else(processors, NonZeroUsize::get)
    }
}

impl Selection {
    /// All other options have their defaults.
    pub fn options(&self) -> Options {
        Options { event: self.event.clone(), weight: self.weight, ..Options::default() }
    }

    /// Reads all of an input.
    pub fn read(&self, path: &Path, options: &Options) -> Result<Collector, Error> {
        read(path, self.input_format, options, self.threads.number())
    }

    /// Reads callgrind's output once for the event of `options` and for others.
    pub fn read_events<'e>(
        &self,
        path: &Path,
        options: &Options,
        others: impl Iterator<Item = &'e String>,
    ) -> Result<(Collector, Vec<Collector>), Error> {
        let (head, input) = begin(path)?;
        let auto = self.input_format == InputFormat::Auto && looks::like_callgrind(&head);
        if !auto && self.input_format != InputFormat::Callgrind {
            return Err(Error::usage(
                "--profile-of is for callgrind's output, which has all events in one file",
            ));
        }
        let events = std::iter::once(options.event.clone()).chain(others.cloned().map(Some));
        let mut collectors: Vec<_> =
            events.map(|event| Collector::new(Options { event, ..options.clone() })).collect();
        Callgrind::default().read_events(&mut head.chain(input), &mut collectors)?;
        let others = collectors.split_off(1);
        Ok((collectors.remove(0), others))
    }
}

/// Reads stacks that are folded already: pprof, callgrind's, else folded text.
pub fn read_stacks(path: &Path, options: &Options) -> Result<Collector, Error> {
    let (head, input) = begin(path)?;
    let mut collector = Collector::new(options.clone());
    let source: &mut dyn Source = match head {
        _ if looks::like_pprof(&head) => &mut Pprof,
        _ if looks::like_callgrind(&head) => &mut Callgrind::default(),
        _ => &mut Folded,
    };
    source.read(&mut head.chain(input), &mut collector)?;
    Ok(collector)
}

/// The first bytes of an input, and the rest.
fn begin(path: &Path) -> Result<(Vec<u8>, File), Error> {
    let input = open_input(path)?;
    let mut head = Vec::new();
    (&input).take(looks::ENOUGH).read_to_end(&mut head).map_err(|error| Error::unreadable(path, &error))?;
    Ok((head, input))
}

fn read(path: &Path, format: InputFormat, options: &Options, threads: usize) -> Result<Collector, Error> {
    let (head, input) = begin(path)?;
    // A file can be read from any place on; a pipe gives its bytes once, and opening it again might wait for ever.
    let is_file = input.metadata().is_ok_and(|input| input.is_file());
    let format = match format {
        InputFormat::Auto if perf_data::is_recording(&head) => InputFormat::PerfData,
        InputFormat::Auto if looks::like_pprof(&head) => InputFormat::Pprof,
        InputFormat::Auto if looks::like_callgrind(&head) => InputFormat::Callgrind,
        InputFormat::Auto if looks::like_folded(&head) => InputFormat::Folded,
        InputFormat::Auto => InputFormat::PerfScript,
        told => told,
    };
    if format == InputFormat::PerfScript && threads > 1 {
        return parallel::read(&mut head.chain(input), options, threads);
    }
    let mut collector = Collector::new(options.clone());
    let inlines = !options.no_inlines;
    let names = symbols::SymbolOptions::default().with_copies(options.symfs.clone());
    let names = symbols::SymbolOptions { inlines, ..names };
    let mut recording = PerfData::new(names, threads);
    if format == InputFormat::PerfData && is_file {
        recording.read_file(input, &mut collector)?;
        return Ok(collector);
    }
    let source: &mut dyn Source = match format {
        InputFormat::PerfData => &mut recording,
        InputFormat::Folded => &mut Folded,
        InputFormat::Pprof => &mut Pprof,
        InputFormat::Callgrind => &mut Callgrind::default(),
        InputFormat::PerfScript | InputFormat::Auto => &mut PerfScript::default(),
    };
    source.read(&mut head.chain(input), &mut collector)?;
    Ok(collector)
}
