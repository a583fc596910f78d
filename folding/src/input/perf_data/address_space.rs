//! The code mapped in one process, or in the kernel: what an address belongs to.

use crate::addresses::{FileOffset, ProcessAddress};
use crate::budget::{Budget, BudgetShare};
use crate::symbols::ObjectId;
use rpds::RedBlackTreeMapSync;

/// Bytes that a mapping takes besides the nodes of its tree that are made anew for it.
const MAPPING: u64 = 160;
const NODE: u64 = 64;

/// A mapped range of code.
#[derive(Clone, Copy, Debug)]
pub struct Map {
    pub start: ProcessAddress,
    pub end: ProcessAddress,
    /// What to add to an address to get the offset in the file; 0 where there is no file.
    pub file_bias: u64,
    pub object: ObjectId,
}

impl Map {
    pub fn offset_of(&self, address: ProcessAddress) -> FileOffset {
        FileOffset(address.0.wrapping_add(self.file_bias))
    }
}

/// The code mapped in one process, or in the kernel. Samples keep the version that they were taken in; it shares all but the
/// change with the one before.
#[derive(Clone)]
pub struct AddressSpace {
    /// By their starts.
    maps: RedBlackTreeMapSync<ProcessAddress, HeldMap>,
    /// Changes whenever the maps do; equal versions mean equal maps.
    pub version: u64,
}

/// A mapping, and what it takes as long as any version has it.
struct HeldMap {
    map: Map,
    _share: BudgetShare,
}

impl Default for AddressSpace {
    fn default() -> Self {
        Self { maps: RedBlackTreeMapSync::new_sync(), version: 0 }
    }
}

impl AddressSpace {
    pub fn find(&self, address: ProcessAddress) -> Option<&Map> {
        self.maps.range(..=address).next_back().map(|(_, held)| &held.map).filter(|map| address < map.end)
    }

    /// In the order of their addresses.
    pub fn maps(&self) -> impl ExactSizeIterator<Item = &Map> {
        self.maps.values().map(|held| &held.map)
    }

    /// Maps a range; what it covers of older ones goes. Gives how many of them it covered.
    pub fn insert(&mut self, map: Map, version: u64, budget: &Budget) -> u64 {
        self.version = version;
        let mut covered = 0;
        let last = |space: &Self| space.maps.range(..map.end).next_back().map(|(_, held)| held.map);
        while let Some(old) = last(self).filter(|old| old.end > map.start) {
            covered += 1;
            self.maps.remove_mut(&old.start);
            if old.end > map.end {
                self.add(Map { start: map.end, ..old }, budget);
            }
            if old.start < map.start {
                self.add(Map { end: map.start, ..old }, budget);
            }
        }
        self.add(map, budget);
        covered
    }

    fn add(&mut self, map: Map, budget: &Budget) {
        let depth = u64::from(self.maps.size().checked_ilog2().unwrap_or(0)) + 1;
        let share = budget.hold(MAPPING + NODE * depth);
        self.maps.insert_mut(map.start, HeldMap { map, _share: share });
    }

    pub fn remove(&mut self, start: ProcessAddress, version: u64) {
        self.version = version;
        self.maps.remove_mut(&start);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(start: u64, end: u64) -> Map {
        Map {
            start: ProcessAddress(start),
            end: ProcessAddress(end),
            file_bias: 0,
            object: ObjectId(start as u32),
        }
    }

    #[test]
    fn a_map_covers_the_older_ones() {
        let mut space = AddressSpace::default();
        for (version, (start, end)) in [(0, 100), (200, 300), (50, 250), (60, 70)].into_iter().enumerate() {
            space.insert(map(start, end), version as u64 + 1, &Budget::new(1 << 20));
        }
        let at = |address| space.find(ProcessAddress(address)).map(|map| map.object.0);
        assert_eq!([at(0), at(49), at(50), at(60), at(69), at(70)], [0, 0, 50, 60, 60, 50].map(Some));
        assert_eq!([at(249), at(250), at(299), at(300)], [Some(50), Some(200), Some(200), None]);
        assert_eq!(space.version, 4);
    }
}
