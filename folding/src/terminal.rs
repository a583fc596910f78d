//! Text for people: names come from recordings, so what would steer a terminal is written out.
//!
//! Messages and tables have it written out wherever they go. Data (folded text, JSON, tab-separated rows) keeps every byte
//! in files and pipes, where a program reads it, and is written out where it goes to a terminal. The form is that of JSON,
//! `\u001b`, so that JSON stays JSON; bytes that are no UTF-8 become `\x9b`.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::io::{self, Write};

/// Control characters, and those that change the direction of what follows.
fn steers(c: char) -> bool {
    let direction =
        matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    c.is_control() || direction
}

fn written_out(text: &str, keep: impl Fn(char) -> bool) -> Cow<'_, str> {
    let steers = |c| steers(c) && !keep(c);
    if !text.contains(steers) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        if steers(c) {
            let _ = write!(shown, "\\u{:04x}", u32::from(c));
        } else {
            shown.push(c);
        }
    }
    Cow::Owned(shown)
}

/// Lines of text.
pub fn lines(text: &str) -> Cow<'_, str> {
    written_out(text, |c| matches!(c, '\n' | '\t'))
}

/// A name within a line.
pub fn name(name: &str) -> Cow<'_, str> {
    written_out(name, |_| false)
}

/// A name as a word for the shell.
pub fn quoted(word: &str) -> String {
    format!("'{}'", name(word).replace('\'', "'\\''"))
}

/// Writes lines as [`lines`] has them.
pub struct EscapingWriter<W: Write> {
    out: W,
    /// The beginning of a character whose rest has not come yet.
    begun: Vec<u8>,
}

impl<W: Write> EscapingWriter<W> {
    pub fn new(out: W) -> Self {
        Self { out, begun: Vec::new() }
    }

    /// Writes what is there; whether more may follow of a character begun at the end.
    fn pass(&mut self, bytes: &[u8], more: bool) -> io::Result<()> {
        let mut chunks = bytes.utf8_chunks().peekable();
        while let Some(chunk) = chunks.next() {
            self.out.write_all(lines(chunk.valid()).as_bytes())?;
            let broken = chunk.invalid();
            let unfinished = std::str::from_utf8(broken).is_err_and(|error| error.error_len().is_none())
                && chunks.peek().is_none();
            if more && unfinished {
                self.begun = broken.to_vec();
                return Ok(());
            }
            for byte in broken {
                write!(self.out, "\\x{byte:02x}")?;
            }
        }
        Ok(())
    }
}

impl<W: Write> Write for EscapingWriter<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let begun = std::mem::take(&mut self.begun);
        if begun.is_empty() {
            self.pass(bytes, true)?;
        } else {
            self.pass(&[&begun, bytes].concat(), true)?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        let begun = std::mem::take(&mut self.begun);
        self.pass(&begun, false)?;
        self.out.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_steers_a_terminal_is_written_out() {
        for (text, as_lines, as_name) in [
            ("rocksdb::Get(ü) 读\n", "rocksdb::Get(ü) 读\n", "rocksdb::Get(ü) 读\\u000a"),
            ("\u{1b}]0;title\u{7}", "\\u001b]0;title\\u0007", "\\u001b]0;title\\u0007"),
            ("a\tb\rc\u{9b}2J\u{202e}", "a\tb\\u000dc\\u009b2J\\u202e", "a\\u0009b\\u000dc\\u009b2J\\u202e"),
        ] {
            assert_eq!((lines(text), name(text)), (as_lines.into(), as_name.into()));
        }
    }

    #[test]
    fn words_are_quoted_for_the_shell() {
        assert_eq!(quoted("cpu/event=0x3c,name=it's/"), r"'cpu/event=0x3c,name=it'\''s/'");
    }

    #[test]
    fn characters_may_come_in_parts() {
        let bytes = b"x\xe8\xaf\xbb\xc2\x9b1m\x9b\xff\xe8\xaf";
        for step in 1..bytes.len() {
            let mut shown = EscapingWriter::new(Vec::new());
            bytes.chunks(step).for_each(|part| shown.write_all(part).unwrap());
            shown.flush().unwrap();
            assert_eq!(String::from_utf8_lossy(&shown.out), "x读\\u009b1m\\x9b\\xff\\xe8\\xaf", "{step}");
        }
    }
}
