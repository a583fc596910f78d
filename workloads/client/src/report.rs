//! Operations of each second, by role: a line a second, below a header that is written as the first operation begins.

use crate::clock;
use crate::tally::Finished;
use std::fs::File;
use std::io::{self, Write};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

const SECOND_NS: u64 = 1_000_000_000;

/// The file, and what it counts from.
pub struct Report {
    file: File,
    begun_ns: u64,
}

impl Report {
    /// Its column `queries` is of the readers, or of the writers where nobody reads.
    pub fn create(path: &Path) -> io::Result<Self> {
        Ok(Self { file: File::create(path)?, begun_ns: 0 })
    }

    pub fn begin(&mut self, ns: u64) -> io::Result<()> {
        self.begun_ns = ns;
        self.file.write_all(b"second,queries,readers,writers\n")
    }

    /// A line a second until `over`; seconds that are not whole are left out.
    pub fn follow(
        &mut self,
        readers: &[Finished],
        writers: &[Finished],
        over: &AtomicBool,
    ) -> io::Result<()> {
        let sum = |role: &[Finished]| role.iter().map(Finished::get).sum::<u64>();
        let mut before = (0, 0);
        for second in 1.. {
            let due = self.begun_ns + second * SECOND_NS;
            while clock::now_ns() < due {
                if over.load(Ordering::Relaxed) {
                    return Ok(());
                }
                clock::sleep_until(due.min(clock::now_ns() + SECOND_NS / 50));
            }
            let now = (sum(readers), sum(writers));
            let (read, written) = (now.0 - before.0, now.1 - before.1);
            let queries = if readers.is_empty() { written } else { read };
            self.file.write_all(format!("{second},{queries},{read},{written}\n").as_bytes())?;
            before = now;
        }
        Ok(())
    }
}
