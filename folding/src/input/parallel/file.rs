//! Parts of a file: every thread reads its own, at the same time as the others.

use super::{InputPart, lock};
use crate::input::perf_script::last_cut;
use crate::intern::IntMap;
use std::fs::File;
use std::io::{self, ErrorKind, Read};
use std::os::unix::fs::FileExt;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

/// Bytes in which the last cut is looked for at first: more than nearly every sample has.
const WINDOW: u64 = 1 << 14;

/// A file in parts of equal length, each end of which is moved to the last cut before it.
pub struct FileParts<'f> {
    file: &'f File,
    part: u64,
    length: u64,
    next: AtomicU64,
    /// Where parts begin, by their numbers.
    cuts: Mutex<IntMap<u64, u64>>,
    failure: Mutex<Option<String>>,
}

impl<'f> FileParts<'f> {
    pub fn new(file: &'f File, part: u64) -> Self {
        let length = file.metadata().map_or(0, |data| data.len());
        let (cuts, failure) = (Mutex::default(), Mutex::default());
        Self { file, part: part.max(1), length, next: AtomicU64::new(0), cuts, failure }
    }

    fn count(&self) -> u64 {
        self.length.div_ceil(self.part)
    }

    /// Where the part of this number begins.
    fn cut(&self, number: u64) -> io::Result<u64> {
        let mut earlier = number;
        let cut = loop {
            let known = lock(&self.cuts).get(&earlier).copied();
            match known {
                _ if earlier == 0 => break 0,
                Some(cut) => break cut,
                // A part without a cut is empty, and belongs to the one before.
                None => match self.last_cut(earlier)? {
                    Some(cut) => break cut,
                    None => earlier -= 1,
                },
            }
        };
        lock(&self.cuts).insert(number, cut);
        Ok(cut)
    }

    /// The last cut within the part that ends where this one begins.
    fn last_cut(&self, number: u64) -> io::Result<Option<u64>> {
        let end = (number * self.part).min(self.length);
        // What stands before a place tells whether it is a cut.
        let least = ((number - 1) * self.part).saturating_sub(2);
        for start in [end.saturating_sub(WINDOW).max(least), least] {
            let mut text = vec![0; (end - start) as usize];
            self.read(&mut text, start)?;
            if let Some(cut) = last_cut(&text) {
                return Ok(Some(start + cut as u64));
            }
        }
        Ok(None)
    }

    fn read(&self, out: &mut [u8], at: u64) -> io::Result<()> {
        self.file.read_exact_at(out, at).map_err(|error| match error.kind() {
            ErrorKind::UnexpectedEof => io::Error::other("the file became shorter while it was read"),
            _ => error,
        })
    }

    /// Takes the next part: its number, and where it lies.
    fn take(&self) -> Option<(u64, FileRange<'f>)> {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        if number >= self.count() {
            return None;
        }
        let range = |at, end| FileRange { file: self.file, at, end };
        match self.cut(number).and_then(|at| Ok(range(at, self.cut(number + 1)?))) {
            Ok(range) => Some((number, range)),
            Err(error) => {
                self.fail(&error);
                None
            }
        }
    }

    fn stop(&self) {
        self.next.store(self.count(), Ordering::Relaxed);
    }

    fn fail(&self, error: &io::Error) {
        lock(&self.failure).get_or_insert_with(|| error.to_string());
        self.stop();
    }

    pub fn failure(&self) -> Option<String> {
        lock(&self.failure).take()
    }

    /// What no part holds, and what was written to the file meanwhile; nothing behind a failure.
    pub fn rest(&self) -> impl Read + 'f {
        let failed = lock(&self.failure).is_some();
        let at = if failed { Err(ErrorKind::Other.into()) } else { self.cut(self.count()) };
        FileRange { file: self.file, at: at.unwrap_or(u64::MAX), end: u64::MAX }
    }
}

struct FileRange<'f> {
    file: &'f File,
    at: u64,
    end: u64,
}

impl FileRange<'_> {
    fn len(&self) -> u64 {
        self.end - self.at
    }
}

impl Read for FileRange<'_> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let len = usize::try_from(self.len()).unwrap_or(usize::MAX).min(out.len());
        let n = if len > 0 { self.file.read_at(&mut out[..len], self.at)? } else { 0 };
        self.at += n as u64;
        Ok(n)
    }
}

/// Reads one part; `Ok(0)` is its end.
pub struct FilePart<'p, 'f> {
    parts: &'p FileParts<'f>,
    number: u64,
    range: FileRange<'f>,
}

impl<'p, 'f> FilePart<'p, 'f> {
    pub fn new(parts: &'p FileParts<'f>) -> Self {
        Self { parts, number: 0, range: FileRange { file: parts.file, at: 0, end: 0 } }
    }
}

impl InputPart for FilePart<'_, '_> {
    fn next_part(&mut self) -> bool {
        let Some((number, range)) = self.parts.take() else { return false };
        (self.number, self.range) = (number, range);
        true
    }

    fn number(&self) -> u64 {
        self.number
    }

    fn sample_continues(&self) -> bool {
        false
    }

    fn stop(&mut self) {
        self.parts.stop();
    }
}

impl Read for FilePart<'_, '_> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        match self.range.read(out) {
            Ok(0) if self.range.len() > 0 => {
                self.parts.fail(&io::Error::other("the file became shorter while it was read"));
                Ok(0)
            }
            Err(error) if error.kind() != ErrorKind::Interrupted => {
                self.parts.fail(&error);
                Ok(0)
            }
            result => result,
        }
    }
}
