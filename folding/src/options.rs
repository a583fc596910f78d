//! What to keep of the samples, and how to write it.

use crate::intervals::Intervals;
use crate::names::{self, Tidy};
use std::collections::BTreeSet;
use std::num::NonZeroU64;
use std::path::PathBuf;
use std::sync::Arc;

/// What a sample weighs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Weight {
    /// Its period, in the unit of the event.
    #[default]
    Period,
    /// One.
    Count,
}

/// What the command frame says besides the command.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Label {
    #[default]
    Comm,
    /// `comm-pid`
    Pid,
    /// `comm-pid/tid`
    Tid,
}

/// A window of the trace's clock in nanoseconds, both ends in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    pub from: u64,
    pub to: u64,
}

impl Window {
    pub fn holds(self, time: u64) -> bool {
        (self.from..=self.to).contains(&time)
    }
}

impl std::str::FromStr for Window {
    type Err = String;

    /// `A,B` in seconds; either may be missing.
    fn from_str(text: &str) -> Result<Self, String> {
        let (from, to) = text.split_once(',').ok_or("A,B are two times, parted by a comma")?;
        let end = |text: &str, open| {
            let wrong = || format!("'{text}' is no number of seconds, as in 1968.424864");
            if text.is_empty() { Ok(open) } else { nanoseconds(text.as_bytes()).ok_or_else(wrong) }
        };
        let window = Self { from: end(from.trim(), 0)?, to: end(to.trim(), u64::MAX)? };
        if window.from > window.to { Err("A is later than B".to_owned()) } else { Ok(window) }
    }
}

/// `1968.424864` in nanoseconds: decimal seconds with at most nine places.
pub fn nanoseconds(seconds: &[u8]) -> Option<u64> {
    let dot = memchr::memchr(b'.', seconds).unwrap_or(seconds.len());
    let fraction = seconds.get(dot + 1..).unwrap_or(b"");
    if dot == 0 || fraction.len() > 9 {
        return None;
    }
    let digits = seconds[..dot].iter().chain(fraction).copied();
    let digits = digits.chain(std::iter::repeat_n(b'0', 9 - fraction.len()));
    digits.into_iter().try_fold(0_u64, |value, digit| match digit {
        b'0'..=b'9' => value.checked_mul(10)?.checked_add(u64::from(digit - b'0')),
        _ => None,
    })
}

/// What is kept of stacks beside the names of their frames, which are all that folded text has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum StackDetail {
    #[default]
    Names,
    /// Frames differ by their objects, by what is inlined, and by address where the input is a recording; commands by thread.
    Addresses,
    /// The same without addresses.
    Objects,
    /// The stacks of a recording are kept twice: by name, and by the places of their instructions, with threads. Not for
    /// options that cut stacks.
    Sites,
    /// `Objects` in place of the names, and `Sites`.
    ObjectsAndSites,
}

impl StackDetail {
    /// Whether frames and commands of one name may differ.
    pub fn has_origins(self) -> bool {
        self != Self::Names
    }

    pub fn has_sites(self) -> bool {
        matches!(self, Self::Sites | Self::ObjectsAndSites)
    }
}

#[derive(Clone, Debug, Default)]
pub struct Options {
    /// The only event to fold; needed when the input holds several.
    pub event: Option<String>,
    pub weight: Weight,
    pub label: Label,
    /// The only processes to keep; none: all.
    pub only_pids: BTreeSet<i64>,
    /// The only command to keep.
    pub comm: Option<String>,
    /// The only time to keep.
    pub time: Option<Window>,
    /// Times to leave out.
    pub skip_time: Vec<Window>,
    /// The only times of threads to keep; their groups take the place of slices.
    pub intervals: Option<Arc<Intervals>>,
    /// Keep, besides, what each slice of so many nanoseconds holds.
    pub slice: Option<NonZeroU64>,
    /// The new root: what is outside of its outermost occurrence goes, and stacks without it.
    pub from: Option<String>,
    /// Frames whose callers go, from the innermost occurrence on.
    pub skip_after: Vec<String>,
    pub tidy: Tidy,
    /// Frames kept from the root, the command not counted; deeper weight goes to the last one kept.
    pub max_depth: Option<usize>,
    /// Mark kernel frames with `_[k]`.
    pub kernel: bool,
    /// Mark inlined frames with `_[i]`.
    pub inlines: bool,
    /// Mark frames of run-time compiled code with `_[j]`.
    pub jit: bool,
    /// Copies of mapped files, by their paths.
    pub symfs: Option<PathBuf>,
    /// Put the address in the name of a frame without symbol.
    pub addrs: bool,
    /// Put the object in front of every symbol.
    pub dso: bool,
    /// What to keep beside the names of frames.
    pub detail: StackDetail,
    /// Functions inlined into others become no frames; for inputs that would have to find them out.
    pub no_inlines: bool,
}

impl Options {
    /// Whether stacks lose frames, at either end.
    pub fn cut_stacks(&self) -> bool {
        self.from.is_some() || !self.skip_after.is_empty() || self.max_depth.is_some()
    }

    /// An option that was asked for and needs the time of each sample.
    pub fn needing_time(&self) -> Option<&'static str> {
        let needing = [
            (self.intervals.is_some(), "--intervals"),
            (self.time.is_some(), "--time"),
            (!self.skip_time.is_empty(), "--skip-time"),
        ];
        needing.into_iter().find(|(asked, _)| *asked).map(|(_, option)| option)
    }

    /// The filters in words, for a message that nothing passed them.
    pub fn filters(&self) -> String {
        let given = [
            (!self.only_pids.is_empty(), "--only-pid"),
            (self.comm.is_some(), "--comm"),
            (self.time.is_some(), "--time"),
            (!self.skip_time.is_empty(), "--skip-time"),
            (self.intervals.is_some(), "--intervals"),
            (self.from.is_some(), "--from"),
        ];
        given.iter().filter(|(given, _)| *given).map(|(_, name)| *name).collect::<Vec<_>>().join(" and ")
    }
}

/// Whether the user's word for a frame means this one: as printed, without its mark, or without
/// arguments, return type and template arguments.
pub fn is_meant(wanted: &str, frame: &[u8]) -> bool {
    let wanted = wanted.as_bytes();
    let (name, _) = names::split_mark(frame);
    if frame == wanted || name == wanted {
        return true;
    }
    let bare = names::bare(frame);
    bare.full == wanted || bare.path == wanted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_are_seconds() {
        let window = |text: &str| text.parse::<Window>();
        assert_eq!(window("1.5,2"), Ok(Window { from: 1_500_000_000, to: 2_000_000_000 }));
        assert_eq!(window("1968.424864,"), Ok(Window { from: 1_968_424_864_000, to: u64::MAX }));
        assert_eq!(window(",0.000000001"), Ok(Window { from: 0, to: 1 }));
        for wrong in ["", "1", "2,1", "a,b", "1.1.1,2", "-1,2", "1.0000000001,2", "99999999999,"] {
            assert!(window(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_frame_is_meant_by_its_name() {
        for (wanted, frame) in [
            ("f", "f"),
            ("f", "f_[k]"),
            ("rocksdb::DBImpl::Get", "rocksdb::DBImpl::Get(rocksdb::ReadOptions const&)"),
            ("ns::f<int>", "void ns::f<int>(int)"),
            ("ns::f", "void ns::f<int>(int)"),
            ("[libc.so.6]", "[libc.so.6]"),
        ] {
            assert!(is_meant(wanted, frame.as_bytes()), "{wanted} {frame}");
        }
        for (wanted, frame) in [("f", "ff"), ("DBImpl::Get", "rocksdb::DBImpl::Get"), ("f", "g")] {
            assert!(!is_meant(wanted, frame.as_bytes()), "{wanted} {frame}");
        }
    }
}
