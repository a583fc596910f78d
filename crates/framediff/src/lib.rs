//! Two sides of a comparison, each of many profiles, as one tree: what every frame costs a query on either side, and
//! whether the difference is more than noise.
//!
//! ```text
//! sides ─┐           ┌─> matching: names that are one function    ┐ each round looks at a tree,
//! names ─┼─> tree ───┤                                             ├ and the next tree is made
//!  cuts ─┘           ├─> levels: what only one side can name or   │ by what it found
//!                    │   inline, which is cut out of both         ┘
//!                    └─> sums ─> inference ─> explain ─> report
//! ```
//!
//! A cost is CPU us per query: that of a profile's total, times the node's share of it. A session's cost has
//! the variance of that share over the slices (seconds) of its profiles, by the linearised ratio; sessions differ
//! among themselves by more than that, which [`inference`] estimates from them.

#![forbid(unsafe_code)]

mod cuts;
pub mod explain;
mod frame_names;
pub mod inference;
mod levels;
mod matching;
mod report;
pub mod sides;
#[cfg(test)]
mod simulated_tests;
mod sums;
pub mod tree;

pub use frame_names::{FrameNames, MatchRule};
pub use inference::Basis;

use inference::Inference;
use report::FrameReport;
use sides::Side;
use sums::CostSums;
use tree::MergedTree;

/// How often names are matched, and levels made even, before what is left counts as different.
const ROUNDS: usize = 6;

/// What a comparison of frames found.
pub struct FrameComparison {
    pub sides: [Side; 2],
    pub tree: MergedTree,
    pub names: FrameNames,
    pub inference: Inference,
}

impl FrameComparison {
    /// `names`: those of both sides, and by which rules they may be matched.
    pub fn new(sides: [Side; 2], mut names: FrameNames, basis: Basis) -> Self {
        let mut cuts = levels::nameless(&sides, &names);
        let mut tree = MergedTree::new(&sides, &names, &cuts);
        for _ in 0..ROUNDS {
            let Some((rule, pairs)) = matching::found(&names, &tree) else { break };
            names.join(rule, &pairs);
            tree = MergedTree::new(&sides, &names, &cuts);
        }
        let mut inference = Inference::new(&tree, CostSums::new(&sides, &tree, &names), &names, basis);
        for _ in 0..ROUNDS {
            // Two shares of the whole are equal however their frames differ: they do not show what was inlined.
            if basis != Basis::Sessions {
                break;
            }
            let inlined = levels::inlined(&sides, &tree, &names, &inference);
            if !cuts.add_inlined(inlined) {
                break;
            }
            tree = MergedTree::new(&sides, &names, &cuts);
            inference = Inference::new(&tree, CostSums::new(&sides, &tree, &names), &names, basis);
        }
        Self { sides, tree, names, inference }
    }

    pub fn report(&self) -> FrameReport {
        FrameReport::new(&self.sides, &self.tree, &self.names, &self.inference)
    }
}
