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

pub use nothing::NothingSession;

/// The engines, and whether they are part of this build; `nothing` answers at once, to see what the client itself
/// costs.
pub const NAMES: [(&str, bool); 4] =
    [("rocksdb", true), ("leveldb", cfg!(leveldb)), ("lmdb", cfg!(lmdb)), ("nothing", true)];

/// The engine that is measured. library: the file with its code; empty where that is this program.
#[derive(Serialize, Clone, Debug)]
pub struct About {
    pub engine: &'static str,
    pub version: String,
    pub library: String,
}

/// An open database. It is closed when it is dropped.
pub trait Store: Sync {
    fn about(&self) -> About;

    /// A session for one thread.
    fn session(&self) -> Result<Box<dyn Session + '_>, Failure>;

    /// Runs a command such as `flush` or `stats`; gives its output. None where it has no such command, which `engine`
    /// refuses.
    fn command(&self, _name: &str) -> Option<Result<String, Failure>> {
        None
    }

    /// The number of errors in its own threads, which no operation may ever return.
    fn background_errors(&self) -> u64 {
        0
    }
}

/// An engine's commands, by their names in `--benchmarks`.
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

/// One thread's operations. Errors are measurement errors with the engine's message.
pub trait Session {
    /// Bytes of the value; None where there is no such key.
    fn get(&mut self, key: &[u8]) -> Result<Option<usize>, Failure>;

    fn multi_get(&mut self, keys: &[Key]) -> Result<MultiGetResult, Failure>;

    /// Seeks `key`, then reads key and value and moves one entry on, or back, `steps` times.
    fn scan(&mut self, key: &[u8], steps: usize, back: bool) -> Result<ScanResult, Failure>;

    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<(), Failure>;

    fn delete(&mut self, key: &[u8]) -> Result<(), Failure>;

    /// Ends the last transaction: what was written is as durable as it will be.
    fn finish(&mut self) -> Result<(), Failure> {
        Ok(())
    }
}

/// found: keys that exist; bytes: of their values
#[derive(Clone, Copy, Default, Debug)]
pub struct MultiGetResult {
    pub found: u64,
    pub bytes: u64,
}

/// found: the key that was sought exists; steps: entries read; bytes: of their keys and values
#[derive(Clone, Copy, Default, Debug)]
pub struct ScanResult {
    pub found: bool,
    pub steps: u64,
    pub bytes: u64,
}

/// Bytes of a value that a scan copies, as db_bench does.
const COPIED_BYTES: usize = 256;

/// Key and value at an iterator's position, valid while it stays there.
type Entry<'a> = (&'a [u8], &'a [u8]);

/// A scan. entry: with true the first one at or after the key, with false the next; None beyond the last
fn walk_entries<'a>(
    key: &[u8],
    steps: usize,
    copied: &mut [u8; COPIED_BYTES],
    mut entry: impl FnMut(bool) -> Result<Option<Entry<'a>>, Failure>,
) -> Result<ScanResult, Failure> {
    let mut current = entry(true)?;
    let mut result = ScanResult { found: current.is_some_and(|(at, _)| at == key), ..ScanResult::default() };
    while let Some((at, value)) = current.filter(|_| result.steps < steps as u64) {
        let size = value.len().min(COPIED_BYTES);
        copied[..size].copy_from_slice(&value[..size]);
        result.bytes += (at.len() + value.len()) as u64;
        result.steps += 1;
        current = entry(false)?;
    }
    Ok(result)
}

/// Opens a database: its flags are read, and nothing was touched yet.
pub type Opening = Box<dyn FnOnce() -> Result<Box<dyn Store>, Failure>>;

/// The engine of `--engine`. Usage error for an unknown one, host error for one whose library was missing at set-up.
///
/// multi_get: several keys will be read at once; commands: to be run later; usage error for one that it lacks
pub fn engine(flags: &Flags, multi_get: bool, commands: &[&str]) -> Result<Opening, Failure> {
    let name = flags.required("engine")?;
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
    if let Some((unknown, value)) = flags.unread().first() {
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
    let path = PathBuf::from(flags.required("db")?);
    let existing = flags.boolean("use_existing_db", false)?;
    let directory = path.clone();
    let check = move || match (owner(&directory)?, existing) {
        (None, true) => Err(Failure::usage(format!("--db={} holds no database", directory.display()))
            .meaning("nothing was started")
            .mend("--use_existing_db=false makes one")),
        (Some(owner), _) if owner != engine => Err(Failure::usage(format!(
            "--db={} holds a database of {owner}, not of {engine}",
            directory.display()
        ))
        .meaning("opening it might change its files; nothing was started")
        .mend(format!("--db=<another directory>, or --engine={owner}"))),
        (Some(_), false) => {
            Err(Failure::usage(format!("--db={} holds a database already", directory.display()))
                .meaning("it is not overwritten; nothing was started")
                .mend("--use_existing_db=true, or --db=<an empty directory>"))
        }
        _ => Ok(std::fs::create_dir_all(&directory)?),
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
