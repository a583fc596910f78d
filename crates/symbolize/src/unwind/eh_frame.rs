//! The frames that `.eh_frame` describes, and those among them that framehop does not follow.

use gimli::{
    BaseAddresses, CallFrameInstruction, CieOrFde, CommonInformationEntry, EhFrame, Expression,
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
        let mut hints = hints(self.bytes).peekable();
        let may_hold_one = |offset: usize, len: usize| {
            while hints.next_if(|hint| *hint < offset).is_some() {}
            // Its length does not count itself: 4 bytes, 12 of the largest.
            hints.peek().is_some_and(|next| *next - offset < len.saturating_add(12))
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

    /// Where each function begins and where it is described, in order.
    pub fn functions(&self) -> Vec<(u64, usize)> {
        let entries = self.entries(|_, _| true);
        let mut functions: Vec<_> = entries.iter().map(|one| (one.initial_address(), one.offset())).collect();
        functions.sort_unstable();
        functions
    }

    /// The descriptions that are wanted, by their places in the section and their lengths.
    fn entries(&self, mut wanted: impl FnMut(usize, usize) -> bool) -> Vec<Fde<'a>> {
        let mut found = Vec::new();
        let mut common: Option<CommonInformationEntry<DwarfSlice>> = None;
        let mut entries = self.eh_frame.entries(&self.bases);
        while let Ok(Some(entry)) = entries.next() {
            let CieOrFde::Fde(partial) = entry else { continue };
            if !wanted(partial.offset(), partial.entry_len()) {
                continue;
            }
            let entry = partial.parse(|section, bases, offset| match &common {
                Some(common) if common.offset() == offset.0 => Ok(common.clone()),
                _ => section
                    .cie_from_offset(bases, offset)
                    .inspect(|entry: &CommonInformationEntry<_>| common = Some(entry.clone())),
            });
            found.extend(entry);
        }
        found
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
