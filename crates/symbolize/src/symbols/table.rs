//! Symbols by address.

use crate::addresses::ObjectAddress;
use crate::budget::BudgetShare;
use std::ops::Range;

/// Which of several symbols at one address is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Binding {
    pub weak: bool,
    pub global: bool,
}

#[derive(Clone, Copy, Debug)]
struct SymbolEntry {
    start: u64,
    end: u64,
    name: usize,
    /// How long the name is; [`TO_ZERO`]: it ends before a zero byte.
    len: u32,
    binding: Binding,
}

const TO_ZERO: u32 = u32::MAX;

/// Collects symbols in any order. Their names stay in the text they were found in.
#[derive(Default)]
pub struct TableBuilder {
    entries: Vec<SymbolEntry>,
    text: Vec<u8>,
}

/// Symbols in the order of their addresses.
#[derive(Default)]
pub struct SymbolTable {
    entries: Vec<SymbolEntry>,
    text: Vec<u8>,
    /// What it takes of the budget.
    pub shares: Vec<BudgetShare>,
}

/// How many symbols may begin inside another one before it is no longer found.
const NESTED: usize = 16;
const PAGE: u64 = 4096;

impl TableBuilder {
    /// Symbols whose names lie in this text.
    pub fn of_text(text: Vec<u8>) -> Self {
        Self { entries: Vec::new(), text }
    }

    /// Bytes that so many symbols take.
    pub fn size(symbols: usize) -> u64 {
        (symbols as u64).saturating_mul(size_of::<SymbolEntry>() as u64)
    }

    pub fn text(&self) -> &[u8] {
        &self.text
    }

    /// Adds a symbol; without a size it reaches to the next one.
    pub fn push(&mut self, start: u64, size: u64, name: &[u8], binding: Binding) {
        let (at, len) = (self.text.len(), u32::try_from(name.len()).unwrap_or(0));
        self.text.extend_from_slice(name);
        let end = start.saturating_add(size);
        self.entries.push(SymbolEntry { start, end, name: at, len, binding });
    }

    /// Adds a symbol whose name begins here in the text and ends before a zero byte.
    pub fn push_to_zero(&mut self, start: u64, size: u64, name: usize, binding: Binding) {
        let end = start.saturating_add(size);
        self.entries.push(SymbolEntry { start, end, name, len: TO_ZERO, binding });
    }

    /// Adds the symbols of another table of the same file.
    pub fn absorb(&mut self, other: &Self) {
        // Ends the last name, should its file not do so.
        self.text.push(0);
        let moved = self.text.len();
        self.text.extend_from_slice(&other.text);
        self.entries
            .extend(other.entries.iter().map(|entry| SymbolEntry { name: entry.name + moved, ..*entry }));
    }

    /// Calls `take` with each symbol's name and addresses.
    pub fn each(&self, mut take: impl FnMut(&[u8], Range<u64>)) {
        self.entries.iter().for_each(|entry| take(name_in(&self.text, entry), entry.start..entry.end));
    }

    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    pub fn build(self) -> SymbolTable {
        let Self { mut entries, text } = self;
        // Stable: of equal symbols the first one in the file is shown.
        if !entries.is_sorted_by_key(|entry| entry.start) {
            entries.sort_by_key(|entry| entry.start);
        }
        drop_labels_inside(&mut entries);
        for index in 0..entries.len() {
            let next = entries.get(index + 1).map(|next| next.start);
            let entry = &mut entries[index];
            if entry.end == entry.start {
                entry.end = next.unwrap_or((entry.start / PAGE + 2).saturating_mul(PAGE));
            }
        }
        SymbolTable { entries, text, shares: Vec::new() }
    }
}

/// Removes local symbols without a size that lie inside one with a size: labels of hand-written assembly, such as glibc
/// 2.41's `__syscall_cancel_arch_end`, which is where the system call returns to. Global ones are names of their own
/// (`entry_SYSCALL_64_after_hwframe`). `entries` are in the order of their starts.
fn drop_labels_inside(entries: &mut Vec<SymbolEntry>) {
    let mut sized_until = 0;
    entries.retain(|entry| {
        sized_until = sized_until.max(entry.end);
        let label = entry.end == entry.start && !entry.binding.global && !entry.binding.weak;
        // A label where a sized symbol ends is not inside it; one where a sized symbol starts makes no difference to
        // `find`.
        !label || entry.start >= sized_until
    });
}

impl SymbolTable {
    pub fn find(&self, address: ObjectAddress) -> Option<&[u8]> {
        let ObjectAddress(address) = address;
        let after = self.entries.partition_point(|entry| entry.start <= address);
        // The symbols of one address count as one, the best of them.
        let mut places = self.entries[..after].chunk_by(|a, b| a.start == b.start).rev().take(NESTED);
        let best = |place: &[SymbolEntry]| {
            place.iter().copied().reduce(|best, entry| if self.better(&entry, &best) { entry } else { best })
        };
        let found = places.find_map(|place| best(place).filter(|best| address < best.end))?;
        Some(self.name(&found))
    }

    /// The address of a symbol, searched by name.
    pub fn address_of(&self, name: &[u8]) -> Option<ObjectAddress> {
        let entry = self.entries.iter().find(|entry| self.name(entry) == name)?;
        Some(ObjectAddress(entry.start))
    }

    fn name(&self, entry: &SymbolEntry) -> &[u8] {
        name_in(&self.text, entry)
    }

    /// Whether `new` is the better name of an address than `old`, which came first: with a size, not weak,
    /// global, fewer underscores in front, longer.
    fn better(&self, new: &SymbolEntry, old: &SymbolEntry) -> bool {
        let underscores = |name: &[u8]| name.iter().take_while(|&&byte| byte == b'_').count();
        let key = |entry: &SymbolEntry| {
            let name = self.name(entry);
            (
                entry.end > entry.start,
                !entry.binding.weak,
                entry.binding.global,
                std::cmp::Reverse(underscores(name)),
                name.len(),
            )
        };
        key(new) > key(old)
    }
}

fn name_in<'t>(text: &'t [u8], entry: &SymbolEntry) -> &'t [u8] {
    let from = text.get(entry.name..).unwrap_or(&[]);
    match entry.len {
        TO_ZERO => &from[..memchr::memchr(0, from).unwrap_or(from.len())],
        len => from.get(..len as usize).unwrap_or(&[]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GLOBAL: Binding = Binding { weak: false, global: true };
    const WEAK: Binding = Binding { weak: true, global: true };
    const LOCAL: Binding = Binding { weak: false, global: false };

    fn text_at(table: &SymbolTable, address: u64) -> Option<String> {
        table.find(ObjectAddress(address)).map(|name| String::from_utf8_lossy(name).into_owned())
    }

    #[test]
    fn sizes_end_symbols_and_gaps_belong_to_nobody() {
        let mut builder = TableBuilder::default();
        builder.push(0x30, 0, b"label", GLOBAL);
        builder.push(0x10, 8, b"f", GLOBAL);
        builder.push(0x40, 0x20, b"outer", GLOBAL);
        builder.push(0x48, 4, b"inner", GLOBAL);
        let table = builder.build();
        let find = |address| text_at(&table, address);
        assert_eq!(find(0xf), None);
        assert_eq!(find(0x17).as_deref(), Some("f"));
        assert_eq!(find(0x18), None);
        assert_eq!(find(0x3f).as_deref(), Some("label"));
        assert_eq!(find(0x4b).as_deref(), Some("inner"));
        assert_eq!(find(0x4c).as_deref(), Some("outer"));
        assert_eq!(find(0x60), None);
    }

    #[test]
    fn local_labels_inside_a_function_are_no_functions() {
        let mut builder = TableBuilder::default();
        builder.push(0x10, 0x20, b"__syscall_cancel_arch", GLOBAL);
        builder.push(0x18, 0, b"__syscall_cancel_arch_end", LOCAL);
        builder.push(0x20, 0, b"after_hwframe", GLOBAL);
        builder.push(0x30, 0, b"behind", LOCAL);
        let table = builder.build();
        let find = |address| text_at(&table, address);
        assert_eq!(find(0x18).as_deref(), Some("__syscall_cancel_arch"));
        assert_eq!(find(0x24).as_deref(), Some("after_hwframe"));
        assert_eq!(find(0x34).as_deref(), Some("behind"));
    }

    #[test]
    fn one_name_for_each_address() {
        let mut builder = TableBuilder::default();
        for (name, binding) in [("__write", GLOBAL), ("write", WEAK), ("__libc_write", GLOBAL)] {
            builder.push(0x10, 8, name.as_bytes(), binding);
        }
        assert_eq!(builder.build().find(ObjectAddress(0x10)), Some(&b"__libc_write"[..]));
    }
}
