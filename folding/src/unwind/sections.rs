//! The parts of an ELF file that say how to unwind its functions.

use framehop::ExplicitModuleSectionInfo;
use object::read::{File, ReadCache, ReadRef};
use object::{Object, ObjectSection};
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

type Section = Option<(Range<u64>, Arc<[u8]>)>;

#[derive(Clone, Debug, Default)]
pub struct Sections {
    text: Option<Range<u64>>,
    got: Option<Range<u64>>,
    eh_frame: Section,
    eh_frame_hdr: Section,
    debug_frame: Section,
}

impl Sections {
    pub fn read(path: &Path) -> Option<Self> {
        let cache = ReadCache::new(std::fs::File::open(path).ok()?);
        Some(Self::of(&File::parse(&cache).ok()?))
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
        Self {
            text: range(".text"),
            got: range(".got"),
            eh_frame: whole(".eh_frame"),
            eh_frame_hdr: whole(".eh_frame_hdr"),
            debug_frame: whole(".debug_frame"),
        }
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
