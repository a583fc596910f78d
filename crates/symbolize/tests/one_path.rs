//! Files of several identities under one path, and a build id that perf read by the path.

use std::os::unix::fs::MetadataExt;
use symbolize::addresses::FileOffset;
use symbolize::symbols::{AddressesToName, DeviceInode, SymbolOptions, Symbols, UserMapping};

#[test]
fn the_file_that_lies_there_is_used_whatever_build_id_the_path_has() {
    let path = std::env::current_exe().unwrap();
    let here = std::fs::metadata(&path).unwrap();
    let path = path.to_str().unwrap().as_bytes();
    let file = |inode| DeviceInode::of_path(path).map(|file| DeviceInode { inode, ..file });
    let mut symbols = Symbols::new(SymbolOptions { cache: None, ..SymbolOptions::default() });
    // perf 6.12 keeps one for a path: here the one of the other file.
    symbols.add_build_ids([(path.to_vec(), vec![7; 20])]);
    let mut object = |inode| {
        let mapping = UserMapping { path, build_id: None, file: file(inode), pid: 1, pid_namespace: None };
        symbols.user_object(&mapping).0
    };
    let (this, other) = (object(here.ino()), object(here.ino() + 1));
    let offsets: Vec<_> = (0..64 << 10).map(|at| FileOffset(at * 256)).collect();
    let wanted = [this, other].map(|object| AddressesToName { object, offsets: offsets.clone() });
    let named = symbols.name(&wanted, 1);
    assert!(named[0].names() > 10, "{:?}", symbols.notes());
    assert_eq!(named[1].names(), 1, "nothing but no name");
}
