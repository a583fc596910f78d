//! Steps from entry to entry of a unit. Most entries are types and variables, which are only stepped over; what that
//! takes is found out once for each of their shapes (abbreviations).

use super::sections::Slice;
use crate::intern::IntMap;
use gimli::{
    Abbreviation, AttributeSpecification, EntriesRaw, Error, LittleEndian, Reader, Unit, UnitOffset,
};
use std::ops::Range;

/// Compilers count shapes from 1, so that a list has those with smaller numbers.
const LISTED: usize = 1 << 12;
const UNKNOWN: u32 = u32::MAX;

/// An entry that may say where code lies: a function, or an inlined one.
pub struct Entry<'u> {
    pub offset: UnitOffset,
    pub depth: isize,
    /// The least depth of all entries behind the one before, with this one.
    pub lowest: isize,
    pub inlined: bool,
    pub shape: &'u Abbreviation,
    /// Where its code lies, if it can be told without reading all attributes.
    pub code: Option<Range<u64>>,
    parts: Parts,
}

/// A way through the entries of a unit, in their order. After an entry its attributes are next: they must be read or
/// skipped.
pub struct DieCursor<'u, 'a> {
    unit: &'u Unit<Slice<'a>>,
    rest: &'a [u8],
    /// Where the entries end.
    end: usize,
    depth: isize,
    shapes: Vec<Shape<'u>>,
    /// The shapes by their numbers: of small ones, and of the others.
    listed: Vec<u32>,
    others: IntMap<u64, u32>,
    parts: Vec<Part>,
}

struct Shape<'u> {
    abbreviation: &'u Abbreviation,
    is: Is,
    has_children: bool,
    parts: Parts,
    bounds: Option<Bounds>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Is {
    Function,
    Inlined,
    Other,
}

/// The attributes of a shape, as a range of all parts.
#[derive(Clone, Copy)]
struct Parts {
    first: u32,
    last: u32,
}

/// Attributes, as far as they have to be known to step over them.
#[derive(Clone, Copy)]
enum Part {
    Fixed(usize),
    Leb,
    /// As many bytes as a number of this length says.
    Counted(usize),
    CountedByLeb,
    ToZero,
    /// Only the attribute itself says how long it is.
    Dynamic(AttributeSpecification),
}

/// Where the lowest address and the size of the code stand among the attributes.
#[derive(Clone, Copy)]
struct Bounds {
    low: usize,
    size: usize,
    size_len: usize,
}

impl<'u, 'a> DieCursor<'u, 'a> {
    /// From the first entry of the unit.
    pub fn new(unit: &'u Unit<Slice<'a>>) -> Result<Self, Error> {
        let start = unit.header.root_offset();
        let rest = unit.header.range_from(start..)?.slice();
        let end = start.0 + rest.len();
        let (shapes, parts) = (Vec::new(), Vec::new());
        let (listed, others) = (vec![UNKNOWN; LISTED], IntMap::default());
        Ok(Self { unit, rest, end, depth: 0, shapes, listed, others, parts })
    }

    /// The next entry with code below this depth; `None` where there is none before the entries rise to it.
    pub fn next(&mut self, above: isize) -> Result<Option<Entry<'u>>, Error> {
        let mut lowest = isize::MAX;
        while self.depth > above && !self.rest.is_empty() {
            let before = self.rest;
            let (code, rest) = leb(before).ok_or_else(|| self.ends())?;
            self.rest = rest;
            if code == 0 {
                self.depth -= 1;
                continue;
            }
            let index = self.index(code)?;
            let &Shape { abbreviation, is, has_children, parts, bounds } = &self.shapes[index];
            let depth = self.depth;
            lowest = lowest.min(depth);
            self.depth += isize::from(has_children);
            if is == Is::Other {
                self.skip(parts)?;
                continue;
            }
            let offset = UnitOffset(self.end - before.len());
            let code = bounds.and_then(|bounds| self.code(bounds));
            let inlined = is == Is::Inlined;
            return Ok(Some(Entry { offset, depth, lowest, inlined, shape: abbreviation, code, parts }));
        }
        Ok(None)
    }

    /// Steps over the attributes of the entry.
    pub fn skip_attributes(&mut self, entry: &Entry) -> Result<(), Error> {
        self.skip(entry.parts)
    }

    /// The attributes of the entry, to be read to the last one.
    pub fn attributes<T>(
        &mut self,
        read: impl FnOnce(&mut EntriesRaw<'u, Slice<'a>>) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let Unit { header, abbreviations, .. } = self.unit;
        let offset = UnitOffset(self.end - self.rest.len());
        let input = Slice::new(self.rest, LittleEndian);
        let mut entries = EntriesRaw::new(input, header.encoding(), abbreviations, offset);
        let read = read(&mut entries)?;
        let len = entries.next_offset().0 - offset.0;
        self.rest = self.rest.get(len..).ok_or_else(|| self.ends())?;
        Ok(read)
    }

    fn skip(&mut self, parts: Parts) -> Result<(), Error> {
        let mut rest = self.rest;
        for index in parts.first..parts.last {
            match self.parts.get(index as usize) {
                Some(&Part::Dynamic(form)) => {
                    self.rest = rest;
                    self.attributes(|entries| entries.skip_attributes(&[form]))?;
                    rest = self.rest;
                }
                Some(&part) => rest = behind(rest, part).ok_or_else(|| self.ends())?,
                None => {}
            }
        }
        self.rest = rest;
        Ok(())
    }

    fn ends(&self) -> Error {
        Error::UnexpectedEof(Slice::new(self.rest, LittleEndian).offset_id())
    }

    fn code(&self, bounds: Bounds) -> Option<Range<u64>> {
        let number = |at: usize, len: usize| {
            let bytes = self.rest.get(at..at + len)?;
            Some(bytes.iter().rev().fold(0, |number, &byte| number << 8 | u64::from(byte)))
        };
        let low = number(bounds.low, 8)?;
        Some(low..low.checked_add(number(bounds.size, bounds.size_len)?)?)
    }

    /// The index of a shape, which is found out if it is new.
    fn index(&mut self, code: u64) -> Result<usize, Error> {
        match self.listed.get(code as usize) {
            Some(&UNKNOWN) => {}
            Some(&known) => return Ok(known as usize),
            None => {
                if let Some(&known) = self.others.get(&code) {
                    return Ok(known as usize);
                }
            }
        }
        let abbreviation = self.unit.abbreviations.get(code).ok_or(Error::InvalidAbbreviationCode(code))?;
        let index = self.shapes.len();
        let shape = self.found_out(abbreviation);
        self.shapes.push(shape);
        match self.listed.get_mut(code as usize) {
            Some(listed) => *listed = index as u32,
            None => drop(self.others.insert(code, index as u32)),
        }
        Ok(index)
    }

    fn found_out(&mut self, abbreviation: &'u Abbreviation) -> Shape<'u> {
        let has = |name| abbreviation.attributes().iter().any(|form| form.name() == name);
        // Declarations say nothing of code.
        let is = match abbreviation.tag() {
            gimli::DW_TAG_subprogram if has(gimli::DW_AT_low_pc) || has(gimli::DW_AT_ranges) => Is::Function,
            gimli::DW_TAG_inlined_subroutine => Is::Inlined,
            _ => Is::Other,
        };
        let encoding = self.unit.encoding();
        let first = self.parts.len();
        let (mut low, mut size) = (None, None);
        for &form in abbreviation.attributes() {
            let len = form.size(&self.unit.header);
            // How far it is from the first attribute, if nothing before varies.
            let at = match self.parts.get(first..).unwrap_or(&[]) {
                [] => Some(0),
                [Part::Fixed(len)] => Some(*len),
                _ => None,
            };
            match (form.name(), form.form()) {
                (gimli::DW_AT_low_pc, gimli::DW_FORM_addr) if encoding.address_size == 8 => low = at,
                (
                    gimli::DW_AT_high_pc,
                    gimli::DW_FORM_data1 | gimli::DW_FORM_data2 | gimli::DW_FORM_data4 | gimli::DW_FORM_data8,
                ) => size = at.zip(len),
                _ => {}
            }
            let part = match (len, form.form()) {
                (Some(len), _) => Part::Fixed(len),
                (None, gimli::DW_FORM_block1) => Part::Counted(1),
                (None, gimli::DW_FORM_block2) => Part::Counted(2),
                (None, gimli::DW_FORM_block4) => Part::Counted(4),
                (None, gimli::DW_FORM_block | gimli::DW_FORM_exprloc) => Part::CountedByLeb,
                (None, gimli::DW_FORM_string) => Part::ToZero,
                (None, gimli::DW_FORM_udata | gimli::DW_FORM_sdata | gimli::DW_FORM_ref_udata) => Part::Leb,
                (None, _) => Part::Dynamic(form),
            };
            match (self.parts.get_mut(first..).and_then(<[Part]>::last_mut), part) {
                (Some(Part::Fixed(before)), Part::Fixed(len)) => *before += len,
                _ => self.parts.push(part),
            }
        }
        let bounds = match (low, size) {
            (Some(low), Some((size, size_len))) if !has(gimli::DW_AT_ranges) => {
                Some(Bounds { low, size, size_len })
            }
            _ => None,
        };
        let parts = Parts { first: first as u32, last: self.parts.len() as u32 };
        Shape { abbreviation, is, has_children: abbreviation.has_children(), parts, bounds }
    }
}

/// What follows an attribute.
fn behind(bytes: &[u8], part: Part) -> Option<&[u8]> {
    let (len, bytes) = match part {
        Part::Fixed(len) => (len, bytes),
        Part::Counted(len) => {
            let (count, bytes) = bytes.split_at_checked(len)?;
            (count.iter().rev().fold(0, |number, &byte| number << 8 | usize::from(byte)), bytes)
        }
        Part::CountedByLeb => {
            let (count, bytes) = leb(bytes)?;
            (usize::try_from(count).ok()?, bytes)
        }
        Part::ToZero => (bytes.iter().position(|&byte| byte == 0)? + 1, bytes),
        Part::Leb | Part::Dynamic(_) => return leb(bytes).map(|(_, bytes)| bytes),
    };
    bytes.get(len..)
}

/// A number whose bytes say whether more of them follow, and what follows it.
fn leb(bytes: &[u8]) -> Option<(u64, &[u8])> {
    match bytes {
        [byte @ 0..0x80, rest @ ..] => Some((u64::from(*byte), rest)),
        [low, high @ 0..0x80, rest @ ..] => Some((u64::from(low & 0x7f) | u64::from(*high) << 7, rest)),
        _ => long_leb(bytes),
    }
}

fn long_leb(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let mut number = 0;
    for (at, &byte) in bytes.iter().enumerate() {
        number |= u64::from(byte & 0x7f).checked_shl(7 * at as u32).unwrap_or(0);
        if byte < 0x80 {
            return Some((number, &bytes[at + 1..]));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::super::sections::{Sections, headers, unit};
    use super::*;
    use std::path::Path;

    /// Every entry with code of this program's own debug information, by gimli's way through all of them.
    #[test]
    fn no_entry_with_code_is_stepped_over() {
        let (sections, _) = Sections::read(Path::new("/proc/self/exe")).unwrap();
        let dwarf = sections.borrow(None);
        let mut met = 0;
        for unit in headers(&dwarf).into_iter().filter_map(|header| unit(&dwarf, header)) {
            let mut steps = DieCursor::new(&unit).unwrap();
            let mut entries = unit.entries_raw(None).unwrap();
            let mut lowest = isize::MAX;
            while !entries.is_empty() {
                let (offset, depth) = (entries.next_offset(), entries.next_depth());
                let Some(shape) = entries.read_abbreviation().unwrap() else { continue };
                lowest = lowest.min(depth);
                let (mut low, mut size, mut ranges) = (None, None, false);
                for &form in shape.attributes() {
                    let attribute = entries.read_attribute(form).unwrap();
                    match (attribute.name(), attribute.value()) {
                        (gimli::DW_AT_low_pc, value) => low = dwarf.attr_address(&unit, value).unwrap(),
                        (gimli::DW_AT_high_pc, value) => size = value.udata_value(),
                        (gimli::DW_AT_ranges, _) => ranges = true,
                        _ => {}
                    }
                }
                let inlined = shape.tag() == gimli::DW_TAG_inlined_subroutine;
                if !inlined && (shape.tag() != gimli::DW_TAG_subprogram || low.is_none() && !ranges) {
                    continue;
                }
                let entry = steps.next(isize::MIN).unwrap().unwrap();
                assert_eq!((entry.offset, entry.depth, entry.lowest), (offset, depth, lowest));
                assert_eq!((entry.inlined, entry.shape.code()), (inlined, shape.code()));
                if let Some(code) = &entry.code {
                    assert!(!ranges && Some(code.start) == low && Some(code.end - code.start) == size);
                }
                match met % 2 {
                    0 => steps.skip_attributes(&entry).unwrap(),
                    _ => steps.attributes(|entries| entries.skip_attributes(shape.attributes())).unwrap(),
                }
                (met, lowest) = (met + 1, isize::MAX);
            }
            assert!(steps.next(isize::MIN).unwrap().is_none());
        }
        assert!(met > 1000, "{met}");
    }

    #[test]
    fn what_varies_in_length_is_stepped_over() {
        let behind = |part, bytes| behind(bytes, part);
        let rest = Some(&b"rest"[..]);
        assert_eq!(behind(Part::Fixed(2), b"12rest"), rest);
        assert_eq!(behind(Part::Leb, b"\xff\xff\x01rest"), rest);
        assert_eq!(behind(Part::Counted(2), b"\x03\x00123rest"), rest);
        assert_eq!(behind(Part::CountedByLeb, b"\x81\x001rest"), rest);
        assert_eq!(behind(Part::ToZero, b"name\0rest"), rest);
        for part in [Part::Fixed(5), Part::Leb, Part::Counted(4), Part::CountedByLeb, Part::ToZero] {
            assert_eq!(behind(part, b"\xff\xff\xff\xff"), None);
        }
        assert_eq!(leb(b"\x7f"), Some((0x7f, &b""[..])));
        assert_eq!(leb(b"\x80\x01"), Some((0x80, &b""[..])));
        assert_eq!(leb(b"\xff\xff\x03"), Some((0xffff, &b""[..])));
        assert_eq!(leb(b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"), Some((u64::MAX, &b""[..])));
    }
}
