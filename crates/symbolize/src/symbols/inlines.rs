//! Which functions the compiler put inside which, from DWARF debug information.
//!
//! Many addresses of one file are asked for at once, in order: each unit that holds some of them is read once, from
//! its first entry to its last. Line tables, which a lookup by source line would need, are never opened.

mod entries;
mod lookup;
mod sections;

use super::elf::Elf;
use super::files::DebugInfo;
use crate::addresses::ObjectAddress;
use crate::budget::Budget;
use crate::unwind::DwarfSlice;
use entries::{UnitReader, Units};
use gimli::{Dwarf, Unit};
use lookup::InlineLookup;
pub use lookup::Inlined;
use sections::{DebugSections, Package, SplitUnit, UnitHeader};
use std::collections::HashMap;
use std::ops::Range;
use std::path::{Path, PathBuf};

/// The debug information of one file.
pub struct Inlines {
    path: PathBuf,
    own: DebugSections,
    /// What several debug files share.
    shared: Option<DebugSections>,
    /// Where the units are if they were split off.
    package: Option<Package>,
    budget: Budget,
}

impl Inlines {
    /// `None`: some of it is damaged, or there is no memory for it. The caller
    /// holds a share of the budget, as large as [`sizes`] says.
    pub fn load(path: &Path, budget: &Budget) -> Option<Self> {
        let (own, shared) = DebugSections::read(path)?;
        let shared = match shared {
            Some(path) => Some(DebugSections::read(&path)?.0),
            None => None,
        };
        let package = Package::read(path);
        Some(Self { path: path.to_path_buf(), own, shared, package, budget: budget.clone() })
    }

    /// What lies at these addresses, which must be in order.
    pub fn at(&self, addresses: &[ObjectAddress]) -> Inlined {
        let mut found = InlineLookup::new(addresses);
        let dwarf = self.own.borrow(self.shared.as_ref());
        let units = Units::new(dwarf, self.shared.as_ref().map(|shared| shared.borrow(None)));
        for (unit, of_unit) in units_of(&units, addresses) {
            found.names_of_unit.clear();
            // Damage ends a unit; what was found before it stays.
            let _ = match sections::split_unit(&units.dwarf, &unit) {
                None => UnitReader { units: &units, unit: &unit }.functions(&of_unit, &mut found).ok(),
                Some(split) => self.in_split_unit(&units, &unit, &split, &of_unit, &mut found),
            };
        }
        found.inlined
    }

    /// Reads a unit that is in a file of its own (`.dwo`) or in the package (`.dwp`).
    fn in_split_unit(
        &self,
        skeletons: &Units,
        skeleton: &Unit<DwarfSlice>,
        split: &SplitUnit,
        of_unit: &[usize],
        found: &mut InlineLookup,
    ) -> Option<()> {
        if let Some(package) = self.package.as_ref().and_then(Package::borrow) {
            let dwarf = package.find_cu(split.id, &skeletons.dwarf).ok()??;
            return read_split(dwarf, skeleton, split, of_unit, found);
        }
        let beside = self.path.parent()?;
        let places = [split.path.clone(), beside.join(&split.path), beside.join(split.path.file_name()?)];
        let sections = places.iter().find_map(|path| DebugSections::split(path, &self.budget))?;
        let mut dwarf = sections.borrow(None);
        dwarf.make_dwo(&skeletons.dwarf);
        read_split(dwarf, skeleton, split, of_unit, found)
    }
}

/// How long a file of debug information is, and what it takes in memory; both with what it shares with others or keeps
/// beside it.
pub fn sizes(info: &DebugInfo) -> (u64, u64) {
    let len = |path: &Path| std::fs::metadata(path).map_or(0, |file| file.len());
    let beside = sections::beside(&info.path, info.shares);
    let sizes = beside.filter_map(|path| Some((len(&path), Elf::read(&path)?.debug_size)));
    let add = |sum: (u64, u64), one: (u64, u64)| (sum.0.saturating_add(one.0), sum.1.saturating_add(one.1));
    sizes.fold((len(&info.path), info.size), add)
}

fn read_split<'a>(
    dwarf: Dwarf<DwarfSlice<'a>>,
    skeleton: &Unit<DwarfSlice<'a>>,
    split: &SplitUnit,
    of_unit: &[usize],
    found: &mut InlineLookup,
) -> Option<()> {
    let units = Units::new(dwarf, None);
    // A file that was built again does not belong to this skeleton any more.
    let mut of_id = units.headers.iter().filter_map(|header| sections::unit(&units.dwarf, *header));
    let mut unit = of_id.find(|unit| unit.dwo_id == Some(split.id))?;
    unit.copy_relocated_attributes(skeleton);
    UnitReader { units: &units, unit: &unit }.functions(of_unit, found).ok()
}

/// The units that hold addresses, each with the places of its addresses in the list.
fn units_of<'a>(units: &Units<'a>, addresses: &[ObjectAddress]) -> Vec<(Unit<DwarfSlice<'a>>, Vec<usize>)> {
    let held = |ranges: &mut dyn Iterator<Item = Range<u64>>| {
        let mut held = Vec::new();
        // Functions that the linker threw away keep an entry at address 0.
        for range in ranges.filter(|range| range.start != 0 && range.start < range.end) {
            let from = addresses.partition_point(|address| address.0 < range.start);
            let to = from + addresses[from..].partition_point(|address| address.0 < range.end);
            held.extend(from..to);
        }
        held.sort_unstable();
        held.dedup();
        held
    };
    let dwarf = &units.dwarf;
    // Where a table lists the ranges of a unit, the unit need not be opened.
    let mut listed: HashMap<usize, Vec<Range<u64>>> = HashMap::new();
    let mut tables = dwarf.debug_aranges.headers();
    while let Ok(Some(table)) = tables.next() {
        let ranges = listed.entry(table.debug_info_offset().0).or_default();
        let mut entries = table.entries();
        while let Ok(Some(entry)) = entries.next() {
            ranges.push(entry.address()..entry.address().saturating_add(entry.length()));
        }
    }
    let open = |header: &UnitHeader<'a>| {
        let listed = header.debug_info_offset().and_then(|offset| listed.get(&offset.0));
        if let Some(ranges) = listed.filter(|ranges| !ranges.is_empty()) {
            let held = held(&mut ranges.iter().cloned());
            return (!held.is_empty()).then(|| Some((sections::unit(dwarf, *header)?, held)))?;
        }
        let unit = sections::unit(dwarf, *header)?;
        let mut ranges = dwarf.unit_ranges(&unit).ok()?;
        let mut ranges =
            std::iter::from_fn(|| ranges.next().ok().flatten()).map(|range| range.begin..range.end);
        let held = held(&mut ranges);
        (!held.is_empty()).then_some((unit, held))
    };
    units.headers.iter().filter_map(open).collect()
}
