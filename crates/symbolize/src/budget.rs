//! How much of a recording and its files may lie in memory at once, read or unpacked: one budget for all of them.
//!
//! A section of 3 MB may say that it is 3 GB, and a recording names as many files as it likes. What does not fit is left
//! in its file, and that is said. What the records themselves say, of processes and what they mapped, comes first: it may
//! take half, and a recording that says more is refused.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// More than the debug information of any engine takes, without lines and locations: that of mongod is 2.5 GB.
const MOST: u64 = 4 << 30;

/// How much more than its files the debug information of a program may take: compilers' sections unpack to ten times their
/// size, and packed zeros to a thousand times and more.
const MOST_TIMES: u64 = 64;

/// Bytes that may be held; clones share them.
#[derive(Clone, Debug)]
pub struct Budget {
    whole: u64,
    taken: Arc<Taken>,
}

#[derive(Debug, Default)]
struct Taken {
    by_files: AtomicU64,
    by_records: AtomicU64,
    /// Records wanted more than their half.
    is_exceeded: AtomicBool,
}

/// Bytes that were taken, and are given back with this.
#[derive(Debug)]
pub struct BudgetShare {
    taken: Arc<Taken>,
    bytes: u64,
    of_records: bool,
}

impl Budget {
    pub fn new(bytes: u64) -> Self {
        Self { whole: bytes, taken: Arc::default() }
    }

    /// All that may be held.
    pub fn whole(&self) -> u64 {
        self.whole
    }

    /// So many bytes of files of this length together, if they can be of these and there are as many left.
    pub fn take_of(&self, file_bytes: u64, bytes: u64) -> Option<BudgetShare> {
        (bytes <= Self::most_of(file_bytes)).then(|| self.take(bytes)).flatten()
    }

    /// What no files of this length can need.
    pub fn most_of(file_bytes: u64) -> u64 {
        file_bytes.saturating_mul(MOST_TIMES)
    }

    /// So many bytes of files, if there are as many left.
    pub fn take(&self, bytes: u64) -> Option<BudgetShare> {
        let left = self.whole.saturating_sub(self.taken.by_records.load(Ordering::Relaxed));
        self.share(bytes, left, false)
    }

    /// So many bytes of what records say. [`Self::is_exceeded`] tells, of all of them, whether there were as many left.
    pub fn hold(&self, bytes: u64) -> BudgetShare {
        self.share(bytes, self.whole / 2, true).unwrap_or_else(|| {
            self.taken.is_exceeded.store(true, Ordering::Relaxed);
            BudgetShare { taken: Arc::clone(&self.taken), bytes: 0, of_records: true }
        })
    }

    pub fn is_exceeded(&self) -> bool {
        self.taken.is_exceeded.load(Ordering::Relaxed)
    }

    fn share(&self, bytes: u64, most: u64, of_records: bool) -> Option<BudgetShare> {
        let taken = Arc::clone(&self.taken);
        let more = |sum: u64| sum.checked_add(bytes).filter(|&sum| sum <= most);
        taken.sum(of_records).fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).ok()?;
        Some(BudgetShare { taken, bytes, of_records })
    }
}

impl Taken {
    fn sum(&self, of_records: bool) -> &AtomicU64 {
        if of_records { &self.by_records } else { &self.by_files }
    }
}

impl Default for Budget {
    /// Half of the machine's memory, or of what this process may have of it, and not more than is ever needed.
    fn default() -> Self {
        let number = |path: &str, begin: &str| {
            let text = std::fs::read_to_string(path).ok()?;
            let rest = text.lines().find_map(|line| line.strip_prefix(begin))?;
            rest.split_whitespace().next()?.parse::<u64>().ok()
        };
        let of_machine = number("/proc/meminfo", "MemTotal:").map_or(MOST, |kib| kib.saturating_mul(512));
        // `ulimit -v`
        let of_process = number("/proc/self/limits", "Max address space").map_or(MOST, |bytes| bytes / 2);
        Self::new(of_machine.min(of_process).min(MOST))
    }
}

impl Drop for BudgetShare {
    fn drop(&mut self) {
        self.taken.sum(self.of_records).fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_let_go_can_be_taken_again() {
        let budget = Budget::new(100);
        let first = budget.take(60);
        assert!(first.is_some() && budget.clone().take(41).is_none() && budget.take(40).is_some());
        drop(first);
        assert!(budget.take(100).is_some() && budget.take(u64::MAX).is_none());
    }

    #[test]
    fn records_may_take_half_and_files_what_is_left() {
        let budget = Budget::new(100);
        let files = budget.take(100);
        let records = [budget.hold(30), budget.hold(20)];
        assert!(!budget.is_exceeded());
        drop(files);
        assert!(budget.take(51).is_none() && budget.take(50).is_some());
        drop(records);
        assert!(budget.take(100).is_some());
        drop(budget.hold(51));
        assert!(budget.clone().is_exceeded());
    }
}
