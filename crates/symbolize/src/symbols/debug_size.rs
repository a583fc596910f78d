//! What the debug sections of a file take, and which of them are read.

use object::read::{File, ReadRef};
use object::{Object, ObjectSection};

/// Bytes that the debug sections of a file take when they are read, as it says itself.
pub fn debug_size<'a, R: ReadRef<'a>>(file: &File<'a, R>) -> u64 {
    let size = |section: object::Section<'a, '_, R>| {
        let name = section.name().ok()?;
        // Old ones are called after their compression.
        let is_debug = name.starts_with(".debug_") || name.starts_with(".zdebug_");
        // A package is read with all that it has.
        let left_out = !name.ends_with(".dwo") && is_useless(&name.replacen(".zdebug_", ".debug_", 1));
        (is_debug && !left_out)
            .then(|| section.compressed_file_range().ok().map_or(0, |place| place.uncompressed_size))
    };
    file.sections().filter_map(size).fold(0, u64::saturating_add)
}

/// Names and inlined functions need the rest; these are large, and stay in the file.
pub fn is_useless(name: &str) -> bool {
    const USELESS: [&str; 6] =
        [".debug_line", ".debug_loc", ".debug_loclists", ".debug_macinfo", ".debug_macro", ".debug_names"];
    USELESS.contains(&name.trim_end_matches(".dwo"))
}
