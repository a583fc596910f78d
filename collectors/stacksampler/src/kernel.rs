//! Addresses of kernel functions, so that the text of `/proc/TID/stack` becomes the call chain of a recording.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};

/// Where the kernel lies and what it is.
#[derive(Default)]
pub struct Kernel {
    /// From `_text` to `_etext`; 0 where addresses are hidden.
    pub text: (u64, u64),
    pub build_id: Option<Vec<u8>>,
    pub release: Vec<u8>,
    /// By hash of the name: 200,000 names are not worth their bytes.
    functions: HashMap<u64, u64>,
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

    /// Lines of `address type name [module]`.
    fn take(&mut self, kallsyms: &[u8]) {
        for line in kallsyms.split(|&byte| byte == b'\n') {
            let mut fields = line.split(|&byte| byte == b' ' || byte == b'\t');
            let (Some(address), Some(_), Some(name)) = (fields.next(), fields.next(), fields.next()) else {
                continue;
            };
            let address =
                std::str::from_utf8(address).ok().and_then(|text| u64::from_str_radix(text, 16).ok());
            let Some(address) = address.filter(|&address| address != 0) else { continue };
            match name {
                b"_text" => self.text.0 = address,
                b"_etext" => self.text.1 = address,
                _ => {}
            }
            let hash = self.hasher.hash_one(name);
            self.functions.entry(hash).or_insert(address);
        }
    }

    pub fn address_of(&self, function: &[u8]) -> Option<u64> {
        self.functions.get(&self.hasher.hash_one(function)).copied()
    }

    /// Whether its functions can be named.
    pub fn known(&self) -> bool {
        self.text.0 != 0 && self.text.0 < self.text.1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_have_addresses_unless_they_are_hidden() {
        let mut kernel = Kernel::default();
        kernel.take(b"ffff000000001000 T _text\nffff000000001100 t f\nffff000000001200 t f\nffff000000002000 T _etext\n\
            ffff000000009000 t g\t[ext4]\nbroken\n");
        assert_eq!(
            [b"f", b"g", b"h"].map(|name| kernel.address_of(name)),
            [Some(0xffff_0000_0000_1100), Some(0xffff_0000_0000_9000), None]
        );
        assert!(kernel.known());
        let mut hidden = Kernel::default();
        hidden.take(b"0000000000000000 T _text\n0000000000000000 t f\n");
        assert_eq!(hidden.address_of(b"f"), None);
        assert!(!hidden.known());
    }
}
