//! Folded text: `comm;root;...;leaf WEIGHT`, the format every flame graph program takes.

use super::{Source, lines::LineReader, refuse_lacking};
use crate::collector::{Collector, Label, Weight};
use crate::error::Error;
use crate::frame::Frame;
use crate::profile::Profile;
use crate::stats::UNSTATED;
use crate::terminal;
use crate::weights::Tally;
use memchr::{memchr, memchr_iter, memmem, memrchr2};
use std::io::Read;

/// A stack is as long as its names, and some hundred frames of a program full of templates have more than a MiB of them:
/// what is written here is read again. The whole profile is in memory anyway.
const LONGEST: usize = 1 << 30;
/// Bytes of a line that are shown.
const SHOWN: usize = 160;

/// What bcc's tools put between the frames of the user and those of the kernel.
const SEPARATOR: &[u8] = b";-;";

/// A line of folded text, or why it is none.
pub fn parse(line: &[u8]) -> Result<(&[u8], u128), &'static str> {
    let (stack, whole, fraction) = split(line)?;
    if fraction.bytes().any(|b| b != b'0') {
        return Err(
            "the weight is not a whole number. Let all weights count a smaller unit, for example thousandths: \
                    perl -pe 's/([\\d.]+)$/sprintf \"%.0f\", 1000 * $1/e'",
        );
    }
    Ok((stack, whole.parse().map_err(|_| "the weight is not a number below 2^128")?))
}

/// The stack, and what its weight has before and behind the point.
fn split(line: &[u8]) -> Result<(&[u8], &str, &str), &'static str> {
    let line = line.trim_ascii_end();
    let blank = memrchr2(b' ', b'\t', line).ok_or("no weight behind the stack")?;
    let weight = std::str::from_utf8(&line[blank + 1..]).map_err(|_| "the weight is not a number")?;
    let (whole, fraction) = weight.split_once('.').unwrap_or((weight, ""));
    let are_digits = |text: &str| text.bytes().all(|b| b.is_ascii_digit());
    if whole.is_empty() || !are_digits(whole) || !are_digits(fraction) {
        return Err("the weight is not a number");
    }
    Ok((line[..blank].trim_ascii_end(), whole, fraction))
}

/// Whether this is a stack and a number, whole or not.
pub fn is_stack(line: &[u8]) -> bool {
    split(line).is_ok()
}

/// Whether this is a comment, as Austin writes them around its stacks. A command may begin with the same sign.
pub fn is_comment(line: &[u8]) -> bool {
    line.first() == Some(&b'#') && (line.get(1).is_none_or(u8::is_ascii_whitespace) || !is_stack(line))
}

/// Reads stacks into a collector.
#[derive(Default)]
pub struct Folded;

impl Source for Folded {
    fn read(&mut self, input: &mut dyn Read, collector: &mut Collector) -> Result<(), Error> {
        let options = collector.options();
        let lacking = [
            (options.event.is_some(), "--event", "event"),
            (options.weight == Weight::Count, "--weight count", "numbers of samples"),
            (!options.only_pids.is_empty(), "--only-pid", "processes"),
            (options.label != Label::Comm, "--pid and --tid", "processes and threads"),
        ];
        refuse_lacking("folded text", options, &lacking)?;
        collector.set_event_and_unit(None, UNSTATED.to_owned());
        let comments = each(input, |stack, weight| {
            collector.folded(stack.split(|&b| b == b';'), Tally { samples: 0, weight });
            Ok(())
        })?;
        if comments > 0 {
            collector
                .stats
                .notes
                .push(format!("{comments} lines that begin with # are comments, and passed over"));
        }
        Ok(())
    }
}

/// Adds the numbers of samples of a parallel file to stacks that are there already.
pub fn add_counts(input: &mut dyn Read, profile: &mut Profile) -> Result<(), Error> {
    let mut chain = Vec::new();
    let mut total = profile.total().samples;
    each(input, |stack, count| {
        chain.clear();
        for frame in stack.split(|&b| b == b';') {
            chain.extend(profile.find(Frame::named(frame)));
        }
        let frames = memchr_iter(b';', stack).count() + 1;
        let tally = profile.find_mut(&chain).filter(|_| chain.len() == frames).ok_or_else(|| {
            let stack = String::from_utf8_lossy(&stack[..stack.len().min(SHOWN)]);
            format!("the stack is not among the weighted ones: {}", terminal::name(&stack))
        })?;
        let sum = u64::try_from(count).ok().and_then(|count| total.checked_add(count));
        total = sum.ok_or("the numbers of samples add up to 2^64 or more, and nothing larger is counted")?;
        // A part of the total, which can be counted.
        tally.samples += count as u64;
        Ok(())
    })
    .map(drop)
}

/// Takes each stack with its weight; gives the number of comments.
fn each(input: &mut dyn Read, mut take: impl FnMut(&[u8], u128) -> Result<(), String>) -> Result<u64, Error> {
    let mut lines = LineReader::new(input).up_to(LONGEST);
    let separator = memmem::Finder::new(SEPARATOR);
    let (mut number, mut comments, mut stacks, mut all_with_two) = (0_u64, 0, 0_u64, true);
    while let Some(line) = lines.next_line() {
        number += 1;
        if line.bytes.trim_ascii().is_empty() {
            continue;
        }
        if is_comment(line.bytes) {
            comments += 1;
            continue;
        }
        let at = |why: String| {
            let start = String::from_utf8_lossy(&line.bytes[..line.bytes.len().min(SHOWN)]);
            Error::usage(format!("folded text, line {number}: {why}\n  {}", terminal::name(&start)))
        };
        if line.cut {
            return Err(at(format!("the line is longer than {LONGEST} bytes, no stack is; it begins with")));
        }
        let (stack, weight) = parse(line.bytes).map_err(|why| at(why.to_owned()))?;
        // Few stacks have the sign at all.
        match memchr(b'-', stack).and_then(|_| separator.find(stack)) {
            Some(place) => take(&[&stack[..place], &stack[place + SEPARATOR.len() - 1..]].concat(), weight),
            None => take(stack, weight),
        }
        .map_err(at)?;
        stacks += 1;
        // Of a profile the first line tells already.
        all_with_two = all_with_two && is_stack(stack);
    }
    if let Some(why) = lines.failure() {
        return Err(Error::partial(format!("reading folded text failed at line {number}: {why}")));
    }
    if stacks > 1 && all_with_two {
        return Err(Error::usage(
            "every line ends in two numbers: this is a difference of two profiles (difffolded). Folded as stacks, the first \
             number would become a part of a name.\n\
             give the two profiles that it was made of: ioflame flamegraph BEFORE AFTER",
        ));
    }
    Ok(comments)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_number_is_the_weight() {
        assert_eq!(parse(b"a;b c;operator new 12"), Ok((&b"a;b c;operator new"[..], 12)));
        assert_eq!(parse(b"a 340282366920938463463374607431768211455\r"), Ok((&b"a"[..], u128::MAX)));
        assert_eq!(parse(b"a;b 3."), Ok((&b"a;b"[..], 3)));
        assert_eq!(parse(b"a;b 3.00"), Ok((&b"a;b"[..], 3)));
    }

    #[test]
    fn what_parts_user_and_kernel_is_no_frame() {
        let mut stacks = Vec::new();
        let text = b"fio;main;pread;-;ksys_pread64_[k] 3\na;--;-b 4\n";
        let read = each(&mut &text[..], |stack, weight| {
            stacks.push((String::from_utf8_lossy(stack).into_owned(), weight));
            Ok(())
        });
        assert!(read.is_ok());
        assert_eq!(stacks, [("fio;main;pread;ksys_pread64_[k]".to_owned(), 3), ("a;--;-b".to_owned(), 4)]);
    }

    #[test]
    fn what_is_no_whole_number_is_refused() {
        for line in [
            "a;b",
            "a;b 3.5",
            "a b",
            "a -1",
            "a +1",
            "a 1e3",
            "a .",
            "a 340282366920938463463374607431768211456",
        ] {
            assert!(parse(line.as_bytes()).is_err(), "{line}");
        }
    }
}
