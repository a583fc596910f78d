//! `.gnu_debugdata`: the symbols of functions that are not in the dynamic table, as an ELF file packed with xz.
//! Fedora and its relatives keep it in stripped binaries.

use lzma_rust2::XzReader;
use std::io::Read;

/// What no such file reaches: a browser's symbols take some 40 MB unpacked. Several may be unpacked at once.
const LARGEST: u64 = 128 << 20;
/// For the dictionary of xz, which at its highest level takes 64 MiB.
const MEMORY_KIB: u32 = 128 << 10;

/// The ELF file in the section; `None` where it is damaged or absurdly large.
pub fn unpacked(section: &[u8]) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    let reader = XzReader::new_mem_limit(section, true, MEMORY_KIB);
    let len = reader.take(LARGEST + 1).read_to_end(&mut bytes).ok()?;
    (len as u64 <= LARGEST).then_some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn damaged_sections_are_none() {
        for section in [&b""[..], b"no xz", b"\xfd7zXZ\0", b"\xfd7zXZ\0\0\x04\xe6\xd6\xb4\x46\x02\x00"] {
            assert_eq!(unpacked(section), None);
        }
    }
}
