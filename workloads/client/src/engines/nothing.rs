//! No engine: every key is there, and nothing is done. What is left is the client's own time.

use super::{About, Opening, Scanned, Seen, Session, Store};
use crate::flags::Flags;
use crate::keys::Key;
use observer::Failure;

pub struct Nothing;

pub fn opening(flags: &Flags) -> Result<Opening, Failure> {
    flags.text("db");
    flags.text("use_existing_db");
    Ok(Box::new(|| Ok(Box::new(Nothing))))
}

impl Store for Nothing {
    fn about(&self) -> About {
        About { engine: "nothing", version: env!("CARGO_PKG_VERSION").to_owned(), library: String::new() }
    }

    fn session(&self) -> Result<Box<dyn Session + '_>, Failure> {
        Ok(Box::new(Nothing))
    }

    fn command(&self, _name: &str) -> Option<Result<String, Failure>> {
        None
    }
}

impl Session for Nothing {
    fn get(&mut self, key: &[u8]) -> Result<Option<usize>, Failure> {
        Ok(Some(key.len()))
    }

    fn multi_get(&mut self, keys: &[Key]) -> Result<Seen, Failure> {
        Ok(Seen { found: keys.len() as u64, bytes: 0 })
    }

    fn scan(&mut self, _key: &[u8], steps: usize, _back: bool) -> Result<Scanned, Failure> {
        Ok(Scanned { found: true, steps: steps as u64, bytes: 0 })
    }

    fn put(&mut self, _key: &[u8], _value: &[u8]) -> Result<(), Failure> {
        Ok(())
    }

    fn delete(&mut self, _key: &[u8]) -> Result<(), Failure> {
        Ok(())
    }

    fn finish(&mut self) -> Result<(), Failure> {
        Ok(())
    }
}
