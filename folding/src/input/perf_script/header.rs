//! The first line of a sample: `comm pid/tid [cpu] time: period event: fields`.
//!
//! Every part is optional and the command may be anything, so the line is read outwards from what cannot
//! be mistaken: the time (`digits.digits:`), or without it the event (`name:`). Column widths distinguish the numbers
//! where nothing else does: perf pads a thread to 5 or 7 and a period to 10. Tabs separate columns as blanks do: Android's
//! simpleperf prints them.

use crate::collector::SampleHead;
use crate::options::nanoseconds;
use memchr::{memchr, memchr_iter, memmem};

/// What a line outside a call chain is.
#[derive(Debug, PartialEq, Eq)]
pub enum HeaderLine<'a> {
    SampleHeader(SampleHeader<'a>),
    /// `PERF_RECORD_LOST` or `PERF_RECORD_LOST_SAMPLES`, and how many lost samples it reports.
    Lost(u64),
    /// Another record, without weight.
    Record,
}

#[derive(Debug, PartialEq, Eq)]
pub struct SampleHeader<'a> {
    pub comm: &'a [u8],
    pub pid: Option<i64>,
    pub tid: Option<i64>,
    pub event: Option<&'a [u8]>,
    pub period: Option<u64>,
    pub time: Option<u64>,
    /// What follows the event: its fields, or the one frame of an event without call chains.
    pub rest: &'a [u8],
    /// Neither time nor event was found: it may be anything. Only a call chain below makes it a sample
    /// (`-F comm,ip,sym`), and only in an input without better headers.
    pub weak: bool,
}

impl<'a> SampleHeader<'a> {
    pub fn head(&self) -> SampleHead<'a> {
        let Self { comm, pid, tid, event, period, time, .. } = *self;
        SampleHead { comm, pid, tid, event: event.unwrap_or(b""), period, time }
    }
}

/// Narrowest period column: a blank and ten digits.
const PERIOD_COLUMN: usize = 11;
/// Narrowest thread column: a blank and five digits.
const THREAD_COLUMN: usize = 6;

pub fn parse(line: &[u8]) -> Option<HeaderLine<'_>> {
    let text = line.trim_ascii_end();
    let Some((left, time, right)) = split_at_time(text) else { return parse_without_time(text) };
    if right.starts_with(b"PERF_RECORD_") {
        return Some(record(right));
    }
    let (period, right) = leading_period(right)?;
    let (event, rest) = leading_event(right);
    let owner = ThreadColumns::parse(left);
    let sample = owner.sample(period, event, rest, false);
    Some(HeaderLine::SampleHeader(SampleHeader { time: nanoseconds(time), ..sample }))
}

/// Whether the line holds the time of a sample: what no frame and no annotation does.
pub fn has_time(line: &[u8]) -> bool {
    split_at_time(line.trim_ascii_end()).is_some()
}

/// What precedes `1968.424864:`, the time, and what follows it.
fn split_at_time(text: &[u8]) -> Option<(&[u8], &[u8], &[u8])> {
    memchr_iter(b':', text).find_map(|colon| {
        if text.get(colon + 1).is_some_and(|&b| !is_blank(b)) {
            return None;
        }
        let start = last_word_start(&text[..colon]);
        let word = &text[start..colon];
        let dot = memchr(b'.', word)?;
        let (seconds, fraction) = (&word[..dot], &word[dot + 1..]);
        (is_number(seconds) && is_number(fraction) && matches!(fraction.len(), 6 | 9))
            .then(|| (&text[..start], word, text[colon + 1..].trim_ascii_start()))
    })
}

/// `-F` without time, and perf before 3.14: everything depends on the event, or on a number's column.
fn parse_without_time(text: &[u8]) -> Option<HeaderLine<'_>> {
    if let Some(at) = memmem::find(text, b"PERF_RECORD_") {
        if at == 0 || is_blank(text[at - 1]) {
            return Some(record(&text[at..]));
        }
    }
    let mut at = 0;
    let mut after_number = false;
    while at < text.len() {
        let start = at + leading_blanks(&text[at..]);
        let end = start + word_len(&text[start..]);
        let word = &text[start..end];
        if after_number && word.len() > 1 && word.ends_with(b":") {
            let (left, period) = trailing_period(&text[..start]);
            let rest = text[end..].trim_ascii_start();
            return Some(HeaderLine::SampleHeader(ThreadColumns::parse(left).sample(
                period?,
                Some(&word[..word.len() - 1]),
                rest,
                false,
            )));
        }
        // A first word is the command, unless it is as wide as a period column.
        after_number =
            (at > 0 || end + 1 >= PERIOD_COLUMN) && (is_thread(word) || is_cpu(word) || is_time_of_day(word));
        at = end;
    }
    let (left, period) = trailing_period(text);
    let plain = !text.is_empty() && !text.starts_with(b"#");
    let sample = ThreadColumns::parse(left).sample(period?, None, b"", true);
    plain.then_some(HeaderLine::SampleHeader(sample))
}

fn record(text: &[u8]) -> HeaderLine<'_> {
    if !text.starts_with(b"PERF_RECORD_LOST") {
        return HeaderLine::Record;
    }
    let lost = memmem::find(text, b" lost ").map_or(&b""[..], |at| text[at + 6..].trim_ascii_start());
    let digits = lost.iter().take_while(|b| b.is_ascii_digit()).count();
    HeaderLine::Lost(number(&lost[..digits]).unwrap_or(0))
}

/// The period column in front of an event. `None`: a number no period can be.
fn leading_period(text: &[u8]) -> Option<(Option<u64>, &[u8])> {
    let word = &text[..word_len(text)];
    if !is_number(word) {
        return Some((None, text));
    }
    Some((Some(number(word)?), text[word.len()..].trim_ascii_start()))
}

/// The period column at the end of what precedes an event; its width distinguishes it from a thread.
fn trailing_period(text: &[u8]) -> (&[u8], Option<Option<u64>>) {
    let text = text.trim_ascii_end();
    let (before, word, column) = last_word(text);
    // At the start of the line no blank precedes the column.
    let column = column + usize::from(before.is_empty());
    if is_number(word) && column >= PERIOD_COLUMN {
        return (before, number(word).map(Some));
    }
    (text, Some(None))
}

/// `event:` and what follows. Names with blanks end at the first colon before a blank.
fn leading_event(text: &[u8]) -> (Option<&[u8]>, &[u8]) {
    let word = &text[..word_len(text)];
    let colon = if word.ends_with(b":") {
        word.len() - 1
    } else if let Some(at) = memmem::find(text, b": ") {
        at
    } else if text.ends_with(b":") {
        text.len() - 1
    } else {
        return (None, text);
    };
    if colon == 0 {
        return (None, text);
    }
    (Some(&text[..colon]), text[colon + 1..].trim_ascii_start())
}

/// Who was running: what precedes the time.
#[derive(Default)]
struct ThreadColumns<'a> {
    comm: &'a [u8],
    pid: Option<i64>,
    tid: Option<i64>,
}

impl<'a> ThreadColumns<'a> {
    fn parse(text: &'a [u8]) -> Self {
        let mut text = cut_guest(text.trim_ascii_end());
        let (mut before, mut word, mut column) = last_word(text);
        // `2026-11-28 18:11:21.490141`, which `-F +tod` prints last.
        if let Some((date_before, date, _)) = is_time_of_day(word).then(|| last_word(before)) {
            if has_form(date, b"0000-00-00") {
                text = date_before;
                (before, word, column) = last_word(text);
            }
        }
        if is_misc(word) && last_word(before).1.last().is_some_and(|b| b.is_ascii_digit() || *b == b']') {
            text = before;
            (before, word, column) = last_word(text);
        }
        // `perf script -L` prints the processor bare, three wide.
        let bare_cpu = || {
            let (_, thread, width) = last_word(before);
            is_number(word) && column == 4 && is_thread(thread) && width >= THREAD_COLUMN
        };
        if is_cpu(word) || bare_cpu() {
            text = before;
            (before, word, _) = last_word(text);
        }
        if before.is_empty() && text.len() == word.len() || !is_thread(word) {
            return Self { comm: cut_padding(text), ..Self::default() };
        }
        let (pid, tid) = match memchr(b'/', word) {
            Some(slash) => (signed(&word[..slash]), signed(&word[slash + 1..])),
            None => (None, signed(word)),
        };
        Self { comm: cut_padding(before), pid, tid }
    }

    fn sample(
        self,
        period: Option<u64>,
        event: Option<&'a [u8]>,
        rest: &'a [u8],
        weak: bool,
    ) -> SampleHeader<'a> {
        SampleHeader { comm: self.comm, pid: self.pid, tid: self.tid, event, period, time: None, rest, weak }
    }
}

/// Removes `VM:  123 VCPU:000 `, which precedes the command of a guest's sample.
fn cut_guest(text: &[u8]) -> &[u8] {
    let cut = |text: &'_ [u8], mark: &[u8]| -> Option<usize> {
        let rest = text.strip_prefix(mark)?;
        let blanks = leading_blanks(rest);
        let digits = rest[blanks..].iter().take_while(|b| b.is_ascii_digit()).count();
        (digits > 0 && rest.get(blanks + digits).copied().is_some_and(is_blank))
            .then_some(mark.len() + blanks + digits + 1)
    };
    let Some(vm) = cut(text, b"VM:") else { return text };
    let text = &text[vm..];
    cut(text, b"VCPU:").map_or(text, |vcpu| &text[vcpu..])
}

/// A right-aligned command loses its padding (16 columns, 8 with `-L`); other leading blanks are its own.
fn cut_padding(comm: &[u8]) -> &[u8] {
    if matches!(comm.len(), 16 | 8) { comm.trim_ascii_start() } else { comm }
}

/// Words are short: a vectorised search takes longer to begin.
fn last_word_start(text: &[u8]) -> usize {
    text.iter().rposition(|&b| is_blank(b)).map_or(0, |blank| blank + 1)
}

/// The last word, what precedes it without trailing blanks, and the width of the word with these blanks.
fn last_word(text: &[u8]) -> (&[u8], &[u8], usize) {
    let start = last_word_start(text);
    let before = text[..start].trim_ascii_end();
    (before, &text[start..], text.len() - before.len())
}

fn leading_blanks(text: &[u8]) -> usize {
    text.iter().take_while(|&&b| is_blank(b)).count()
}

fn word_len(text: &[u8]) -> usize {
    text.iter().position(|&b| is_blank(b)).unwrap_or(text.len())
}

fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t')
}

fn is_number(word: &[u8]) -> bool {
    !word.is_empty() && word.iter().all(u8::is_ascii_digit)
}

/// `17640`, `17640/17641`, `-1`.
fn is_thread(word: &[u8]) -> bool {
    let id = |part: &[u8]| is_number(part.strip_prefix(b"-").unwrap_or(part));
    match memchr(b'/', word) {
        Some(slash) => id(&word[..slash]) && id(&word[slash + 1..]),
        None => id(word),
    }
}

/// `18:11:21.490141`, with `--ns` nine digits.
fn is_time_of_day(word: &[u8]) -> bool {
    has_form(word, b"00:00:00.000000") || has_form(word, b"00:00:00.000000000")
}

/// Whether the word has digits where the form has them, and elsewhere the same bytes.
fn has_form(word: &[u8], form: &[u8]) -> bool {
    let fits =
        |(byte, of_form): (&u8, &u8)| if *of_form == b'0' { byte.is_ascii_digit() } else { byte == of_form };
    word.len() == form.len() && word.iter().zip(form).all(fits)
}

/// `[000]`
fn is_cpu(word: &[u8]) -> bool {
    matches!(word, [b'[', digits @ .., b']'] if is_number(digits.strip_prefix(b"-").unwrap_or(digits)))
}

/// `-F +misc`: kernel, user, hypervisor, guest, and what switches and maps add.
fn is_misc(word: &[u8]) -> bool {
    (1..=3).contains(&word.len()) && word.iter().all(|b| b"KUHGgMESp".contains(b))
}

fn number(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() {
        return None;
    }
    digits.iter().try_fold(0_u64, |value, digit| value.checked_mul(10)?.checked_add(u64::from(digit - b'0')))
}

fn signed(word: &[u8]) -> Option<i64> {
    match word.strip_prefix(b"-") {
        Some(digits) => number(digits).and_then(|n| i64::try_from(n).ok()).map(|n| -n),
        None => number(word).and_then(|n| i64::try_from(n).ok()),
    }
}

#[cfg(test)]
#[path = "header_tests.rs"]
mod tests;
