//! Compiles each `bpf/NAME.bpf.c` with clang into a skeleton `NAME.skel.rs`.

use std::path::{Path, PathBuf};
use std::{env, fs};

use libbpf_cargo::SkeletonBuilder;

fn main() {
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    let folder = Path::new("bpf");
    println!("cargo:rerun-if-changed=bpf");
    for entry in fs::read_dir(folder).expect("bpf/ is part of the crate") {
        let source = entry.expect("a readable folder").path();
        let name = source.file_name().and_then(|n| n.to_str()).unwrap_or_default();
        let Some(stem) = name.strip_suffix(".bpf.c") else { continue };
        SkeletonBuilder::new()
            .source(&source)
            .clang_args(["-Wall", "-Wextra", "-Werror", "-Wno-missing-declarations", "-Wno-unused-parameter"])
            .build_and_generate(out.join(format!("{stem}.skel.rs")))
            .unwrap_or_else(|error| panic!("{}: {error:?}", source.display()));
    }
}
