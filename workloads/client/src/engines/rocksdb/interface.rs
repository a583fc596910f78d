//! The functions of rocksdb/c.h that the client calls, looked up in the library that the loader finds.

use super::super::c::{Pointer, c_text};
use observer::Failure;
use std::ffi::{CStr, c_char, c_int};

type Text = *const c_char;
type Error = *mut *mut c_char;

macro_rules! interface {
    ($($name:ident: fn($($argument:ty),*) $(-> $result:ty)?;)*) => {
        #[allow(non_snake_case)] // they are the library's own names
        /// Functions of rocksdb/c.h, 7.0 or newer, without the `rocksdb_` before their names.
        pub struct Interface {
            $(pub $name: unsafe extern "C" fn($($argument),*) $(-> $result)?,)*
        }

        impl Interface {
            /// Host error where there is no library, or where it lacks one of them.
            pub fn load() -> Result<Self, Failure> {
                let library = library()?;
                // SAFETY: the types are those of rocksdb/c.h, which has not changed them since 7.0.
                unsafe {
                    Ok(Self {
                        $($name: std::mem::transmute::<Pointer, unsafe extern "C" fn($($argument),*) $(-> $result)?>(
                            function(library, concat!("rocksdb_", stringify!($name)))?,
                        ),)*
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
    batched_multi_get_cf: fn(
        Pointer, Pointer, Pointer, usize, *const *const u8, *const usize, *mut Pointer, Error, bool
    );
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

/// The shared library that the loader finds under its plain name, or the newest one in the system's directories.
fn library() -> Result<Pointer, Failure> {
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
        let mut found: Vec<String> = files
            .filter(|file| file.file_name().to_string_lossy().starts_with("librocksdb.so."))
            .map(|file| file.path().display().to_string())
            .collect();
        found.sort();
        names.extend(found.into_iter().rev());
    }
    for name in &names {
        let name = c_text(name)?;
        // SAFETY: a shared library's constructors run; they are RocksDB's.
        let library = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW) };
        if !library.is_null() {
            return Ok(library);
        }
    }
    // SAFETY: the text of the last failure of dlopen.
    let words = unsafe { CStr::from_ptr(libc::dlerror()) }.to_string_lossy().into_owned();
    Err(Failure::host(format!("there is no librocksdb.so here: {words}"))
        .meaning("nothing was started")
        .mend("sudo apt-get install rocksdb-tools, or LD_LIBRARY_PATH=<the directory of your own librocksdb.so>"))
}

fn function(library: Pointer, name: &str) -> Result<Pointer, Failure> {
    let asked = c_text(name)?;
    // SAFETY: an open library, a name that ends with 0.
    let found = unsafe { libc::dlsym(library, asked.as_ptr()) };
    if found.is_null() {
        return Err(Failure::host(format!("the librocksdb.so here has no {name}"))
            .meaning("it is older than RocksDB 7, or not RocksDB")
            .mend("LD_LIBRARY_PATH=<the directory of RocksDB 7 or newer>"));
    }
    Ok(found)
}
