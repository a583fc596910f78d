//! Which reader an input needs: by its first bytes, or as the user says.

use super::open_input;
use crate::budget::Budget;
use crate::collector::{Collector, Options, Weight};
use crate::error::Error;
use crate::input::packed::{is_packed, read_whole};
use crate::input::{Callgrind, Folded, PerfData, PerfScript, Source, Unpacker, looks, parallel, perf_data};
use crate::pprof::Pprof;
use crate::symbols;
use std::fs::File;
use std::io::{self, Cursor, Read};
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
    /// pprof
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
        _ if looks::like_pprof(&head, input.is_packed()) => &mut Pprof,
        _ if looks::like_callgrind(&head) => &mut Callgrind::default(),
        _ => &mut Folded,
    };
    source.read(&mut head.chain(input), &mut collector)?;
    Ok(collector)
}

/// All of an input, unpacked.
pub fn open(path: &Path) -> Result<impl Read, Error> {
    let (head, input) = begin(path)?;
    Ok(Cursor::new(head).chain(input))
}

enum Input {
    Plain(File),
    Packed(Unpacker),
}

impl Input {
    fn is_packed(&self) -> bool {
        matches!(self, Self::Packed(_))
    }
}

impl Read for Input {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Plain(file) => file.read(out),
            Self::Packed(unpacker) => unpacker.read(out),
        }
    }
}

/// The first bytes of an input, unpacked, and the rest.
fn begin(path: &Path) -> Result<(Vec<u8>, Input), Error> {
    let input = open_input(path)?;
    let mut head = Vec::new();
    let wrong = |error| Error::unreadable(path, &error);
    (&input).take(looks::ENOUGH).read_to_end(&mut head).map_err(wrong)?;
    if !is_packed(&head) {
        return Ok((head, Input::Plain(input)));
    }
    let (mut unpacker, mut head) = (Unpacker::new(head, input).map_err(wrong)?, Vec::new());
    match (&mut unpacker).take(looks::ENOUGH).read_to_end(&mut head) {
        Err(error) if head.is_empty() => return Err(wrong(error)),
        // What ends it is met again by whoever reads on.
        _ => {}
    }
    Ok((head, Input::Packed(unpacker)))
}

fn read(path: &Path, format: InputFormat, options: &Options, threads: usize) -> Result<Collector, Error> {
    let (head, input) = begin(path)?;
    let format = match format {
        InputFormat::Auto if perf_data::is_recording(&head) => InputFormat::PerfData,
        InputFormat::Auto if looks::like_pprof(&head, input.is_packed()) => InputFormat::Pprof,
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
    let input = match input {
        // A file can be read from any place on; a pipe gives its bytes once, and opening it again might wait for ever.
        Input::Plain(file)
            if format == InputFormat::PerfData && file.metadata().is_ok_and(|file| file.is_file()) =>
        {
            recording.read_file(file, &mut collector)?;
            return Ok(collector);
        }
        Input::Packed(unpacker) if format == InputFormat::PerfData && !perf_data::is_of_pipe(&head) => {
            let bytes = unpacked_recording(&mut head.chain(unpacker), &mut collector)?;
            recording.read_file(Cursor::new(bytes), &mut collector)?;
            return Ok(collector);
        }
        other => other,
    };
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

/// A recording that is no file has to be in memory.
fn unpacked_recording(input: &mut dyn Read, collector: &mut Collector) -> Result<Vec<u8>, Error> {
    let most = usize::try_from(Budget::default().whole() / 2).unwrap_or(usize::MAX - 1);
    let mut bytes = Vec::new();
    match read_whole(input, most, &mut bytes) {
        Ok(true) => {}
        Ok(false) => {
            return Err(Error::usage(format!(
                "the recording has more than {} MiB unpacked, and would have to be in memory: unpack it to a file",
                most >> 20
            )));
        }
        Err(error) => collector.cut_short(error.to_string()),
    }
    Ok(bytes)
}
