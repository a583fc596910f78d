//! Makes `states.rs` of `ground/results/states.toml`.

use std::path::PathBuf;
use std::{env, fs};

fn main() {
    println!("cargo:rerun-if-changed=../../ground/results/states.toml");
    let list =
        fs::read_to_string("../../ground/results/states.toml").expect("states.toml is with the results");
    let list: toml::Table = list.parse().expect("states.toml is TOML");
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    let code = [off_cpu(&list), sampled(&list), marks(&list)].concat();
    fs::write(out.join("states.rs"), code).expect("OUT_DIR can be written to");
}

/// `[key, key, ...]` of each entry of a list.
fn entries<const N: usize>(list: &toml::Table, name: &str, keys: [&str; N]) -> Vec<[String; N]> {
    let entries = list[name].as_array().expect("a list of tables").iter();
    entries.map(|entry| keys.map(|key| entry[key].as_str().expect("words").to_owned())).collect()
}

/// `enum OffCpu` with a variant for each state, in its order.
fn off_cpu(list: &toml::Table) -> String {
    let states = entries(list, "off_cpu", ["name", "means"]);
    let variant = |name: &str| name[..1].to_uppercase() + &name[1..];
    let each = |line: &dyn Fn(&str, &str) -> String| -> String {
        states.iter().map(|[name, means]| line(name, means)).collect()
    };
    let variants = each(&|name, means| format!("    /// {means}\n    {},\n", variant(name)));
    let all = each(&|name, _| format!("Self::{}, ", variant(name)));
    let arms = each(&|name, _| format!("Self::{} => {name:?}, ", variant(name)));
    let count = states.len();
    format!(
        "/// What a thread waits for while it is off its CPU.\n\
         #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]\npub enum OffCpu {{\n{variants}}}\n\
         impl OffCpu {{\n    /// In the order of tables.\n    pub const ALL: [Self; {count}] = [{all}];\n\
         \n    pub fn name(self) -> &'static str {{ match self {{ {arms} }} }}\n}}\n"
    )
}

fn sampled(list: &toml::Table) -> String {
    let states = entries(list, "sampled", ["letter", "frame"]);
    let rows: String = states.iter().map(|[letter, frame]| format!("(b'{letter}', {frame:?}), ")).collect();
    let count = states.len();
    format!(
        "/// What a sampled thread was about: the letter of /proc, and its leaf frame; the last is any other.\n\
         pub const SAMPLED: [(u8, &str); {count}] = [{rows}];\n"
    )
}

fn marks(list: &toml::Table) -> String {
    let constant =
        |[name, frame]: [String; 2]| format!("pub const {}: &str = {frame:?};\n", name.to_uppercase());
    let marks = entries(list, "mark", ["name", "frame"]);
    let all: String = marks.iter().map(|[_, frame]| format!("{frame:?}, ")).collect();
    let count = marks.len();
    let each: String = marks.into_iter().map(constant).collect();
    format!("{each}/// All of them.\npub const MARKS: [&str; {count}] = [{all}];\n")
}
