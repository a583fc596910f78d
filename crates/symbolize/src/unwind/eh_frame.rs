//! The frames that `.eh_frame` describes, and those among them that framehop does not follow.

use super::one_section::TableRow;
use gimli::{
    AArch64, BaseAddresses, CallFrameInstruction, CieOrFde, CommonInformationEntry, EhFrame, Expression,
    FrameDescriptionEntry, Operation, ParsedEhFrameHdr, Register, UnwindContext, UnwindSection,
    UnwindTableRow, X86_64,
};
use std::ops::Range;

/// Bytes of a section with DWARF in them; every machine perf folds for here is little-endian.
pub type DwarfSlice<'a> = gimli::EndianSlice<'a, gimli::LittleEndian>;
pub type Fde<'a> = FrameDescriptionEntry<DwarfSlice<'a>>;

/// The description of a file's frames.
pub struct EhFrames<'a> {
    /// The section `.eh_frame`.
    pub bytes: &'a [u8],
    pub eh_frame: EhFrame<DwarfSlice<'a>>,
    /// The table to search it by.
    pub header: Option<ParsedEhFrameHdr<DwarfSlice<'a>>>,
    pub bases: BaseAddresses,
}

/// A function with such frames: its addresses in the file, and where it is described.
#[derive(Clone, Debug)]
pub struct CfaFunction {
    pub range: Range<u64>,
    pub entry: usize,
}

impl<'a> EhFrames<'a> {
    /// The functions that framehop does not follow everywhere, in order.
    pub fn with_other_cfa(&self) -> Vec<CfaFunction> {
        // To read every entry would take as long as to fold a small recording; few hold such bytes.
        let mut hints = hints(self.bytes);
        let mut next = hints.next();
        let may_hold_one = |entry: &Range<usize>| {
            // Nearly always.
            if next.is_none_or(|hint| hint >= entry.end) {
                return false;
            }
            while next.is_some_and(|hint| hint < entry.start) {
                next = hints.next();
            }
            next.is_some_and(|hint| hint < entry.end)
        };
        let mut found = self.entries(may_hold_one);
        found.retain(|entry| self.has_other_cfa(entry));
        let function = |entry: &Fde| CfaFunction {
            range: entry.initial_address()..entry.end_address(),
            entry: entry.offset(),
        };
        let mut functions: Vec<_> = found.iter().map(function).collect();
        functions.sort_by_key(|function| function.range.start);
        functions
    }

    /// Where each function begins and where it is described.
    pub fn functions(&self) -> Vec<TableRow> {
        self.entries(|_| true).iter().map(|one| (one.initial_address(), one.offset())).collect()
    }

    /// The descriptions that are wanted, by their places in the section.
    fn entries(&self, mut wanted: impl FnMut(&Range<usize>) -> bool) -> Vec<Fde<'a>> {
        let mut common: Option<CommonInformationEntry<DwarfSlice>> = None;
        let places = RawEntries::of(self.bytes);
        let functions =
            places.filter(|entry| entry.id != 0).map(|entry| entry.place).filter(|place| wanted(place));
        let parsed = functions.filter_map(|place| {
            let entry =
                self.eh_frame.fde_from_offset(&self.bases, place.start.into(), |section, bases, offset| {
                    match &common {
                        Some(common) if common.offset() == offset.0 => Ok(common.clone()),
                        _ => section
                            .cie_from_offset(bases, offset)
                            .inspect(|entry: &CommonInformationEntry<_>| common = Some(entry.clone())),
                    }
                });
            entry.ok()
        });
        parsed.collect()
    }

    fn has_other_cfa(&self, entry: &Fde<'a>) -> bool {
        let mut instructions = entry.instructions(&self.eh_frame, &self.bases);
        std::iter::from_fn(|| instructions.next().ok().flatten()).any(|instruction| match instruction {
            CallFrameInstruction::DefCfa { register, .. }
            | CallFrameInstruction::DefCfaRegister { register } => !is_followed(register),
            CallFrameInstruction::DefCfaExpression { expression } => {
                let expression = expression.get(&self.eh_frame);
                expression.is_ok_and(|expression| needs_more(expression, entry))
            }
            _ => false,
        })
    }

    pub fn entry(&self, offset: usize) -> Option<Fde<'a>> {
        self.eh_frame.fde_from_offset(&self.bases, offset.into(), EhFrame::cie_from_offset).ok()
    }

    /// The function around an address.
    pub fn entry_of(&self, address: u64) -> Option<Fde<'a>> {
        let header = self.header.as_ref()?;
        let place = header.table()?.lookup(address, &self.bases).ok()?.direct().ok()?;
        let offset = place.checked_sub(header.eh_frame_ptr().direct().ok()?)?;
        self.entry(usize::try_from(offset).ok()?).filter(|entry| entry.contains(address))
    }
}

/// Bytes of the description of one function; the longest of a compiler's are 20 KiB. All of it is read for each frame.
pub const LONGEST: usize = 64 << 10;

/// Whether a section cannot be given to framehop, which evaluates any rule to its end, and reads the description again for each
/// frame. No compiler's rules jump back. `listed`: the places that a table says functions are described at.
pub fn is_endless(frames: &EhFrames, mut listed: impl Iterator<Item = usize>) -> bool {
    let EhFrames { bytes, eh_frame: section, bases, .. } = frames;
    let places = EntryPlaces::of(bytes);
    // Within other entries could lie any rule.
    if places.longest > LONGEST || !places.refers_to_entries || listed.any(|place| !places.has(place)) {
        return true;
    }
    let mut suspects = places.suspects.iter().copied().peekable();
    let mut entries = section.entries(bases);
    while suspects.peek().is_some() {
        // Behind damage nothing is known.
        let Ok(Some(entry)) = entries.next() else { return true };
        let (at, mut instructions, encoding) = match &entry {
            CieOrFde::Cie(common) => {
                (common.offset(), common.instructions(section, bases), common.encoding())
            }
            CieOrFde::Fde(partial) if suspects.peek() == Some(&partial.offset()) => {
                match partial.parse(EhFrame::cie_from_offset) {
                    Ok(entry) => (entry.offset(), entry.instructions(section, bases), entry.cie().encoding()),
                    Err(_) => return true,
                }
            }
            CieOrFde::Fde(_) => continue,
        };
        if suspects.next_if_eq(&at).is_none() {
            continue;
        }
        while let Ok(Some(instruction)) = instructions.next() {
            use CallFrameInstruction::{DefCfaExpression, Expression, ValExpression};
            let (DefCfaExpression { expression }
            | Expression { expression, .. }
            | ValExpression { expression, .. }) = instruction
            else {
                continue;
            };
            if expression.get(section).is_ok_and(|expression| jumps_back(expression, encoding)) {
                return true;
            }
        }
    }
    false
}

/// The entries of a section, one behind the other, read faster than by gimli.
pub struct RawEntries<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> RawEntries<'a> {
    pub fn of(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0 }
    }
}

pub struct RawEntry {
    /// With its length; behind the section's end where that is damaged, or of the form with 64 bits, for sections of 4 GiB.
    pub place: Range<usize>,
    /// The word behind the length.
    pub id: u32,
}

impl Iterator for RawEntries<'_> {
    type Item = RawEntry;

    #[inline]
    fn next(&mut self) -> Option<RawEntry> {
        loop {
            let head = u64::from_le_bytes(*self.bytes.get(self.at..)?.first_chunk()?);
            let (start, len) = (self.at, head as u32);
            self.at += 4 + len as usize;
            // Zeros end a part of the section.
            if len > 0 {
                return Some(RawEntry { place: start..self.at, id: (head >> 32) as u32 });
            }
        }
    }
}

/// What the entries of a section show of themselves.
struct EntryPlaces {
    /// Where one begins: a bit for every byte.
    begins: Vec<u64>,
    /// Bytes of the longest.
    longest: usize,
    /// What functions have in common is described by entries, too.
    refers_to_entries: bool,
    /// Entries that may hold an expression which jumps back, in order.
    suspects: Vec<usize>,
}

impl EntryPlaces {
    fn of(bytes: &[u8]) -> Self {
        let mut found = Self {
            begins: vec![0; bytes.len() / 64 + 1],
            longest: 0,
            refers_to_entries: true,
            suspects: Vec::new(),
        };
        let mut common = Vec::new();
        let mut jumps = Jumps::of(bytes);
        for RawEntry { place: Range { start, end }, id } in RawEntries::of(bytes) {
            found.begins[start / 64] |= 1 << (start % 64);
            found.longest = found.longest.max(end - start);
            // Where what it has in common with others is described; 0: it is such a description.
            let refers = if id == 0 { start } else { (start + 4).wrapping_sub(id as usize) };
            if refers != start && common.last() != Some(&refers) {
                common.push(refers);
            }
            if jumps.are_in(start + 4, end.min(bytes.len())) {
                found.suspects.push(start);
            }
        }
        found.refers_to_entries = common.into_iter().all(|place| found.has(place));
        found
    }

    fn has(&self, place: usize) -> bool {
        self.begins.get(place / 64).is_some_and(|bits| bits >> (place % 64) & 1 == 1)
    }
}

/// Bytes that are looked at together, by vector instructions: what is looked for is rare, single bytes of it are not.
const PIECE: usize = 32;

/// Where a byte and the one so far behind it are wanted; `wanted` without branches.
fn pairs(section: &[u8], distance: usize, wanted: impl Fn(u8, u8) -> bool) -> Vec<usize> {
    let mut found = Vec::new();
    let seconds = section.get(distance..).unwrap_or(&[]);
    let mut look_at = |from: usize, firsts: &[u8], seconds: &[u8]| {
        let both = firsts.iter().zip(seconds).enumerate();
        found.extend(both.filter(|(_, (first, second))| wanted(**first, **second)).map(|(at, _)| from + at));
    };
    let (pieces, behind) = (section.as_chunks::<PIECE>().0, seconds.as_chunks::<PIECE>().0);
    let mut at = 0;
    for (first, second) in pieces.iter().zip(behind) {
        if first.iter().zip(second).fold(false, |any, (first, second)| any | wanted(*first, *second)) {
            look_at(at, first, second);
        }
        at += PIECE;
    }
    look_at(at, &section[at..], &seconds[at..]);
    found
}

/// Bytes that may be expressions which jump back within themselves, as a rule of a register or of the whole frame.
struct Jumps<'a> {
    section: &'a [u8],
    /// Where something may be such a jump, and where it leads to.
    back: Vec<(usize, usize)>,
    /// The first of them that was not passed yet.
    next: usize,
}

impl<'a> Jumps<'a> {
    fn of(section: &'a [u8]) -> Self {
        // The upper byte of its distance, two behind it, is that of a negative number.
        let is_jump = |operation: u8, high: u8| {
            ((operation == gimli::DW_OP_skip.0) | (operation == gimli::DW_OP_bra.0)) & (high >= 0x80)
        };
        let back = pairs(section, 2, is_jump).into_iter().filter_map(|at| {
            let distance = i16::from_le_bytes([section[at + 1], section[at + 2]]).unsigned_abs();
            // From behind itself.
            Some((at, (at + 3).checked_sub(usize::from(distance))?))
        });
        Self { section, back: back.collect(), next: 0 }
    }

    /// Whether one may lie in an entry; the entries come in order.
    #[inline]
    fn are_in(&mut self, start: usize, end: usize) -> bool {
        // Nearly always.
        if self.back.get(self.next).is_none_or(|(jump, _)| *jump >= end) {
            return false;
        }
        while self.back.get(self.next).is_some_and(|(jump, _)| *jump < start) {
            self.next += 1;
        }
        let rest = &self.back[self.next..];
        let inside = rest.iter().take_while(|(jump, _)| *jump < end).filter(|(_, to)| *to > start);
        inside.into_iter().any(|&(jump, to)| self.is_in_rule(start, jump, to, end))
    }

    /// Whether a rule that begins behind `start` may hold both.
    #[cold]
    fn is_in_rule(&self, start: usize, jump: usize, to: usize, end: usize) -> bool {
        // The registers that are evaluated.
        let evaluated =
            [X86_64::RBP, X86_64::RA, AArch64::X29, AArch64::X30].map(|register| u64::from(register.0));
        let rules =
            [gimli::DW_CFA_def_cfa_expression, gimli::DW_CFA_expression, gimli::DW_CFA_val_expression];
        memchr::memchr3_iter(rules[0].0, rules[1].0, rules[2].0, &self.section[start..to]).any(|at| {
            let mut behind = start + at + 1;
            let of_register = self.section[start + at] != rules[0].0;
            if of_register && !number(self.section, &mut behind).is_some_and(|of| evaluated.contains(&of)) {
                return false;
            }
            let len = number(self.section, &mut behind).unwrap_or(0);
            let rule_end = len.saturating_add(behind as u64);
            behind <= to && (jump as u64) < rule_end && rule_end <= end as u64
        })
    }
}

/// A number in LEB128, behind which the place is moved.
fn number(bytes: &[u8], at: &mut usize) -> Option<u64> {
    let (mut value, mut shift) = (0_u64, 0);
    loop {
        let byte = *bytes.get(*at)?;
        *at += 1;
        value |= u64::from(byte & 0x7f).checked_shl(shift).unwrap_or(0);
        shift += 7;
        if byte < 0x80 {
            return Some(value);
        }
    }
}

fn jumps_back(expression: Expression<DwarfSlice>, encoding: gimli::Encoding) -> bool {
    let mut operations = expression.operations(encoding);
    std::iter::from_fn(|| operations.next().ok().flatten()).any(
        |operation| matches!(operation, Operation::Skip { target } | Operation::Bra { target } if target < 0),
    )
}

/// Where bytes lie that may be an instruction with another register than stack or frame pointer, or with an expression.
fn hints(section: &[u8]) -> impl Iterator<Item = usize> {
    let followed = |register: u8| is_followed(Register(register.into()));
    // `DW_CFA_def_cfa_sf` is left out: it is for frames below a register, which no compiler writes.
    memchr::memchr3_iter(
        gimli::DW_CFA_def_cfa.0,
        gimli::DW_CFA_def_cfa_register.0,
        gimli::DW_CFA_def_cfa_expression.0,
        section,
    )
    .filter(move |&at| {
        let register = section.get(at + 1).copied().unwrap_or_default();
        section[at] == gimli::DW_CFA_def_cfa_expression.0
            || u16::from(register) < X86_64::RA.0 && !followed(register)
    })
}

/// Whether framehop knows what the register held.
pub fn is_followed(register: Register) -> bool {
    [X86_64::RSP, X86_64::RBP, X86_64::RA].contains(&register)
}

pub fn needs_more(expression: Expression<DwarfSlice>, entry: &Fde) -> bool {
    let mut operations = expression.operations(entry.cie().encoding());
    std::iter::from_fn(|| operations.next().ok().flatten()).any(|operation| match operation {
        // framehop would go round for ever.
        Operation::Deref { .. } | Operation::Skip { .. } | Operation::Bra { .. } => true,
        Operation::RegisterOffset { register, .. } => !is_followed(register),
        _ => false,
    })
}

/// What describes the frame at an address of the file.
pub fn row<'c>(
    frames: &EhFrames,
    entry: &Fde,
    context: &'c mut UnwindContext<usize>,
    address: u64,
) -> Option<&'c UnwindTableRow<usize>> {
    entry.unwind_info_for_address(&frames.eh_frame, &frames.bases, context, address).ok()
}
