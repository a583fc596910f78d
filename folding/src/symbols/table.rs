//! Symbols by address.

/// Which of several symbols at one address is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Binding {
    pub weak: bool,
    pub global: bool,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    start: u64,
    end: u64,
    name: usize,
    len: u32,
    binding: Binding,
}

/// Collects symbols in any order.
#[derive(Default)]
pub struct Builder {
    entries: Vec<Entry>,
    names: Vec<u8>,
}

/// Symbols in the order of their addresses, one at each.
#[derive(Default)]
pub struct Table {
    entries: Vec<Entry>,
    names: Vec<u8>,
}

/// How many symbols may begin inside another one before it is no longer found.
const NESTED: usize = 16;
const PAGE: u64 = 4096;

impl Builder {
    /// Adds a symbol; without a size it reaches to the next one.
    pub fn push(&mut self, start: u64, size: u64, name: &[u8], binding: Binding) {
        let entry = Entry {
            start,
            end: start.saturating_add(size),
            name: self.names.len(),
            len: name.len() as u32,
            binding,
        };
        self.names.extend_from_slice(name);
        self.entries.push(entry);
    }

    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    pub fn build(self) -> Table {
        let Self { mut entries, names } = self;
        entries.sort_by_key(|entry| entry.start);
        for index in 0..entries.len() {
            let next = entries.get(index + 1).map(|next| next.start);
            let entry = &mut entries[index];
            if entry.end == entry.start {
                entry.end = next.unwrap_or((entry.start / PAGE + 2).saturating_mul(PAGE));
            }
        }
        entries.dedup_by(|entry, last| {
            let same = entry.start == last.start;
            if same && better(entry, last, &names) {
                *last = *entry;
            }
            same
        });
        Table { entries, names }
    }
}

impl Table {
    pub fn find(&self, address: u64) -> Option<&[u8]> {
        let after = self.entries.partition_point(|entry| entry.start <= address);
        let covers = |entry: &&Entry| address < entry.end;
        self.entries[..after].iter().rev().take(NESTED).find(covers).map(|entry| self.name(entry))
    }

    /// The address of a symbol, searched by name.
    pub fn address_of(&self, name: &[u8]) -> Option<u64> {
        self.entries.iter().find(|entry| self.name(entry) == name).map(|entry| entry.start)
    }

    pub fn len(&self) -> usize {
        self.entries.len()
    }

    fn name(&self, entry: &Entry) -> &[u8] {
        name_of(entry, &self.names)
    }
}

fn name_of<'a>(entry: &Entry, names: &'a [u8]) -> &'a [u8] {
    &names[entry.name..entry.name + entry.len as usize]
}

/// Whether `new` is the better name of an address than `old`, which came first: with a size, not weak,
/// global, fewer underscores in front, longer.
fn better(new: &Entry, old: &Entry, names: &[u8]) -> bool {
    let (new_name, old_name) = (name_of(new, names), name_of(old, names));
    let underscores = |name: &[u8]| name.iter().take_while(|&&byte| byte == b'_').count();
    let key = |entry: &Entry, name: &[u8]| {
        (
            entry.end > entry.start,
            !entry.binding.weak,
            entry.binding.global,
            std::cmp::Reverse(underscores(name)),
            name.len(),
        )
    };
    key(new, new_name) > key(old, old_name)
}

#[cfg(test)]
mod tests {
    use super::*;

    const GLOBAL: Binding = Binding { weak: false, global: true };
    const WEAK: Binding = Binding { weak: true, global: true };

    #[test]
    fn sizes_end_symbols_and_gaps_belong_to_nobody() {
        let mut builder = Builder::default();
        builder.push(0x30, 0, b"label", GLOBAL);
        builder.push(0x10, 8, b"f", GLOBAL);
        builder.push(0x40, 0x20, b"outer", GLOBAL);
        builder.push(0x48, 4, b"inner", GLOBAL);
        let table = builder.build();
        let find = |address| table.find(address).map(|name| String::from_utf8_lossy(name).into_owned());
        assert_eq!(find(0xf), None);
        assert_eq!(find(0x17).as_deref(), Some("f"));
        assert_eq!(find(0x18), None);
        assert_eq!(find(0x3f).as_deref(), Some("label"));
        assert_eq!(find(0x4b).as_deref(), Some("inner"));
        assert_eq!(find(0x4c).as_deref(), Some("outer"));
        assert_eq!(find(0x60), None);
    }

    #[test]
    fn one_name_for_each_address() {
        let mut builder = Builder::default();
        for (name, binding) in [("__write", GLOBAL), ("write", WEAK), ("__libc_write", GLOBAL)] {
            builder.push(0x10, 8, name.as_bytes(), binding);
        }
        assert_eq!(builder.build().find(0x10), Some(&b"__libc_write"[..]));
    }
}
