//! One profile in one file: what every table, graph and page is made of.
//!
//! Columns: the values of one stack have the same index in each column of `stacks`, in `row` and `anchor` of a view,
//! and so on. The tree of frames is kept as the depth of each node in depth-first order, siblings sorted by name and
//! object, so that the bytes depend only on the samples.

use crate::categories::rules::WalkFrom;
use crate::categories::{CategoryReport, Rules, report};
use crate::check::Comparison;
use crate::error::Error;
use crate::frame::{Frame, Origin};
use crate::names::split_mark;
use crate::profile::Profile;
use crate::slices::Slices;
use crate::stats::Stats;
use crate::weights::Tally;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::hash::Hash;
use std::num::NonZeroU64;

pub const SCHEMA: u32 = 1;

/// A frame that is not in the table: a sample without frames ends here.
const NO_NODE: i64 = -1;

#[derive(Serialize)]
pub struct Artifact<'a> {
    schema: u32,
    /// Of the weights; so are `weight`, `samples` and all that was lost.
    statistics: &'a Stats,
    /// Distinct names; those of frames carry their mark, `_[k]`.
    names: Vec<String>,
    /// Distinct objects (DSOs), as they were recorded; "" where it is not known.
    objects: Vec<String>,
    frames: FrameTable,
    threads: ThreadTable,
    /// As they were asked for.
    states: Vec<String>,
    /// The tree of frames below the threads, depth-first.
    nodes: NodeTable,
    stacks: StackColumns,
    views: BTreeMap<String, ViewColumns>,
    slices: Option<SliceColumns>,
    /// How the fold compares with perf report.
    check: Option<&'a Comparison>,
    /// Why it was not compared, though that was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    unchecked: Option<String>,
}

/// Distinct frames: places in `names` and `objects`.
#[derive(Default, Deserialize, Serialize)]
pub(crate) struct FrameTable {
    pub name: Vec<u32>,
    pub object: Vec<u32>,
}

/// Distinct threads; the name that folded text shows for each, and what the kernel calls it.
#[derive(Default, Deserialize, Serialize)]
pub(crate) struct ThreadTable {
    pub name: Vec<u32>,
    pid: Vec<Option<i64>>,
    tid: Vec<Option<i64>>,
}

#[derive(Default, Deserialize, Serialize)]
pub(crate) struct NodeTable {
    /// 0 for a root.
    pub depth: Vec<u32>,
    pub frame: Vec<u32>,
}

/// Of each stack: the thread, the node it ends at (-1: it has no frames), its state (-1: it has none), and what it
/// weighs.
#[derive(Default, Serialize)]
struct StackColumns {
    thread: Vec<u32>,
    node: Vec<i64>,
    state: Vec<i64>,
    weight: Vec<u128>,
    samples: Vec<u64>,
}

/// How the rules sort the stacks.
#[derive(Serialize)]
struct ViewColumns {
    walk: WalkFrom,
    /// Rows in the rules' order with their weights; `other` is the last.
    report: CategoryReport,
    /// Of each stack: its place among the rows.
    row: Vec<u32>,
    /// The depth of the frame that decided, as in `nodes`; -1 in `other`.
    anchor: Vec<i64>,
}

/// What each slice of time holds.
#[derive(Serialize)]
struct SliceColumns {
    /// The length of a slice, and where slice 0 begins, in ns of the trace's clock.
    length_ns: u64,
    start_ns: u64,
    slice: Vec<u64>,
    stack: Vec<u32>,
    weight: Vec<u128>,
    samples: Vec<u64>,
}

/// What an artifact is made of.
pub struct ArtifactParts<'a> {
    /// Stacks separated by object and thread (`StackDetail::Objects`).
    pub profile: &'a Profile,
    /// The same by the names of their frames alone, and the number there of each ([`Profile::plain`]).
    pub plain: (&'a Profile, &'a [u32]),
    /// Names of frames that say what a thread was doing: the innermost one of a stack becomes its state and is no
    /// frame. What is below it (the frames of a waker) decides no category.
    pub states: &'a [String],
    pub statistics: &'a Stats,
    /// Length of slices of time, the number from which they are counted, and their content by the stacks of `profile`.
    pub slices: Option<(NonZeroU64, u64, &'a Slices)>,
    pub check: Option<&'a Comparison>,
    /// Why there is none, though one was asked for.
    pub unchecked: Option<String>,
}

impl<'a> Artifact<'a> {
    /// `views`: those of `rules` to sort the stacks by, where rules are given; without any, all that they have.
    pub fn new(parts: &ArtifactParts<'a>, rules: Option<&Rules>, views: &[String]) -> Result<Self, Error> {
        let ArtifactParts { profile, statistics, .. } = *parts;
        let reader = StackReader::new(profile, parts.states);
        let (tables, paths) = ArtifactTables::new(&reader);
        let cut_at_states = (!parts.states.is_empty()).then(|| reader.without_states());
        let (sorted, sorted_of) = match &cut_at_states {
            Some((stacks, numbers)) => (stacks, &numbers[..]),
            None => parts.plain,
        };
        // Depth-first; stacks that end at one node by thread.
        let mut order: Vec<u32> = (0..paths.len() as u32).collect();
        order.sort_by_key(|&stack| {
            let Path { frames, thread, state } = &paths[stack as usize];
            (frames, thread, state)
        });
        let mut stack_at = vec![0; paths.len()];
        order.iter().enumerate().for_each(|(place, &stack)| stack_at[stack as usize] = place as u32);

        let (mut nodes, mut columns) = (NodeTable::default(), StackColumns::default());
        let mut open: Vec<(u32, i64)> = Vec::new();
        for &stack in &order {
            let path = &paths[stack as usize];
            let common =
                open.iter().zip(&path.frames).take_while(|((frame, _), mine)| frame == *mine).count();
            open.truncate(common);
            for &frame in &path.frames[common..] {
                open.push((frame, nodes.frame.len() as i64));
                nodes.depth.push(open.len() as u32 - 1);
                nodes.frame.push(frame);
            }
            let Tally { weight, samples } = profile.tally(stack);
            columns.thread.push(path.thread);
            columns.node.push(open.last().map_or(NO_NODE, |&(_, node)| node));
            columns.state.push(path.state);
            columns.weight.push(weight);
            columns.samples.push(samples);
        }

        let wanted = |rules: &Rules| -> Vec<String> {
            if views.is_empty() { rules.view_names().map(str::to_owned).collect() } else { views.to_vec() }
        };
        let view = |(rules, name): (&Rules, String)| {
            let view = rules.view(&name)?;
            let classifications = report::classifications(rules, view, sorted);
            let place = |stack: &u32| classifications[sorted_of[*stack as usize] as usize];
            let context = report::ReportContext {
                event: statistics.event.clone(),
                unit: Some(statistics.unit.clone().into_owned()),
                ..report::ReportContext::default()
            };
            let columns = ViewColumns {
                walk: view.walk,
                report: CategoryReport::new(&name, rules, view, sorted, context, statistics.samples > 0),
                row: order.iter().map(|stack| place(stack).row as u32).collect(),
                // Rules count from the command, which is the thread here.
                anchor: order
                    .iter()
                    .map(|stack| place(stack).anchor.map_or(-1, |depth| depth as i64 - 1))
                    .collect(),
            };
            Ok((name, columns))
        };
        Ok(Self {
            schema: SCHEMA,
            statistics,
            views: rules
                .iter()
                .flat_map(|&rules| wanted(rules).into_iter().map(move |name| (rules, name)))
                .map(view)
                .collect::<Result<_, Error>>()?,
            slices: parts
                .slices
                .map(|(length, first, slices)| SliceColumns::new(length.get(), first, slices, &stack_at)),
            check: parts.check,
            unchecked: parts.unchecked.clone(),
            nodes,
            stacks: columns,
            names: tables.names,
            objects: tables.objects,
            frames: tables.frames,
            threads: tables.threads,
            states: parts.states.to_vec(),
        })
    }
}

impl SliceColumns {
    fn new(length_ns: u64, first: u64, slices: &Slices, stack_at: &[u32]) -> Self {
        let mut rows: Vec<_> =
            slices.iter().map(|(slice, stack, tally)| (slice, stack_at[stack as usize], tally)).collect();
        rows.sort_unstable_by_key(|&(slice, stack, _)| (slice, stack));
        Self {
            length_ns,
            start_ns: first.saturating_mul(length_ns),
            slice: rows.iter().map(|row| row.0 - first).collect(),
            stack: rows.iter().map(|row| row.1).collect(),
            weight: rows.iter().map(|row| row.2.weight).collect(),
            samples: rows.iter().map(|row| row.2.samples).collect(),
        }
    }
}

/// A stack by its thread and its frames, root first: places in the tables.
struct Path {
    frames: Vec<u32>,
    thread: u32,
    state: i64,
}

/// A thread and a frame of a profile.
type ThreadKey<'p> = (&'p [u8], Option<i64>, Option<i64>);
type FrameKey<'p> = (&'p [u8], &'p [u8]);

/// Tells the thread, the state and the frames of the stacks of a profile.
struct StackReader<'p> {
    profile: &'p Profile,
    /// Which state each frame is.
    states: Vec<Option<usize>>,
}

impl<'p> StackReader<'p> {
    fn new(profile: &'p Profile, states: &[String]) -> Self {
        let state = |frame| {
            let name = profile.name(frame);
            let bare = split_mark(name).0;
            states.iter().position(|state| [name, bare].contains(&state.as_bytes()))
        };
        Self { profile, states: (0..profile.frames() as u32).map(state).collect() }
    }

    fn stacks(&self) -> impl Iterator<Item = u32> {
        0..self.profile.stacks() as u32
    }

    fn thread(&self, stack: u32) -> ThreadKey<'p> {
        let first = self.profile.chain(stack).first().map(|&id| self.profile.frame(id));
        match first {
            Some(Frame { name, origin: Some(Origin::Command { pid, tid, .. }) }) => (name, pid, tid),
            first => (first.map_or(b"", |frame| frame.name), None, None),
        }
    }

    /// The depth of the frame that is the stack's state, and which it is.
    fn state(&self, stack: u32) -> Option<(usize, usize)> {
        let chain = self.profile.chain(stack).iter().enumerate().skip(1);
        chain.rev().find_map(|(depth, &id)| Some((depth, self.states[id as usize]?)))
    }

    /// The frames below the command, without the state.
    fn frames(&self, stack: u32) -> impl Iterator<Item = FrameKey<'p>> {
        let state = self.state(stack).map(|(depth, _)| depth);
        let chain = self.profile.chain(stack).iter().enumerate().skip(1);
        chain.filter(move |&(depth, _)| Some(depth) != state).map(|(_, &id)| match self.profile.frame(id) {
            Frame { name, origin: Some(Origin::Code { object, .. }) } if object != b"[unknown]" => {
                (name, object)
            }
            Frame { name, .. } => (name, &b""[..]),
        })
    }

    /// The stacks as rules look at them: by name, as far as the state; and the number there of each.
    fn without_states(&self) -> (Profile, Vec<u32>) {
        let mut sorted = Profile::default();
        let frame = |id| sorted.intern(Frame::named(self.profile.name(id)));
        let frames: Vec<u32> = (0..self.profile.frames() as u32).map(frame).collect();
        let add = |stack| {
            let chain = self.profile.chain(stack);
            let end = self.state(stack).map_or(chain.len(), |(depth, _)| depth);
            let chain: Vec<u32> = chain[..end].iter().map(|&id| frames[id as usize]).collect();
            sorted.add(&chain, self.profile.tally(stack))
        };
        let numbers = self.stacks().map(add).collect();
        (sorted, numbers)
    }
}

/// What is written once, however often it is met: in the order of its text, whatever order it was met in.
struct ArtifactTables {
    names: Vec<String>,
    objects: Vec<String>,
    frames: FrameTable,
    threads: ThreadTable,
}

impl ArtifactTables {
    /// The tables of a profile, and each of its stacks in them.
    fn new(reader: &StackReader) -> (Self, Vec<Path>) {
        let threads = SortedTable::new(reader.stacks().map(|stack| reader.thread(stack)));
        let frames = SortedTable::new(reader.stacks().flat_map(|stack| reader.frames(stack)));
        let names = threads.sorted.iter().map(|one| one.0).chain(frames.sorted.iter().map(|one| one.0));
        let names = SortedTable::new(names);
        let objects = SortedTable::new(frames.sorted.iter().map(|one| one.1));
        let path = |stack| Path {
            frames: reader.frames(stack).map(|one| frames.of(one)).collect(),
            thread: threads.of(reader.thread(stack)),
            state: reader.state(stack).map_or(-1, |(_, state)| state as i64),
        };
        let paths = reader.stacks().map(path).collect();
        let tables = Self {
            names: names.text(),
            objects: objects.text(),
            frames: FrameTable {
                name: frames.sorted.iter().map(|one| names.of(one.0)).collect(),
                object: frames.sorted.iter().map(|one| objects.of(one.1)).collect(),
            },
            threads: ThreadTable {
                name: threads.sorted.iter().map(|one| names.of(one.0)).collect(),
                pid: threads.sorted.iter().map(|one| one.1).collect(),
                tid: threads.sorted.iter().map(|one| one.2).collect(),
            },
        };
        (tables, paths)
    }
}

/// Different things in their order, and the place of each.
struct SortedTable<T> {
    sorted: Vec<T>,
    index: HashMap<T, u32>,
}

impl<T: Copy + Eq + Hash + Ord> SortedTable<T> {
    fn new(all: impl Iterator<Item = T>) -> Self {
        let mut sorted: Vec<T> = all.collect::<HashSet<T>>().into_iter().collect();
        sorted.sort_unstable();
        let index = sorted.iter().copied().zip(0..).collect();
        Self { sorted, index }
    }

    fn of(&self, one: T) -> u32 {
        self.index[&one]
    }
}

impl SortedTable<&[u8]> {
    fn text(&self) -> Vec<String> {
        self.sorted.iter().map(|name| String::from_utf8_lossy(name).into_owned()).collect()
    }
}
