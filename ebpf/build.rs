//! Compiles each `bpf/NAME.bpf.c` with clang into a skeleton `NAME.skel.rs`, and makes the enum of `states.toml`.

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
            // Instructions of Linux 5.12, whatever a clang's own default is: compare-and-swap is one of them.
            .clang_args([
                "-mcpu=v3",
                "-Wall",
                "-Wextra",
                "-Werror",
                "-Wno-missing-declarations",
                "-Wno-unused-parameter",
            ])
            .build_and_generate(out.join(format!("{stem}.skel.rs")))
            .unwrap_or_else(|error| panic!("{}: {error:?}", source.display()));
    }
    println!("cargo:rerun-if-changed=states.toml");
    let states = fs::read_to_string("states.toml").expect("states.toml is part of the crate");
    fs::write(out.join("states.rs"), states_enum(&states)).expect("OUT_DIR can be written to");
}

/// `enum State` with a variant for each state of the list, in its order.
fn states_enum(list: &str) -> String {
    let table: toml::Table = list.parse().expect("states.toml is TOML");
    let states = table["state"].as_array().expect("a list of states");
    let word = |state: &toml::Value, key: &str| state[key].as_str().expect("words").to_owned();
    let names: Vec<String> = states.iter().map(|state| word(state, "name")).collect();
    let variant = |name: &str| name[..1].to_uppercase() + &name[1..];
    let documented =
        |state| format!("    /// {}\n    {},\n", word(state, "means"), variant(&word(state, "name")));
    let variants: String = states.iter().map(documented).collect();
    let all: String = names.iter().map(|name| format!("State::{}, ", variant(name))).collect();
    let arms: String = names.iter().map(|name| format!("Self::{} => {name:?}, ", variant(name))).collect();
    let count = names.len();
    format!(
        "/// What a thread waited for.\n\
         #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]\npub enum State {{\n{variants}}}\n\
         pub const STATES: [State; {count}] = [{all}];\n\
         impl State {{\n    pub fn name(self) -> &'static str {{ match self {{ {arms} }} }}\n}}\n"
    )
}
