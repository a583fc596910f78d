// For build scripts, which include it: a data file of every engine, to be part of a program.

use std::path::{Path, PathBuf};
use std::{env, fs};

include!("../../folding/src/categories/rule_files.rs");

/// Writes `list` into OUT_DIR: `&[(name, text)]` of `workloads/engines/NAME/<file>`, in the order of the names. The
/// text holds the further views beside the file as well.
///
/// A change of a file is seen by cargo, a new folder by `make setup`, which touches the build script then: a watch on
/// the directory would build the program anew whenever Python writes its `__pycache__` there.
fn embed_engine_files(file: &str, list: &str) {
    println!("cargo:rerun-if-changed=build.rs");
    let engines = Path::new(env!("CARGO_MANIFEST_DIR")).join("../workloads/engines");
    let mut entries: Vec<String> = fs::read_dir(&engines)
        .unwrap_or_else(|error| panic!("{}: {error}", engines.display()))
        .map(|entry| entry.expect("a readable folder"))
        .filter(|entry| entry.path().join(file).exists())
        .map(|entry| {
            let texts = rule_files(&entry.path().join(file)).into_iter();
            let texts: String = texts.map(|path| format!("include_str!({path:?}), \"\\n\", ")).collect();
            format!("({:?}, concat!({texts})),\n", entry.file_name())
        })
        .collect();
    entries.sort();
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    fs::write(out.join(list), format!("&[\n{}]\n", entries.concat())).expect("OUT_DIR can be written to");
}
