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
        let parts = [Some(&self.own), self.shared.as_ref()];
        let bytes = parts.into_iter().flatten().map(DebugSections::size).sum::<u64>();
        let bytes = bytes + self.package.as_ref().map_or(0, Package::size);
        let mut found = InlineLookup::new(addresses, bytes);
        let dwarf = self.own.borrow(self.shared.as_ref());
        let units = Units::new(dwarf, self.shared.as_ref().map(|shared| shared.borrow(None)));
        let listed = listed(&units.dwarf);
        let mut split_room = self.budget.whole();
        for header in &units.headers {
            let Some((unit, of_unit)) = opened(&units, header, &listed, &mut found) else { continue };
            found.names_of_unit.clear();
            // Damage ends a unit; what was found before it stays.
            let _ = match sections::split_unit(&units.dwarf, &unit) {
                None => UnitReader { units: &units, unit: &unit }.functions(&of_unit, &mut found).ok(),
                Some(split) => {
                    self.in_split_unit(&units, (&unit, &split), &of_unit, &mut found, &mut split_room)
                }
            };
        }
        found.inlined
    }

    /// Reads a unit that is in a file of its own (`.dwo`) or in the package (`.dwp`). `room`: bytes of such files that may be read,
    /// as many units may name one file.
    fn in_split_unit(
        &self,
        skeletons: &Units,
        (skeleton, split): (&Unit<DwarfSlice>, &SplitUnit),
        of_unit: &[usize],
        found: &mut InlineLookup,
        room: &mut u64,
    ) -> Option<()> {
        if let Some(package) = self.package.as_ref().and_then(Package::borrow) {
            let dwarf = package.find_cu(split.id, &skeletons.dwarf).ok()??;
            return read_split(dwarf, skeleton, split, of_unit, found);
        }
        let beside = self.path.parent()?;
        let places = [split.path.clone(), beside.join(&split.path), beside.join(split.path.file_name()?)];
        let sections = places.iter().find_map(|path| DebugSections::split(path, &self.budget))?;
        *room = room.checked_sub(sections.size())?;
        found.allow(sections.size());
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
    found.step(units.headers.len()).ok()?;
    // A file that was built again does not belong to this skeleton any more.
    let mut of_id = units.headers.iter().filter_map(|header| units.unit(*header, found));
    let mut unit = of_id.find(|unit| unit.dwo_id == Some(split.id))?;
    unit.copy_relocated_attributes(skeleton);
    UnitReader { units: &units, unit: &unit }.functions(of_unit, found).ok()
}

/// Where a table lists the ranges of a unit, by the unit's place: it need not be opened to know them.
fn listed(dwarf: &Dwarf<DwarfSlice>) -> HashMap<usize, Vec<Range<u64>>> {
    let mut listed: HashMap<usize, Vec<Range<u64>>> = HashMap::new();
    let mut tables = dwarf.debug_aranges.headers();
    while let Ok(Some(table)) = tables.next() {
        let ranges = listed.entry(table.debug_info_offset().0).or_default();
        let mut entries = table.entries();
        while let Ok(Some(entry)) = entries.next() {
            ranges.push(entry.address()..entry.address().saturating_add(entry.length()));
        }
    }
    listed
}

/// A unit that holds addresses, and the places of these in the list.
fn opened<'a>(
    units: &Units<'a>,
    header: &UnitHeader<'a>,
    listed: &HashMap<usize, Vec<Range<u64>>>,
    found: &mut InlineLookup,
) -> Option<(Unit<DwarfSlice<'a>>, Vec<usize>)> {
    let listed = header.debug_info_offset().and_then(|offset| listed.get(&offset.0));
    if let Some(ranges) = listed.filter(|ranges| !ranges.is_empty()) {
        let held = found.held(&mut ranges.iter().cloned())?;
        return Some((units.unit(*header, found)?, held));
    }
    let unit = units.unit(*header, found)?;
    let mut ranges = units.dwarf.unit_ranges(&unit).ok()?;
    let mut ranges = std::iter::from_fn(|| ranges.next().ok().flatten()).map(|range| range.begin..range.end);
    let held = found.held(&mut ranges)?;
    Some((unit, held))
}
