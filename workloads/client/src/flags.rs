//! Flags as db_bench takes them: `--name=value`; a name alone is true.

use observer::Failure;
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::str::FromStr;

/// The flags as given, and which of them were read.
pub struct Flags {
    given: BTreeMap<String, String>,
    read: RefCell<BTreeSet<String>>,
}

impl Flags {
    /// Usage error for a word that is no flag and for a flag given twice.
    pub fn parse(words: impl IntoIterator<Item = String>) -> Result<Self, Failure> {
        let mut given = BTreeMap::new();
        for word in words {
            let Some(flag) = word.strip_prefix("--").filter(|flag| !flag.is_empty()) else {
                return Err(Failure::usage(format!("{word:?} is no flag"))
                    .meaning("nothing was started")
                    .mend("--name=value"));
            };
            let (name, value) = flag.split_once('=').unwrap_or((flag, "true"));
            if given.insert(name.to_owned(), value.to_owned()).is_some() {
                return Err(Failure::usage(format!("--{name} is given twice")).meaning("nothing was started"));
            }
        }
        Ok(Self { given, read: RefCell::default() })
    }

    pub fn text(&self, name: &str) -> Option<&str> {
        self.read.borrow_mut().insert(name.to_owned());
        self.given.get(name).map(String::as_str)
    }

    /// Usage error where it is not given.
    pub fn required(&self, name: &str) -> Result<&str, Failure> {
        self.text(name)
            .filter(|text| !text.is_empty())
            .ok_or_else(|| Failure::usage(format!("--{name} is needed")).meaning("nothing was started"))
    }

    /// A number, or `default` where none is given.
    pub fn number<T: FromStr>(&self, name: &str, default: T) -> Result<T, Failure> {
        match self.text(name) {
            None => Ok(default),
            Some(text) => text
                .parse()
                .map_err(|_| Self::wrong(name, text, &format!("a {}", std::any::type_name::<T>()))),
        }
    }

    pub fn boolean(&self, name: &str, default: bool) -> Result<bool, Failure> {
        match self.text(name) {
            None => Ok(default),
            Some("true" | "1") => Ok(true),
            Some("false" | "0") => Ok(false),
            Some(text) => Err(Self::wrong(name, text, "true or false")),
        }
    }

    /// The index in `known` of the value; 0 where none is given.
    pub fn choice(&self, name: &str, known: &[&str]) -> Result<usize, Failure> {
        let Some(text) = self.text(name) else { return Ok(0) };
        known.iter().position(|word| *word == text).ok_or_else(|| Self::wrong(name, text, &known.join(", ")))
    }

    /// The flags that were not read yet.
    pub fn unread(&self) -> Vec<(&str, &str)> {
        let read = self.read.borrow().clone();
        let rest = self.given.iter().filter(|(name, _)| !read.contains(*name));
        rest.map(|(name, value)| (name.as_str(), value.as_str())).collect()
    }

    fn wrong(name: &str, text: &str, wanted: &str) -> Failure {
        Failure::usage(format!("--{name}={text} is not {wanted}")).meaning("nothing was started")
    }
}
