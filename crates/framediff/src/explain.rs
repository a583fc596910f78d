//! The difference in few lines: where it is, and what only moved.

use crate::inference::{Basis, Inference};
use crate::tree::{MergedTree, ROOT};

pub const MOST_LINES: usize = 12;
/// The part of a frame's difference that one below it has to carry to be named instead.
pub const CARRIES: f64 = 0.8;
/// The part of the larger that a gain and a loss may differ by, to be one that moved.
pub const CANCELS: f64 = 0.2;

/// Gains and losses below one frame that cancel.
pub struct Moved {
    pub within: u32,
    pub from: Vec<u32>,
    pub to: Vec<u32>,
    pub sum: f64,
}

pub struct Explanation {
    /// Nodes of the frames that carry a difference, the largest first.
    pub lines: Vec<u32>,
    /// Lines that found no room.
    pub more: usize,
    pub moved: Vec<Moved>,
}

impl Explanation {
    pub fn new(tree: &MergedTree, inference: &Inference) -> Self {
        let walk = Walk { tree, inference, children: tree.children() };
        let first = walk.first_different();
        // Shares of one whole cancel whatever happened.
        let (moved, left) = match inference.basis {
            Basis::Shares => (Vec::new(), first),
            _ => walk.moved(first),
        };
        let mut lines = Vec::new();
        for node in left {
            walk.carriers(node, &mut lines);
        }
        lines.sort_by(|a, b| walk.size(*b).total_cmp(&walk.size(*a)).then(a.cmp(b)));
        let more = lines.len().saturating_sub(MOST_LINES);
        lines.truncate(MOST_LINES);
        Self { lines, more, moved }
    }
}

struct Walk<'t> {
    tree: &'t MergedTree,
    inference: &'t Inference,
    children: Vec<Vec<u32>>,
}

impl Walk<'_> {
    fn delta(&self, node: u32) -> f64 {
        self.inference.node(node).delta()
    }

    fn size(&self, node: u32) -> f64 {
        self.delta(node).abs()
    }

    /// The frames that differ and have none above them that does.
    fn first_different(&self) -> Vec<u32> {
        let mut found = Vec::new();
        let mut todo = vec![ROOT];
        while let Some(node) = todo.pop() {
            if self.inference.is_different(node) {
                found.push(node);
            } else {
                todo.extend(&self.children[node as usize]);
            }
        }
        found.sort_unstable();
        found
    }

    /// The deepest frames from `node` on that carry its difference. A frame of one side alone is not looked into: the
    /// other has no names to compare with.
    fn carriers(&self, node: u32, lines: &mut Vec<u32>) {
        let mut todo = vec![node];
        while let Some(node) = todo.pop() {
            let children = &self.children[node as usize];
            let delta = self.delta(node);
            let differ: Vec<u32> =
                children.iter().copied().filter(|&child| self.inference.is_different(child)).collect();
            if self.tree.only(node).is_some() || differ.is_empty() {
                lines.push(node);
            } else if let Some(&most) = differ.iter().find(|&&child| self.delta(child) / delta >= CARRIES) {
                todo.push(most);
                // Its line leaves out what others gain and lose beside it.
                todo.extend(
                    differ
                        .into_iter()
                        .filter(|&child| child != most && self.size(child) > (1.0 - CARRIES) * delta.abs()),
                );
            } else {
                let named: f64 = differ.iter().map(|&child| self.delta(child)).sum();
                if named / delta < CARRIES {
                    lines.push(node);
                }
                todo.extend(differ);
            }
        }
    }

    /// The gains and losses that cancel below their lowest common caller, which does not differ; and the others.
    fn moved(&self, first: Vec<u32>) -> (Vec<Moved>, Vec<u32>) {
        let mut left = first;
        let mut moved = Vec::new();
        let mut callers: Vec<(usize, u32)> = Vec::new();
        for &node in &left {
            let path: Vec<u32> = self.tree.callers(node).collect();
            callers.extend(path.iter().enumerate().map(|(place, &caller)| (path.len() - place, caller)));
        }
        callers.sort_unstable_by(|a, b| b.cmp(a));
        callers.dedup();
        for (_, caller) in callers {
            if self.inference.is_different(caller) {
                continue;
            }
            let below: Vec<u32> = left.iter().copied().filter(|&node| self.is_below(node, caller)).collect();
            let (to, from): (Vec<u32>, Vec<u32>) = below.iter().partition(|&&node| self.delta(node) > 0.0);
            let sum_of = |nodes: &[u32]| nodes.iter().map(|&node| self.delta(node)).sum::<f64>();
            let (gains, losses) = (sum_of(&to), sum_of(&from));
            let sum = gains + losses;
            if from.is_empty() || to.is_empty() || sum.abs() >= CANCELS * gains.max(-losses) {
                continue;
            }
            left.retain(|node| !below.contains(node));
            moved.push(Moved { within: caller, from, to, sum });
        }
        (moved, left)
    }

    fn is_below(&self, node: u32, above: u32) -> bool {
        std::iter::once(node).chain(self.tree.callers(node)).find(|&one| one <= above) == Some(above)
    }
}
