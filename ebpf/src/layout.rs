//! What a program shares with user space, by the types of its skeleton: structures are read by their size, the
//! constants of enums are known by their names.

use libbpf_rs::{MapCore, MapFlags};

use crate::refusal::OrRefused;
use observer::Failure;

/// A structure of a skeleton, or a number.
///
/// # Safety
/// It is made of numbers alone, so that any bytes are one.
pub unsafe trait Plain: Copy {}

// SAFETY: a number.
unsafe impl Plain for u32 {}
// SAFETY: a number.
unsafe impl Plain for u64 {}
// SAFETY: an array has nothing between its items.
unsafe impl<T: Plain, const N: usize> Plain for [T; N] {}

/// Structures of the skeleton that are made of numbers alone.
macro_rules! plain {
    ($($of:ident),+) => {
        // SAFETY: the program declares them with numbers, and arrays and structures of numbers.
        $(unsafe impl $crate::layout::Plain for skeleton::types::$of {})+
    };
}
pub(crate) use plain;

/// The value in a map's bytes, which the kernel pads to 8 where there is one for each CPU.
pub fn read<T: Plain>(bytes: &[u8]) -> T {
    let size = size_of::<T>();
    assert!((size..size + 8).contains(&bytes.len()), "{size} bytes expected, the map has {}", bytes.len());
    // SAFETY: there are as many bytes as the type has, and any are one.
    unsafe { bytes.as_ptr().cast::<T>().read_unaligned() }
}

/// Every entry of a hash map.
pub fn entries<K: Plain, V: Plain>(map: &impl MapCore) -> Result<Vec<(K, V)>, Failure> {
    let mut found = Vec::new();
    for key in map.keys() {
        if let Some(value) = map.lookup(&key, MapFlags::ANY).or_refused()? {
            found.push((read(&key), read(&value)));
        }
    }
    Ok(found)
}

/// Takes everything out of a hash map.
pub fn clear(map: &impl MapCore) {
    for key in map.keys().collect::<Vec<_>>() {
        // It may be gone already.
        let _ = map.delete(&key);
    }
}

/// The same of a map with a value for each CPU.
pub fn entries_of_cpus<K: Plain, V: Plain>(map: &impl MapCore) -> Result<Vec<(K, Vec<V>)>, Failure> {
    let mut found = Vec::new();
    for key in map.keys() {
        if let Some(values) = map.lookup_percpu(&key, MapFlags::ANY).or_refused()? {
            found.push((read(&key), values.iter().map(|value| read(value)).collect()));
        }
    }
    Ok(found)
}

pub const fn in_lower_case<const N: usize>(name: &str) -> [u8; N] {
    let mut text = *name.as_bytes().first_chunk().unwrap();
    text.make_ascii_lowercase();
    text
}

/// The constants of a skeleton's enum from `first` to before `end`, in lower case, which is what results call them. A
/// list that leaves one out, or is in another order than the program's, does not compile.
macro_rules! names {
    ($of:ident[$first:literal..$end:ident]: $($name:ident)+) => {{
        use skeleton::types::$of;
        const _: () = {
            let mut number = $first;
            $(
                assert!($of::$name.0 == number);
                number += 1;
            )+
            assert!($of::$end.0 == number);
        };
        [$({
            const TEXT: &[u8] = &$crate::layout::in_lower_case::<{ stringify!($name).len() }>(stringify!($name));
            match std::str::from_utf8(TEXT) {
                Ok(name) => name,
                Err(_) => unreachable!(),
            }
        }),+]
    }};
}
pub(crate) use names;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_may_be_padded_to_8_bytes() {
        assert_eq!(read::<u32>(&[1, 0, 0, 0, 9, 9, 9, 9]), u32::from_ne_bytes([1, 0, 0, 0]));
    }

    #[test]
    #[should_panic(expected = "16 bytes expected, the map has 24")]
    fn a_value_of_another_size_is_refused() {
        read::<[u64; 2]>(&[0; 24]);
    }
}
