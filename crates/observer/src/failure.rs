//! What ends a program early: its words and the exit code they deserve.

use std::fmt;

/// An error with its exit code: 1 measured but wrong, 2 bad usage, 3 this host cannot.
///
/// It is printed as what failed, and lines `  meaning: ...` and `  fix: ...` where it has them: ground/system/control.py reads
/// it so.
#[derive(Debug)]
pub struct Failure {
    pub exit_code: u8,
    what: String,
    meaning: String,
    mend: String,
}

impl Failure {
    pub fn measurement(what: impl Into<String>) -> Self {
        Self::new(1, what)
    }

    pub fn usage(what: impl Into<String>) -> Self {
        Self::new(2, what)
    }

    pub fn host(what: impl Into<String>) -> Self {
        Self::new(3, what)
    }

    fn new(exit_code: u8, what: impl Into<String>) -> Self {
        Self { exit_code, what: what.into(), meaning: String::new(), mend: String::new() }
    }

    /// What failed, without what follows from it.
    pub fn what(&self) -> &str {
        &self.what
    }

    /// What follows from it.
    pub fn meaning(self, meaning: impl Into<String>) -> Self {
        Self { meaning: meaning.into(), ..self }
    }

    /// The command or option that mends it; empty where nothing does.
    pub fn mend(self, mend: impl Into<String>) -> Self {
        Self { mend: mend.into(), ..self }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)?;
        let more = [("meaning", &self.meaning), ("fix", &self.mend)];
        more.into_iter()
            .filter(|(_, text)| !text.is_empty())
            .try_for_each(|(name, text)| write!(f, "\n  {name}: {text}"))
    }
}

impl From<std::io::Error> for Failure {
    fn from(error: std::io::Error) -> Self {
        Self::measurement(error.to_string())
    }
}
