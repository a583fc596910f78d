//! The text of kallsyms: a line a symbol, of which a few hundred out of more than a hundred thousand are asked for.
//!
//! The kernel's own functions stay lines, in the order of their addresses; a line is taken apart when it is looked at.

use super::table::{Binding, SymbolTable, TableBuilder};
use crate::addresses::ObjectAddress;
use recording::kallsyms::{self, Function};
use std::collections::HashMap;

/// The functions of the kernel without its modules, which the kernel prints without sizes: each reaches to the next.
#[derive(Default)]
pub struct Kallsyms {
    text: Vec<u8>,
    /// Where each line begins, in the order of the addresses.
    starts: Vec<u32>,
}

impl Kallsyms {
    /// The function that holds an address; of several at one place the one that was printed last.
    pub fn find(&self, address: ObjectAddress) -> Option<&[u8]> {
        let ObjectAddress(address) = address;
        const PAGE: u64 = 4096;
        let after = self.starts.partition_point(|&start| self.address(start) <= address);
        let start = *self.starts[..after].last()?;
        // The file does not say where the last one ends.
        let end = (self.address(start) / PAGE + 2).saturating_mul(PAGE);
        (after < self.starts.len() || address < end).then(|| self.name(start))
    }

    /// The address of a function, searched by name.
    pub fn address_of(&self, name: &[u8]) -> Option<ObjectAddress> {
        let start = self.starts.iter().find(|&&start| self.name(start) == name)?;
        Some(ObjectAddress(self.address(*start)))
    }

    fn address(&self, start: u32) -> u64 {
        kallsyms::address_at(&self.text, start as usize)
    }

    fn name(&self, start: u32) -> &[u8] {
        kallsyms::name_at(&self.text, start as usize)
    }
}

/// The functions of the kernel itself, and those of each module.
pub fn parse(text: Vec<u8>) -> (Kallsyms, HashMap<Vec<u8>, SymbolTable>) {
    /// Shorter than nearly every line, so that the list need not grow.
    const LINE: usize = 40;
    let mut starts = Vec::with_capacity(text.len() / LINE);
    let mut modules: HashMap<Vec<u8>, TableBuilder> = HashMap::new();
    let (mut last, mut in_order) = (0, true);
    kallsyms::each_function(&text, |start, Function { address, kind, name, module }| match module {
        b"" => {
            let Ok(start) = u32::try_from(start) else { return };
            in_order &= last <= address;
            last = address;
            starts.push(start);
        }
        b"[bpf]" | b"[__builtin__kprobes]" | b"[__builtin__ftrace]" => {}
        _ => {
            let weak = kind.eq_ignore_ascii_case(&b'W');
            let binding = Binding { weak, global: kind.is_ascii_uppercase() && !weak };
            modules.entry(module.to_vec()).or_default().push(address, 0, name, binding);
        }
    });
    if !in_order {
        // Stable: lines of one address keep their order.
        starts.sort_by_cached_key(|&start| kallsyms::address_at(&text, start as usize));
    }
    let modules = modules.into_iter().map(|(name, builder)| (name, builder.build())).collect();
    (Kallsyms { text, starts }, modules)
}

#[cfg(test)]
mod tests {
    use super::*;

    const KALLSYMS: &[u8] = b"ffffffff81000000 T _stext\nffffffff81000000 T _text\n\
        ffffffff81000010 t inner\nffffffff81000020 D data\nffffffff81000030 T last\n\
        ffffffffc0000000 t mod_f\t[ext4]\nffffffffc1000000 t bpf_prog_x\t[bpf]\n";

    fn name(core: &Kallsyms, address: u64) -> Option<String> {
        core.find(ObjectAddress(address)).map(|name| String::from_utf8_lossy(name).into_owned())
    }

    #[test]
    fn functions_modules_and_no_sizes() {
        let (core, modules) = parse(KALLSYMS.to_vec());
        assert_eq!(name(&core, 0xffff_ffff_80ff_ffff), None);
        assert_eq!(name(&core, 0xffff_ffff_8100_0001).as_deref(), Some("_text"));
        assert_eq!(name(&core, 0xffff_ffff_8100_002f).as_deref(), Some("inner"));
        assert_eq!(name(&core, 0xffff_ffff_8100_1fff).as_deref(), Some("last"));
        assert_eq!(name(&core, 0xffff_ffff_8100_2000), None);
        assert_eq!(core.address_of(b"inner"), Some(ObjectAddress(0xffff_ffff_8100_0010)));
        assert_eq!(modules[&b"[ext4]"[..]].find(ObjectAddress(0xffff_ffff_c000_0001)), Some(&b"mod_f"[..]));
    }

    #[test]
    fn lines_in_another_order_are_put_in_order() {
        let (core, _) = parse(b"30 T c\n0000000000000010 t a\n20 T b\n20 T b2\n25 D data".to_vec());
        let names = [0x10, 0x2f, 0x30].map(|address| name(&core, address));
        assert_eq!(names, ["a", "b2", "c"].map(|name| Some(name.to_owned())));
        assert_eq!(name(&core, 0xf), None);
    }
}
