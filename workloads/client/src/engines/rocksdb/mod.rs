//! RocksDB through its C interface, from the file that --library names, or the librocksdb.so that the loader finds.
//!
//! Flags have db_bench's names. Those that are options of RocksDB's own go to it as text, and it says which it does not
//! know; the others are translated as db_bench does.

mod interface;
mod options;

use super::c::{Pointer, bytes, c_path, c_text, checked, text};
use super::{
    About, COPIED_BYTES, Commands, MultiGetResult, Opening, ScanResult, Session, Store, database, run,
    walk_entries,
};
use crate::clock;
use crate::flags::Flags;
use crate::keys::Key;
use interface::Interface;
use observer::Failure;
use options::RocksDbOptions;
use std::ffi::{c_char, c_int};
use std::path::{Path, PathBuf};
use std::ptr::{null, null_mut};

/// Time between two checks that must both find nothing pending.
const IDLE_NS: u64 = 100_000_000;

/// multi_get: several keys will be read at once
pub fn opening(flags: &Flags, multi_get: bool) -> Result<Opening, Failure> {
    let (path, check) = database(flags, "rocksdb")?;
    let options = RocksDbOptions::read(flags, path)?;
    Ok(Box::new(move || {
        let api = Interface::load(options.library.as_deref())?;
        if multi_get && api.batched_multi_get_cf.is_none() {
            return Err(Failure::usage(
                "this RocksDB has no rocksdb_batched_multi_get_cf, which MultiGet needs",
            )
            .meaning("it is older than 7.3.1; nothing was started")
            .mend("RocksDB 7.3.1 or newer, or a workload without MultiGet"));
        }
        check()?;
        Ok(Box::new(RocksDb::open(api, options)?))
    }))
}

pub struct RocksDb {
    api: Interface,
    db: Pointer,
    family: Pointer,
    options: Pointer,
    reading: Pointer,
    writing: Pointer,
    path: PathBuf,
    library: Option<PathBuf>,
    perf_level: c_int,
    level0_trigger: String,
}

// SAFETY: rocksdb/db.h: a database may be used by many threads at once; the options are only read.
unsafe impl Sync for RocksDb {}

impl RocksDb {
    fn open(api: Interface, settings: RocksDbOptions) -> Result<Self, Failure> {
        let (path, wal_dir) = (c_path(&settings.path)?, c_path(&settings.wal_dir)?);
        let (mut error, mut family) = (null_mut(), null_mut());
        // SAFETY: RocksDB's own functions; it copies what it keeps of the options.
        unsafe {
            let (base, options) = ((api.options_create)(), (api.options_create)());
            (api.options_set_create_if_missing)(base, 1);
            (api.options_set_wal_dir)(base, wal_dir.as_ptr());
            if settings.statistics {
                (api.options_enable_statistics)(base);
            }
            (api.get_options_from_string)(base, settings.text.as_ptr(), options, &raw mut error);
            (api.options_destroy)(base);
            checked("reading the options", error, api.free).map_err(|failure| {
                Failure::usage(failure.to_string()).meaning(
                    "a flag is neither the client's nor an option of this RocksDB; nothing was started",
                )
            })?;
            let names = [c"default".as_ptr()];
            let db = (api.open_column_families)(
                options,
                path.as_ptr(),
                1,
                names.as_ptr(),
                &raw const options,
                &raw mut family,
                &raw mut error,
            );
            checked(&format!("opening {}", settings.path.display()), error, api.free)?;
            let (reading, writing) = ((api.readoptions_create)(), (api.writeoptions_create)());
            (api.readoptions_set_verify_checksums)(reading, u8::from(settings.verify_checksum));
            (api.writeoptions_set_sync)(writing, u8::from(settings.sync));
            (api.writeoptions_disable_WAL)(writing, c_int::from(settings.disable_wal));
            let RocksDbOptions { path, library, perf_level, level0_trigger, .. } = settings;
            Ok(Self { api, db, family, options, reading, writing, path, library, perf_level, level0_trigger })
        }
    }

    fn property(&self, name: &str) -> Result<String, Failure> {
        let c_name = c_text(name)?;
        // SAFETY: an open database, a name that ends with 0.
        unsafe { text((self.api.property_value)(self.db, c_name.as_ptr()), self.api.free) }
            .ok_or_else(|| Failure::measurement(format!("this RocksDB has no property {name}")))
    }

    fn is_zero(&self, name: &str) -> Result<bool, Failure> {
        Ok(self.property(name)? == "0")
    }

    fn idle(&self) -> Result<bool, Failure> {
        let pending = [
            "mem-table-flush-pending",
            "num-running-flushes",
            "compaction-pending",
            "num-running-compactions",
        ];
        for name in pending {
            if !self.is_zero(&format!("rocksdb.{name}"))? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Waits until two checks in a row find nothing pending.
    fn wait(&self) -> Result<String, Failure> {
        let mut idle = 0;
        while idle < 2 {
            if self.background_errors() > 0 {
                return Err(Failure::measurement(
                    "a flush or a compaction failed; the LOG of the database says why",
                ));
            }
            idle = if self.idle()? { idle + 1 } else { 0 };
            clock::sleep_until(clock::now_ns() + IDLE_NS);
        }
        Ok(String::new())
    }

    fn set_level0_trigger(&self, files: &str) -> Result<(), Failure> {
        let (name, files) = (c"level0_file_num_compaction_trigger".as_ptr(), c_text(files)?);
        let (value, mut error) = (files.as_ptr(), null_mut());
        // SAFETY: an open database, two texts that end with 0.
        unsafe {
            (self.api.set_options)(self.db, 1, &raw const name, &raw const value, &raw mut error);
            checked("setting an option", error, self.api.free)
        }
    }

    /// Empties L0: one file is enough for a compaction until that is done.
    fn compact0(&self) -> Result<String, Failure> {
        if !self.is_zero("rocksdb.num-files-at-level0")? {
            self.set_level0_trigger("1")?;
            let waited = self.wait();
            self.set_level0_trigger(&self.level0_trigger)?;
            waited?;
            let left = self.property("rocksdb.num-files-at-level0")?;
            if left != "0" {
                return Err(Failure::measurement(format!(
                    "{left} files are left in L0 after their compaction"
                )));
            }
        }
        Ok(String::new())
    }

    fn flush(&self) -> Result<String, Failure> {
        let mut error = null_mut();
        // SAFETY: an open database; by default a flush waits for its end.
        unsafe {
            let options = (self.api.flushoptions_create)();
            (self.api.flush)(self.db, options, &raw mut error);
            (self.api.flushoptions_destroy)(options);
            checked("flush", error, self.api.free).map(|()| String::new())
        }
    }

    fn compact_all(&self) -> Result<String, Failure> {
        // SAFETY: an open database; null is no bound.
        unsafe { (self.api.compact_range)(self.db, null(), 0, null(), 0) };
        self.wait()
    }

    fn stats(&self) -> Result<String, Failure> {
        // SAFETY: the options that the database was opened with; null without --statistics.
        let tickers = unsafe { text((self.api.options_statistics_get_string)(self.options), self.api.free) };
        Ok(self.property("rocksdb.stats")? + &tickers.unwrap_or_default())
    }

    /// As db_bench's: compacts the files of L1 into L2. The C interface cannot do that, and in a tree of dynamic levels
    /// L1 is empty until the data are large.
    fn compact1(&self) -> Result<String, Failure> {
        if self.is_zero("rocksdb.num-files-at-level1")? {
            return Ok(String::new());
        }
        Err(Failure::host("RocksDB's C interface cannot compact L1 alone").mend("CLIENT=db_bench"))
    }

    fn memtables(&self) -> Result<String, Failure> {
        let names = ["num-entries-active-mem-table", "num-entries-imm-mem-tables"]
            .map(|name| format!("rocksdb.{name}"));
        names.iter().map(|name| Ok(format!("{name}: {}\n", self.property(name)?))).collect()
    }
}

/// What the database's own log states: the C interface does not tell.
fn logged_version(database: &Path) -> String {
    let log = std::fs::read_to_string(database.join("LOG")).unwrap_or_default();
    let version = log.lines().find_map(|line| line.split_once("RocksDB version: "));
    version.map_or_else(|| "unknown".to_owned(), |(_, version)| version.trim().to_owned())
}

fn mapped_library() -> String {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap_or_default();
    let mut files = maps.lines().filter_map(|line| line.find('/').map(|begin| &line[begin..]));
    files.find(|file| file.contains("/librocksdb")).unwrap_or_default().to_owned()
}

impl Drop for RocksDb {
    fn drop(&mut self) {
        // SAFETY: the sessions borrow it, so they are gone; each is let go of once.
        unsafe {
            (self.api.column_family_handle_destroy)(self.family);
            (self.api.close)(self.db);
            (self.api.options_destroy)(self.options);
            (self.api.readoptions_destroy)(self.reading);
            (self.api.writeoptions_destroy)(self.writing);
        }
    }
}

pub const COMMANDS: Commands<RocksDb> = &[
    ("flush", RocksDb::flush),
    ("compact0", RocksDb::compact0),
    ("compact1", RocksDb::compact1),
    ("compactall", RocksDb::compact_all),
    ("waitforcompaction", RocksDb::wait),
    ("stats", RocksDb::stats),
    ("levelstats", |store| store.property("rocksdb.levelstats")),
    ("memstats", RocksDb::memtables),
];

impl Store for RocksDb {
    fn about(&self) -> About {
        let given = self.library.as_deref().and_then(|path| path.canonicalize().ok());
        let library = given.map_or_else(mapped_library, |path| path.display().to_string());
        About { engine: "rocksdb", version: logged_version(&self.path), library }
    }

    fn session(&self) -> Result<Box<dyn Session + '_>, Failure> {
        // SAFETY: it is the calling thread's, which is the one that uses the session.
        unsafe { (self.api.set_perf_level)(self.perf_level) };
        Ok(Box::new(RocksDbSession { store: self, batch: Batch::default(), copied: [0; COPIED_BYTES] }))
    }

    fn background_errors(&self) -> u64 {
        self.property("rocksdb.background-errors").ok().and_then(|errors| errors.parse().ok()).unwrap_or(0)
    }

    fn command(&self, name: &str) -> Option<Result<String, Failure>> {
        run(COMMANDS, self, name)
    }
}

/// Arguments and results of a MultiGet, as large as the largest so far.
#[derive(Default)]
struct Batch {
    keys: Vec<*const u8>,
    sizes: Vec<usize>,
    values: Vec<Pointer>,
    errors: Vec<*mut c_char>,
}

struct RocksDbSession<'a> {
    store: &'a RocksDb,
    batch: Batch,
    copied: [u8; COPIED_BYTES],
}

impl Session for RocksDbSession<'_> {
    fn get(&mut self, key: &[u8]) -> Result<Option<usize>, Failure> {
        let RocksDb { api, db, reading, .. } = self.store;
        let (mut size, mut error) = (0, null_mut());
        // SAFETY: an open database; the value is pinned until it is destroyed.
        unsafe {
            let value = (api.get_pinned)(*db, *reading, key.as_ptr(), key.len(), &raw mut error);
            if value.is_null() {
                return checked("get", error, api.free).map(|()| None);
            }
            (api.pinnableslice_value)(value, &raw mut size);
            (api.pinnableslice_destroy)(value);
        }
        Ok(Some(size))
    }

    fn multi_get(&mut self, keys: &[Key]) -> Result<MultiGetResult, Failure> {
        let RocksDb { api, db, reading, family, .. } = self.store;
        let Some(multi_get) = api.batched_multi_get_cf else {
            return Err(Failure::usage("this RocksDB has no rocksdb_batched_multi_get_cf"));
        };
        let batch = &mut self.batch;
        batch.keys.clear();
        batch.sizes.clear();
        batch.keys.extend(keys.iter().map(|key| key.bytes().as_ptr()));
        batch.sizes.extend(keys.iter().map(|key| key.bytes().len()));
        batch.values.resize(keys.len(), null_mut());
        batch.errors.resize(keys.len(), null_mut());
        let mut result = MultiGetResult::default();
        let mut failed = Ok(());
        // SAFETY: four arrays of as many entries; values and errors are set for each key, and are ours.
        unsafe {
            let (keys, sizes) = (batch.keys.as_ptr(), batch.sizes.as_ptr());
            let (values, errors) = (batch.values.as_mut_ptr(), batch.errors.as_mut_ptr());
            multi_get(*db, *reading, *family, batch.keys.len(), keys, sizes, values, errors, false);
            for (value, error) in batch.values.iter().zip(&batch.errors) {
                if value.is_null() {
                    failed = failed.and(checked("multiget", *error, api.free));
                    continue;
                }
                let mut size = 0;
                (api.pinnableslice_value)(*value, &raw mut size);
                (api.pinnableslice_destroy)(*value);
                result = MultiGetResult { found: result.found + 1, bytes: result.bytes + size as u64 };
            }
        }
        failed.map(|()| result)
    }

    fn scan(&mut self, key: &[u8], steps: usize, back: bool) -> Result<ScanResult, Failure> {
        let RocksDb { api, db, reading, .. } = self.store;
        let mut error = null_mut();
        // SAFETY: an iterator of our own; key and value are read before it moves on.
        unsafe {
            let iterator = (api.create_iterator)(*db, *reading);
            (api.iter_seek)(iterator, key.as_ptr(), key.len());
            let step = if back { api.iter_prev } else { api.iter_next };
            let entry = || (bytes(api.iter_key, iterator), bytes(api.iter_value, iterator));
            let result = walk_entries(key, steps, &mut self.copied, |first| {
                if !first {
                    step(iterator);
                }
                Ok(((api.iter_valid)(iterator) != 0).then(entry))
            });
            (api.iter_get_error)(iterator, &raw mut error);
            (api.iter_destroy)(iterator);
            checked("seek", error, api.free).and(result)
        }
    }

    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<(), Failure> {
        let RocksDb { api, db, writing, .. } = self.store;
        let mut error = null_mut();
        // SAFETY: an open database; both are copied.
        unsafe {
            let (data, size) = (value.as_ptr(), value.len());
            (api.put)(*db, *writing, key.as_ptr(), key.len(), data, size, &raw mut error);
            checked("put", error, api.free)
        }
    }

    fn delete(&mut self, key: &[u8]) -> Result<(), Failure> {
        let RocksDb { api, db, writing, .. } = self.store;
        let mut error = null_mut();
        // SAFETY: an open database; the key is copied.
        unsafe {
            (api.delete)(*db, *writing, key.as_ptr(), key.len(), &raw mut error);
            checked("delete", error, api.free)
        }
    }
}
