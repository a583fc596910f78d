//! The profiles of both sides as one tree: threads by name below the root, frames below them.

use crate::cuts::{CutReason, Cuts};
use crate::frame_names::FrameNames;
use crate::sides::{NONE, Side, SideProfile, StackCost};
use std::collections::{BTreeMap, HashMap};

/// Nodes in the order of first sight, the root first; a node follows its parent.
#[derive(Default)]
pub struct MergedTree {
    pub parent: Vec<u32>,
    pub key: Vec<u32>,
    pub object: Vec<u32>,
    /// Of the path from the root: the same in every tree of one matching.
    pub path: Vec<u64>,
    /// us per query with all below, roughly (the sum over all sessions by that of their queries).
    pub us: Vec<[f64; 2]>,
    pub samples: Vec<[u64; 2]>,
    /// Of each profile of either side, in their order: the node that each stack ends at.
    pub ends: [Vec<Vec<u32>>; 2],
    /// By caller (its path), object and reason: us per query of the stacks that pass frames cut right below it.
    pub cut: BTreeMap<(u64, u32, CutReason), [f64; 2]>,
    places: HashMap<(u32, u32), u32>,
}

pub const ROOT: u32 = 0;
/// Spreads a number over all bits: 2^64 by the golden ratio (Knuth).
const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;

impl MergedTree {
    /// What frames that are cut weigh goes to the frame above.
    pub fn new(sides: &[Side; 2], names: &FrameNames, cuts: &Cuts) -> Self {
        let mut tree = Self::default();
        tree.add(NONE, NONE, 0);
        for (side, profiles) in sides.iter().enumerate() {
            let queries = profiles.queries();
            for profile in profiles.profiles() {
                tree.add_profile(side, profile, profile.us / queries, names, cuts);
            }
        }
        for node in (1..tree.len()).rev() {
            let above = tree.parent[node] as usize;
            for side in 0..2 {
                tree.us[above][side] += tree.us[node][side];
                tree.samples[above][side] += tree.samples[node][side];
            }
        }
        tree
    }

    pub fn len(&self) -> usize {
        self.parent.len()
    }

    pub fn is_empty(&self) -> bool {
        self.parent.is_empty()
    }

    fn add(&mut self, parent: u32, key: u32, object: u32) -> u32 {
        let above = self.path.get(parent as usize).copied().unwrap_or(0);
        self.parent.push(parent);
        self.key.push(key);
        self.object.push(object);
        self.path.push((above.rotate_left(5) ^ u64::from(key).wrapping_add(1)).wrapping_mul(SPREAD));
        self.us.push([0.0; 2]);
        self.samples.push([0; 2]);
        self.len() as u32 - 1
    }

    fn child(&mut self, parent: u32, key: u32, object: u32) -> u32 {
        if let Some(&node) = self.places.get(&(parent, key)) {
            return node;
        }
        let node = self.add(parent, key, object);
        self.places.insert((parent, key), node);
        node
    }

    fn add_profile(&mut self, side: usize, profile: &SideProfile, us: f64, names: &FrameNames, cuts: &Cuts) {
        // By thread: the node here of each node there.
        let mut of_thread: HashMap<u32, Vec<u32>> = HashMap::new();
        let mut path = Vec::new();
        let mut ends = Vec::with_capacity(profile.stacks.len());
        for stack in &profile.stacks {
            let thread = self.child(ROOT, names.of(stack.thread), 0);
            let known = of_thread.entry(thread).or_insert_with(|| vec![NONE; profile.key.len()]);
            path.clear();
            let mut at = stack.node;
            while at != NONE && known[at as usize] == NONE {
                path.push(at);
                at = profile.parent[at as usize];
            }
            let mut here = if at == NONE { thread } else { known[at as usize] };
            for &node in path.iter().rev() {
                let key = names.of(profile.key[node as usize]);
                let object = profile.object[node as usize];
                // How many nameless frames lie on one another is a matter of inlining.
                let again = names.keys[key as usize].nameless && self.key[here as usize] == key;
                if !again && cuts.reason(self.path[here as usize], key, object, names).is_none() {
                    here = self.child(here, key, object);
                }
                known[node as usize] = here;
            }
            self.us[here as usize][side] += stack.weight * us;
            self.samples[here as usize][side] += stack.samples;
            if !cuts.is_empty() {
                for row in self.cut_of(profile, stack, known, thread, names, cuts) {
                    self.cut.entry(row).or_default()[side] += stack.weight * us;
                }
            }
            ends.push(here);
        }
        self.ends[side].push(ends);
    }

    /// The rows of `cut` that a stack counts in. `known`: the node here of each of the profile's.
    fn cut_of(
        &self,
        profile: &SideProfile,
        stack: &StackCost,
        known: &[u32],
        thread: u32,
        names: &FrameNames,
        cuts: &Cuts,
    ) -> Vec<(u64, u32, CutReason)> {
        let mut rows = Vec::new();
        let mut last = None;
        let mut at = stack.node;
        while at != NONE {
            let above = profile.parent[at as usize];
            let here = if above == NONE { thread } else { known[above as usize] };
            if here == known[at as usize] {
                let (key, object) = (names.of(profile.key[at as usize]), profile.object[at as usize]);
                let path = self.path[here as usize];
                let row = cuts.reason(path, key, object, names).map(|reason| (path, object, reason));
                rows.extend(row.filter(|_| row != last));
                last = row;
            }
            at = above;
        }
        rows
    }

    /// The nodes below each, heaviest by both sides first.
    pub fn children(&self) -> Vec<Vec<u32>> {
        let mut children = vec![Vec::new(); self.len()];
        for node in 1..self.len() {
            children[self.parent[node] as usize].push(node as u32);
        }
        let weight = |&node: &u32| -(self.us[node as usize][0] + self.us[node as usize][1]);
        for nodes in &mut children {
            nodes.sort_by(|a, b| weight(a).total_cmp(&weight(b)));
        }
        children
    }

    /// The nodes above one, the root last.
    pub fn callers(&self, node: u32) -> impl Iterator<Item = u32> {
        let above = |node: u32| Some(self.parent[node as usize]).filter(|&above| above != NONE);
        std::iter::successors(above(node), move |&node| above(node))
    }

    /// Which side alone has it.
    pub fn only(&self, node: u32) -> Option<usize> {
        only(self.us[node as usize], self.samples[node as usize])
    }
}

/// The side that alone has weight, or samples, where one has.
pub fn only(us: [f64; 2], samples: [u64; 2]) -> Option<usize> {
    match [0, 1].map(|side| samples[side] > 0 || us[side] > 0.0) {
        [true, false] => Some(0),
        [false, true] => Some(1),
        _ => None,
    }
}
