//! A walk through the entries of a unit.

use super::Found;
use super::die_cursor::{DieCursor, Entry};
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

impl<'u, 'a> Reader<'u, 'a> {
    /// Finds the functions of a unit's addresses, and what was inlined into them there.
    pub fn functions(&self, of_unit: &[usize], found: &mut Found) -> Result<(), Error> {
        let mut steps = DieCursor::new(self.unit)?;
        let mut left = of_unit.len();
        let mut here = Vec::new();
        while left > 0 {
            let Some(entry) = steps.next(isize::MIN)? else { break };
            if entry.inlined {
                // Of a function that none of the addresses is in.
                steps.skip_attributes(&entry)?;
                continue;
            }
            self.held(&mut steps, &entry, of_unit, found, &mut here)?;
            // Of functions that were made one by the linker, the first has the address.
            here.retain(|&index| !found.done[index]);
            if here.is_empty() {
                continue;
            }
            here.iter().for_each(|&index| found.done[index] = true);
            left = left.saturating_sub(here.len());
            self.inlined(&mut steps, entry.depth, &here, found)?;
        }
        Ok(())
    }

    /// Reads what is below a function's entry, which holds the addresses `here`.
    fn inlined(
        &self,
        steps: &mut DieCursor<'u, 'a>,
        function: isize,
        here: &[usize],
        found: &mut Found,
    ) -> Result<(), Error> {
        // The depths of the inlined functions around the entry.
        let mut around: Vec<isize> = Vec::new();
        let mut met = Vec::new();
        while let Some(entry) = steps.next(function)? {
            around.truncate(around.partition_point(|&outer| outer < entry.lowest));
            if !entry.inlined {
                // A function within a function has code of its own.
                steps.skip_attributes(&entry)?;
                while let Some(entry) = steps.next(entry.depth)? {
                    steps.skip_attributes(&entry)?;
                }
                continue;
            }
            let attributes = self.held(steps, &entry, here, found, &mut met)?;
            // An address is in an inlined function only if it is in those around it.
            met.retain(|&index| found.inlined.chains[index].len() == around.len());
            if let Some(attributes) = attributes.filter(|_| !met.is_empty()) {
                let name = self.called(entry.offset, &attributes, found);
                met.iter().for_each(|&index| found.inlined.chains[index].push(name));
            }
            if entry.shape.has_children() {
                around.push(entry.depth);
            }
        }
        Ok(())
    }

    /// Gives those of some addresses that lie in the code of an entry, in order, and its attributes if there are any.
    fn held(
        &self,
        steps: &mut DieCursor<'u, 'a>,
        entry: &Entry,
        some: &[usize],
        found: &Found,
        held: &mut Vec<usize>,
    ) -> Result<Option<Attributes<'a>>, Error> {
        held.clear();
        if let Some(range) = &entry.code
            && found.within(some, range).is_empty()
        {
            steps.skip_attributes(entry)?;
            return Ok(None);
        }
        let attributes = steps.attributes(|entries| self.attributes(entries, entry.shape))?;
        self.ranges(&attributes, |range| held.extend_from_slice(found.within(some, &range)))?;
        held.sort_unstable();
        held.dedup();
        Ok(Some(attributes))
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
