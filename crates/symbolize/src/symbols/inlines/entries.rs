//! A walk through the entries of a unit.

use super::lookup::InlineLookup;
use super::sections::{self, Descriptions, UnitHeader};
use crate::unwind::DwarfSlice;
use gimli::{
    Abbreviation, AttributeValue, DebugInfoOffset, Dwarf, EntriesRaw, Error, RangeListsOffset, Unit,
    UnitOffset,
};
use std::cell::RefCell;
use std::collections::HashMap;
use std::ops::Range;
use std::rc::Rc;

/// How often a name may be looked for in yet another entry.
const REFERRALS: usize = 16;
/// Attributes of an entry that are passed over uncounted: compilers write some 20.
const MANY: usize = 64;
/// Bytes of a name that count as an attribute.
const NAME_STEP: usize = 8;

/// The units of one file.
pub struct Units<'a> {
    pub dwarf: Dwarf<DwarfSlice<'a>>,
    /// In the order of their offsets.
    pub headers: Vec<UnitHeader<'a>>,
    /// Units that others refer to.
    referred: RefCell<HashMap<usize, Option<Rc<Unit<DwarfSlice<'a>>>>>>,
    descriptions: Descriptions,
    shared: Option<Box<Units<'a>>>,
}

impl<'a> Units<'a> {
    pub fn new(dwarf: Dwarf<DwarfSlice<'a>>, shared: Option<Dwarf<DwarfSlice<'a>>>) -> Self {
        let headers = sections::headers(&dwarf);
        let descriptions = Descriptions::of(&headers);
        let shared = shared.map(|dwarf| Box::new(Self::new(dwarf, None)));
        Self { dwarf, headers, referred: RefCell::default(), descriptions, shared }
    }

    /// A unit, opened.
    pub fn unit(&self, header: UnitHeader<'a>, lookup: &mut InlineLookup) -> Option<Unit<DwarfSlice<'a>>> {
        let abbreviations = self.descriptions.read(&self.dwarf, &header, lookup)?;
        let mut first = header.entries_raw(&abbreviations, None).ok()?;
        lookup.step(1 + first.read_abbreviation().ok()??.attributes().len()).ok()?;
        sections::unit(&self.dwarf, header, abbreviations)
    }

    /// The unit that contains an offset of the section, and the offset in the unit.
    fn at(
        &self,
        offset: DebugInfoOffset,
        lookup: &mut InlineLookup,
    ) -> Option<(Rc<Unit<DwarfSlice<'a>>>, UnitOffset)> {
        let after = self.headers.partition_point(|header| start(header) <= offset.0);
        let header = self.headers[..after].last()?;
        let unit_offset = offset.to_unit_offset(header)?;
        let mut referred = self.referred.borrow_mut();
        let unit = referred.entry(start(header)).or_insert_with(|| self.unit(*header, lookup).map(Rc::new));
        Some((Rc::clone(unit.as_ref()?), unit_offset))
    }
}

fn start(header: &UnitHeader) -> usize {
    header.debug_info_offset().map_or(usize::MAX, |offset| offset.0)
}

/// An entry that may say where code lies: a function, or an inlined one.
struct DieEntry<'u> {
    offset: UnitOffset,
    depth: isize,
    /// The least depth of all entries behind the one before, with this one.
    lowest: isize,
    inlined: bool,
    shape: &'u Abbreviation,
}

/// A way through the entries of a unit, in their order. After an entry its attributes are next: they must be read or
/// skipped.
struct DieCursor<'u, 'a>(EntriesRaw<'u, DwarfSlice<'a>>);

impl<'u> DieCursor<'u, '_> {
    /// The next entry with code below this depth; `None` where there is none before the entries rise to it.
    fn next(&mut self, above: isize, lookup: &mut InlineLookup) -> Result<Option<DieEntry<'u>>, Error> {
        let mut lowest = isize::MAX;
        while self.0.next_depth() > above && !self.0.is_empty() {
            let (offset, depth) = (self.0.next_offset(), self.0.next_depth());
            let Some(shape) = self.0.read_abbreviation()? else { continue };
            lowest = lowest.min(depth);
            let attributes = shape.attributes();
            if attributes.len() > MANY {
                lookup.step(attributes.len())?;
            }
            // Declarations say nothing of code.
            let has = |name| attributes.iter().any(|form| form.name() == name);
            match shape.tag() {
                gimli::DW_TAG_subprogram if has(gimli::DW_AT_low_pc) || has(gimli::DW_AT_ranges) => {}
                gimli::DW_TAG_inlined_subroutine => {}
                _ => {
                    self.0.skip_attributes(attributes)?;
                    continue;
                }
            }
            let inlined = shape.tag() == gimli::DW_TAG_inlined_subroutine;
            return Ok(Some(DieEntry { offset, depth, lowest, inlined, shape }));
        }
        Ok(None)
    }

    fn skip_attributes(&mut self, entry: &DieEntry) -> Result<(), Error> {
        self.0.skip_attributes(entry.shape.attributes())
    }
}

/// The attributes that say where code lies, and what it is called.
#[derive(Default)]
struct Attributes<'a> {
    low: Option<u64>,
    high: Option<u64>,
    size: Option<u64>,
    ranges: Option<RangeListsOffset>,
    /// Text is looked up of those names only that are asked for.
    linkage_name: Option<AttributeValue<DwarfSlice<'a>>>,
    name: Option<AttributeValue<DwarfSlice<'a>>>,
    origin: Option<AttributeValue<DwarfSlice<'a>>>,
}

pub struct UnitReader<'u, 'a> {
    pub units: &'u Units<'a>,
    pub unit: &'u Unit<DwarfSlice<'a>>,
}

impl<'u, 'a> UnitReader<'u, 'a> {
    /// Finds the functions of a unit's addresses, and what was inlined into them there.
    pub fn functions(&self, of_unit: &[usize], found: &mut InlineLookup) -> Result<(), Error> {
        let mut cursor = DieCursor(self.unit.entries_raw(None)?);
        let mut left = of_unit.len();
        let mut here = Vec::new();
        while left > 0 {
            let Some(entry) = cursor.next(isize::MIN, found)? else { break };
            if entry.inlined {
                // Of a function that none of the addresses is in.
                cursor.skip_attributes(&entry)?;
                continue;
            }
            self.held(&mut cursor, &entry, of_unit, found, &mut here)?;
            // Of functions that were made one by the linker, the first has the address.
            here.retain(|&index| !found.done[index]);
            if here.is_empty() {
                continue;
            }
            here.iter().for_each(|&index| found.done[index] = true);
            left = left.saturating_sub(here.len());
            self.inlined(&mut cursor, entry.depth, &here, found)?;
        }
        Ok(())
    }

    /// Reads what is below a function's entry, which holds the addresses `here`.
    fn inlined(
        &self,
        cursor: &mut DieCursor<'u, 'a>,
        function: isize,
        here: &[usize],
        found: &mut InlineLookup,
    ) -> Result<(), Error> {
        // The depths of the inlined functions around the entry.
        let mut around: Vec<isize> = Vec::new();
        let mut inner = Vec::new();
        while let Some(entry) = cursor.next(function, found)? {
            around.truncate(around.partition_point(|&outer| outer < entry.lowest));
            if !entry.inlined {
                // A function within a function has code of its own.
                cursor.skip_attributes(&entry)?;
                while let Some(entry) = cursor.next(entry.depth, found)? {
                    cursor.skip_attributes(&entry)?;
                }
                continue;
            }
            let attributes = self.held(cursor, &entry, here, found, &mut inner)?;
            // An address is in an inlined function only if it is in those around it.
            inner.retain(|&index| found.inlined.chains[index].len() == around.len());
            if !inner.is_empty() {
                let name = self.called(entry.offset, &attributes, found)?;
                inner.iter().for_each(|&index| found.inlined.chains[index].push(name));
            }
            if entry.shape.has_children() {
                around.push(entry.depth);
            }
        }
        Ok(())
    }

    /// Gives those of some addresses that lie in the code of an entry, in order, and its attributes.
    fn held(
        &self,
        cursor: &mut DieCursor<'u, 'a>,
        entry: &DieEntry,
        some: &[usize],
        found: &mut InlineLookup,
        held: &mut Vec<usize>,
    ) -> Result<Attributes<'a>, Error> {
        held.clear();
        let attributes = self.attributes(&mut cursor.0, entry.shape, found)?;
        self.ranges(&attributes, |range| found.within(some, &range, held))?;
        held.sort_unstable();
        held.dedup();
        Ok(attributes)
    }

    fn attributes(
        &self,
        entries: &mut EntriesRaw<DwarfSlice<'a>>,
        entry: &Abbreviation,
        lookup: &mut InlineLookup,
    ) -> Result<Attributes<'a>, Error> {
        lookup.step(entry.attributes().len())?;
        let Units { dwarf, .. } = self.units;
        let mut found = Attributes::default();
        for &form in entry.attributes() {
            let attribute = entries.read_attribute(form)?;
            match attribute.name() {
                gimli::DW_AT_low_pc => found.low = dwarf.attr_address(self.unit, attribute.value())?,
                gimli::DW_AT_high_pc => match attribute.value() {
                    AttributeValue::Udata(size) => found.size = Some(size),
                    address => found.high = dwarf.attr_address(self.unit, address)?,
                },
                gimli::DW_AT_ranges => {
                    found.ranges = dwarf.attr_ranges_offset(self.unit, attribute.value())?
                }
                gimli::DW_AT_linkage_name | gimli::DW_AT_MIPS_linkage_name => {
                    found.linkage_name = Some(attribute.value());
                }
                gimli::DW_AT_name => found.name = Some(attribute.value()),
                gimli::DW_AT_abstract_origin | gimli::DW_AT_specification => {
                    found.origin = Some(attribute.value());
                }
                _ => {}
            }
        }
        Ok(found)
    }

    fn ranges(
        &self,
        attributes: &Attributes,
        mut each: impl FnMut(Range<u64>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        if let Some(offset) = attributes.ranges {
            let mut ranges = self.units.dwarf.ranges(self.unit, offset)?;
            while let Some(range) = ranges.next()? {
                // Also of those that hold nothing the list may be without end.
                each(if range.begin == 0 { 0..0 } else { range.begin..range.end })?;
            }
        } else if let Some(low) = attributes.low.filter(|&low| low != 0) {
            let high = attributes.high.or_else(|| low.checked_add(attributes.size?));
            if let Some(high) = high.filter(|&high| low < high) {
                each(low..high)?;
            }
        }
        Ok(())
    }

    /// The number of an inlined function's name; one without a name has an empty one.
    fn called(
        &self,
        offset: UnitOffset,
        attributes: &Attributes<'a>,
        found: &mut InlineLookup,
    ) -> Result<u32, Error> {
        // Most places of one function refer to one entry.
        let (kind, origin) = match attributes.origin {
            Some(AttributeValue::UnitRef(origin)) => (0, origin.0),
            Some(AttributeValue::DebugInfoRef(origin)) => (1, origin.0),
            Some(AttributeValue::DebugInfoRefSup(origin)) => (2, origin.0),
            _ => (0, offset.0),
        };
        let key = (origin as u64) << 2 | kind;
        if let Some(&known) = found.names_of_unit.get(&key) {
            return Ok(known);
        }
        let name = self.name(attributes, REFERRALS, found);
        let name = name.map_or(&b""[..], |name| name.slice());
        // Each may be a part of one long text.
        found.step(name.len() / NAME_STEP)?;
        let id = found.name(name);
        found.names_of_unit.insert(key, id);
        Ok(id)
    }

    fn name(
        &self,
        attributes: &Attributes<'a>,
        referrals: usize,
        lookup: &mut InlineLookup,
    ) -> Option<DwarfSlice<'a>> {
        let text = |name: Option<AttributeValue<_>>| self.units.dwarf.attr_string(self.unit, name?).ok();
        let mut referred = || {
            let referrals = referrals.checked_sub(1)?;
            match attributes.origin? {
                AttributeValue::UnitRef(offset) => self.name_at(offset, referrals, lookup),
                AttributeValue::DebugInfoRef(offset) => {
                    let (unit, offset) = self.units.at(offset, lookup)?;
                    UnitReader { units: self.units, unit: &unit }.name_at(offset, referrals, lookup)
                }
                AttributeValue::DebugInfoRefSup(offset) => {
                    let units = self.units.shared.as_deref()?;
                    let (unit, offset) = units.at(offset, lookup)?;
                    UnitReader { units, unit: &unit }.name_at(offset, referrals, lookup)
                }
                _ => None,
            }
        };
        text(attributes.linkage_name).or_else(&mut referred).or_else(|| text(attributes.name))
    }

    fn name_at(
        &self,
        offset: UnitOffset,
        referrals: usize,
        lookup: &mut InlineLookup,
    ) -> Option<DwarfSlice<'a>> {
        let mut entries = self.unit.entries_raw(Some(offset)).ok()?;
        let entry = entries.read_abbreviation().ok()??;
        self.name(&self.attributes(&mut entries, entry, lookup).ok()?, referrals, lookup)
    }
}
