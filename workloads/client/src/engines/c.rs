//! What the C interfaces of LevelDB and RocksDB have in common.

use observer::Failure;
use std::ffi::{CStr, CString, c_char, c_void};
use std::path::Path;

/// An object of an engine.
pub type Pointer = *mut c_void;

/// Frees a text that an engine allocated.
pub type Free = unsafe extern "C" fn(*mut c_void);

/// The failure in an engine's error pointer, which is freed. what: the operation
///
/// # Safety
/// `error` is null or a text of the engine whose `free` this is.
pub unsafe fn checked(what: &str, error: *mut c_char, free: Free) -> Result<(), Failure> {
    // SAFETY: by the caller.
    match unsafe { text(error, free) } {
        None => Ok(()),
        Some(message) => Err(Failure::measurement(format!("{what} failed: {message}"))),
    }
}

/// A text of the engine, which is freed; None for null.
///
/// # Safety
/// As of `checked`.
pub unsafe fn text(text: *mut c_char, free: Free) -> Option<String> {
    if text.is_null() {
        return None;
    }
    // SAFETY: not null, ends with a 0, and is freed once.
    unsafe {
        let message = CStr::from_ptr(text).to_string_lossy().into_owned();
        free(text.cast());
        Some(message)
    }
}

/// Key or value at an iterator's position; `of` is the function that reads either.
///
/// # Safety
/// The iterator is valid, and does not move while the bytes are used.
pub unsafe fn bytes<'a>(
    of: unsafe extern "C" fn(Pointer, *mut usize) -> *const u8,
    iterator: Pointer,
) -> &'a [u8] {
    let mut size = 0;
    // SAFETY: by the caller.
    unsafe { std::slice::from_raw_parts(of(iterator, &raw mut size), size) }
}

/// A text for C. Usage error where it holds a 0 byte.
pub fn c_text(text: &str) -> Result<CString, Failure> {
    CString::new(text).map_err(|_| Failure::usage(format!("{text:?} holds a 0 byte")))
}

pub fn c_path(path: &Path) -> Result<CString, Failure> {
    c_text(&path.to_string_lossy())
}
