//! Where a frame comes from: what pprof has a place for and folded text has not.
//!
//! Kept within the interned name, so that two frames of one name and different objects are two: `name`, NUL,
//! the details, NUL, a letter. Names without them are frames of unknown origin.

use std::io::Write as _;

/// A name with its details.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin<'a> {
    Unknown,
    Frame {
        dso: &'a [u8],
        inlined: bool,
        /// As the object counts it, where the recording has it.
        address: Option<u64>,
    },
    /// The command frame; `name` is what folded text shows for it.
    Command {
        comm: &'a [u8],
        pid: Option<i64>,
        tid: Option<i64>,
    },
}

const FRAME: u8 = b'F';
const INLINED: u8 = b'I';
const COMMAND: u8 = b'C';

/// Adds the details to a name. NULs, which no name, path or command has, become blanks.
pub fn append(name: &mut Vec<u8>, origin: Origin) {
    name.iter_mut().filter(|b| **b == 0).for_each(|b| *b = b' ');
    let details = name.len() + 1;
    // Writing to memory does not fail.
    let (bytes, letter) = match origin {
        Origin::Unknown => return,
        Origin::Frame { dso, inlined, address } => {
            name.push(0);
            if let Some(address) = address {
                push_hex(name, address);
            }
            name.push(b'@');
            (dso, if inlined { INLINED } else { FRAME })
        }
        Origin::Command { comm, pid, tid } => {
            name.push(0);
            for id in [pid, tid] {
                let _ = id.map_or(Ok(()), |id| write!(name, "{id}"));
                name.push(b'/');
            }
            (comm, COMMAND)
        }
    };
    name.extend_from_slice(bytes);
    name[details..].iter_mut().filter(|b| **b == 0).for_each(|b| *b = b' ');
    name.extend_from_slice(&[0, letter]);
}

/// In lower case, without leading zeros. Every place of a recording has an address, so formatting would cost.
fn push_hex(out: &mut Vec<u8>, number: u64) {
    let digits = (64 - (number | 1).leading_zeros()).div_ceil(4);
    out.extend((0..digits).rev().map(|digit| b"0123456789abcdef"[(number >> (4 * digit)) as usize & 15]));
}

/// The name, and where it comes from.
pub fn split(name: &[u8]) -> (&[u8], Origin<'_>) {
    let unknown = (name, Origin::Unknown);
    let [rest @ .., 0, letter] = name else { return unknown };
    let Some(end) = memchr::memrchr(0, rest) else { return unknown };
    let details = &rest[end + 1..];
    let origin = match *letter {
        FRAME | INLINED => {
            let Some(at) = memchr::memchr(b'@', details) else { return unknown };
            let address = std::str::from_utf8(&details[..at]).unwrap_or("");
            let address = u64::from_str_radix(address, 16).ok();
            Origin::Frame { dso: &details[at + 1..], inlined: *letter == INLINED, address }
        }
        COMMAND => {
            let mut parts = details.splitn(3, |&b| b == b'/');
            let mut id = || std::str::from_utf8(parts.next()?).ok()?.parse().ok();
            let (pid, tid) = (id(), id());
            Origin::Command { comm: parts.next().unwrap_or(b""), pid, tid }
        }
        _ => return unknown,
    };
    (&rest[..end], origin)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn origins_come_back() {
        for origin in [
            Origin::Unknown,
            Origin::Frame {
                dso: b"/usr/lib/libc.so.6",
                inlined: false,
                address: Some(0xffff_ffff_8100_0000),
            },
            Origin::Frame { dso: b"/tmp/a@b", inlined: false, address: None },
            Origin::Frame { dso: b"", inlined: true, address: None },
            Origin::Command { comm: b"kworker/0:1H", pid: Some(-1), tid: None },
            Origin::Command { comm: b"", pid: None, tid: Some(7) },
        ] {
            let mut name = b"a name".to_vec();
            append(&mut name, origin);
            assert_eq!(split(&name), (&b"a name"[..], origin));
        }
    }
}
