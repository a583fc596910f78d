//! LMDB: a B+ tree in one mapped file. Reads are page faults, and nothing runs in the background.

use super::c::c_path;
use super::{
    About, COPIED_BYTES, Commands, MultiGetResult, Opening, ScanResult, Session, Store, database, run,
    walk_entries,
};
use crate::flags::Flags;
use crate::keys::Key;
use observer::Failure;
use serde_json::json;
use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::fs::File;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::ptr::{null, null_mut};

#[repr(C)]
struct Value {
    size: usize,
    data: *mut c_void,
}

#[repr(C)]
#[derive(Default)]
struct Stat {
    page_size: c_uint,
    depth: c_uint,
    branch_pages: usize,
    leaf_pages: usize,
    overflow_pages: usize,
    entries: usize,
}

#[repr(C)]
struct Info {
    address: *mut c_void,
    map_size: usize,
    last_page: usize,
    last_transaction: usize,
    max_readers: c_uint,
    readers: c_uint,
}

// lmdb.h of 0.9.
unsafe extern "C" {
    fn mdb_version(major: *mut c_int, minor: *mut c_int, patch: *mut c_int) -> *const c_char;
    fn mdb_strerror(error: c_int) -> *const c_char;
    fn mdb_env_create(env: *mut *mut c_void) -> c_int;
    fn mdb_env_set_mapsize(env: *mut c_void, size: usize) -> c_int;
    fn mdb_env_set_maxreaders(env: *mut c_void, readers: c_uint) -> c_int;
    fn mdb_env_open(env: *mut c_void, path: *const c_char, flags: c_uint, mode: libc::mode_t) -> c_int;
    fn mdb_env_close(env: *mut c_void);
    fn mdb_env_sync(env: *mut c_void, force: c_int) -> c_int;
    fn mdb_env_stat(env: *mut c_void, stat: *mut Stat) -> c_int;
    fn mdb_env_info(env: *mut c_void, info: *mut Info) -> c_int;
    fn mdb_txn_begin(env: *mut c_void, parent: *mut c_void, flags: c_uint, txn: *mut *mut c_void) -> c_int;
    fn mdb_txn_commit(txn: *mut c_void) -> c_int;
    fn mdb_txn_abort(txn: *mut c_void);
    fn mdb_txn_reset(txn: *mut c_void);
    fn mdb_txn_renew(txn: *mut c_void) -> c_int;
    fn mdb_dbi_open(txn: *mut c_void, name: *const c_char, flags: c_uint, dbi: *mut c_uint) -> c_int;
    fn mdb_get(txn: *mut c_void, dbi: c_uint, key: *mut Value, data: *mut Value) -> c_int;
    fn mdb_put(txn: *mut c_void, dbi: c_uint, key: *mut Value, data: *mut Value, flags: c_uint) -> c_int;
    fn mdb_del(txn: *mut c_void, dbi: c_uint, key: *mut Value, data: *mut Value) -> c_int;
    fn mdb_cursor_open(txn: *mut c_void, dbi: c_uint, cursor: *mut *mut c_void) -> c_int;
    fn mdb_cursor_renew(txn: *mut c_void, cursor: *mut c_void) -> c_int;
    fn mdb_cursor_close(cursor: *mut c_void);
    fn mdb_cursor_get(cursor: *mut c_void, key: *mut Value, data: *mut Value, operation: c_int) -> c_int;
}

const NO_SYNC: c_uint = 0x1_0000;
const READ_ONLY: c_uint = 0x2_0000;
const NO_TLS: c_uint = 0x20_0000;
const NO_READ_AHEAD: c_uint = 0x80_0000;
const APPEND: c_uint = 0x2_0000;
const NOT_FOUND: c_int = -30798;
const MAP_FULL: c_int = -30792;
const NEXT: c_int = 8;
const PREVIOUS: c_int = 12;
const SET_RANGE: c_int = 17;
const READERS: c_uint = 1000;
/// A cache line for each reader, and the header before them.
const LOCK_BYTES: libc::off_t = READERS as libc::off_t * 64 + 4096;
const MODE: libc::mode_t = 0o644;

/// The options of a database.
struct LmdbOptions {
    path: PathBuf,
    map_size: usize,
    flags: c_uint,
    /// Appends each key behind the last: for loads in ascending order.
    append: bool,
    /// Writes per transaction.
    writes: u64,
}

pub fn opening(flags: &Flags) -> Result<Opening, Failure> {
    let (path, check) = database(flags, "lmdb")?;
    let mut bits = NO_TLS;
    bits |= if flags.boolean("sync", false)? { 0 } else { NO_SYNC };
    bits |= if flags.boolean("read_ahead", true)? { 0 } else { NO_READ_AHEAD };
    let options = LmdbOptions {
        path,
        map_size: flags.number("map_size", 1 << 30)?,
        flags: bits,
        append: flags.boolean("append", false)?,
        writes: flags.number("writes_per_transaction", 1_u64)?.max(1),
    };
    Ok(Box::new(move || {
        check()?;
        Ok(Box::new(Lmdb::open(options)?))
    }))
}

/// The file of locks and readers is mapped and written to: without blocks of its own, a full disk would kill the process.
fn reserve_lock_file(database: &Path) -> Result<(), Failure> {
    let path = database.join("lock.mdb");
    let file = File::options().create(true).truncate(false).write(true).open(&path)?;
    // SAFETY: an open file; what it holds stays.
    match unsafe { libc::posix_fallocate(file.as_raw_fd(), 0, LOCK_BYTES) } {
        0 => Ok(()),
        code => Err(Failure::measurement(format!(
            "{}: {}",
            path.display(),
            std::io::Error::from_raw_os_error(code)
        ))),
    }
}

pub struct Lmdb {
    env: *mut c_void,
    dbi: c_uint,
    append: c_uint,
    writes: u64,
}

// SAFETY: an environment may be used by any thread; transactions are each of one session.
unsafe impl Sync for Lmdb {}

fn checked(what: &str, code: c_int) -> Result<(), Failure> {
    if code == 0 {
        return Ok(());
    }
    // SAFETY: LMDB has a text for every code; it is static, or the thread's own for one of the system.
    let message = unsafe { CStr::from_ptr(mdb_strerror(code)) }.to_string_lossy();
    let failure = Failure::measurement(format!("{what} failed: {message}"));
    Err(if code == MAP_FULL { failure.mend("a larger --map_size") } else { failure })
}

impl Lmdb {
    fn open(options: LmdbOptions) -> Result<Self, Failure> {
        let path = c_path(&options.path)?;
        let mut env = null_mut();
        // SAFETY: LMDB's own functions, called in the order that lmdb.h tells.
        unsafe {
            checked("mdb_env_create", mdb_env_create(&raw mut env))?;
            let store =
                Self { env, dbi: 0, append: if options.append { APPEND } else { 0 }, writes: options.writes };
            checked("mdb_env_set_mapsize", mdb_env_set_mapsize(env, options.map_size))?;
            checked("mdb_env_set_maxreaders", mdb_env_set_maxreaders(env, READERS))?;
            let what = format!("opening {}", options.path.display());
            reserve_lock_file(&options.path)?;
            checked(&what, mdb_env_open(env, path.as_ptr(), options.flags, MODE))?;
            store.check_size(&options.path)?;
            store.with_root(&what)
        }
    }

    /// Measurement error for a truncated file: reading beyond its end would kill the process.
    fn check_size(&self, path: &Path) -> Result<(), Failure> {
        let (stat, info) = self.stat()?;
        let has = std::fs::metadata(path.join("data.mdb"))?.len();
        let needs = (info.last_page as u64 + 1) * u64::from(stat.page_size);
        // A new one has no file yet.
        if info.last_transaction > 0 && has < needs {
            return Err(Failure::measurement(format!(
                "{}/data.mdb is {has} bytes long, and its last page ends at {needs}",
                path.display()
            ))
            .meaning("the database is not whole"));
        }
        Ok(())
    }

    fn with_root(mut self, what: &str) -> Result<Self, Failure> {
        let mut txn = null_mut();
        // SAFETY: a transaction of our own, which ends here.
        unsafe {
            checked(what, mdb_txn_begin(self.env, null_mut(), READ_ONLY, &raw mut txn))?;
            let opened = mdb_dbi_open(txn, null(), 0, &raw mut self.dbi);
            mdb_txn_abort(txn);
            checked(what, opened)?;
        }
        Ok(self)
    }

    fn stat(&self) -> Result<(Stat, Info), Failure> {
        let mut stat = Stat::default();
        // SAFETY: an open environment; the structures are those of lmdb.h.
        unsafe {
            let mut info: Info = std::mem::zeroed();
            checked("mdb_env_stat", mdb_env_stat(self.env, &raw mut stat))?;
            checked("mdb_env_info", mdb_env_info(self.env, &raw mut info))?;
            Ok((stat, info))
        }
    }

    fn flush(&self) -> Result<String, Failure> {
        // SAFETY: an open environment.
        checked("flush", unsafe { mdb_env_sync(self.env, 1) }).map(|()| String::new())
    }

    fn stats(&self) -> Result<String, Failure> {
        let (stat, info) = self.stat()?;
        Ok(json!({ "lmdb": {
            "page_size": stat.page_size, "depth": stat.depth, "branch_pages": stat.branch_pages,
            "leaf_pages": stat.leaf_pages, "overflow_pages": stat.overflow_pages, "entries": stat.entries,
            "map_size": info.map_size, "last_page": info.last_page, "transactions": info.last_transaction,
        } })
        .to_string())
    }
}

impl Drop for Lmdb {
    fn drop(&mut self) {
        // SAFETY: the sessions borrow it, so they are gone.
        unsafe { mdb_env_close(self.env) }
    }
}

pub const COMMANDS: Commands<Lmdb> =
    &[("flush", Lmdb::flush), ("stats", Lmdb::stats), ("levelstats", Lmdb::stats)];

impl Store for Lmdb {
    fn about(&self) -> About {
        let (mut major, mut minor, mut patch) = (0, 0, 0);
        // SAFETY: three numbers to be filled in.
        unsafe { mdb_version(&raw mut major, &raw mut minor, &raw mut patch) };
        About { engine: "lmdb", version: format!("{major}.{minor}.{patch}"), library: String::new() }
    }

    fn session(&self) -> Result<Box<dyn Session + '_>, Failure> {
        let mut reading = null_mut();
        let mut cursor = null_mut();
        // SAFETY: a read-only transaction of this session alone, as NO_TLS allows.
        unsafe {
            checked("a read transaction", mdb_txn_begin(self.env, null_mut(), READ_ONLY, &raw mut reading))?;
            checked("a cursor", mdb_cursor_open(reading, self.dbi, &raw mut cursor))?;
            mdb_txn_reset(reading);
        }
        Ok(Box::new(Transactions {
            store: self,
            reading,
            cursor,
            writing: null_mut(),
            written: 0,
            copied: [0; COPIED_BYTES],
        }))
    }

    fn command(&self, name: &str) -> Option<Result<String, Failure>> {
        run(COMMANDS, self, name)
    }
}

/// A read transaction that is renewed for each query, and one that writes.
struct Transactions<'a> {
    store: &'a Lmdb,
    reading: *mut c_void,
    cursor: *mut c_void,
    writing: *mut c_void,
    written: u64,
    copied: [u8; COPIED_BYTES],
}

fn value(bytes: &[u8]) -> Value {
    Value { size: bytes.len(), data: bytes.as_ptr().cast_mut().cast() }
}

/// The bytes that LMDB points to, valid while the transaction is.
unsafe fn bytes<'a>(value: &Value) -> &'a [u8] {
    // SAFETY: by the caller.
    unsafe { std::slice::from_raw_parts(value.data.cast(), value.size) }
}

impl Transactions<'_> {
    fn look_up(&mut self, key: &[u8]) -> Result<Option<usize>, Failure> {
        let (mut key, mut data) = (value(key), Value { size: 0, data: null_mut() });
        // SAFETY: a renewed transaction; LMDB does not write to the key.
        match unsafe { mdb_get(self.reading, self.store.dbi, &raw mut key, &raw mut data) } {
            NOT_FOUND => Ok(None),
            code => checked("get", code).map(|()| Some(data.size)),
        }
    }

    /// Runs `read` in a new snapshot.
    fn renewed<T>(&mut self, read: impl FnOnce(&mut Self) -> Result<T, Failure>) -> Result<T, Failure> {
        // SAFETY: it was reset before.
        checked("a read transaction", unsafe { mdb_txn_renew(self.reading) })?;
        let result = read(self);
        // SAFETY: nothing points into the snapshot any more.
        unsafe { mdb_txn_reset(self.reading) };
        result
    }

    fn write(&mut self, change: impl FnOnce(*mut c_void) -> Result<(), Failure>) -> Result<(), Failure> {
        if self.writing.is_null() {
            let began = unsafe { mdb_txn_begin(self.store.env, null_mut(), 0, &raw mut self.writing) };
            checked("a write transaction", began)?;
        }
        change(self.writing)?;
        self.written += 1;
        if self.written.is_multiple_of(self.store.writes) { self.finish() } else { Ok(()) }
    }
}

impl Session for Transactions<'_> {
    fn get(&mut self, key: &[u8]) -> Result<Option<usize>, Failure> {
        self.renewed(|session| session.look_up(key))
    }

    fn multi_get(&mut self, keys: &[Key]) -> Result<MultiGetResult, Failure> {
        self.renewed(|session| {
            let mut result = MultiGetResult::default();
            for key in keys {
                if let Some(bytes) = session.look_up(key.bytes())? {
                    result = MultiGetResult { found: result.found + 1, bytes: result.bytes + bytes as u64 };
                }
            }
            Ok(result)
        })
    }

    fn scan(&mut self, key: &[u8], steps: usize, back: bool) -> Result<ScanResult, Failure> {
        self.renewed(|session| {
            let (mut at, mut data) = (value(key), Value { size: 0, data: null_mut() });
            // SAFETY: the cursor is of the renewed transaction; what it points to is valid until that is reset.
            unsafe {
                checked("a cursor", mdb_cursor_renew(session.reading, session.cursor))?;
                let way = if back { PREVIOUS } else { NEXT };
                walk_entries(key, steps, &mut session.copied, |first| {
                    let way = if first { SET_RANGE } else { way };
                    match mdb_cursor_get(session.cursor, &raw mut at, &raw mut data, way) {
                        NOT_FOUND => Ok(None),
                        code => checked("seek", code).map(|()| Some((bytes(&at), bytes(&data)))),
                    }
                })
            }
        })
    }

    fn put(&mut self, key: &[u8], data: &[u8]) -> Result<(), Failure> {
        let (mut key, mut data) = (value(key), value(data));
        let (dbi, flags) = (self.store.dbi, self.store.append);
        // SAFETY: an open transaction; both are copied.
        self.write(|txn| checked("put", unsafe { mdb_put(txn, dbi, &raw mut key, &raw mut data, flags) }))
    }

    fn delete(&mut self, key: &[u8]) -> Result<(), Failure> {
        let mut key = value(key);
        let dbi = self.store.dbi;
        self.write(|txn| match unsafe { mdb_del(txn, dbi, &raw mut key, null_mut()) } {
            NOT_FOUND => Ok(()),
            code => checked("delete", code),
        })
    }

    fn finish(&mut self) -> Result<(), Failure> {
        let writing = std::mem::replace(&mut self.writing, null_mut());
        if writing.is_null() {
            return Ok(());
        }
        // SAFETY: it is freed by its commit, whatever comes of that.
        checked("commit", unsafe { mdb_txn_commit(writing) })
    }
}

impl Drop for Transactions<'_> {
    fn drop(&mut self) {
        // SAFETY: each is ended once; what was not committed is given up after a failure.
        unsafe {
            if !self.writing.is_null() {
                mdb_txn_abort(self.writing);
            }
            mdb_cursor_close(self.cursor);
            mdb_txn_abort(self.reading);
        }
    }
}
