//! Two sides of a comparison, each of many profiles, as one tree: what every frame costs a query on either side, and
//! whether the difference can be told from noise.
//!
//! ```text
//! profile.json ... ─> runs ─┐           ┌─> levels: what only one side can name or inline is taken out
//!                  names ───┼─> tree ───┤
//!               matching ───┘           └─> sums ─> inference ─> explain ─> report
//! ```
//!
//! A cost is CPU us per query: what a profile's total stands for, times the node's share of it. A session's cost has
//! the variance of that share over the slices (seconds) of its profiles, by the linearised ratio; sessions differ
//! among themselves by more than that, which [`inference`] estimates from them.

pub mod explain;
pub mod inference;
pub mod levels;
pub mod matching;
pub mod names;
pub mod report;
pub mod runs;
pub mod sums;
pub mod tree;

use crate::error::Error;
use inference::Inference;
use levels::Levels;
use matching::{MatchRule, Matching};
use runs::{FrameRequest, Side};
use sums::Sums;
use tree::Tree;

/// How often names are matched, and levels made even, before what is left counts as different.
const ROUNDS: usize = 6;

/// What a comparison of frames found.
pub struct FrameComparison {
    pub sides: [Side; 2],
    pub tree: Tree,
    pub matching: Matching,
    pub levels: Levels,
    pub inference: Inference,
}

impl FrameComparison {
    /// Reads the profiles and compares them. `rules`: of the matching, which may be used beside equal names.
    pub fn new(request: &FrameRequest, rules: &[MatchRule]) -> Result<Self, Error> {
        let mut matching = Matching::new(request.aliases()?, &request.apart, rules);
        let sides = request.read(&mut matching)?;
        Ok(Self::of(sides, matching))
    }

    /// The same of profiles that were read. `matching` knows their names.
    pub fn of(sides: [Side; 2], mut matching: Matching) -> Self {
        let mut levels = Levels::nameless(&sides, &matching);
        let mut tree = Tree::new(&sides, &matching, &mut levels);
        for _ in 0..ROUNDS {
            if !matching.extend(&tree) {
                break;
            }
            tree = Tree::new(&sides, &matching, &mut levels);
        }
        let mut inference = Inference::new(&tree, Sums::of(&sides, &tree, &matching));
        for _ in 0..ROUNDS {
            if !levels.inlined(&sides, &tree, &matching, &inference) {
                break;
            }
            tree = Tree::new(&sides, &matching, &mut levels);
            inference = Inference::new(&tree, Sums::of(&sides, &tree, &matching));
        }
        Self { sides, tree, matching, levels, inference }
    }
}
