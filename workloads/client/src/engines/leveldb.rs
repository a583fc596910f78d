//! LevelDB through its C interface, and one function of its environment that has none.

use super::c::{Pointer, bytes, c_path, checked, text};
use super::threads::{Thread, with_thread_name};
use super::{
    About, COPIED_BYTES, Commands, MultiGetResult, Opening, ScanResult, Session, Store, database, run,
    walk_entries,
};
use crate::clock;
use crate::flags::Flags;
use crate::keys::Key;
use observer::Failure;
use std::ffi::{CStr, c_char, c_int};
use std::path::PathBuf;
use std::ptr::null_mut;
use std::sync::Once;

// The C++ library in the program asks for it, and glibc has it since 2.32: 0 is "there may be other threads".
#[cfg(feature = "static")]
#[unsafe(no_mangle)]
static __libc_single_threaded: c_char = 0;

// leveldb/c.h of 1.20 to 1.23.
unsafe extern "C" {
    fn leveldb_major_version() -> c_int;
    fn leveldb_minor_version() -> c_int;
    fn leveldb_free(text: Pointer);
    fn leveldb_open(options: Pointer, name: *const c_char, error: *mut *mut c_char) -> Pointer;
    fn leveldb_close(db: Pointer);
    fn leveldb_put(
        db: Pointer,
        options: Pointer,
        key: *const u8,
        key_size: usize,
        value: *const u8,
        value_size: usize,
        error: *mut *mut c_char,
    );
    fn leveldb_delete(db: Pointer, options: Pointer, key: *const u8, size: usize, error: *mut *mut c_char);
    fn leveldb_get(
        db: Pointer,
        options: Pointer,
        key: *const u8,
        key_size: usize,
        size: *mut usize,
        error: *mut *mut c_char,
    ) -> *mut c_char;
    fn leveldb_create_snapshot(db: Pointer) -> Pointer;
    fn leveldb_release_snapshot(db: Pointer, snapshot: Pointer);
    fn leveldb_property_value(db: Pointer, name: *const c_char) -> *mut c_char;
    fn leveldb_compact_range(db: Pointer, from: *const u8, from_size: usize, to: *const u8, to_size: usize);
    fn leveldb_create_iterator(db: Pointer, options: Pointer) -> Pointer;
    fn leveldb_iter_destroy(iterator: Pointer);
    fn leveldb_iter_valid(iterator: Pointer) -> u8;
    fn leveldb_iter_seek(iterator: Pointer, key: *const u8, size: usize);
    fn leveldb_iter_next(iterator: Pointer);
    fn leveldb_iter_prev(iterator: Pointer);
    fn leveldb_iter_key(iterator: Pointer, size: *mut usize) -> *const u8;
    fn leveldb_iter_value(iterator: Pointer, size: *mut usize) -> *const u8;
    fn leveldb_iter_get_error(iterator: Pointer, error: *mut *mut c_char);
    fn leveldb_options_create() -> Pointer;
    fn leveldb_options_destroy(options: Pointer);
    fn leveldb_options_set_create_if_missing(options: Pointer, yes: u8);
    fn leveldb_options_set_write_buffer_size(options: Pointer, bytes: usize);
    fn leveldb_options_set_max_open_files(options: Pointer, files: c_int);
    fn leveldb_options_set_block_size(options: Pointer, bytes: usize);
    fn leveldb_options_set_block_restart_interval(options: Pointer, keys: c_int);
    fn leveldb_options_set_max_file_size(options: Pointer, bytes: usize);
    fn leveldb_options_set_compression(options: Pointer, kind: c_int);
    fn leveldb_options_set_cache(options: Pointer, cache: Pointer);
    fn leveldb_options_set_filter_policy(options: Pointer, policy: Pointer);
    fn leveldb_cache_create_lru(bytes: usize) -> Pointer;
    fn leveldb_cache_destroy(cache: Pointer);
    fn leveldb_filterpolicy_create_bloom(bits: c_int) -> Pointer;
    fn leveldb_filterpolicy_destroy(policy: Pointer);
    fn leveldb_readoptions_create() -> Pointer;
    fn leveldb_readoptions_destroy(options: Pointer);
    fn leveldb_readoptions_set_verify_checksums(options: Pointer, yes: u8);
    fn leveldb_readoptions_set_snapshot(options: Pointer, snapshot: Pointer);
    fn leveldb_writeoptions_create() -> Pointer;
    fn leveldb_writeoptions_destroy(options: Pointer);
    fn leveldb_writeoptions_set_sync(options: Pointer, yes: u8);
    /// `EnvPosixTestHelper::SetReadOnlyMMapLimit`: how many files are read through a mapping, before any is opened.
    #[link_name = "_ZN7leveldb18EnvPosixTestHelper20SetReadOnlyMMapLimitEi"]
    fn set_read_only_mmap_limit(files: c_int);
}

/// Its compactions run in one thread, which takes the name of the one that starts it.
const BACKGROUND: &str = "leveldb:bg";
/// A range that holds no key of ours: those begin with a number below 2^56.
const NO_KEYS: [u8; 2] = [0xff, 0xff];
/// The background thread slept through this long: there is nothing left to do.
const IDLE_NS: u64 = 200_000_000;

static MMAP_LIMIT: Once = Once::new();

/// The options of a database.
struct LevelDbOptions {
    path: PathBuf,
    write_buffer_size: usize,
    max_file_size: usize,
    open_files: c_int,
    block_size: usize,
    restart_interval: c_int,
    cache_size: usize,
    bloom_bits: c_int,
    compression: c_int,
    mmap_files: c_int,
    verify_checksum: bool,
    sync: bool,
}

pub fn opening(flags: &Flags) -> Result<Opening, Failure> {
    let (path, check) = database(flags, "leveldb")?;
    let options = LevelDbOptions {
        path,
        write_buffer_size: flags.number("write_buffer_size", 4 << 20)?,
        max_file_size: flags.number("max_file_size", 2 << 20)?,
        open_files: flags.number("open_files", 1000)?,
        block_size: flags.number("block_size", 4096)?,
        restart_interval: flags.number("block_restart_interval", 16)?,
        cache_size: flags.number("cache_size", 8 << 20)?,
        bloom_bits: flags.number("bloom_bits", 0)?,
        compression: flags.choice("compression_type", &["none", "snappy"])? as c_int,
        mmap_files: flags.number("mmap_files", 1000)?,
        verify_checksum: flags.boolean("verify_checksum", true)?,
        sync: flags.boolean("sync", false)?,
    };
    Ok(Box::new(move || {
        check()?;
        Ok(Box::new(LevelDb::open(&options)?))
    }))
}

pub struct LevelDb {
    db: Pointer,
    cache: Pointer,
    filter: Pointer,
    reading: Pointer,
    writing: Pointer,
    verify_checksum: u8,
}

// SAFETY: leveldb/db.h: a database may be used by many threads at once; the options are only read.
unsafe impl Sync for LevelDb {}

impl LevelDb {
    fn open(settings: &LevelDbOptions) -> Result<Self, Failure> {
        let path = c_path(&settings.path)?;
        let mut error = null_mut();
        // SAFETY: LevelDB's own functions; what the options hold lives as long as the database.
        unsafe {
            // Its environment is one for the whole process, and takes no limit once it is there.
            MMAP_LIMIT.call_once(|| set_read_only_mmap_limit(settings.mmap_files));
            let options = leveldb_options_create();
            leveldb_options_set_create_if_missing(options, 1);
            leveldb_options_set_write_buffer_size(options, settings.write_buffer_size);
            leveldb_options_set_max_file_size(options, settings.max_file_size);
            leveldb_options_set_max_open_files(options, settings.open_files);
            leveldb_options_set_block_size(options, settings.block_size);
            leveldb_options_set_block_restart_interval(options, settings.restart_interval);
            leveldb_options_set_compression(options, settings.compression);
            let cache = leveldb_cache_create_lru(settings.cache_size);
            leveldb_options_set_cache(options, cache);
            let filter = if settings.bloom_bits > 0 {
                leveldb_filterpolicy_create_bloom(settings.bloom_bits)
            } else {
                null_mut()
            };
            leveldb_options_set_filter_policy(options, filter);
            let (reading, writing) = (leveldb_readoptions_create(), leveldb_writeoptions_create());
            leveldb_readoptions_set_verify_checksums(reading, u8::from(settings.verify_checksum));
            leveldb_writeoptions_set_sync(writing, u8::from(settings.sync));
            let db = with_thread_name(BACKGROUND, || {
                let db = leveldb_open(options, path.as_ptr(), &raw mut error);
                if !db.is_null() {
                    // Its background thread is started by the first who has work for it, which an empty memtable is.
                    leveldb_compact_range(
                        db,
                        NO_KEYS.as_ptr(),
                        NO_KEYS.len(),
                        NO_KEYS.as_ptr(),
                        NO_KEYS.len(),
                    );
                }
                db
            });
            leveldb_options_destroy(options);
            let verify_checksum = u8::from(settings.verify_checksum);
            let store = Self { db, cache, filter, reading, writing, verify_checksum };
            checked(&format!("opening {}", settings.path.display()), error, leveldb_free)?;
            Ok(store)
        }
    }

    fn property(&self, name: &CStr) -> String {
        // SAFETY: an open database, a name that ends with 0.
        unsafe { text(leveldb_property_value(self.db, name.as_ptr()), leveldb_free) }.unwrap_or_default()
    }

    /// Waits until the background thread sleeps and has not run for a while.
    fn compact(&self, from: &[u8], to: &[u8]) {
        let begin = if from.is_empty() { std::ptr::null() } else { from.as_ptr() };
        let end = if to.is_empty() { std::ptr::null() } else { to.as_ptr() };
        // SAFETY: an open database; null is no bound.
        unsafe { leveldb_compact_range(self.db, begin, from.len(), end, to.len()) };
    }

    fn compact_all(&self) -> Result<String, Failure> {
        self.compact(&[], &[]);
        Ok(String::new())
    }

    fn flush(&self) -> Result<String, Failure> {
        // It begins with the memtable, whatever the range.
        self.compact(&NO_KEYS, &NO_KEYS);
        Ok(String::new())
    }

    fn stats(&self) -> Result<String, Failure> {
        Ok(self.property(c"leveldb.stats"))
    }

    fn wait(&self) -> Result<String, Failure> {
        let mut before = None;
        loop {
            let now = Thread::find(BACKGROUND)?;
            let idle = now.sleeps && before.as_ref() == Some(&now);
            if idle {
                return Ok(String::new());
            }
            before = Some(now);
            clock::sleep_until(clock::now_ns() + IDLE_NS);
        }
    }
}

impl Drop for LevelDb {
    fn drop(&mut self) {
        // SAFETY: the sessions borrow it, so they are gone; the database goes first.
        unsafe {
            if !self.db.is_null() {
                leveldb_close(self.db);
            }
            leveldb_cache_destroy(self.cache);
            if !self.filter.is_null() {
                leveldb_filterpolicy_destroy(self.filter);
            }
            leveldb_readoptions_destroy(self.reading);
            leveldb_writeoptions_destroy(self.writing);
        }
    }
}

pub const COMMANDS: Commands<LevelDb> = &[
    ("flush", LevelDb::flush),
    ("compactall", LevelDb::compact_all),
    ("waitforcompaction", LevelDb::wait),
    ("stats", LevelDb::stats),
    ("levelstats", LevelDb::stats),
];

impl Store for LevelDb {
    fn about(&self) -> About {
        // SAFETY: two constants.
        let (major, minor) = unsafe { (leveldb_major_version(), leveldb_minor_version()) };
        About { engine: "leveldb", version: format!("{major}.{minor}"), library: String::new() }
    }

    fn session(&self) -> Result<Box<dyn Session + '_>, Failure> {
        // SAFETY: options of this session's own, for its snapshots.
        let snapshots = unsafe { leveldb_readoptions_create() };
        // SAFETY: just made.
        unsafe { leveldb_readoptions_set_verify_checksums(snapshots, self.verify_checksum) };
        Ok(Box::new(LevelDbSession { store: self, snapshots, copied: [0; COPIED_BYTES] }))
    }

    fn command(&self, name: &str) -> Option<Result<String, Failure>> {
        run(COMMANDS, self, name)
    }
}

struct LevelDbSession<'a> {
    store: &'a LevelDb,
    snapshots: Pointer,
    copied: [u8; COPIED_BYTES],
}

impl LevelDbSession<'_> {
    fn look_up(&self, options: Pointer, key: &[u8]) -> Result<Option<usize>, Failure> {
        let (mut size, mut error) = (0, null_mut());
        // SAFETY: an open database; the value is ours to free.
        unsafe {
            let (begin, length) = (key.as_ptr(), key.len());
            let value = leveldb_get(self.store.db, options, begin, length, &raw mut size, &raw mut error);
            if value.is_null() {
                return checked("get", error, leveldb_free).map(|()| None);
            }
            leveldb_free(value.cast());
        }
        Ok(Some(size))
    }
}

impl Session for LevelDbSession<'_> {
    fn get(&mut self, key: &[u8]) -> Result<Option<usize>, Failure> {
        self.look_up(self.store.reading, key)
    }

    /// LevelDB has none: one after the other, in one snapshot.
    fn multi_get(&mut self, keys: &[Key]) -> Result<MultiGetResult, Failure> {
        let mut result = MultiGetResult::default();
        // SAFETY: the snapshot is released before the options are used again.
        unsafe {
            let snapshot = leveldb_create_snapshot(self.store.db);
            leveldb_readoptions_set_snapshot(self.snapshots, snapshot);
            let done = keys.iter().try_for_each(|key| {
                if let Some(bytes) = self.look_up(self.snapshots, key.bytes())? {
                    result = MultiGetResult { found: result.found + 1, bytes: result.bytes + bytes as u64 };
                }
                Ok(())
            });
            leveldb_readoptions_set_snapshot(self.snapshots, null_mut());
            leveldb_release_snapshot(self.store.db, snapshot);
            done.map(|()| result)
        }
    }

    fn scan(&mut self, key: &[u8], steps: usize, back: bool) -> Result<ScanResult, Failure> {
        let mut error = null_mut();
        // SAFETY: an iterator of our own; key and value are read before it moves on.
        unsafe {
            let iterator = leveldb_create_iterator(self.store.db, self.store.reading);
            leveldb_iter_seek(iterator, key.as_ptr(), key.len());
            let step = if back { leveldb_iter_prev } else { leveldb_iter_next };
            let entry = || (bytes(leveldb_iter_key, iterator), bytes(leveldb_iter_value, iterator));
            let result = walk_entries(key, steps, &mut self.copied, |first| {
                if !first {
                    step(iterator);
                }
                Ok((leveldb_iter_valid(iterator) != 0).then(entry))
            });
            leveldb_iter_get_error(iterator, &raw mut error);
            leveldb_iter_destroy(iterator);
            checked("seek", error, leveldb_free).and(result)
        }
    }

    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<(), Failure> {
        let mut error = null_mut();
        // SAFETY: an open database; both are copied.
        unsafe {
            let (begin, length) = (key.as_ptr(), key.len());
            let (data, size) = (value.as_ptr(), value.len());
            leveldb_put(self.store.db, self.store.writing, begin, length, data, size, &raw mut error);
            checked("put", error, leveldb_free)
        }
    }

    fn delete(&mut self, key: &[u8]) -> Result<(), Failure> {
        let mut error = null_mut();
        // SAFETY: an open database; the key is copied.
        unsafe {
            leveldb_delete(self.store.db, self.store.writing, key.as_ptr(), key.len(), &raw mut error);
            checked("delete", error, leveldb_free)
        }
    }
}

impl Drop for LevelDbSession<'_> {
    fn drop(&mut self) {
        // SAFETY: made by this session.
        unsafe { leveldb_readoptions_destroy(self.snapshots) }
    }
}
