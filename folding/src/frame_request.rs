//! What a comparison of frames is asked for, and the profiles of its two sides, as `stackfold fold --profile` wrote
//! them.

use crate::artifact::{FrameTable, NodeTable, SCHEMA, ThreadTable};
use crate::dso;
use crate::error::Error;
use crate::names::split_mark;
use framediff::sides::{NONE, Side, SideProfile, SliceCost, StackCost};
use framediff::{Basis, FrameComparison, FrameNames, MatchRule};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// A day in slices of a millisecond.
const SLICES: u32 = 86_400_000;

/// What is compared: JSON of schema 1, read from a file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FrameRequest {
    schema: u32,
    /// The base, and what is compared with it.
    sides: [SideRequest; 2],
    /// TOML files of names that are one function under several names.
    #[serde(default)]
    aliases: Vec<PathBuf>,
    /// Names that no rule may take for another.
    #[serde(default)]
    apart: Vec<String>,
    /// What the intervals are of: `sessions`; `samples` or `shares` of one profile a side.
    #[serde(default)]
    intervals: Basis,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SideRequest {
    name: String,
    runs: Vec<RunRequest>,
}

/// One profile. `session`: profiles of one process share one; without it each has its own. `us_per_query`: CPU of the
/// whole profile per query; without it its weight, which then must be in ns, by `queries`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RunRequest {
    profile: PathBuf,
    queries: f64,
    us_per_query: Option<f64>,
    session: Option<String>,
}

#[derive(Deserialize)]
struct AliasFile {
    same: Vec<Alias>,
}

#[derive(Deserialize)]
struct Alias {
    name: String,
    aliases: Vec<String>,
}

impl FrameRequest {
    /// Paths in it are relative to its directory.
    pub fn open(path: &Path) -> Result<Self, Error> {
        let text = std::fs::read(path).map_err(|error| Error::unreadable(path, &error))?;
        let mut request: Self = serde_json::from_slice(&text).map_err(|error| {
            Error::usage(format!("{} is no request of a comparison: {error}", path.display()))
        })?;
        if request.schema != 1 {
            let found = request.schema;
            return Err(Error::usage(format!(
                "{} has schema {found}; this stackfold reads 1",
                path.display()
            )));
        }
        let directory = path.parent().unwrap_or(Path::new(""));
        let runs = request.sides.iter_mut().flat_map(|side| &mut side.runs).map(|run| &mut run.profile);
        runs.chain(&mut request.aliases).for_each(|path| *path = directory.join(&*path));
        Ok(request)
    }

    pub fn files(&self) -> impl Iterator<Item = &Path> {
        self.sides.iter().flat_map(|side| side.runs.iter().map(|run| &*run.profile))
    }

    /// Each other name with the one that replaces it.
    fn aliases(&self) -> Result<Vec<(String, String)>, Error> {
        let mut found = Vec::new();
        for path in &self.aliases {
            let refused = |why: String| Error::usage(format!("{}: {why}", path.display()));
            let text = std::fs::read_to_string(path).map_err(|error| refused(error.to_string()))?;
            let file: AliasFile = toml::from_str(&text).map_err(|error| refused(error.to_string()))?;
            for Alias { name, aliases } in file.same {
                found.extend(aliases.into_iter().map(|alias| (alias, name.clone())));
            }
        }
        Ok(found)
    }

    /// Reads the profiles and compares them. `rules`: by which names may be matched beside those that are equal.
    pub fn compare(&self, rules: &[MatchRule]) -> Result<FrameComparison, Error> {
        let mut names = FrameNames::new(self.aliases()?, &self.apart, rules);
        let mut read = |number: usize| {
            let side = &self.sides[number];
            let mut sessions: BTreeMap<String, Vec<SideProfile>> = BTreeMap::new();
            let (mut event, mut unit) = (None, String::new());
            for (place, request) in side.runs.iter().enumerate() {
                let (profile, stats) = request.read(number, &mut names)?;
                if place > 0 && unit != stats.unit {
                    let path = request.profile.display();
                    return Err(Error::usage(format!(
                        "{path}: its weights are in {}, others of {} in {unit}: no sum",
                        stats.unit, side.name
                    )));
                }
                (event, unit) = (stats.event, stats.unit);
                let session = request.session.clone().unwrap_or_else(|| format!("profile {place:09}"));
                sessions.entry(session).or_default().push(profile);
            }
            if sessions.is_empty() {
                return Err(Error::usage(format!("{}: no profile is given", side.name)));
            }
            Ok(Side { name: side.name.clone(), sessions: sessions.into_values().collect(), event, unit })
        };
        let sides = [read(0)?, read(1)?];
        if self.intervals != Basis::Sessions && sides.iter().any(|side| side.profiles().count() > 1) {
            return Err(Error::usage(
                "intervals of samples are of one profile a side; of several, sessions show more: leave \"intervals\" out",
            ));
        }
        Ok(FrameComparison::new(sides, names, self.intervals))
    }
}

#[derive(Deserialize)]
struct ProfileFile {
    schema: u32,
    statistics: Statistics,
    names: Vec<String>,
    objects: Vec<String>,
    frames: FrameTable,
    threads: ThreadTable,
    nodes: NodeTable,
    stacks: StackInput,
    slices: Option<SliceInput>,
}

#[derive(Deserialize)]
struct Statistics {
    event: Option<String>,
    unit: String,
    samples: u64,
}

#[derive(Deserialize)]
struct StackInput {
    thread: Vec<u32>,
    node: Vec<i64>,
    weight: Vec<f64>,
    samples: Vec<u64>,
}

#[derive(Deserialize)]
struct SliceInput {
    slice: Vec<u32>,
    stack: Vec<u32>,
    weight: Vec<f64>,
}

impl RunRequest {
    fn read(&self, side: usize, names: &mut FrameNames) -> Result<(SideProfile, Statistics), Error> {
        let path = self.profile.display();
        let refused = |why: String| Error::usage(format!("{path}: {why}"));
        let text =
            std::fs::read(&self.profile).map_err(|error| refused(format!("cannot be read: {error}")))?;
        let file: ProfileFile = serde_json::from_slice(&text)
            .map_err(|error| refused(format!("is no profile of stackfold: {error}")))?;
        if file.schema != SCHEMA {
            return Err(refused(format!("has schema {}; this stackfold reads {SCHEMA}", file.schema)));
        }
        let weight: f64 = file.stacks.weight.iter().sum();
        if weight <= 0.0 || self.queries.is_nan() || self.queries <= 0.0 {
            return Err(refused(format!("weight {weight}, {} queries: no cost of a query", self.queries)));
        }
        let us = match self.us_per_query {
            Some(us) => us * self.queries / weight,
            None if file.statistics.unit == "ns" => 1e-3,
            None => {
                let unit = &file.statistics.unit;
                return Err(refused(format!(
                    "weights in {unit} are no time: the request has to give us_per_query"
                )));
            }
        };
        let profile = file
            .columns(side, names)
            .ok_or_else(|| refused("is inconsistent: it was changed since".into()))?;
        let samples = file.statistics.samples;
        Ok((SideProfile { queries: self.queries, us, samples, ..profile }, file.statistics))
    }
}

impl ProfileFile {
    /// The columns by the keys of `names`; `None` where one points nowhere.
    fn columns(&self, side: usize, names: &mut FrameNames) -> Option<SideProfile> {
        let objects: Vec<u32> = self.objects.iter().map(|object| names.object(&role(object))).collect();
        let mut frames = Vec::with_capacity(self.frames.name.len());
        for (&name, &object) in self.frames.name.iter().zip(&self.frames.object) {
            let name = self.names.get(name as usize)?;
            let object = *objects.get(object as usize)?;
            let inlined = split_mark(name.as_bytes()).1 == Some(b'i');
            frames.push((names.frame(side, name, object), object, inlined));
        }
        let thread_name = |&name: &u32| Some(names.thread(side, self.names.get(name as usize)?));
        let threads: Vec<u32> = self.threads.name.iter().map(thread_name).collect::<Option<_>>()?;

        let mut profile = SideProfile::default();
        let mut open: Vec<u32> = Vec::new();
        for (node, (&depth, &frame)) in self.nodes.depth.iter().zip(&self.nodes.frame).enumerate() {
            open.truncate(depth as usize);
            if open.len() != depth as usize {
                return None;
            }
            profile.parent.push(open.last().copied().unwrap_or(NONE));
            let &(key, object, inlined) = frames.get(frame as usize)?;
            profile.key.push(key);
            // An inlined frame is of the object of the function that it is in.
            let above = profile.parent.last().filter(|above| inlined && **above != NONE);
            profile.object.push(above.map_or(object, |&above| profile.object[above as usize]));
            profile.inlined.push(inlined);
            open.push(node as u32);
        }
        let nodes = profile.key.len() as i64;
        let columns = &self.stacks;
        for (place, (&thread, &node)) in columns.thread.iter().zip(&columns.node).enumerate() {
            profile.stacks.push(StackCost {
                thread: *threads.get(thread as usize)?,
                node: if (0..nodes).contains(&node) { node as u32 } else { NONE },
                weight: *columns.weight.get(place)?,
                samples: *columns.samples.get(place)?,
            });
        }
        if let Some(slices) = &self.slices {
            for ((&slice, &stack), &weight) in slices.slice.iter().zip(&slices.stack).zip(&slices.weight) {
                if stack as usize >= profile.stacks.len()
                    || slice >= SLICES
                    || profile.slices.last().is_some_and(|last| last.slice > slice)
                {
                    return None;
                }
                profile.slices.push(SliceCost { slice, stack, weight });
            }
            profile.slice_count = profile.slices.last().map_or(0, |last| last.slice + 1);
        }
        Some(profile)
    }
}

/// What an object is to both sides: its file's name without version; every program is `(program)`.
fn role(path: &str) -> String {
    let file = path.trim_end_matches(" (deleted)").rsplit('/').next().unwrap_or(path);
    let file = String::from_utf8_lossy(&dso::without_random(file.as_bytes())).into_owned();
    match file.find(".so") {
        _ if dso::is_jit(path.as_bytes()) => "(jit)".to_owned(),
        _ if !path.starts_with('/') => path.to_owned(),
        Some(end) if matches!(file.as_bytes().get(end + 3), None | Some(b'.')) => file[..end + 3].to_owned(),
        _ => "(program)".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::role;

    #[test]
    fn objects_of_two_builds_are_one() {
        for (path, wanted) in [
            ("/usr/lib/librocksdb.so.7.8.3", "librocksdb.so"),
            ("/opt/b/librocksdb.so.10.5 (deleted)", "librocksdb.so"),
            ("/b/10.5.5/db_bench", "(program)"),
            ("/tmp/librocksdbjni1640531527853426401.so", "librocksdbjni*.so"),
            ("/tmp/perf-71.map", "(jit)"),
            ("[kernel.kallsyms]", "[kernel.kallsyms]"),
            ("", ""),
        ] {
            assert_eq!(role(path), wanted, "{path}");
        }
    }
}
