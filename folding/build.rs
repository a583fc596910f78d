//! The category rules of every engine become part of the program.

include!("../workloads/engines/embed.rs");

fn main() {
    embed_engine_files("categories.toml", "category_rules.rs");
}
