//! The kernel's functions and their addresses: for call chains made of text (`/proc/TID/stack`), and for what an
//! address says before it is symbolised (a lock, an interrupt, a tracer's own frame).

use crate::kallsyms::{self, Function};
use perfdata::writer::KernelCode;
use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};

/// Where the kernel lies and what it is.
#[derive(Default)]
pub struct Kernel {
    /// From `_text` to `_etext`; 0 where addresses are hidden.
    text: (u64, u64),
    build_id: Option<Vec<u8>>,
    release: Vec<u8>,
    names: Vec<u8>,
    /// Address, and where in `names` its name is; by address.
    functions: Vec<(u64, u32, u32)>,
    /// By hash of the name: a second copy of the names would only be larger.
    addresses: HashMap<u64, u64>,
    hasher: RandomState,
}

impl Kernel {
    pub fn running() -> Self {
        let notes = std::fs::read("/sys/kernel/notes").unwrap_or_default();
        let release = std::fs::read("/proc/sys/kernel/osrelease").unwrap_or_default();
        let mut kernel = Self {
            build_id: crate::modules::note(&notes, 4),
            release: release.trim_ascii().to_vec(),
            ..Self::default()
        };
        kernel.take(&std::fs::read("/proc/kallsyms").unwrap_or_default());
        kernel
    }

    fn take(&mut self, text: &[u8]) {
        // A hundred thousand lines, of some 45 bytes.
        let lines = text.len() / 40;
        self.addresses.reserve(lines);
        self.functions.reserve(lines);
        self.names.reserve(text.len() / 2);
        // This one is not a function's everywhere.
        if let Some(name) = memchr::memmem::find(text, b" _etext\n") {
            let line = memchr::memrchr(b'\n', &text[..name]).map_or(0, |end| end + 1);
            self.text.1 = kallsyms::address_at(text, line);
        }
        kallsyms::each_function(text, |_, Function { address, name, .. }| {
            if address == 0 {
                return;
            }
            if name == b"_text" {
                self.text.0 = address;
            }
            self.addresses.entry(self.hasher.hash_one(name)).or_insert(address);
            let start = self.names.len() as u32;
            self.names.extend(name);
            self.functions.push((address, start, self.names.len() as u32));
        });
        self.functions.sort_by_key(|&(address, ..)| address);
    }

    pub fn address_of(&self, function: &[u8]) -> Option<u64> {
        self.addresses.get(&self.hasher.hash_one(function)).copied()
    }

    /// The function that begins at or before this address; empty where there is none.
    pub fn name_at(&self, address: u64) -> &[u8] {
        let after = self.functions.partition_point(|&(start, ..)| start <= address);
        let Some(&(start, ..)) = self.functions[..after].last() else { return b"" };
        // Several names may have one address: the first in kallsyms, as the kernel itself prints it.
        let first = self.functions[..after].partition_point(|&(other, ..)| other < start);
        let (_, from, to) = self.functions[first];
        &self.names[from as usize..to as usize]
    }

    /// Whether its functions can be named.
    pub fn known(&self) -> bool {
        self.text.0 != 0 && self.text.0 < self.text.1
    }
}

impl<'a> From<&'a Kernel> for KernelCode<'a> {
    fn from(kernel: &'a Kernel) -> Self {
        Self {
            text: kernel.known().then_some(kernel.text),
            build_id: kernel.build_id.as_deref(),
            release: &kernel.release,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_have_addresses_unless_they_are_hidden() {
        let mut kernel = Kernel::default();
        kernel.take(
            b"ffff000000001000 T _text\nffff000000001100 t f\nffff000000001200 t f\nffff000000001200 t also_f\n\
            ffff000000001210 d data\nffff000000002000 T _etext\nffff000000009000 t g\t[ext4]\nbroken\n",
        );
        let addresses = [&b"f"[..], b"g", b"h"].map(|name| kernel.address_of(name));
        assert_eq!(addresses, [Some(0xffff_0000_0000_1100), Some(0xffff_0000_0000_9000), None]);
        let at = |offset: u64| kernel.name_at(0xffff_0000_0000_0000 + offset);
        assert_eq!([at(0xfff), at(0x11ff), at(0x1220), at(0x9001)], [&b""[..], b"f", b"f", b"g"]);
        assert!(kernel.known());
        let mut hidden = Kernel::default();
        hidden.take(b"0000000000000000 T _text\n0000000000000000 t f\n");
        assert_eq!(hidden.address_of(b"f"), None);
        assert!(!hidden.known());
    }
}
