//! What can be written of a fold: each output is a format, a place for it, and the option that asks for it.

use super::write_output;
use crate::artifact::{Artifact, ArtifactParts};
use crate::categories::Rules;
use crate::check::Comparison;
use crate::collector::StackDetail;
use crate::error::Error;
use crate::pprof::write_pprof;
use crate::profile::{Profile, write_folded};
use crate::slices::Slices;
use crate::stats::Stats;
use serde::Serialize;
use std::io::{self, IsTerminal, Write};
use std::num::NonZeroU64;
use std::path::Path;

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Format {
    /// `comm;root;...;leaf WEIGHT`, one line a stack
    Folded,
    /// pprof, packed with gzip
    Pprof,
    /// Everything in one file, as JSON
    #[value(skip)]
    Profile,
    /// Folded, with numbers of samples
    #[value(skip)]
    Counts,
    /// What each slice of time holds
    #[value(skip)]
    Slices,
    /// Statistics, as JSON
    #[value(skip)]
    Stats,
}

impl Format {
    /// What the name of the file says.
    pub fn of(path: Option<&Path>) -> Self {
        let name = path.and_then(Path::to_str).unwrap_or("");
        if name.ends_with(".pb") || name.ends_with(".pb.gz") { Self::Pprof } else { Self::Folded }
    }
}

/// Something to be written.
pub struct Output<'a> {
    pub option: &'static str,
    pub format: Format,
    /// `None`: standard output
    pub path: Option<&'a Path>,
}

/// A fold, as the outputs need it.
pub struct Fold {
    pub profile: Profile,
    pub stats: Stats,
    /// The stacks by the names of their frames, and the number there of each, where `profile` keeps more.
    plain: Option<(Profile, Vec<u32>)>,
    pub slices: Slices,
    /// The length of a slice, where slices are wanted, and the number of the first one.
    pub slice: Option<(NonZeroU64, u64)>,
    /// How it compares with perf report, or why it could not be compared.
    pub check: Option<Comparison>,
    pub unchecked: Option<Error>,
    threads: usize,
}

/// How stacks are sorted in the artifact.
pub struct ArtifactOptions<'a> {
    pub rules: Option<&'a Rules>,
    pub views: &'a [String],
    pub states: &'a [String],
}

impl Fold {
    /// Without slices and comparison.
    pub fn new(profile: Profile, stats: Stats, detail: StackDetail, threads: usize) -> Self {
        let plain = profile.by_name(detail);
        let (slices, slice, check, unchecked) = (Slices::default(), None, None, None);
        let mut fold = Self { profile, stats, plain, slices, slice, check, unchecked, threads };
        fold.stats.unique_stacks = fold.by_name().stacks() as u64;
        fold
    }

    /// The stacks by the names of their frames.
    pub fn by_name(&self) -> &Profile {
        self.plain.as_ref().map_or(&self.profile, |(plain, _)| plain)
    }

    pub fn write(&self, output: &Output, options: &ArtifactOptions) -> Result<(), Error> {
        let &Output { format, path, .. } = output;
        if format == Format::Pprof && path.is_none() && io::stdout().is_terminal() {
            return Err(Error::usage("pprof is no text, and is not written to a terminal: -o out.pb.gz"));
        }
        let artifact = if format == Format::Profile { Some(self.artifact(options)?) } else { None };
        write_output(path, |out| match format {
            Format::Folded => write_folded(self.by_name(), out, |tally| tally.weight),
            Format::Pprof => write_pprof(&self.profile, &self.stats, self.threads, out),
            Format::Profile => Ok(serde_json::to_writer(out, &artifact)?),
            Format::Counts => write_folded(self.by_name(), out, |tally| tally.samples.into()),
            Format::Slices => {
                let merged = self.plain.as_ref().map(|(_, numbers)| self.slices.merged(numbers));
                let first = self.slice.map_or(0, |(_, first)| first);
                merged.as_ref().unwrap_or(&self.slices).write(self.by_name(), first, out)
            }
            Format::Stats => json(&self.stats, out),
        })
    }

    fn artifact<'a>(&'a self, options: &ArtifactOptions<'a>) -> Result<Artifact<'a>, Error> {
        let numbers = self.plain.as_ref().map_or(&[][..], |(_, numbers)| numbers);
        let parts = ArtifactParts {
            profile: &self.profile,
            plain: (self.by_name(), numbers),
            states: options.states,
            statistics: &self.stats,
            slices: self.slice.map(|(length, first)| (length, first, &self.slices)),
            check: self.check.as_ref(),
            unchecked: self.unchecked.as_ref().map(Error::to_string),
        };
        Artifact::new(&parts, options.rules, options.views)
    }
}

/// Statistics, or another result, for programs.
pub fn json(value: &impl Serialize, out: &mut dyn Write) -> io::Result<()> {
    serde_json::to_writer_pretty(&mut *out, value)?;
    out.write_all(b"\n")
}
