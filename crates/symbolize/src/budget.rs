//! How much of the files of a recording may lie in memory at once, read or unpacked: one budget for all of them.
//!
//! A section of 3 MB may say that it is 3 GB, and a recording names as many files as it likes. What does not fit is left
//! in its file, and that is said.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// More than the debug information of any engine takes, without lines and locations: that of mongod is 2.5 GB.
const MOST: u64 = 4 << 30;

/// How much more than its files the debug information of a program may take: compilers' sections unpack to ten times their
/// size, and packed zeros to a thousand times and more.
const MOST_TIMES: u64 = 64;

/// Bytes that may be held; clones share them.
#[derive(Clone, Debug)]
pub struct Budget {
    whole: u64,
    left: Arc<AtomicU64>,
}

/// Bytes that were taken, and are given back with this.
#[derive(Debug)]
pub struct BudgetShare {
    left: Arc<AtomicU64>,
    bytes: u64,
}

impl Budget {
    pub fn new(bytes: u64) -> Self {
        Self { whole: bytes, left: Arc::new(AtomicU64::new(bytes)) }
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

    /// So many bytes, if there are as many left.
    pub fn take(&self, bytes: u64) -> Option<BudgetShare> {
        let take = |left: u64| left.checked_sub(bytes);
        self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take).ok()?;
        Some(BudgetShare { left: Arc::clone(&self.left), bytes })
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
        self.left.fetch_add(self.bytes, Ordering::Relaxed);
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
}
