//! Build ids by the paths that files were mapped under.

use crate::budget::BudgetShare;
use std::collections::HashMap;
use std::collections::hash_map::Entry;

/// Empty where files of several builds had the same path, as those of containers do: which of them is meant is not known.
#[derive(Default)]
pub struct BuildIds(HashMap<Vec<u8>, (Vec<u8>, BudgetShare)>);

impl BuildIds {
    /// share: what the path takes
    pub fn add(&mut self, path: Vec<u8>, build_id: Vec<u8>, share: BudgetShare) {
        match self.0.entry(path) {
            Entry::Occupied(mut known) if known.get().0 != build_id => known.get_mut().0.clear(),
            known => drop(known.or_insert((build_id, share))),
        }
    }

    /// The one build that had this path.
    pub fn get(&self, path: &[u8]) -> Option<&Vec<u8>> {
        self.0.get(path).map(|(build_id, _)| build_id).filter(|build_id| !build_id.is_empty())
    }

    pub fn iter(&self) -> impl Iterator<Item = (&Vec<u8>, &Vec<u8>)> {
        self.0
            .iter()
            .map(|(path, (build_id, _))| (path, build_id))
            .filter(|(_, build_id)| !build_id.is_empty())
    }
}
