//! The functions of rocksdb/c.h that the client calls, looked up in the library that it is given, or that the loader
//! finds.

use super::super::c::{Pointer, c_path, c_text};
use observer::Failure;
use std::ffi::{CStr, c_char, c_int};
use std::path::Path;

type Text = *const c_char;
type Error = *mut *mut c_char;

pub type BatchedMultiGet = unsafe extern "C" fn(
    Pointer,
    Pointer,
    Pointer,
    usize,
    *const *const u8,
    *const usize,
    *mut Pointer,
    Error,
    bool,
);

macro_rules! interface {
    ($($name:ident: fn($($argument:ty),*) $(-> $result:ty)?;)*) => {
        #[allow(non_snake_case)] // they are the library's own names
        /// Functions of rocksdb/c.h, without the `rocksdb_` before their names.
        pub struct Interface {
            $(pub $name: unsafe extern "C" fn($($argument),*) $(-> $result)?,)*
            /// None before 7.3.1.
            pub batched_multi_get_cf: Option<BatchedMultiGet>,
        }

        impl Interface {
            /// Usage error where the file asked for is none of RocksDB's, host error where there is none that can be
            /// opened.
            pub fn load(path: Option<&Path>) -> Result<Self, Failure> {
                let library = match path {
                    Some(path) => open_library(path)?,
                    None => find_library()?,
                };
                // SAFETY: the types are those of rocksdb/c.h, which has not changed them from 6.20 to 11.8.
                unsafe {
                    Ok(Self {
                        $($name: std::mem::transmute::<Pointer, unsafe extern "C" fn($($argument),*) $(-> $result)?>(
                            function(library, concat!("rocksdb_", stringify!($name)), path)?,
                        ),)*
                        batched_multi_get_cf: std::mem::transmute::<Pointer, Option<BatchedMultiGet>>(
                            symbol(library, "rocksdb_batched_multi_get_cf")?,
                        ),
                    })
                }
            }
        }
    };
}

interface! {
    free: fn(Pointer);
    set_perf_level: fn(c_int);
    options_create: fn() -> Pointer;
    options_destroy: fn(Pointer);
    options_set_create_if_missing: fn(Pointer, u8);
    options_set_wal_dir: fn(Pointer, Text);
    options_enable_statistics: fn(Pointer);
    options_statistics_get_string: fn(Pointer) -> *mut c_char;
    get_options_from_string: fn(Pointer, Text, Pointer, Error);
    set_options: fn(Pointer, c_int, *const Text, *const Text, Error);
    open_column_families: fn(Pointer, Text, c_int, *const Text, *const Pointer, *mut Pointer, Error) -> Pointer;
    column_family_handle_destroy: fn(Pointer);
    close: fn(Pointer);
    property_value: fn(Pointer, Text) -> *mut c_char;
    flushoptions_create: fn() -> Pointer;
    flushoptions_destroy: fn(Pointer);
    flush: fn(Pointer, Pointer, Error);
    compact_range: fn(Pointer, Text, usize, Text, usize);
    readoptions_create: fn() -> Pointer;
    readoptions_destroy: fn(Pointer);
    readoptions_set_verify_checksums: fn(Pointer, u8);
    writeoptions_create: fn() -> Pointer;
    writeoptions_destroy: fn(Pointer);
    writeoptions_set_sync: fn(Pointer, u8);
    writeoptions_disable_WAL: fn(Pointer, c_int);
    get_pinned: fn(Pointer, Pointer, *const u8, usize, Error) -> Pointer;
    pinnableslice_value: fn(Pointer, *mut usize) -> *const u8;
    pinnableslice_destroy: fn(Pointer);
    put: fn(Pointer, Pointer, *const u8, usize, *const u8, usize, Error);
    delete: fn(Pointer, Pointer, *const u8, usize, Error);
    create_iterator: fn(Pointer, Pointer) -> Pointer;
    iter_destroy: fn(Pointer);
    iter_valid: fn(Pointer) -> u8;
    iter_seek: fn(Pointer, *const u8, usize);
    iter_next: fn(Pointer);
    iter_prev: fn(Pointer);
    iter_key: fn(Pointer, *mut usize) -> *const u8;
    iter_value: fn(Pointer, *mut usize) -> *const u8;
    iter_get_error: fn(Pointer, Error);
}

/// The library in this very file. Not by LD_LIBRARY_PATH: what the client starts would inherit it.
fn open_library(path: &Path) -> Result<Pointer, Failure> {
    // A name without a slash would be looked for in the system's directories.
    let whole = std::path::absolute(path)?;
    dlopen(&c_path(&whole)?).map_err(|message| {
        let newer = message.contains("GLIBC") && message.contains("not found");
        let failure = Failure::host(format!("--library={} cannot be opened: {message}", path.display()));
        if newer {
            failure
                .meaning("it was built for a newer C or C++ library than this host has; nothing was started")
                .mend("a release (ioflame rocksdb list), which runs on older hosts, or one that is built on this host")
        } else {
            failure
                .meaning("nothing was started")
                .mend(format!("file {0}; ldd {0}   (what it is, and what it needs)", path.display()))
        }
    })
}

/// The shared library that the loader finds under its plain name, or the newest one in the system's directories.
fn find_library() -> Result<Pointer, Failure> {
    let mut names = vec!["librocksdb.so".to_owned()];
    let folders = [
        "/usr/local/lib",
        "/usr/lib/x86_64-linux-gnu",
        "/usr/lib/aarch64-linux-gnu",
        "/usr/lib64",
        "/usr/lib",
    ];
    for folder in folders {
        let files = std::fs::read_dir(folder).into_iter().flatten().flatten();
        let mut versions: Vec<String> = files
            .filter(|file| file.file_name().to_string_lossy().starts_with("librocksdb.so."))
            .map(|file| file.path().display().to_string())
            .collect();
        versions.sort();
        names.extend(versions.into_iter().rev());
    }
    let mut message = String::new();
    for name in &names {
        match dlopen(&c_text(name)?) {
            Ok(library) => return Ok(library),
            Err(error) => message = error,
        }
    }
    Err(Failure::host(format!("there is no librocksdb.so here: {message}"))
        .meaning("nothing was started")
        .mend("--library=<a librocksdb.so>, or: sudo apt-get install rocksdb-tools"))
}

/// The library, or the loader's words.
fn dlopen(name: &CStr) -> Result<Pointer, String> {
    // SAFETY: a shared library's constructors run; they are RocksDB's.
    let library = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW) };
    if !library.is_null() {
        return Ok(library);
    }
    // SAFETY: the text of the failure above.
    Err(unsafe { CStr::from_ptr(libc::dlerror()) }.to_string_lossy().into_owned())
}

/// Null where the library has none of that name.
fn symbol(library: Pointer, name: &str) -> Result<Pointer, Failure> {
    let name = c_text(name)?;
    // SAFETY: an open library, a name that ends with 0.
    Ok(unsafe { libc::dlsym(library, name.as_ptr()) })
}

fn function(library: Pointer, name: &str, path: Option<&Path>) -> Result<Pointer, Failure> {
    let function = symbol(library, name)?;
    if function.is_null() {
        let file =
            path.map_or_else(|| "the librocksdb.so here".to_owned(), |path| path.display().to_string());
        return Err(Failure::usage(format!("{file} has no {name}"))
            .meaning("it is not RocksDB, or older than 6.29; nothing was started")
            .mend("--library=<a librocksdb.so of RocksDB 6.29 or newer>"));
    }
    Ok(function)
}
