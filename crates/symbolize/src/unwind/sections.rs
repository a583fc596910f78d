//! The parts of an ELF file that say how to unwind its functions.

use super::eh_frame::{CfaFunction, EhFrames, is_endless};
use super::one_section::{self, TableRow};
use crate::addresses::{ObjectAddress, ProcessAddress};
use crate::budget::{Budget, BudgetShare};
use crate::regular::{self, PartsOfFile};
use crate::unpacked::{debug_section, unpacked};
use framehop::ExplicitModuleSectionInfo;
use gimli::{BaseAddresses, EhFrame, EhFrameHdr, LittleEndian};
use object::read::{File, ReadRef};
use object::{Architecture, Object, ObjectSection, ObjectSegment};
use std::ops::Range;
use std::path::Path;
use std::sync::{Arc, OnceLock};

/// Bytes of an address.
const ADDRESS: u8 = 8;

const DEBUG_FRAME: &str = ".debug_frame";

/// Bytes of a section in memory.
fn size_of<'a, R: ReadRef<'a>>(file: &File<'a, R>, section: &str) -> u64 {
    let section = debug_section(file, section).and_then(|section| section.compressed_file_range().ok());
    section.map_or(0, |place| place.uncompressed_size)
}

type Section = Option<(Range<u64>, Arc<[u8]>)>;

#[derive(Clone, Debug, Default)]
pub struct UnwindSections {
    text: Option<Range<u64>>,
    got: Option<Range<u64>>,
    /// With what `.debug_frame` describes beside it.
    eh_frame: Section,
    eh_frame_hdr: Section,
    /// Functions that framehop does not follow everywhere.
    other_cfa: Vec<CfaFunction>,
    endless: OnceLock<bool>,
    /// What the sections take of the budget.
    _share: Option<Arc<BudgetShare>>,
}

impl UnwindSections {
    /// Those of a file, if they fit into what is left of the budget.
    ///
    /// debug: the file of its debug information, if that is another
    pub fn read(path: &Path, debug: Option<&Path>, budget: &Budget) -> Option<Self> {
        let opened = |path: &Path| {
            let source = regular::open(path).ok()?;
            Some((source.metadata().ok()?.len(), PartsOfFile::of(source)))
        };
        let (len, parts) = opened(path)?;
        let file = File::parse(&parts).ok()?;
        let beside = debug.and_then(opened);
        let debug = beside.as_ref().and_then(|(_, parts)| File::parse(parts).ok());
        let described = debug.as_ref().filter(|debug| size_of(debug, DEBUG_FRAME) > 0).unwrap_or(&file);
        let sizes = [(&file, ".eh_frame"), (&file, ".eh_frame_hdr"), (described, DEBUG_FRAME)];
        let size = sizes.iter().fold(0_u64, |sum, (file, name)| sum.saturating_add(size_of(file, name)));
        let len = len.saturating_add(beside.as_ref().map_or(0, |(len, _)| *len));
        let share = budget.take_of(len, size)?;
        Some(Self { _share: Some(Arc::new(share)), ..Self::of(&file, described) })
    }

    pub fn of_bytes(bytes: &[u8]) -> Option<Self> {
        let file = File::parse(bytes).ok()?;
        Some(Self::of(&file, &file))
    }

    /// described: the file that has `.debug_frame`, if any has
    fn of<'a, R: ReadRef<'a>>(file: &File<'a, R>, described: &File<'a, R>) -> Self {
        let range = |name: &str| {
            let section = file.section_by_name(name)?;
            Some(section.address()..section.address().checked_add(section.size())?)
        };
        let whole = |name: &str| {
            let bytes = unpacked(file.section_by_name(name)?.compressed_data().ok()?)?;
            Some((range(name)?, Arc::from(&bytes[..])))
        };
        let mut sections = Self {
            text: range(".text"),
            got: range(".got"),
            eh_frame: whole(".eh_frame"),
            eh_frame_hdr: whole(".eh_frame_hdr"),
            other_cfa: Vec::new(),
            endless: OnceLock::new(),
            _share: None,
        };
        // In another form the section is not read.
        sections.eh_frame_hdr.take_if(|(_, bytes)| !bytes.starts_with(&one_section::FORM));
        let debug_frame = debug_section(described, DEBUG_FRAME);
        let debug_frame = debug_frame.and_then(|section| unpacked(section.compressed_data().ok()?));
        let code = file.segments().filter(|segment| segment.permissions().executable());
        let code: Vec<_> =
            code.map(|code| code.address()..code.address().saturating_add(code.size())).collect();
        sections.complete(debug_frame.as_deref().unwrap_or(&[]), &code);
        if file.architecture() == Architecture::X86_64 {
            sections.other_cfa = sections.frames().map(|frames| frames.with_other_cfa()).unwrap_or_default();
        }
        sections
    }

    /// Adds what `.debug_frame` describes, and the table that static programs lack.
    fn complete(&mut self, debug_frame: &[u8], code: &[Range<u64>]) {
        let listed = self.eh_frame_hdr.is_some();
        if debug_frame.is_empty() && (listed || self.eh_frame.is_none()) {
            return;
        }
        let mut rows: Vec<_> = match self.frames() {
            Some(frames) if !listed => frames.functions(),
            _ => self.rows().collect(),
        };
        let beside = code.first().map_or(0, |code| code.start);
        let eh_frame = self.eh_frame.take().unwrap_or_else(|| (beside..beside, Arc::default()));
        let (Range { start, .. }, mut bytes) = eh_frame;
        if !debug_frame.is_empty() {
            let mut section = bytes.to_vec();
            rows.extend(one_section::append(&mut section, debug_frame, |address| {
                code.iter().any(|range| range.contains(&address))
            }));
            bytes = section.into();
        }
        let table = one_section::table(rows, start);
        self.eh_frame_hdr = Some((start..start + table.len() as u64, table.into()));
        self.eh_frame = Some((start..start + bytes.len() as u64, bytes));
    }

    /// Whether they cannot be given to the unwinder; looked at once.
    pub fn are_endless(&self) -> bool {
        *self.endless.get_or_init(|| self.find_endless())
    }

    fn find_endless(&self) -> bool {
        self.frames().is_some_and(|frames| is_endless(&frames, self.rows().map(|(_, place)| place)))
    }

    /// The functions, and where in `.eh_frame` they are described, as `.eh_frame_hdr` says.
    fn rows(&self) -> impl Iterator<Item = TableRow> {
        let (start, table) =
            self.eh_frame_hdr.as_ref().map_or((0, &[][..]), |(range, bytes)| (range.start, &bytes[..]));
        let word = table.get(4..8).map_or(0, |word| i32::from_le_bytes([word[0], word[1], word[2], word[3]]));
        one_section::rows(table, start, start.wrapping_add(4).wrapping_add_signed(word.into()))
    }

    /// Functions that framehop does not follow everywhere, in order.
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
