//! The parts of an ELF file that say how to unwind its functions.

use super::eh_frame::{CfaFunction, EhFrames, is_endless};
use crate::addresses::{ObjectAddress, ProcessAddress};
use crate::budget::{Budget, BudgetShare};
use crate::regular::{self, PartsOfFile};
use framehop::ExplicitModuleSectionInfo;
use gimli::{BaseAddresses, DebugFrame, EhFrame, EhFrameHdr, LittleEndian, SectionId};
use object::read::{File, ReadRef};
use object::{Architecture, Object, ObjectSection};
use std::ops::Range;
use std::path::Path;
use std::sync::{Arc, OnceLock};

/// Bytes of an address.
const ADDRESS: u8 = 8;

type Section = Option<(Range<u64>, Arc<[u8]>)>;

#[derive(Clone, Debug, Default)]
pub struct UnwindSections {
    text: Option<Range<u64>>,
    got: Option<Range<u64>>,
    eh_frame: Section,
    eh_frame_hdr: Section,
    debug_frame: Section,
    /// Functions that framehop does not follow everywhere.
    other_cfa: Vec<CfaFunction>,
    endless: OnceLock<bool>,
    /// What the sections take of the budget.
    _share: Option<Arc<BudgetShare>>,
}

impl UnwindSections {
    /// Those of a file, if they fit into what is left of the budget.
    pub fn read(path: &Path, budget: &Budget) -> Option<Self> {
        let source = regular::open(path).ok()?;
        let len = source.metadata().ok()?.len();
        let parts = PartsOfFile::of(source);
        let file = File::parse(&parts).ok()?;
        let size = |name: &&str| file.section_by_name(name)?.compressed_file_range().ok();
        let sizes = [".eh_frame", ".eh_frame_hdr", ".debug_frame"].iter().filter_map(size);
        let share = budget
            .take_of(len, sizes.fold(0, |sum: u64, place| sum.saturating_add(place.uncompressed_size)))?;
        Some(Self { _share: Some(Arc::new(share)), ..Self::of(&file) })
    }

    pub fn of_bytes(bytes: &[u8]) -> Option<Self> {
        Some(Self::of(&File::parse(bytes).ok()?))
    }

    fn of<'a, R: ReadRef<'a>>(file: &File<'a, R>) -> Self {
        let range = |name: &str| {
            let section = file.section_by_name(name)?;
            Some(section.address()..section.address().checked_add(section.size())?)
        };
        let whole = |name: &str| {
            let bytes = file.section_by_name(name)?.uncompressed_data().ok()?;
            Some((range(name)?, Arc::from(&bytes[..])))
        };
        let mut sections = Self {
            text: range(".text"),
            got: range(".got"),
            eh_frame: whole(".eh_frame"),
            eh_frame_hdr: whole(".eh_frame_hdr"),
            debug_frame: whole(".debug_frame"),
            other_cfa: Vec::new(),
            endless: OnceLock::new(),
            _share: None,
        };
        // Version 1; places and rows in the form of all linkers. In another one the section is not read.
        const FORM: [u8; 4] = [1, 0x1b, 0x03, 0x3b];
        sections.eh_frame_hdr.take_if(|(_, bytes)| !bytes.starts_with(&FORM));
        if file.architecture() == Architecture::X86_64 {
            sections.other_cfa = sections.frames().map(|frames| frames.with_other_cfa()).unwrap_or_default();
        }
        sections
    }

    /// Whether they cannot be given to the unwinder; looked at once.
    pub fn are_endless(&self) -> bool {
        *self.endless.get_or_init(|| self.find_endless())
    }

    fn find_endless(&self) -> bool {
        let debug_frame = self.debug_frame.as_ref().is_some_and(|(_, bytes)| {
            let mut section = DebugFrame::new(bytes, LittleEndian);
            section.set_address_size(ADDRESS);
            let bases = BaseAddresses::default();
            is_endless(&section, bytes, &bases, SectionId::DebugFrame, std::iter::empty())
        });
        let eh_frame = || {
            let EhFrames { bytes, eh_frame, bases, .. } = self.frames()?;
            Some(is_endless(&eh_frame, bytes, &bases, SectionId::EhFrame, self.listed()))
        };
        debug_frame || eh_frame().unwrap_or(false)
    }

    /// Where in `.eh_frame` functions are described, as `.eh_frame_hdr` says: a row has a function's address and that of its
    /// description, both counted from the table.
    fn listed(&self) -> impl Iterator<Item = usize> {
        let (start, table) =
            self.eh_frame_hdr.as_ref().map_or((0, &[][..]), |(range, bytes)| (range.start, &bytes[..]));
        let word = |at: usize| Some(u32::from_le_bytes(*table.get(at..)?.first_chunk()?));
        let from = |start: u64, distance: u32| start.wrapping_add_signed(i64::from(distance as i32));
        let eh_frame = from(start.wrapping_add(4), word(4).unwrap_or(0));
        let rows = table.get(12..).unwrap_or(&[]).as_chunks::<8>().0;
        let count = word(8).map_or(0, |count| count as usize);
        rows.iter().take(count).map(move |[.., a, b, c, d]| {
            from(start, u32::from_le_bytes([*a, *b, *c, *d])).wrapping_sub(eh_frame) as usize
        })
    }

    /// Functions that framehop does not follow everywhere, in order; those of `.eh_frame` alone.
    pub fn with_other_cfa(&self) -> &[CfaFunction] {
        &self.other_cfa
    }

    /// What `.eh_frame` describes.
    pub fn frames(&self) -> Option<EhFrames<'_>> {
        let (range, bytes) = self.eh_frame.as_ref()?;
        let mut eh_frame = EhFrame::new(bytes, LittleEndian);
        eh_frame.set_address_size(ADDRESS);
        let start = |range: &Option<Range<u64>>| range.as_ref().map_or(0, |range| range.start);
        let mut bases = BaseAddresses::default()
            .set_eh_frame(range.start)
            .set_text(start(&self.text))
            .set_got(start(&self.got));
        let mut header = None;
        if let Some((range, bytes)) = &self.eh_frame_hdr {
            bases = bases.set_eh_frame_hdr(range.start);
            header = EhFrameHdr::new(bytes, LittleEndian).parse(&bases, ADDRESS).ok();
        }
        Some(EhFrames { bytes, eh_frame, header, bases })
    }

    /// The same for the unwinder; the bytes are shared.
    pub fn explicit(&self) -> ExplicitModuleSectionInfo<Arc<[u8]>> {
        let range = |section: &Section| section.as_ref().map(|(range, _)| range.clone());
        let bytes = |section: &Section| section.as_ref().map(|(_, bytes)| Arc::clone(bytes));
        ExplicitModuleSectionInfo {
            base_svma: 0,
            text_svma: self.text.clone(),
            got_svma: self.got.clone(),
            eh_frame_svma: range(&self.eh_frame),
            eh_frame: bytes(&self.eh_frame),
            eh_frame_hdr_svma: range(&self.eh_frame_hdr),
            eh_frame_hdr: bytes(&self.eh_frame_hdr),
            debug_frame: bytes(&self.debug_frame),
            ..ExplicitModuleSectionInfo::default()
        }
    }
}

/// A file in an address space.
pub struct MappedObject {
    pub range: Range<ProcessAddress>,
    /// Where the file states that what lies at the beginning of the range is.
    pub first: ObjectAddress,
    pub sections: Arc<UnwindSections>,
}

impl MappedObject {
    pub fn range(&self) -> Range<u64> {
        self.range.start.0..self.range.end.0
    }

    /// It, and the functions in it that the unwinder keeps beside it.
    pub fn size(&self) -> usize {
        1 + self.sections.with_other_cfa().len()
    }

    /// What to add to the file's own addresses.
    pub fn bias(&self) -> u64 {
        self.range.start.0.wrapping_sub(self.first.0)
    }
}
