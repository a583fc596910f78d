//! Compressed sections, unpacked whole.

use libdeflater::Decompressor;
use object::read::{CompressedData, CompressionFormat};
use std::borrow::Cow;

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
