//! Frames that are cut out of both sides, because one side cannot show them separately.

use crate::frame_names::FrameNames;
use serde::Serialize;
use std::collections::HashSet;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub enum CutReason {
    #[serde(rename = "one side has no names")]
    Nameless,
    #[serde(rename = "inlined differently")]
    Inlined,
}

pub struct Cuts {
    /// Objects of which one side has names and the other has not.
    nameless: HashSet<u32>,
    /// Keys that both sides know.
    shared: HashSet<u32>,
    /// Caller, by its path, and function.
    inlined: HashSet<(u64, u32)>,
}

impl Cuts {
    pub fn new(nameless: HashSet<u32>, shared: HashSet<u32>) -> Self {
        Self { nameless, shared, inlined: HashSet::new() }
    }

    /// Whether any of them is new.
    pub fn add_inlined(&mut self, found: Vec<(u64, u32)>) -> bool {
        let before = self.inlined.len();
        self.inlined.extend(found);
        self.inlined.len() > before
    }

    pub fn is_empty(&self) -> bool {
        self.nameless.is_empty() && self.inlined.is_empty()
    }

    /// Why a frame below that path is no node of the tree, if it is none.
    pub fn reason(&self, path: u64, key: u32, object: u32, names: &FrameNames) -> Option<CutReason> {
        let name = &names.keys[key as usize];
        let unnamed = || name.nameless || !name.state && !self.shared.contains(&key);
        if self.nameless.contains(&object) && unnamed() {
            return Some(CutReason::Nameless);
        }
        self.inlined.contains(&(path, key)).then_some(CutReason::Inlined)
    }
}
