//! The text of `perf script`, as perf 3.13 to 6.12 print it, and simpleperf's `report_sample.py`.
//!
//! A sample is a header, then one line a frame, then an empty line; or one line alone when the event has
//! no call chains. The same frame line comes back thousands of times (the same address in the same
//! binary), so a line is a key: it is parsed when it is first seen and found in a table afterwards.

mod beginning;
mod clock;
mod cut;
mod frame;
mod header;

use beginning::Beginning;
pub use clock::Clock;
pub use cut::last as last_cut;

use super::Source;
use super::lines::{Line, LineReader};
use crate::collector::{ChainSamples, Collector, FrameRef};
use crate::error::Error;
use crate::intern::Interner;
use std::io::Read;

/// Whether the line has a time or an event, and so belongs to a sample or a record for certain.
pub fn is_header(line: &[u8]) -> bool {
    match header::parse(line) {
        Some(header::HeaderLine::SampleHeader(sample)) => !sample.weak,
        Some(_) => true,
        None => false,
    }
}

/// Whether the line is a frame, or continues a record: no header, wherever it is.
fn is_no_header(line: &[u8]) -> bool {
    (line.first() == Some(&b'\t') || frame::is_bare(line)) && !header::has_time(line)
}

/// Bytes of frame lines kept in the table. It is only a cache: when full it starts again.
const LINE_CACHE: usize = 16 << 20;

/// Why a text is cut short.
const BEGINS_WITHIN: &str = "it begins within a sample";

/// No line of the table.
const NONE: u32 = u32::MAX;

/// Reads `perf script` text into a collector.
pub struct PerfScript {
    line_cache: usize,
    lines: Interner<u8>,
    frames: Vec<FrameRef>,
    /// The line that followed a line when it was last seen: a return address has few callers.
    callers: Vec<u32>,
    /// The line read last, if a line of the same chain may follow.
    last: u32,
    /// The chain of the sample at hand, leaf first.
    chain: Vec<FrameRef>,
    sample: Option<PendingSampleText>,
    /// A line that is a header only if a call chain follows.
    doubtful: Option<Vec<u8>>,
    /// Headers with a time or an event were seen: lines without are none.
    saw_headers: bool,
    /// Frames have shown their objects, so a frame line without one is cut.
    saw_objects: bool,
    /// What was read before it was known whether the text begins within a sample; `None` once it is.
    beginning: Option<Beginning>,
    saw_sample: bool,
    /// The line before was of a record; what follows may be of it as well.
    in_record: bool,
    pub clock: Clock,
}

/// A sample whose end has not come yet.
struct PendingSampleText {
    /// `None`: it is left out, its frames are passed over.
    open: Option<ChainSamples>,
    /// What followed the event in the header.
    rest: Vec<u8>,
    has_chain: bool,
}

impl Default for PerfScript {
    fn default() -> Self {
        Self::with_line_cache(LINE_CACHE)
    }
}

impl Source for PerfScript {
    fn read(&mut self, input: &mut dyn Read, collector: &mut Collector) -> Result<(), Error> {
        let mut lines = LineReader::new(input);
        self.take(&mut lines, collector)?;
        self.end(collector)?;
        if let Some(why) = lines.failure() {
            collector.cut_short(format!("reading failed: {why}"));
        }
        self.clock.refuse_differences(collector.options())
    }
}

impl PerfScript {
    /// With a table of about this many bytes of frame lines; the result does not depend on it.
    pub fn with_line_cache(bytes: usize) -> Self {
        Self {
            line_cache: bytes,
            lines: Interner::default(),
            frames: Vec::new(),
            callers: Vec::new(),
            last: NONE,
            chain: Vec::new(),
            sample: None,
            doubtful: None,
            saw_headers: false,
            saw_objects: false,
            beginning: Some(Beginning::default()),
            saw_sample: false,
            in_record: false,
            clock: Clock::default(),
        }
    }

    /// For a part of an input whose headers have a time or an event.
    pub fn knowing_headers() -> Self {
        Self { saw_headers: true, saw_sample: true, beginning: None, ..Self::default() }
    }

    pub fn knows_headers(&self) -> bool {
        self.saw_headers
    }

    pub fn saw_objects(&self) -> bool {
        self.saw_objects
    }

    /// Whether frames in other parts of the input have shown their objects.
    pub fn set_saw_objects(&mut self, saw: bool) {
        self.saw_objects |= saw;
    }

    /// Takes all lines there are. A sample stays open at the end of them.
    pub fn take<R: Read>(
        &mut self,
        lines: &mut LineReader<R>,
        collector: &mut Collector,
    ) -> Result<(), Error> {
        while let Some(line) = lines.next_line() {
            if self.beginning.is_some() {
                self.begin(line, collector)?;
                continue;
            }
            self.line(line, collector)?;
            while self.last != NONE {
                let caller = self.callers[self.last as usize];
                if caller == NONE || !lines.take_if(self.lines.get(caller)) {
                    break;
                }
                self.chain.push(self.frames[caller as usize]);
                self.last = caller;
            }
        }
        Ok(())
    }

    /// A line of which it is not known yet whether the text begins within a sample.
    fn begin(&mut self, line: Line, collector: &mut Collector) -> Result<(), Error> {
        let known = self.beginning.as_mut().is_none_or(|beginning| beginning.add(line));
        if known { self.end_beginning(collector) } else { Ok(()) }
    }

    fn end_beginning(&mut self, collector: &mut Collector) -> Result<(), Error> {
        let Some(beginning) = self.beginning.take() else { return Ok(()) };
        self.saw_headers |= beginning.has_headers();
        for (number, line) in beginning.lines().enumerate() {
            if beginning.part_sample().contains(&number) {
                collector.cut_short(BEGINS_WITHIN.to_owned());
                collector.dropped(line.bytes);
            } else {
                self.line(line, collector)?;
            }
        }
        Ok(())
    }

    /// What ends the text.
    pub fn end(&mut self, collector: &mut Collector) -> Result<(), Error> {
        self.end_beginning(collector)?;
        self.end_part(collector);
        Ok(())
    }

    /// What ends a sample without another line.
    pub fn end_part(&mut self, collector: &mut Collector) {
        self.drop_doubtful(collector);
        self.close(collector);
    }

    #[inline]
    fn line(&mut self, line: Line, collector: &mut Collector) -> Result<(), Error> {
        if line.cut {
            // What is left of it is read as far as it goes, but not without a word.
            collector.dropped(line.bytes);
        }
        if line.bytes.first() == Some(&b'\t') {
            self.confirm_doubtful(collector)?;
            if self.sample.is_some() {
                self.frame(line, collector);
                return Ok(());
            }
        } else {
            self.drop_doubtful(collector);
        }
        match (line.bytes.first(), &self.sample) {
            (None, _) => {
                self.close(collector);
                self.in_record = false;
            }
            (Some(b' '), Some(_)) => self.indented(line, collector)?,
            (Some(_), Some(_)) if frame::is_bare(line.bytes) => self.frame(line, collector),
            _ => {
                self.close(collector);
                self.outside(line, collector)?;
            }
        }
        Ok(())
    }

    /// A line that begins with a blank while a sample is open: a header with a padded command, a frame
    /// whose tab became blanks, or what `-F +srcline`, `+brstack` and registers print below a frame.
    fn indented(&mut self, line: Line, collector: &mut Collector) -> Result<(), Error> {
        let is_frame = frame::looks_like_frame(line.bytes);
        let is_header = header::has_time(line.bytes)
            || !is_frame
                && matches!(header::parse(line.bytes), Some(header::HeaderLine::SampleHeader(s)) if !s.weak);
        let has_chain = self.sample.as_ref().is_some_and(|sample| sample.has_chain);
        if is_header {
            self.close(collector);
            self.outside(line, collector)?;
        } else if is_frame {
            self.frame(line, collector);
        } else if !has_chain && !line.bytes.trim_ascii().is_empty() {
            collector.dropped(line.bytes);
        }
        Ok(())
    }

    /// A line outside call chains.
    fn outside(&mut self, line: Line, collector: &mut Collector) -> Result<(), Error> {
        if is_no_header(line.bytes) {
            if !self.in_record {
                self.not_a_line(line, collector);
            }
            return Ok(());
        }
        self.in_record = false;
        match header::parse(line.bytes) {
            Some(header::HeaderLine::SampleHeader(sample)) if sample.weak => {
                if self.saw_headers || !line.ended {
                    self.not_a_line(line, collector);
                } else {
                    self.doubtful = Some(line.bytes.to_vec());
                }
            }
            Some(header::HeaderLine::SampleHeader(sample)) => {
                if !line.ended && frame::parse_inline(sample.rest).is_none() {
                    collector.cut_short("the last sample has a header only".to_owned());
                    collector.dropped(line.bytes);
                    return Ok(());
                }
                self.saw_headers = true;
                self.open(&sample, collector)?;
            }
            Some(header::HeaderLine::Lost(samples)) => collector.lost(1, samples),
            Some(header::HeaderLine::Record) => self.in_record = true,
            None if line.bytes.starts_with(b"#") || line.bytes.trim_ascii().is_empty() => {}
            None => self.not_a_line(line, collector),
        }
        Ok(())
    }

    fn not_a_line(&self, line: Line, collector: &mut Collector) {
        let indented = matches!(line.bytes.first(), Some(b' ' | b'\t'));
        if !line.ended {
            collector.cut_short("the last line is no whole line".to_owned());
        } else if !self.saw_sample && indented && frame::looks_like_frame(line.bytes) {
            collector.cut_short(BEGINS_WITHIN.to_owned());
        }
        collector.dropped(line.bytes);
    }

    fn open(&mut self, sample: &header::SampleHeader, collector: &mut Collector) -> Result<(), Error> {
        if let Some(time) = sample.time {
            self.clock.see(time);
        }
        self.saw_sample = true;
        let open = collector.open(&sample.head())?;
        let rest = if open.is_some() { sample.rest.to_vec() } else { Vec::new() };
        self.sample = Some(PendingSampleText { open, rest, has_chain: false });
        Ok(())
    }

    fn close(&mut self, collector: &mut Collector) {
        self.last = NONE;
        let Some(sample) = self.sample.take() else { return };
        if let Some(open) = sample.open {
            if !sample.has_chain {
                self.chain.extend(frame::parse_inline(&sample.rest).map(|raw| collector.frame(&raw)));
            }
            collector.close(open, &self.chain);
        }
        self.chain.clear();
    }

    #[inline]
    fn frame(&mut self, line: Line, collector: &mut Collector) {
        let Some(sample) = &mut self.sample else { return };
        if !line.ended && self.saw_objects && !line.bytes.ends_with(b")") {
            collector.cut_short("the last call chain ends within a frame".to_owned());
            collector.dropped(line.bytes);
            return;
        }
        sample.has_chain = true;
        if sample.open.is_none() {
            return;
        }
        let (id, new) = self.lines.intern(line.bytes);
        if new {
            let raw = frame::parse(line.bytes);
            self.saw_objects |= raw.dso.is_some();
            self.frames.push(collector.frame(&raw));
            self.callers.push(NONE);
        }
        self.chain.push(self.frames[id as usize]);
        if self.last != NONE {
            self.callers[self.last as usize] = id;
        }
        self.last = id;
        if new && self.lines.arena_len() > self.line_cache {
            self.lines.clear();
            self.frames.clear();
            self.callers.clear();
            self.last = NONE;
        }
    }

    fn confirm_doubtful(&mut self, collector: &mut Collector) -> Result<(), Error> {
        let Some(line) = self.doubtful.take() else { return Ok(()) };
        if let Some(header::HeaderLine::SampleHeader(sample)) = header::parse(&line) {
            self.open(&sample, collector)?;
        }
        Ok(())
    }

    fn drop_doubtful(&mut self, collector: &mut Collector) {
        if let Some(line) = self.doubtful.take() {
            self.not_a_line(Line { bytes: &line, ended: true, cut: false }, collector);
        }
    }
}
