//! Lines of a stream, in large reads, without copying them.

use memchr::memchr;
use std::io::{ErrorKind, Read};
use std::ops::Range;

pub const BLOCK: usize = 1 << 19;
/// No profiler prints such a line; longer ones are cut, so that memory stays bounded.
const LONGEST: usize = 1 << 20;
/// What is kept of a line that is cut.
const KEPT: usize = 256;

/// One line, without its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Line<'a> {
    pub bytes: &'a [u8],
    /// A line feed ended it; false only for what the last line of the input may lack.
    pub ended: bool,
    /// It was too long, and this is its beginning.
    pub cut: bool,
}

pub struct LineReader<R> {
    input: R,
    block: usize,
    buffer: Vec<u8>,
    unread: Range<usize>,
    longest: usize,
    at_end: bool,
    keeps_unended_rest: bool,
    failure: Option<String>,
}

impl<R: Read> LineReader<R> {
    pub fn new(input: R) -> Self {
        Self::with_block(input, BLOCK)
    }

    /// Reads about this many bytes at once; the lines do not depend on it.
    pub fn with_block(input: R, block: usize) -> Self {
        let block = block.max(2);
        Self {
            input,
            block,
            buffer: vec![0; block],
            unread: 0..0,
            longest: LONGEST,
            at_end: false,
            keeps_unended_rest: false,
            failure: None,
        }
    }

    /// Lines of so many bytes are not cut yet.
    pub fn up_to(mut self, longest: usize) -> Self {
        self.longest = longest.max(KEPT);
        self
    }

    /// Why reading stopped before the end of the input.
    pub fn failure(&mut self) -> Option<String> {
        self.failure.take()
    }

    /// What no line feed ends is no line, but the rest.
    pub fn keeping_unended_rest(mut self) -> Self {
        self.keeps_unended_rest = true;
        self
    }

    pub fn rest(&self) -> &[u8] {
        &self.buffer[self.unread.clone()]
    }

    pub fn input(&mut self) -> &mut R {
        &mut self.input
    }

    /// The input has more after it said that it was at its end.
    pub fn resume(&mut self) {
        self.at_end = false;
    }

    /// Takes the next line if it is this one and is entirely in the buffer: one comparison instead of a search.
    #[inline]
    pub fn take_if(&mut self, expected: &[u8]) -> bool {
        let unread = &self.buffer[self.unread.clone()];
        let taken = unread.get(expected.len()) == Some(&b'\n') && unread.starts_with(expected);
        if taken {
            self.unread.start += expected.len() + 1;
        }
        taken
    }

    /// The next line; its CR LF or LF is cut.
    #[inline]
    pub fn next_line(&mut self) -> Option<Line<'_>> {
        let mut searched = 0;
        loop {
            let unread = &self.buffer[self.unread.clone()];
            if let Some(len) = memchr(b'\n', &unread[searched..]) {
                let start = self.unread.start;
                let end = start + searched + len;
                self.unread.start = end + 1;
                return Some(Line { bytes: cut_cr(&self.buffer[start..end]), ended: true, cut: false });
            }
            searched = unread.len();
            if searched >= self.longest {
                return Some(self.overlong());
            }
            if self.at_end {
                if self.keeps_unended_rest {
                    return None;
                }
                let rest = self.unread.clone();
                self.unread = rest.end..rest.end;
                let line = |rest| Line { bytes: cut_cr(&self.buffer[rest]), ended: false, cut: false };
                return (!rest.is_empty()).then(|| line(rest));
            }
            self.fill();
        }
    }

    /// Moves what is left to the front and reads more behind it.
    fn fill(&mut self) {
        if self.unread.start > 0 {
            self.buffer.copy_within(self.unread.clone(), 0);
            self.unread = 0..self.unread.len();
        }
        if self.buffer.len() - self.unread.end < self.block / 2 {
            self.buffer.resize(self.buffer.len() + self.block, 0);
        }
        match self.input.read(&mut self.buffer[self.unread.end..]) {
            Ok(0) => self.at_end = true,
            Ok(n) => self.unread.end += n,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => {
                self.at_end = true;
                self.failure = Some(error.to_string());
            }
        }
    }

    /// The beginning of a line too long to keep; the rest of it is passed over.
    fn overlong(&mut self) -> Line<'_> {
        let head: Vec<u8> = self.buffer[self.unread.start..][..KEPT].to_vec();
        loop {
            self.unread = 0..0;
            self.fill();
            match memchr(b'\n', &self.buffer[self.unread.clone()]) {
                Some(end) => {
                    self.unread.start = end + 1;
                    break;
                }
                None if self.at_end => break,
                None => {}
            }
        }
        // The head goes where a line feed was found behind, or to the front of a buffer that is done with.
        let rest = self.buffer[self.unread.clone()].to_vec();
        self.buffer.splice(.., head.into_iter().chain(rest));
        self.unread = KEPT..self.buffer.len();
        self.buffer.resize(self.buffer.len() + self.block, 0);
        Line { bytes: &self.buffer[..KEPT], ended: true, cut: true }
    }
}

fn cut_cr(line: &[u8]) -> &[u8] {
    line.strip_suffix(b"\r").unwrap_or(line)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Gives a few bytes a call, so that lines straddle reads.
    struct Drip<'a>(&'a [u8], usize);

    impl Read for Drip<'_> {
        fn read(&mut self, out: &mut [u8]) -> std::io::Result<usize> {
            let n = self.1.min(self.0.len()).min(out.len());
            out[..n].copy_from_slice(&self.0[..n]);
            self.0 = &self.0[n..];
            Ok(n)
        }
    }

    fn all(bytes: &[u8], drip: usize) -> Vec<(Vec<u8>, bool)> {
        let mut input = Drip(bytes, drip);
        let mut lines = LineReader::new(&mut input);
        let mut out = Vec::new();
        while let Some(line) = lines.next_line() {
            out.push((line.bytes.to_vec(), line.ended));
        }
        out
    }

    #[test]
    fn lines_straddle_reads() {
        for drip in [1, 2, 7, 1 << 20] {
            let expected: Vec<(Vec<u8>, bool)> = vec![
                (b"one".into(), true),
                (b"".into(), true),
                (b"two".into(), true),
                (b"x\ry".into(), false),
            ];
            assert_eq!(all(b"one\n\r\ntwo\r\nx\ry", drip), expected);
        }
        assert_eq!(all(b"", 1), vec![]);
    }

    #[test]
    fn an_overlong_line_costs_bounded_memory_and_no_other_line() {
        let mut bytes = b"before\n".to_vec();
        bytes.extend(std::iter::repeat_n(b'x', 5 * LONGEST));
        bytes.extend(b"\nafter\nlast");
        let mut input = Drip(&bytes, 100_000);
        let mut lines = LineReader::new(&mut input);
        let mut seen = Vec::new();
        while let Some(line) = lines.next_line() {
            seen.push(line.bytes.to_vec());
        }
        assert_eq!(seen.len(), 4);
        assert_eq!((&seen[0][..], &seen[2][..], &seen[3][..]), (&b"before"[..], &b"after"[..], &b"last"[..]));
        assert!(seen[1].len() < 1000 && seen[1].iter().all(|&b| b == b'x'));
        assert!(lines.buffer.len() < 3 * LONGEST);
    }
}
