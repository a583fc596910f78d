//! A walk through the entries of a unit.

use super::Found;
use super::sections::{self, Header, Slice};
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

/// The units of one file.
pub struct Units<'a> {
    pub dwarf: Dwarf<Slice<'a>>,
    /// In the order of their offsets.
    pub headers: Vec<Header<'a>>,
    /// Units that others refer to.
    referred: RefCell<HashMap<usize, Option<Rc<Unit<Slice<'a>>>>>>,
    shared: Option<Box<Units<'a>>>,
}

impl<'a> Units<'a> {
    pub fn new(dwarf: Dwarf<Slice<'a>>, shared: Option<Dwarf<Slice<'a>>>) -> Self {
        let headers = sections::headers(&dwarf);
        let shared = shared.map(|dwarf| Box::new(Self::new(dwarf, None)));
        Self { dwarf, headers, referred: RefCell::default(), shared }
    }

    /// The unit that an offset of the section lies in, and the offset in the unit.
    fn at(&self, offset: DebugInfoOffset) -> Option<(Rc<Unit<Slice<'a>>>, UnitOffset)> {
        let after = self.headers.partition_point(|header| start(header) <= offset.0);
        let header = self.headers[..after].last()?;
        let unit_offset = offset.to_unit_offset(header)?;
        let mut referred = self.referred.borrow_mut();
        let unit = referred
            .entry(start(header))
            .or_insert_with(|| sections::unit(&self.dwarf, *header).map(Rc::new));
        Some((Rc::clone(unit.as_ref()?), unit_offset))
    }
}

fn start(header: &Header) -> usize {
    header.debug_info_offset().map_or(usize::MAX, |offset| offset.0)
}

/// Whether an entry may say where code lies; declarations do not.
fn has_code(entry: &Abbreviation) -> bool {
    let says = |name| name == gimli::DW_AT_low_pc || name == gimli::DW_AT_ranges;
    entry.attributes().iter().any(|form| says(form.name()))
}

/// The attributes that say where code lies, and what it is called.
#[derive(Default)]
struct Attributes<'a> {
    low: Option<u64>,
    high: Option<u64>,
    size: Option<u64>,
    ranges: Option<RangeListsOffset>,
    linkage_name: Option<Slice<'a>>,
    name: Option<Slice<'a>>,
    origin: Option<AttributeValue<Slice<'a>>>,
}

pub struct Reader<'u, 'a> {
    pub units: &'u Units<'a>,
    pub unit: &'u Unit<Slice<'a>>,
}

impl<'a> Reader<'_, 'a> {
    /// Finds the functions of a unit's addresses, and what was inlined into them there.
    pub fn functions(&self, of_unit: &[usize], found: &mut Found) -> Result<(), Error> {
        let mut entries = self.unit.entries_raw(None)?;
        let mut left = of_unit.len();
        while left > 0 && !entries.is_empty() {
            let depth = entries.next_depth();
            let Some(entry) = entries.read_abbreviation()? else { continue };
            if entry.tag() != gimli::DW_TAG_subprogram || !has_code(entry) {
                entries.skip_attributes(entry.attributes())?;
                continue;
            }
            let attributes = self.attributes(&mut entries, entry)?;
            let mut here = Vec::new();
            self.ranges(&attributes, |range| {
                // Of functions that were made one by the linker, the first has the address.
                here.extend(found.within(of_unit, &range).iter().filter(|&&index| !found.done[index]));
            })?;
            if here.is_empty() {
                continue;
            }
            here.sort_unstable();
            here.dedup();
            here.iter().for_each(|&index| found.done[index] = true);
            left = left.saturating_sub(here.len());
            self.inlined(&mut entries, depth, &here, found)?;
        }
        Ok(())
    }

    /// Reads what is below a function's entry, which holds the addresses `here`.
    fn inlined(
        &self,
        entries: &mut EntriesRaw<Slice<'a>>,
        function: isize,
        here: &[usize],
        found: &mut Found,
    ) -> Result<(), Error> {
        // The depths of the inlined functions around the entry.
        let mut around: Vec<isize> = Vec::new();
        while entries.next_depth() > function && !entries.is_empty() {
            let depth = entries.next_depth();
            let offset = entries.next_offset();
            let Some(entry) = entries.read_abbreviation()? else { continue };
            around.truncate(around.partition_point(|&outer| outer < depth));
            match entry.tag() {
                gimli::DW_TAG_inlined_subroutine => {
                    let attributes = self.attributes(entries, entry)?;
                    let mut met = Vec::new();
                    self.ranges(&attributes, |range| met.extend_from_slice(found.within(here, &range)))?;
                    // An address is in an inlined function only if it is in those around it.
                    met.retain(|&index| found.inlined.chains[index].len() == around.len());
                    met.sort_unstable();
                    met.dedup();
                    if !met.is_empty() {
                        let name = self.called(offset, &attributes, found);
                        met.iter().for_each(|&index| found.inlined.chains[index].push(name));
                    }
                    if entry.has_children() {
                        around.push(depth);
                    }
                }
                gimli::DW_TAG_subprogram => {
                    // A function within a function has code of its own.
                    entries.skip_attributes(entry.attributes())?;
                    while entries.next_depth() > depth && !entries.is_empty() {
                        if let Some(entry) = entries.read_abbreviation()? {
                            entries.skip_attributes(entry.attributes())?;
                        }
                    }
                }
                _ => entries.skip_attributes(entry.attributes())?,
            }
        }
        Ok(())
    }

    fn attributes(
        &self,
        entries: &mut EntriesRaw<Slice<'a>>,
        entry: &Abbreviation,
    ) -> Result<Attributes<'a>, Error> {
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
                    found.linkage_name = dwarf.attr_string(self.unit, attribute.value()).ok();
                }
                gimli::DW_AT_name => found.name = dwarf.attr_string(self.unit, attribute.value()).ok(),
                gimli::DW_AT_abstract_origin | gimli::DW_AT_specification => {
                    found.origin = Some(attribute.value());
                }
                _ => {}
            }
        }
        Ok(found)
    }

    fn ranges(&self, attributes: &Attributes, mut each: impl FnMut(Range<u64>)) -> Result<(), Error> {
        if let Some(offset) = attributes.ranges {
            let mut ranges = self.units.dwarf.ranges(self.unit, offset)?;
            while let Some(range) = ranges.next()? {
                if range.begin != 0 && range.begin < range.end {
                    each(range.begin..range.end);
                }
            }
        } else if let Some(low) = attributes.low.filter(|&low| low != 0) {
            let high = attributes.high.or_else(|| low.checked_add(attributes.size?));
            if let Some(high) = high.filter(|&high| low < high) {
                each(low..high);
            }
        }
        Ok(())
    }

    /// The number of an inlined function's name; one without a name has an empty one.
    fn called(&self, offset: UnitOffset, attributes: &Attributes<'a>, found: &mut Found) -> u32 {
        // Most places of one function refer to one entry.
        let (kind, origin) = match attributes.origin {
            Some(AttributeValue::UnitRef(origin)) => (0, origin.0),
            Some(AttributeValue::DebugInfoRef(origin)) => (1, origin.0),
            Some(AttributeValue::DebugInfoRefSup(origin)) => (2, origin.0),
            _ => (0, offset.0),
        };
        let key = (origin as u64) << 2 | kind;
        if let Some(&known) = found.names_of_unit.get(&key) {
            return known;
        }
        let name = self.name(attributes, REFERRALS);
        let id = found.name(name.map_or(&b""[..], |name| name.slice()));
        found.names_of_unit.insert(key, id);
        id
    }

    fn name(&self, attributes: &Attributes<'a>, referrals: usize) -> Option<Slice<'a>> {
        if attributes.linkage_name.is_some() {
            return attributes.linkage_name;
        }
        let referred = || {
            let referrals = referrals.checked_sub(1)?;
            match attributes.origin? {
                AttributeValue::UnitRef(offset) => self.name_at(offset, referrals),
                AttributeValue::DebugInfoRef(offset) => {
                    let (unit, offset) = self.units.at(offset)?;
                    Reader { units: self.units, unit: &unit }.name_at(offset, referrals)
                }
                AttributeValue::DebugInfoRefSup(offset) => {
                    let units = self.units.shared.as_deref()?;
                    let (unit, offset) = units.at(offset)?;
                    Reader { units, unit: &unit }.name_at(offset, referrals)
                }
                _ => None,
            }
        };
        referred().or(attributes.name)
    }

    fn name_at(&self, offset: UnitOffset, referrals: usize) -> Option<Slice<'a>> {
        let mut entries = self.unit.entries_raw(Some(offset)).ok()?;
        let entry = entries.read_abbreviation().ok()??;
        self.name(&self.attributes(&mut entries, entry).ok()?, referrals)
    }
}
