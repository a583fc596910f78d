//! A file looked at where the kernel keeps it, in windows: of a recording with copied stacks most bytes are never
//! needed, and copying them would take longer than all else.

use memmap2::{Mmap, MmapOptions};
use std::fs::File;
use std::io::{self, Cursor, Read, Seek};

/// Bytes of a window.
const WINDOW: u64 = 4 << 20;
/// Where windows may begin on every machine.
const PAGE: u64 = 64 << 10;

/// Where a recording lies that can be read from any place on.
pub trait Storage: Read + Seek + Send {
    /// The file, if it is one that can be mapped.
    fn file(&self) -> Option<File> {
        None
    }
}

impl Storage for File {
    fn file(&self) -> Option<File> {
        self.metadata().is_ok_and(|file| file.is_file()).then(|| self.try_clone().ok())?
    }
}

impl<T: AsRef<[u8]> + Send> Storage for Cursor<T> {}

/// What is seen of the file at once.
pub struct FileWindow(Option<Mmap>);

impl FileWindow {
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        self.0.as_deref().unwrap_or(&[])
    }
}

/// A file that is read from a place to its end.
pub struct MappedFile {
    file: File,
    /// The end of the last window.
    at: u64,
}

impl MappedFile {
    /// `None`: the file cannot be mapped.
    pub fn new(file: File, offset: u64) -> Option<Self> {
        // Not every file system can.
        window(&file, 0, PAGE.min(file.metadata().ok()?.len())).ok()?;
        Some(Self { file, at: offset })
    }

    /// The next window, which begins with the last `rest` bytes of the one before; and how many bytes precede those.
    pub fn next(&mut self, rest: u64) -> io::Result<(FileWindow, usize)> {
        let from = self.at.saturating_sub(rest);
        // A file may have been cut meanwhile.
        let end = self.file.metadata()?.len().min(self.at.saturating_add(WINDOW));
        if end <= from {
            return Ok((FileWindow(None), 0));
        }
        self.at = end;
        let begin = from / PAGE * PAGE;
        Ok((window(&self.file, begin, end - begin)?, (from - begin) as usize))
    }
}

fn window(file: &File, offset: u64, len: u64) -> io::Result<FileWindow> {
    let len = usize::try_from(len).map_err(io::Error::other)?;
    // SAFETY: only bytes are read, and no decision is taken twice by the same bytes. If somebody writes to the file
    // meanwhile the stacks are wrong, as they would be if it were read; if it is cut, the kernel ends this process.
    #[allow(unsafe_code)]
    let map = unsafe { MmapOptions::new().offset(offset).len(len).map(file)? };
    Ok(FileWindow(Some(map)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn windows_follow_each_other_to_the_end() {
        let path = std::env::temp_dir().join(format!("stackfold-windows-{}", std::process::id()));
        let bytes: Vec<u8> = (0..2 * WINDOW + 12_345).map(|n| (n * 31 / 7) as u8).collect();
        File::create(&path).unwrap().write_all(&bytes).unwrap();
        let mut mapped = MappedFile::new(File::open(&path).unwrap(), 100).unwrap();
        std::fs::remove_file(&path).unwrap();
        let (mut at, mut rest) = (100, 0);
        loop {
            let (window, skipped) = mapped.next(rest).unwrap();
            let new = window.bytes().get(skipped..).unwrap_or(&[]);
            if new.len() as u64 == rest {
                break;
            }
            assert!(new == &bytes[at..at + new.len()]);
            // As if the last record were cut.
            rest = new.len().min(777) as u64;
            at += new.len() - rest as usize;
        }
        assert_eq!(at + rest as usize, bytes.len());
    }

    #[test]
    fn what_is_no_file_is_not_mapped() {
        assert!(File::open("/dev/null").unwrap().file().is_none());
        assert!(Cursor::new(b"").file().is_none());
    }
}
