//! The engines, each in a file of its own behind `Store` and `Session`.

mod c;
#[cfg(leveldb)]
mod leveldb;
#[cfg(lmdb)]
mod lmdb;
mod nothing;
mod rocksdb;
#[cfg(leveldb)]
mod threads;

use crate::flags::Flags;
use crate::keys::Key;
use observer::Failure;
use serde::Serialize;
use std::path::{Path, PathBuf};

pub use nothing::Nothing;

/// The engines, and whether they are part of this build; `nothing` answers at once, to see what the client itself
/// costs.
pub const NAMES: [(&str, bool); 4] =
    [("rocksdb", true), ("leveldb", cfg!(leveldb)), ("lmdb", cfg!(lmdb)), ("nothing", true)];

/// What is being measured. library: the file with the engine's code; empty where that is this program.
#[derive(Serialize, Clone, Debug)]
pub struct About {
    pub engine: &'static str,
    pub version: String,
    pub library: String,
}

/// An open database. It is closed when it is dropped.
pub trait Store: Sync {
    fn about(&self) -> About;

    /// What one thread reads and writes with.
    fn session(&self) -> Result<Box<dyn Session + '_>, Failure>;

    /// What it does or prints beside operations: `flush`, `stats` ...; None where it has no such command, which `engine`
    /// refuses.
    fn command(&self, name: &str) -> Option<Result<String, Failure>>;

    /// Errors of its own threads, of which an operation may never hear: how many there were.
    fn background_errors(&self) -> u64 {
        0
    }
}

/// What an engine does or prints beside operations, by the names that `--benchmarks` has for it.
type Commands<S> = &'static [(&'static str, fn(&S) -> Result<String, Failure>)];

fn run<S>(commands: Commands<S>, store: &S, name: &str) -> Option<Result<String, Failure>> {
    commands.iter().find(|(known, _)| *known == name).map(|(_, run)| run(store))
}

fn names<S>(commands: Commands<S>) -> Vec<&'static str> {
    commands.iter().map(|(name, _)| *name).collect()
}

fn commands_of(engine: &str) -> Vec<&'static str> {
    match engine {
        #[cfg(leveldb)]
        "leveldb" => names(leveldb::COMMANDS),
        #[cfg(lmdb)]
        "lmdb" => names(lmdb::COMMANDS),
        "rocksdb" => names(rocksdb::COMMANDS),
        _ => Vec::new(),
    }
}

/// One thread's operations. Errors are measurement errors with the engine's own words.
pub trait Session {
    /// Bytes of the value; None where there is no such key.
    fn get(&mut self, key: &[u8]) -> Result<Option<usize>, Failure>;

    fn multi_get(&mut self, keys: &[Key]) -> Result<Seen, Failure>;

    /// Seeks `key`, then so many times looks at key and value and goes one step on, or back.
    fn scan(&mut self, key: &[u8], steps: usize, back: bool) -> Result<Scanned, Failure>;

    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<(), Failure>;

    fn delete(&mut self, key: &[u8]) -> Result<(), Failure>;

    /// What was written is as durable as it will be: the last transaction ends.
    fn finish(&mut self) -> Result<(), Failure>;
}

/// Of several keys: how many were there, and the bytes of their values.
#[derive(Clone, Copy, Default, Debug)]
pub struct Seen {
    pub found: u64,
    pub bytes: u64,
}

/// found: the key that was sought is there; steps: keys looked at; bytes: of them and their values
#[derive(Clone, Copy, Default, Debug)]
pub struct Scanned {
    pub found: bool,
    pub steps: u64,
    pub bytes: u64,
}

/// Of a value as much is copied as db_bench copies in a scan.
const LOOKED_AT: usize = 256;

/// Key and value of a place in the order of keys, as long as the engine stays there.
type Entry<'a> = (&'a [u8], &'a [u8]);

/// A scan. entry: given true at the key sought, or else behind it; given false one step on; None beyond the last
fn look<'a>(
    key: &[u8],
    steps: usize,
    copied: &mut [u8; LOOKED_AT],
    mut entry: impl FnMut(bool) -> Result<Option<Entry<'a>>, Failure>,
) -> Result<Scanned, Failure> {
    let mut place = entry(true)?;
    let mut scanned = Scanned { found: place.is_some_and(|(at, _)| at == key), ..Scanned::default() };
    while let Some((at, value)) = place.filter(|_| scanned.steps < steps as u64) {
        let size = value.len().min(LOOKED_AT);
        copied[..size].copy_from_slice(&value[..size]);
        scanned.bytes += (at.len() + value.len()) as u64;
        scanned.steps += 1;
        place = entry(false)?;
    }
    Ok(scanned)
}

/// A database that can be opened: its flags are read, and nothing was touched.
pub type Opening = Box<dyn FnOnce() -> Result<Box<dyn Store>, Failure>>;

/// What `--engine` names. Usage error for an unknown one, host error for one whose library was not here at set-up.
/// `multi_get`: it will be asked for several keys at once. `commands`: that it will be given; usage error for one that it
/// has not.
pub fn engine(flags: &Flags, multi_get: bool, commands: &[&str]) -> Result<Opening, Failure> {
    let name = flags.needed("engine")?;
    let Some((_, built)) = NAMES.iter().find(|(known, _)| *known == name) else {
        let known: Vec<&str> = NAMES.iter().map(|(name, _)| *name).collect();
        return Err(Failure::usage(format!("--engine={name} is not known"))
            .meaning("nothing was started")
            .mend(format!("--engine={}", known.join("|"))));
    };
    if !built {
        return Err(Failure::host(format!("this client was built without {name}: its library was not here"))
            .meaning("nothing was started")
            .mend(format!(
                "sudo apt-get install {}, then: make setup",
                if name == "lmdb" { "liblmdb-dev" } else { "libleveldb-dev libsnappy-dev" }
            )));
    }
    let known = commands_of(name);
    if let Some(unknown) = commands.iter().find(|command| !known.contains(command)) {
        let beside = if known.is_empty() { String::new() } else { format!(", or {}", known.join("|")) };
        return Err(Failure::usage(format!("{name} has no benchmark or command {unknown}"))
            .meaning("nothing was started")
            .mend(format!("--benchmarks=<names of db_bench's>{beside}")));
    }
    if name != "nothing"
        && let Some(time) = flags.text("service_time")
    {
        return Err(Failure::usage(format!(
            "--service_time={time} is a flag of --engine=nothing, not of {name}"
        ))
        .meaning("a real engine's calls take what they take; nothing was started")
        .mend("--engine=nothing, or leave out --service_time"));
    }
    let opening = match name {
        #[cfg(leveldb)]
        "leveldb" => leveldb::opening(flags)?,
        #[cfg(lmdb)]
        "lmdb" => lmdb::opening(flags)?,
        // What nobody has read is an option of RocksDB's, which itself says what it does not know.
        "rocksdb" => return rocksdb::opening(flags, multi_get),
        _ => nothing::opening(flags)?,
    };
    if let Some((unknown, value)) = flags.rest().first() {
        return Err(Failure::usage(format!("--{unknown}={value} is no flag of {name} or of the client"))
            .meaning("without it the figures would be those of another configuration; nothing was started"));
    }
    Ok(opening)
}

/// `--db`, which holds a database of this engine where `--use_existing_db` says so, and none otherwise.
///
/// An engine that opens another's directory may write into it: LevelDB's and RocksDB's files have the same names.
fn database(
    flags: &Flags,
    engine: &'static str,
) -> Result<(PathBuf, impl FnOnce() -> Result<(), Failure> + use<>), Failure> {
    let path = PathBuf::from(flags.needed("db")?);
    let existing = flags.truth("use_existing_db", false)?;
    let place = path.clone();
    let check = move || match (owner(&place)?, existing) {
        (None, true) => Err(Failure::usage(format!("--db={} holds no database", place.display()))
            .meaning("nothing was started")
            .mend("--use_existing_db=false makes one")),
        (Some(owner), _) if owner != engine => Err(Failure::usage(format!(
            "--db={} holds a database of {owner}, not of {engine}",
            place.display()
        ))
        .meaning("opening it might change its files; nothing was started")
        .mend(format!("--db=<another directory>, or --engine={owner}"))),
        (Some(_), false) => Err(Failure::usage(format!("--db={} holds a database already", place.display()))
            .meaning("it is not overwritten; nothing was started")
            .mend("--use_existing_db=true, or --db=<an empty directory>")),
        _ => Ok(std::fs::create_dir_all(&place)?),
    };
    Ok((path, check))
}

/// The engine whose files lie in `directory`.
fn owner(directory: &Path) -> Result<Option<&'static str>, Failure> {
    let mut current = false;
    let mut owner = None;
    let entries = match std::fs::read_dir(directory) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        entries => {
            entries.map_err(|error| Failure::usage(format!("--db={}: {error}", directory.display())))?
        }
    };
    for entry in entries {
        let name = entry?.file_name();
        let name = name.to_string_lossy();
        current |= name == "CURRENT";
        if name == "data.mdb" {
            owner = Some("lmdb");
        } else if name == "IDENTITY" || name.starts_with("OPTIONS-") {
            owner = Some("rocksdb");
        }
    }
    Ok(owner.or(current.then_some("leveldb")))
}
