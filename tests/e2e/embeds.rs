// embeds DIRECTORY: a program in Rust that reads from a RocksDB, for ever.
use std::ffi::{CString, c_char, c_void};
use std::{env, fmt::Write, hint, ptr};

// Of rocksdb/c.h, which the tests' hosts need not have.
unsafe extern "C" {
    fn rocksdb_options_create() -> *mut c_void;
    fn rocksdb_options_set_create_if_missing(options: *mut c_void, create: u8);
    fn rocksdb_open(options: *const c_void, path: *const c_char, error: *mut *mut c_char) -> *mut c_void;
    fn rocksdb_writeoptions_create() -> *mut c_void;
    fn rocksdb_readoptions_create() -> *mut c_void;
    fn rocksdb_flushoptions_create() -> *mut c_void;
    fn rocksdb_flush(db: *mut c_void, options: *const c_void, error: *mut *mut c_char);
    fn rocksdb_put(
        db: *mut c_void, options: *const c_void, key: *const u8, key_len: usize, value: *const u8, len: usize,
        error: *mut *mut c_char,
    );
    fn rocksdb_get(
        db: *mut c_void, options: *const c_void, key: *const u8, key_len: usize, len: *mut usize, error: *mut *mut c_char,
    ) -> *mut c_char;
    fn rocksdb_free(value: *mut c_void);
}

const KEYS: usize = 10_000;

trait Store {
    fn look_up(&self, number: usize) -> usize;
}

struct Database(*mut c_void, *mut c_void);

impl Store for Database {
    #[inline(never)]
    fn look_up(&self, number: usize) -> usize {
        let (key, mut len, mut error) = (format!("{number:016}"), 0, ptr::null_mut());
        unsafe { rocksdb_free(rocksdb_get(self.0, self.1, key.as_ptr(), key.len(), &mut len, &mut error).cast()) };
        len
    }
}

#[inline(never)]
fn answer<S: Store>(store: &S, begin: usize) -> String {
    let mut text = String::new();
    for number in begin..begin + 20 {
        write!(text, "{},", store.look_up(number * 7919 % KEYS)).expect("a String takes all");
    }
    text
}

fn main() {
    let path = CString::new(env::args().nth(1).expect("a directory")).expect("no zero byte in it");
    let database = unsafe {
        let (options, mut error) = (rocksdb_options_create(), ptr::null_mut());
        rocksdb_options_set_create_if_missing(options, 1);
        let db = rocksdb_open(options, path.as_ptr(), &mut error);
        let writes = rocksdb_writeoptions_create();
        for number in 0..KEYS {
            let key = format!("{number:016}");
            rocksdb_put(db, writes, key.as_ptr(), key.len(), key.as_ptr(), key.len(), &mut error);
        }
        rocksdb_flush(db, rocksdb_flushoptions_create(), &mut error);
        Database(db, rocksdb_readoptions_create())
    };
    for begin in 0.. {
        hint::black_box(answer(&database, begin));
    }
}
