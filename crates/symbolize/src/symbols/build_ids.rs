//! Build ids by the paths that files were mapped under.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

/// Empty where files of several builds had the same path, as those of containers do: which of them is meant is not known.
#[derive(Default)]
pub struct BuildIds(HashMap<Vec<u8>, Vec<u8>>);

impl BuildIds {
    pub fn add(&mut self, path: Vec<u8>, build_id: Vec<u8>) {
        match self.0.entry(path) {
            Entry::Occupied(mut known) if *known.get() != build_id => drop(known.insert(Vec::new())),
            known => drop(known.or_insert(build_id)),
        }
    }

    /// The one build that had this path.
    pub fn get(&self, path: &[u8]) -> Option<&Vec<u8>> {
        self.0.get(path).filter(|build_id| !build_id.is_empty())
    }

    pub fn iter(&self) -> impl Iterator<Item = (&Vec<u8>, &Vec<u8>)> {
        self.0.iter().filter(|(_, build_id)| !build_id.is_empty())
    }
}
