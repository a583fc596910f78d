//! Compiles each `bpf/NAME.bpf.c` with clang into a skeleton `NAME.skel.rs`, with the numbers of the states in `states.h`.

use libbpf_cargo::SkeletonBuilder;
use observer::states::OffCpu;

include!("../workloads/engines/embed.rs");

fn main() {
    embed_engine_files("symbols.toml", "symbol_rules.rs");
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    fs::write(out.join("states.h"), states_header()).expect("OUT_DIR can be written to");
    let include = format!("-I{}", out.display());
    let folder = Path::new("bpf");
    println!("cargo:rerun-if-changed=bpf");
    for entry in fs::read_dir(folder).expect("bpf/ is part of the crate") {
        let source = entry.expect("a readable folder").path();
        let name = source.file_name().and_then(|n| n.to_str()).unwrap_or_default();
        let Some(stem) = name.strip_suffix(".bpf.c") else { continue };
        SkeletonBuilder::new()
            .source(&source)
            // Instructions of Linux 5.12, whatever a clang's own default is: compare-and-swap is one of them.
            .clang_args([
                &include,
                "-mcpu=v3",
                "-Wall",
                "-Wextra",
                "-Werror",
                "-Wno-missing-declarations",
                "-Wno-unused-parameter",
            ])
            .obj(out.join(format!("{stem}.bpf.o")))
            .reference_obj(true)
            .build_and_generate(out.join(format!("{stem}.skel.rs")))
            .unwrap_or_else(|error| panic!("{}: {error:?}", source.display()));
    }
}

/// `enum state`: the numbers of `observer::states::OffCpu`, in capitals. The programs know one more (`BEFORE`).
fn states_header() -> String {
    let names: String =
        OffCpu::ALL.iter().map(|state| format!("\t{},\n", state.name().to_uppercase())).collect();
    format!("#pragma once\n\nenum state {{\n{names}\tSTATES,\n}};\n")
}
