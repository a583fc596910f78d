//! Files that somebody else has chosen: the recording names them, or anybody may have made them, as in /tmp.
//!
//! Under such a name may lie a pipe, which waits for a writer for ever, a device, which does something when it is
//! opened, or a file of any size. Regular files alone are opened, and what is read of them is bounded.

use object::read::{ReadCache, ReadRef};
use std::cell::Cell;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read};
use std::ops::Range;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;

/// Opens a regular file; whatever else lies there is an error, and is not waited for.
pub fn open(path: &Path) -> io::Result<File> {
    let regular = |data: fs::Metadata| match data.is_file() {
        true => Ok(()),
        false => Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file")),
    };
    // First without opening, for the sake of devices; then again, as the name may have been given to another meanwhile.
    regular(fs::metadata(path)?)?;
    let file = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY).open(path)?;
    regular(file.metadata()?)?;
    Ok(file)
}

/// All bytes of a regular file; one that has more than `largest` is an error, and is not read.
pub fn read(path: &Path, largest: u64) -> io::Result<Vec<u8>> {
    read_all(&open(path)?, largest)
}

/// The same of a file that is open.
pub fn read_all(file: &File, largest: u64) -> io::Result<Vec<u8>> {
    let too_large = || io::Error::new(io::ErrorKind::FileTooLarge, format!("larger than {largest} bytes"));
    // Files in /proc have a length of 0.
    let len = file.metadata()?.len();
    if len > largest {
        return Err(too_large());
    }
    let mut bytes = Vec::new();
    bytes.try_reserve_exact(len as usize)?;
    file.take(largest.saturating_add(1)).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > largest { Err(too_large()) } else { Ok(bytes) }
}

/// The bytes of a range of a file, if it has them and there is memory for them.
pub fn read_part(file: &File, range: Range<u64>) -> io::Result<Vec<u8>> {
    let beyond = || io::Error::from(io::ErrorKind::UnexpectedEof);
    if range.end > file.metadata()?.len() {
        return Err(beyond());
    }
    let len = range.end.checked_sub(range.start).and_then(|len| usize::try_from(len).ok());
    let len = len.ok_or_else(beyond)?;
    let mut bytes = Vec::new();
    bytes.try_reserve_exact(len)?;
    bytes.resize(len, 0);
    file.read_exact_at(&mut bytes, range.start)?;
    Ok(bytes)
}

/// A file of which parts are looked at, each part kept until all is dropped.
pub struct PartsOfFile {
    parts: ReadCache<File>,
    left: Cell<u64>,
}

impl PartsOfFile {
    /// Bytes of the parts: eleven million symbols. A section may say that it is as long as it likes.
    const MOST: u64 = 256 << 20;

    pub fn open(path: &Path) -> io::Result<Self> {
        open(path).map(Self::of)
    }

    pub fn of(file: File) -> Self {
        Self { parts: ReadCache::new(file), left: Cell::new(Self::MOST) }
    }
}

impl<'a> ReadRef<'a> for &'a PartsOfFile {
    fn len(self) -> Result<u64, ()> {
        (&self.parts).len()
    }

    fn read_bytes_at(self, offset: u64, size: u64) -> Result<&'a [u8], ()> {
        let left = self.left.get().checked_sub(size).ok_or(())?;
        self.left.set(left);
        (&self.parts).read_bytes_at(offset, size)
    }

    fn read_bytes_at_until(self, range: Range<u64>, delimiter: u8) -> Result<&'a [u8], ()> {
        (&self.parts).read_bytes_at_until(range, delimiter)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_and_directories_are_no_files() {
        for path in ["/dev/null", "/dev/zero", "/dev", "/no/such/file"] {
            assert!(open(Path::new(path)).is_err(), "{path}");
        }
        assert!(!read(Path::new("/proc/self/maps"), 1 << 20).unwrap().is_empty());
        assert_eq!(read(Path::new("/proc/self/maps"), 10).unwrap_err().kind(), io::ErrorKind::FileTooLarge);
    }
}
