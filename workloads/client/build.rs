//! Links the engines whose static libraries are here; the client says of the others what installs them.
//!
//! Static, because the shared ones keep most of their names to themselves. RocksDB is opened when it is ask_compiler for.

use std::path::Path;
use std::process::Command;
use std::{env, fs};

/// The cfg of an engine, its own library, and what that needs.
const ENGINES: [(&str, &str, &[&str]); 2] =
    [("leveldb", "libleveldb.a", &["libsnappy.a"]), ("lmdb", "liblmdb.a", &[])];

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-env-changed=LIBRARY_PATH");
    for (engine, library, needed) in ENGINES {
        println!("cargo:rustc-check-cfg=cfg({engine})");
        let Some(own) = library_path(library) else { continue };
        println!("cargo:rustc-cfg={engine}");
        link(&own);
        needed.iter().filter_map(|name| library_path(name)).for_each(|path| link(&path));
    }
    if library_path("libleveldb.a").is_some() {
        if env::var_os("CARGO_FEATURE_STATIC").is_some() {
            link_standard_library();
        } else {
            println!("cargo:rustc-link-lib=dylib=stdc++");
        }
    }
}

/// The C++ library that LevelDB was compiled for. Under another name: zig puts its own, which has other symbols, in
/// place of every `stdc++`.
fn link_standard_library() {
    let own = library_path("libstdc++.a")
        .expect("libstdc++.a, which libstdc++-12-dev brings (or that of another version)");
    let out = env::var("OUT_DIR").expect("cargo sets OUT_DIR");
    let copy = Path::new(&out).join("libgnustdc++.a");
    fs::copy(own, &copy).expect("OUT_DIR can be written to");
    link(&copy.display().to_string());
}

/// Where the compiler finds a library, LIBRARY_PATH included. A missing one is named as a file to
/// watch, so that cargo runs this again once a package has installed it.
fn library_path(library: &str) -> Option<String> {
    let compiler = env::var("CC").unwrap_or_else(|_| "cc".to_owned());
    let ask_compiler = |name: &str| {
        let output = Command::new(&compiler).arg(format!("-print-file-name={name}")).output().ok()?;
        let path = String::from_utf8(output.stdout).ok()?.trim().to_owned();
        fs::canonicalize(path).ok().filter(|path| path.is_absolute())
    };
    let Some(path) = ask_compiler(library) else {
        let folder =
            ask_compiler("libc.so.6").and_then(|path| Some(path.parent()?.to_owned())).unwrap_or_default();
        println!("cargo:rerun-if-changed={}", folder.join(library).display());
        return None;
    };
    println!("cargo:rerun-if-changed={}", path.display());
    Some(path.display().to_string())
}

fn link(archive: &str) {
    let path = Path::new(archive);
    let name = path.file_stem().and_then(|stem| stem.to_str()).and_then(|stem| stem.strip_prefix("lib"));
    if let (Some(folder), Some(name)) = (path.parent(), name) {
        println!("cargo:rustc-link-search=native={}", folder.display());
        println!("cargo:rustc-link-lib=static={name}");
    }
}
