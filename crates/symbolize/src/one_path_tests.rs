//! Files of several identities under one path, and a build id that perf read by the path.

use crate::addresses::FileOffset;
use crate::symbols::{AddressesToName, DeviceInode, SymbolOptions, Symbols, UserMapping, elf};

/// How many names each of these files has, which were mapped under one path, and the notes.
fn named(mut symbols: Symbols, path: &[u8], files: [DeviceInode; 2]) -> ([usize; 2], String) {
    let offsets: Vec<_> = (0..4 << 10).map(|at| FileOffset(at * 4096)).collect();
    let wanted = files.map(|file| {
        let file = Some(file);
        let mapping = UserMapping { path, build_id: None, file, pid: 1, pid_namespace: None };
        AddressesToName { object: symbols.user_object(&mapping).0, offsets: offsets.clone() }
    });
    let found = symbols.name(&wanted, 1);
    ([0, 1].map(|file: usize| found[file].names()), symbols.notes().join("\n"))
}

#[test]
fn the_file_that_lies_there_is_used_whatever_build_id_the_path_has() {
    let path = std::env::current_exe().unwrap();
    let path = path.to_str().unwrap().as_bytes();
    let here = DeviceInode::of_path(path).unwrap();
    let mut symbols = Symbols::new(SymbolOptions { cache: None, ..SymbolOptions::default() });
    // perf 6.12 keeps one for a path: here the one of the other file.
    symbols.add_build_ids([(path.to_vec(), vec![7; 20])]);
    let (names, notes) = named(symbols, path, [here, DeviceInode { inode: here.inode + 1, ..here }]);
    assert!(names[0] > 10, "{notes}");
    assert_eq!(names[1], 1, "the name of what has none");
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
    let have_names = |table: &str| {
        std::fs::write(cache.join("packed-files"), format!("ioflame-files 1\n{table}")).unwrap();
        let mut symbols = Symbols::new(SymbolOptions::default().with_copies(Some(symfs.clone())));
        // perf read one by the path: of which of them is not known.
        symbols.add_build_ids([(path.to_vec(), vec![8; 20])]);
        let (names, notes) = named(symbols, path, [there, here]);
        (names.map(|count| count > 10), notes)
    };
    let line = |build_id: &str| format!("254:0 1314 {build_id} {}\n", place.display());
    let (found, notes) = have_names(&line(&elf::hex(&build_id)));
    assert_eq!(found, [true, false], "{notes}");
    assert!(notes.contains("/program: not used for one of the files"), "{notes}");
    // It had no build id: no file of this machine is it.
    let (found, notes) = have_names(&line("-"));
    assert_eq!(found, [false, false], "{notes}");
    // Nothing lay there when the run was packed.
    let (found, notes) = have_names("");
    assert_eq!(found, [false, false], "{notes}");
    // A table that cannot be read is named, and this machine's files are not taken in its place.
    let (found, notes) = have_names("254:0 1314");
    assert_eq!(found, [false, false]);
    assert!(notes.contains("packed-files: not used, its last line is cut short"), "{notes}");
    std::fs::remove_dir_all(&symfs).unwrap();
}
