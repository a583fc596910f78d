//! What is said of a thread beside its frames: states and marks, made of `ground/results/states.toml`.

include!(concat!(env!("OUT_DIR"), "/states.rs"));
