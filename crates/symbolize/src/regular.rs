//! Files that somebody else has chosen: the recording names them, or anybody may have made them, as in /tmp.
//!
//! Under such a name may lie a pipe, which waits for a writer for ever, a device, which does something when it is
//! opened, or a file of any size. Regular files alone are opened, and what is read of them is bounded.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
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
