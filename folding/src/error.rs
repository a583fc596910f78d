//! What can go wrong, and the exit code each failure ends with.

use std::path::Path;
use std::{fmt, io};

/// Everything was measured, nothing failed.
pub const EXIT_OK: u8 = 0;
/// Something was measured, but a check failed or input was lost.
pub const EXIT_PARTIAL: u8 = 1;
/// The request cannot be served as it was put.
pub const EXIT_USAGE: u8 = 2;

/// A failure as the user sees it: what failed, the value seen, and what mends it.
#[derive(Debug)]
pub struct Error {
    message: String,
    exit: u8,
}

impl Error {
    /// The request or its input must change before anything can be said (exit 2).
    pub fn usage(message: impl Into<String>) -> Self {
        Self { message: message.into(), exit: EXIT_USAGE }
    }

    /// An input that cannot be read.
    pub fn unreadable(path: &Path, error: &io::Error) -> Self {
        Self::usage(format!("cannot read {}: {error}", path.display()))
    }

    /// The measurement is there but incomplete (exit 1).
    pub fn partial(message: impl Into<String>) -> Self {
        Self { message: message.into(), exit: EXIT_PARTIAL }
    }

    pub fn exit_code(&self) -> u8 {
        self.exit
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Error {}
