//! Self weights by symbol: what is compared of each side.

use crate::names::{cut_arguments, cut_version, escape, split_mark};
use crate::profile::Profile;
use std::collections::BTreeMap;

/// Addresses without a symbol, all of them: perf report prints each, a fold their file.
pub const NAMELESS: &str = "[no symbol]";

/// What of a recording is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Detail {
    /// Self weight by symbol. perf report reads the symbols of all files for it: a second of CPU, and more.
    Symbols,
    /// Weight and lost samples of each event.
    Totals,
}

/// Self weight by symbol of one event.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Account {
    pub total: u128,
    pub symbols: BTreeMap<String, u128>,
}

impl Account {
    pub fn of(profile: &Profile) -> Self {
        let mut account = Self::default();
        for stack in 0..profile.stacks() as u32 {
            let chain = profile.chain(stack);
            // A sample without frames is its command alone, and has no symbol.
            let leaf = if chain.len() > 1 { profile.name(chain[chain.len() - 1]) } else { b"[no frames]" };
            account.add(leaf, profile.tally(stack).weight);
        }
        account
    }

    pub fn add(&mut self, symbol: &[u8], weight: u128) {
        self.total += weight;
        *self.symbols.entry(comparable(symbol)).or_default() += weight;
    }

    pub fn absorb(&mut self, other: Self) {
        self.total += other.total;
        for (symbol, weight) in other.symbols {
            *self.symbols.entry(symbol).or_default() += weight;
        }
    }
}

/// A name without what only one side prints; addresses without a symbol are one row.
fn comparable(name: &[u8]) -> String {
    let (name, _) = split_mark(name);
    let is_address = name.strip_prefix(b"0x").is_some_and(|rest| rest.iter().all(u8::is_ascii_hexdigit));
    if is_address || name.is_empty() || name.starts_with(b"[") {
        return NAMELESS.to_owned();
    }
    let mut name = cut_arguments(cut_version(name));
    escape(&mut name);
    for byte in &mut name {
        if *byte == b'|' {
            *byte = b'.';
        }
    }
    String::from_utf8_lossy(&name).trim_end().to_owned()
}
