//! The beginning of a text that may begin within a sample: what `tail` and `split` leave.
//!
//! Frames without a header are seen at once, but a line that was cut may look like a header: the end of a frame like a
//! command, the end of a header like one with fewer columns. So the first lines wait until the headers after them show what
//! columns there are.

use super::header::{self, HeaderLine};
use super::is_no_header;
use crate::input::lines::Line;
use std::ops::Range;

/// More bytes than a sample has do not wait.
const MOST: usize = 4 << 20;

#[derive(Default)]
pub struct Beginning {
    /// Bytes; whether a line feed ended them, and whether they were cut.
    lines: Vec<(Vec<u8>, bool, bool)>,
    bytes: usize,
    /// The first header with a time or an event, and its columns.
    first: Option<(usize, Columns)>,
    /// Lines without either, but with a chain below: headers, if there are no others.
    weak: usize,
    /// The line before is one if a chain follows.
    may_be_weak: bool,
    part: Range<usize>,
}

#[derive(Clone, Copy)]
struct Columns {
    has_time: bool,
    has_thread: bool,
    /// A command has letters, the end of a thread or of a processor has none.
    has_letters: bool,
}

impl Columns {
    /// Whether this is the end of a header whose columns are those of another.
    fn are_cut(self, whole: Self) -> bool {
        let no_thread = !self.has_thread && !self.has_letters;
        whole.has_time && !self.has_time || whole.has_thread && no_thread
    }
}

impl Beginning {
    /// Keeps a line; whether these are enough.
    pub fn add(&mut self, line: Line) -> bool {
        let number = self.lines.len();
        self.bytes += line.bytes.len();
        self.lines.push((line.bytes.to_vec(), line.ended, line.cut));
        let follows_weak = std::mem::take(&mut self.may_be_weak);
        if is_no_header(line.bytes) {
            self.weak += usize::from(follows_weak);
        } else if let Some(HeaderLine::SampleHeader(sample)) = header::parse(line.bytes) {
            let columns = Columns {
                has_time: sample.time.is_some(),
                has_thread: sample.tid.is_some(),
                has_letters: sample.comm.iter().any(u8::is_ascii_alphabetic),
            };
            match self.first {
                _ if sample.weak => self.may_be_weak = true,
                None => self.first = Some((number, columns)),
                Some((first, cut)) => {
                    if cut.are_cut(columns) {
                        self.part = first..number;
                    }
                    return true;
                }
            }
        }
        self.first.is_none() && self.weak > 1 || self.bytes > MOST
    }

    /// Whether there are headers with a time or an event.
    pub fn has_headers(&self) -> bool {
        self.first.is_some()
    }

    /// The lines of the sample whose header was cut.
    pub fn part_sample(&self) -> &Range<usize> {
        &self.part
    }

    pub fn lines(&self) -> impl Iterator<Item = Line<'_>> {
        self.lines.iter().map(|(bytes, ended, cut)| Line { bytes, ended: *ended, cut: *cut })
    }
}
