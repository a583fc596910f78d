//! Files of several identities under one path, and a build id that perf read by the path.

use crate::addresses::FileOffset;
use crate::symbols::{AddressesToName, DeviceInode, SymbolOptions, Symbols, UserMapping, elf};
use std::os::unix::fs::MetadataExt;

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
    let offsets: Vec<_> = (0..4 << 10).map(|at| FileOffset(at * 4096)).collect();
    let wanted = [this, other].map(|object| AddressesToName { object, offsets: offsets.clone() });
    let named = symbols.name(&wanted, 1);
    assert!(named[0].names() > 10, "{:?}", symbols.notes());
    assert_eq!(named[1].names(), 1, "the name of what has none");
}

/// What lay at the path of a packed run's machine is named, and not what lies there on the one that it is analysed on.
#[test]
fn of_a_packed_run_the_same_file_is_used_as_where_it_was_packed() {
    let program = std::fs::read(std::env::current_exe().unwrap()).unwrap();
    let build_id = elf::Elf::of_bytes(&program).unwrap().build_id.unwrap();
    let symfs = std::env::temp_dir().join(format!("packed-{}", std::process::id()));
    let cache = symfs.join(".debug");
    let kept = elf::build_id_path(&cache, &build_id).unwrap();
    std::fs::create_dir_all(&kept).unwrap();
    std::fs::write(kept.join("elf"), &program).unwrap();
    // At the path lies another build.
    let at = program.windows(build_id.len()).position(|bytes| bytes == build_id).unwrap();
    let other = [&program[..at], &vec![7; build_id.len()], &program[at + build_id.len()..]].concat();
    let place = symfs.join("program");
    std::fs::write(&place, other).unwrap();
    let path = place.to_str().unwrap().as_bytes();
    let (there, here) =
        (DeviceInode { major: 254, minor: 0, inode: 1314 }, DeviceInode::of_path(path).unwrap());
    let names = |table: &str, mapped: &[DeviceInode]| {
        std::fs::write(cache.join("packed-files"), format!("ioflame-files 1\n{table}")).unwrap();
        let mut symbols = Symbols::new(SymbolOptions::default().with_copies(Some(symfs.clone())));
        // perf read one by the path: of which of them is not known.
        symbols.add_build_ids([(path.to_vec(), vec![8; 20])]);
        let objects: Vec<_> = mapped
            .iter()
            .map(|&file| {
                let file = Some(file);
                symbols
                    .user_object(&UserMapping { path, build_id: None, file, pid: 1, pid_namespace: None })
                    .0
            })
            .collect();
        let offsets: Vec<_> = (0..4 << 10).map(|at| FileOffset(at * 4096)).collect();
        let wanted: Vec<_> =
            objects.iter().map(|&object| AddressesToName { object, offsets: offsets.clone() }).collect();
        let named = symbols.name(&wanted, 1);
        (named.iter().map(|one| one.names() > 10).collect::<Vec<_>>(), symbols.notes().join("\n"))
    };
    let line = |build_id: &str| format!("254:0 1314 {build_id} {}\n", place.display());
    let (named, notes) = names(&line(&elf::hex(&build_id)), &[there, here]);
    assert_eq!(named, [true, false], "{notes}");
    assert!(notes.contains("/program: not used for one of the files"), "{notes}");
    // It had no build id: no file of this machine is it.
    let (named, notes) = names(&line("-"), &[there, here]);
    assert_eq!(named, [false, false], "{notes}");
    // Nothing lay there when the run was packed.
    let (named, notes) = names("", &[there, here]);
    assert_eq!(named, [false, false], "{notes}");
    // A table that cannot be read is named, and this machine's files are not taken in its place.
    let (named, notes) = names("254:0 1314", &[there, here]);
    assert_eq!(named, [false, false]);
    assert!(notes.contains("packed-files: not used, its last line is cut short"), "{notes}");
    std::fs::remove_dir_all(&symfs).unwrap();
}
