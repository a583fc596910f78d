//! What ends a program early: its words and the exit code they deserve.

use std::fmt;

/// An error with its exit code: 1 measured but wrong, 2 bad usage, 3 this host cannot.
///
/// Its words are what failed; lines `  meaning: ...` and `  to mend: ...` may follow, which ioflame reads.
#[derive(Debug)]
pub struct Failure {
    pub exit_code: u8,
    words: String,
}

impl Failure {
    pub fn measurement(words: impl Into<String>) -> Self {
        Self { exit_code: 1, words: words.into() }
    }

    pub fn usage(words: impl Into<String>) -> Self {
        Self { exit_code: 2, words: words.into() }
    }

    pub fn host(words: impl Into<String>) -> Self {
        Self { exit_code: 3, words: words.into() }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.words)
    }
}

impl From<std::io::Error> for Failure {
    fn from(error: std::io::Error) -> Self {
        Self::measurement(error.to_string())
    }
}
