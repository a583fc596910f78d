//! What only one side can tell apart is taken out of both, so that the rest is compared: functions of an object whose
//! names one side lacks, and functions that one side may have inlined where nothing tells.

use super::inference::Inference;
use super::matching::Matching;
use super::runs::{NONE, Run, Side, Stack};
use super::tree::{ROOT, Tree};
use serde::Serialize;
use std::collections::{BTreeMap, HashMap, HashSet};

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub enum Why {
    #[serde(rename = "one side has no names")]
    Nameless,
    #[serde(rename = "inlined differently")]
    Inlined,
}

/// Of one caller: us per query of the stacks that pass frames which were taken out right below it.
pub struct Level {
    pub below: u64,
    pub object: u32,
    pub why: Why,
    pub us: [f64; 2],
}

#[derive(Default)]
pub struct Levels {
    /// Objects of which one side has names and the other has not.
    nameless: HashSet<u32>,
    /// Keys that both sides know.
    shared: HashSet<u32>,
    /// Caller, by its path, and function.
    inlined: HashSet<(u64, u32)>,
    rows: BTreeMap<(u64, u32, Why), [f64; 2]>,
}

/// How far the shares of nameless frames of an object may be apart on the two sides.
const MOST_APART: f64 = 0.1;

impl Levels {
    pub fn nameless(sides: &[Side; 2], matching: &Matching) -> Self {
        let mut known: [HashSet<u32>; 2] = Default::default();
        // By object: us of frames, and of those without a name.
        let mut us: HashMap<u32, [[f64; 2]; 2]> = HashMap::new();
        for (side, profiles) in sides.iter().enumerate() {
            for run in profiles.runs() {
                known[side].extend(run.key.iter().map(|&key| matching.of(key)));
                let mut weight = vec![0.0; run.key.len()];
                for stack in run.stacks.iter().filter(|stack| stack.node != NONE) {
                    weight[stack.node as usize] += stack.weight * run.us;
                }
                for node in (0..run.key.len()).rev() {
                    let object = us.entry(run.object[node]).or_default();
                    object[side][0] += weight[node];
                    if matching.keys[run.key[node] as usize].nameless {
                        object[side][1] += weight[node];
                    }
                    if run.parent[node] != NONE {
                        weight[run.parent[node] as usize] += weight[node];
                    }
                }
            }
        }
        let differ = |us: &[[f64; 2]; 2]| {
            let [a, b] = us.map(|[all, nameless]| if all > 0.0 { nameless / all } else { f64::NAN });
            (a - b).abs() > MOST_APART
        };
        let nameless = us.iter().filter(|(_, us)| differ(us)).map(|(&object, _)| object).collect();
        let shared = known[0].intersection(&known[1]).copied().collect();
        Self { nameless, shared, ..Self::default() }
    }

    /// Adds functions that one side alone seems to have because the other may have inlined them: it tells no inlined
    /// functions of that object, the caller costs the same with all below, and what the other side alone has below
    /// the caller are functions that these call. Whether any was added.
    pub fn inlined(
        &mut self,
        sides: &[Side; 2],
        tree: &Tree,
        matching: &Matching,
        inference: &Inference,
    ) -> bool {
        let mut tells: [HashSet<u32>; 2] = Default::default();
        for (side, profiles) in sides.iter().enumerate() {
            for run in profiles.runs() {
                tells[side].extend(
                    run.object.iter().zip(&run.inlined).filter(|(_, inlined)| **inlined).map(|(&o, _)| o),
                );
            }
        }
        let mut alone: HashMap<u32, [Vec<u32>; 2]> = HashMap::new();
        for node in 1..tree.len() as u32 {
            let above = tree.parent[node as usize];
            if let Some(side) = tree.only(node) {
                if tree.only(above).is_none() && inference.is_different(node) {
                    alone.entry(above).or_default()[side].push(node);
                }
            }
        }
        let before = self.inlined.len();
        let children = tree.children();
        for (above, found) in alone {
            if above == ROOT || inference.is_different(above) {
                continue;
            }
            for side in 0..2 {
                let candidates = found[side].iter().copied().filter(|&node| {
                    let object = tree.object[node as usize];
                    let key = &matching.keys[tree.key[node as usize] as usize];
                    let one_object = object == tree.object[above as usize];
                    one_object && !key.thread && !key.kernel && !tells[1 - side].contains(&object)
                });
                let candidates: Vec<u32> = candidates.collect();
                // Where a function was inlined, its caller calls what it called.
                let below: HashSet<u32> = candidates
                    .iter()
                    .flat_map(|&node| &children[node as usize])
                    .map(|&node| tree.key[node as usize])
                    .collect();
                if found[1 - side].iter().all(|&node| below.contains(&tree.key[node as usize])) {
                    self.inlined.extend(
                        candidates.iter().map(|&node| (tree.path[above as usize], tree.key[node as usize])),
                    );
                }
            }
        }
        self.inlined.len() > before
    }

    fn why(&self, path: u64, key: u32, object: u32, matching: &Matching) -> Option<Why> {
        let unnamed = || matching.keys[key as usize].nameless || !self.shared.contains(&key);
        if self.nameless.contains(&object) && unnamed() {
            return Some(Why::Nameless);
        }
        self.inlined.contains(&(path, key)).then_some(Why::Inlined)
    }

    /// Whether a frame below that path is no node of the tree.
    pub fn takes_out(&self, path: u64, key: u32, object: u32, matching: &Matching) -> bool {
        self.why(path, key, object, matching).is_some()
    }

    pub fn clear(&mut self) {
        self.rows.clear();
    }

    /// Adds a stack to the rows of the callers below which frames of it were taken out. `places`: the node of the
    /// tree of each of the run's; `us`: of a unit of weight.
    #[allow(clippy::too_many_arguments, reason = "a stack, where it came from and where it went")]
    pub fn tell(
        &mut self,
        side: usize,
        run: &Run,
        stack: &Stack,
        places: &[u32],
        paths: &[u64],
        thread: u32,
        us: f64,
        matching: &Matching,
    ) {
        if self.nameless.is_empty() && self.inlined.is_empty() {
            return;
        }
        let mut last = None;
        let mut at = stack.node;
        while at != NONE {
            let above = run.parent[at as usize];
            let here = if above == NONE { thread } else { places[above as usize] };
            if here == places[at as usize] {
                let (key, object) = (matching.of(run.key[at as usize]), run.object[at as usize]);
                let path = paths[here as usize];
                let row = self.why(path, key, object, matching).map(|why| (path, object, why));
                if let Some(row) = row.filter(|_| row != last) {
                    self.rows.entry(row).or_default()[side] += stack.weight * us;
                }
                last = row;
            }
            at = above;
        }
    }

    /// The heaviest first.
    pub fn rows(&self) -> Vec<Level> {
        let row = |(&(below, object, why), &us): (&_, &[f64; 2])| Level { below, object, why, us };
        let mut rows: Vec<Level> = self.rows.iter().map(row).collect();
        rows.sort_by(|a, b| b.us[0].max(b.us[1]).total_cmp(&a.us[0].max(a.us[1])));
        rows
    }
}
