//! What the options leave out: samples by their head, frames by their name.

use super::frames::{FROM, SKIP_AFTER};
use super::{Collector, SampleHead};
use crate::error::Error;

impl Collector {
    /// Whether the sample is one of those wanted.
    pub(super) fn passes(&self, head: &SampleHead) -> Result<bool, Error> {
        if !self.options.only_pids.is_empty() {
            let pid = head.pid.ok_or_else(|| no_pid("--only-pid"))?;
            if !self.options.only_pids.contains(&pid) {
                return Ok(false);
            }
        }
        if let Some(window) = self.options.time {
            let time = head.time.ok_or_else(|| no_time("--time"))?;
            if !window.holds(time) {
                return Ok(false);
            }
        }
        if !self.options.skip_time.is_empty() {
            let time = head.time.ok_or_else(|| no_time("--skip-time"))?;
            if self.options.skip_time.iter().any(|window| window.holds(time)) {
                return Ok(false);
            }
        }
        if self.options.intervals.is_some() && self.group(head)?.is_none() {
            return Ok(false);
        }
        Ok(self.options.comm.as_ref().is_none_or(|wanted| wanted.as_bytes() == head.comm))
    }

    /// The group of the interval that a sample is in.
    pub(super) fn group(&self, head: &SampleHead) -> Result<Option<u64>, Error> {
        let Some(intervals) = &self.options.intervals else { return Ok(None) };
        let time = head.time.ok_or_else(|| no_time("--intervals"))?;
        let thread = head.tid.ok_or_else(|| no_thread("--intervals"))?;
        Ok(intervals.group(thread, time))
    }

    /// Which of the frames named in the options this one is.
    pub(super) fn named(&mut self, frame: &[u8]) -> u8 {
        let mut flags = 0;
        let from = self.options.from.iter().map(|name| (name, FROM));
        let wanted = from.chain(self.options.skip_after.iter().map(|name| (name, SKIP_AFTER)));
        for (n, (_, flag)) in
            wanted.enumerate().filter(|(_, (name, _))| crate::options::is_meant(name, frame))
        {
            self.matched.resize(self.matched.len().max(n + 1), false);
            self.matched[n] = true;
            flags |= flag;
        }
        flags
    }

    /// How many frames, from the leaf, `--from` and `--skip-after` leave. `None`: the stack goes.
    pub(super) fn kept(
        &self,
        leaf_first: impl DoubleEndedIterator<Item = u8> + ExactSizeIterator + Clone,
    ) -> Option<usize> {
        let mut kept = leaf_first.len();
        if self.options.from.is_some() {
            kept = leaf_first.clone().rposition(|flags| flags & FROM != 0)? + 1;
        }
        if !self.options.skip_after.is_empty() {
            let mut inner = leaf_first.take(kept);
            kept = inner.position(|flags| flags & SKIP_AFTER != 0).map_or(kept, |at| at + 1);
        }
        Some(kept)
    }

    /// The frames named in the options that no stack has, with their option.
    pub(super) fn unmatched(&self) -> Vec<String> {
        let named = self.options.from.iter().map(|name| ("--from", name));
        let named = named.chain(self.options.skip_after.iter().map(|name| ("--skip-after", name)));
        let unmatched =
            named.enumerate().filter(|(n, _)| !self.matched.get(*n).is_some_and(|matched| *matched));
        unmatched.map(|(_, (option, name))| format!("{option} {name}")).collect()
    }
}

pub(super) fn no_pid(option: &str) -> Error {
    Error::usage(format!(
        "{option} needs the process of each sample, but the input has one number a sample, the thread's.\n\
         print both: perf script -F +pid"
    ))
}

fn no_thread(option: &str) -> Error {
    Error::usage(format!("{option} needs the thread of each sample, but the input has none"))
}

pub(super) fn no_time(option: &str) -> Error {
    Error::usage(format!(
        "{option} needs the time of each sample, but the input has none.\nprint it: perf script -F +time"
    ))
}
