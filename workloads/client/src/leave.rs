//! How the client ends while threads of it, or of the engine, are still running.

use observer::Failure;
use std::io::{Write, stderr};

/// Says what failed and ends the program as a kill would, which every engine survives: one that could not write may
/// abort when it is closed, or when the process takes it down, and one that waits for room on the disk never returns.
pub fn leave(failure: &Failure) -> ! {
    let _ = writeln!(stderr(), "ioflame-client: error: {failure}");
    // SAFETY: nothing runs after it.
    unsafe { libc::_exit(i32::from(failure.exit_code)) }
}
