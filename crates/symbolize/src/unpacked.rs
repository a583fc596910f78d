//! Compressed sections, unpacked whole.

use libdeflater::Decompressor;
use object::Object;
use object::read::{CompressedData, CompressionFormat, File, ReadRef, Section};
use std::borrow::Cow;

/// A section of debug information, also where it has its old name: `.zdebug_info` is a packed `.debug_info`.
pub fn debug_section<'a, 'f, R: ReadRef<'a>>(
    file: &'f File<'a, R>,
    name: &str,
) -> Option<Section<'a, 'f, R>> {
    let old = || file.section_by_name(&format!(".z{}", name.strip_prefix('.')?));
    file.section_by_name(name).or_else(old)
}

/// Bytes of a section; `None` where they are damaged, packed in a way that is not known, or there is no memory for them.
pub fn unpacked(section: CompressedData<'_>) -> Option<Cow<'_, [u8]>> {
    let CompressedData { format, data, uncompressed_size } = section;
    if format == CompressionFormat::None {
        return Some(Cow::Borrowed(data));
    }
    let mut bytes = zeros(uncompressed_size)?;
    let len = match format {
        CompressionFormat::Zlib => Decompressor::new().zlib_decompress(data, &mut bytes).ok()?,
        CompressionFormat::Zstandard => zstd::bulk::decompress_to_buffer(data, &mut bytes[..]).ok()?,
        _ => return None,
    };
    (len == bytes.len()).then_some(Cow::Owned(bytes))
}

/// So many bytes, if there is memory for them.
pub fn zeros(len: u64) -> Option<Vec<u8>> {
    let len = usize::try_from(len).ok()?;
    let mut bytes = Vec::new();
    bytes.try_reserve_exact(len).ok()?;
    bytes.resize(len, 0);
    Some(bytes)
}
