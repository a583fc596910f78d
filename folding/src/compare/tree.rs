//! The profiles of both sides as one tree: threads by name below the root, frames below them.

use super::levels::Levels;
use super::matching::Matching;
use super::runs::{NONE, Run, Side};
use crate::intern::SPREAD;
use std::collections::HashMap;

/// Nodes in the order of first sight, the root first; a node stands behind the one above it.
#[derive(Default)]
pub struct Tree {
    pub parent: Vec<u32>,
    pub key: Vec<u32>,
    pub object: Vec<u32>,
    /// Of the path from the root: the same in every tree of one matching.
    pub path: Vec<u64>,
    /// us per query with all below, roughly (the sum over all sessions by that of their queries).
    pub us: Vec<[f64; 2]>,
    pub samples: Vec<[u64; 2]>,
    /// Of each run of either side, in their order: the node that each stack ends at.
    pub ends: [Vec<Vec<u32>>; 2],
    places: HashMap<(u32, u32), u32>,
}

pub const ROOT: u32 = 0;

impl Tree {
    /// Frames that `levels` takes out give what they weigh to the frame above, and the row of `levels` is told.
    pub fn new(sides: &[Side; 2], matching: &Matching, levels: &mut Levels) -> Self {
        let mut tree = Self::default();
        tree.add(NONE, NONE, 0);
        levels.clear();
        for (side, profiles) in sides.iter().enumerate() {
            let queries = profiles.queries();
            for run in profiles.runs() {
                tree.add_run(side, run, run.us / queries, matching, levels);
            }
        }
        for node in (1..tree.parent.len()).rev() {
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
        self.parent.len() as u32 - 1
    }

    fn child(&mut self, parent: u32, key: u32, object: u32) -> u32 {
        if let Some(&node) = self.places.get(&(parent, key)) {
            return node;
        }
        let node = self.add(parent, key, object);
        self.places.insert((parent, key), node);
        node
    }

    fn add_run(&mut self, side: usize, run: &Run, us: f64, matching: &Matching, levels: &mut Levels) {
        // By thread: the node here of each node there.
        let mut of_thread: HashMap<u32, Vec<u32>> = HashMap::new();
        let mut path = Vec::new();
        let mut ends = Vec::with_capacity(run.stacks.len());
        for stack in &run.stacks {
            let thread = self.child(ROOT, matching.of(stack.thread), 0);
            let known = of_thread.entry(thread).or_insert_with(|| vec![NONE; run.key.len()]);
            path.clear();
            let mut at = stack.node;
            while at != NONE && known[at as usize] == NONE {
                path.push(at);
                at = run.parent[at as usize];
            }
            let mut here = if at == NONE { thread } else { known[at as usize] };
            for &node in path.iter().rev() {
                let key = matching.of(run.key[node as usize]);
                let object = run.object[node as usize];
                // How many nameless frames lie on one another is a matter of inlining.
                let again = matching.keys[key as usize].nameless && self.key[here as usize] == key;
                if !again && !levels.takes_out(self.path[here as usize], key, object, matching) {
                    here = self.child(here, key, object);
                }
                known[node as usize] = here;
            }
            self.us[here as usize][side] += stack.weight * us;
            self.samples[here as usize][side] += stack.samples;
            levels.tell(side, run, stack, known, &self.path, thread, us, matching);
            ends.push(here);
        }
        self.ends[side].push(ends);
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

    /// Which side alone has samples there.
    pub fn only(&self, node: u32) -> Option<usize> {
        match self.samples[node as usize] {
            [_, 0] => Some(0),
            [0, _] => Some(1),
            _ => None,
        }
    }
}
