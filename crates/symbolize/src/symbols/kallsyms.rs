//! The text of kallsyms: a line a symbol, of which a few hundred out of more than a hundred thousand are asked for.
//!
//! The kernel's own functions stay lines, in the order of their addresses; a line is taken apart when it is looked at.

use super::table::{Binding, SymbolTable, TableBuilder};
use crate::addresses::ObjectAddress;
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

    fn line(&self, start: u32) -> &[u8] {
        let from = self.text.get(start as usize..).unwrap_or(&[]);
        &from[..memchr::memchr(b'\n', from).unwrap_or(from.len())]
    }

    fn address(&self, start: u32) -> u64 {
        address_at(&self.text, start)
    }

    fn name(&self, start: u32) -> &[u8] {
        function(self.line(start), &mut UpperHalf::default())
            .map_or(b"", |function| split_module(function.rest).0)
    }
}

fn address_at(text: &[u8], start: u32) -> u64 {
    let line = text.get(start as usize..).unwrap_or(&[]);
    let address = line.first_chunk().and_then(|digits| UpperHalf::default().sixteen_digits(digits));
    address.or_else(|| number(line).map(|(address, _)| address)).unwrap_or(0)
}

/// The lines of kallsyms: address, type, name, and for modules `[module]`. The functions of the kernel itself, and
/// those of each module.
pub fn parse(text: Vec<u8>) -> (Kallsyms, HashMap<Vec<u8>, SymbolTable>) {
    /// Shorter than nearly every line, so that the list need not grow.
    const LINE: usize = 40;
    let mut starts = Vec::with_capacity(text.len() / LINE);
    let mut modules: HashMap<Vec<u8>, TableBuilder> = HashMap::new();
    let mut high = UpperHalf::default();
    let (mut begin, mut last, mut in_order) = (0, 0, true);
    for end in memchr::memchr_iter(b'\n', &text).chain([text.len()]) {
        let start = begin;
        let line = &text[start..end];
        begin = end + 1;
        let Some(FunctionLine { address, kind, rest }) = function(line, &mut high) else { continue };
        let (name, module) = split_module(rest);
        match module {
            b"" => {
                let Ok(start) = u32::try_from(start) else { break };
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
        }
    }
    if !in_order {
        // Stable: lines of one address keep their order.
        starts.sort_by_cached_key(|&start| address_at(&text, start));
    }
    let modules = modules.into_iter().map(|(name, builder)| (name, builder.build())).collect();
    (Kallsyms { text, starts }, modules)
}

/// The name of a function, and its module if it has one.
fn split_module(rest: &[u8]) -> (&[u8], &[u8]) {
    match rest {
        [.., b']'] => match memchr::memchr2(b'\t', b' ', rest) {
            Some(end) => (&rest[..end], rest[end + 1..].trim_ascii()),
            None => (rest, b""),
        },
        _ => (rest, b""),
    }
}

/// A line that is one of a function.
struct FunctionLine<'l> {
    address: u64,
    kind: u8,
    rest: &'l [u8],
}

fn function<'l>(line: &'l [u8], high: &mut UpperHalf) -> Option<FunctionLine<'l>> {
    let is_function = |kind: u8| matches!(kind, b'T' | b't' | b'W' | b'w');
    // Addresses have 16 digits on every machine of 64 bits.
    if let Some(([address @ .., b' ', kind, b' '], rest)) = line.split_first_chunk::<19>() {
        if !is_function(*kind) {
            return None;
        }
        if let Some(address) = high.sixteen_digits(address) {
            return Some(FunctionLine { address, kind: *kind, rest });
        }
    }
    let (address, rest) = number(line)?;
    let [b' ', kind, b' ', rest @ ..] = rest else { return None };
    is_function(*kind).then_some(FunctionLine { address, kind: *kind, rest })
}

/// The upper half of an address, its digits and its value: the same for most lines.
struct UpperHalf {
    digits: [u8; 8],
    value: u64,
}

impl Default for UpperHalf {
    fn default() -> Self {
        Self { digits: *b"00000000", value: 0 }
    }
}

impl UpperHalf {
    fn sixteen_digits(&mut self, digits: &[u8; 16]) -> Option<u64> {
        let (high, low) = (digits.first_chunk::<8>()?, digits.last_chunk::<8>()?);
        if *high != self.digits {
            *self = Self { digits: *high, value: eight_digits(u64::from_be_bytes(*high))? << 32 };
        }
        Some(self.value | eight_digits(u64::from_be_bytes(*low))?)
    }
}

/// Hexadecimal digits, all eight at once.
fn eight_digits(text: u64) -> Option<u64> {
    const EACH: u64 = 0x0101_0101_0101_0101;
    const TOP: u64 = 0x80 * EACH;
    if text & TOP != 0 {
        return None;
    }
    // The top bit of each byte of the sum says whether the byte is at least `least`.
    let at_least = |bytes: u64, least: u8| bytes + u64::from(0x80 - least) * EACH;
    let small = text | (0x20 * EACH);
    let digit = at_least(text, b'0') ^ at_least(text, b'9' + 1);
    let letter = at_least(small, b'a') ^ at_least(small, b'f' + 1);
    if (digit | letter) & TOP != TOP {
        return None;
    }
    let mut value = (text & (0x0f * EACH)) + 9 * (text >> 6 & EACH);
    value = (value | value >> 4) & 0x00ff_00ff_00ff_00ff;
    value = (value | value >> 8) & 0x0000_ffff_0000_ffff;
    Some((value | value >> 16) & 0xffff_ffff)
}

/// The hexadecimal number a line begins with.
pub fn number(line: &[u8]) -> Option<(u64, &[u8])> {
    let mut value = 0_u64;
    for (at, &byte) in line.iter().enumerate() {
        let digit = match byte {
            b'0'..=b'9' => byte - b'0',
            b'a'..=b'f' => byte - b'a' + 10,
            b'A'..=b'F' => byte - b'A' + 10,
            _ => return (at > 0).then_some((value, &line[at..])),
        };
        if at == 16 {
            return None;
        }
        value = value << 4 | u64::from(digit);
    }
    (!line.is_empty()).then_some((value, &[]))
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

    #[test]
    fn addresses_are_hexadecimal() {
        let sixteen_digits = |digits: &[u8; 16]| UpperHalf::default().sixteen_digits(digits);
        assert_eq!(number(b"1fF g"), Some((0x1ff, &b" g"[..])));
        assert_eq!([number(b""), number(b"g"), number(b"00112233445566778 f")], [None; 3]);
        assert_eq!(sixteen_digits(b"ffffFFFF81000030"), Some(0xffff_ffff_8100_0030));
        assert_eq!(sixteen_digits(b"0123456789abcdef"), Some(0x0123_4567_89ab_cdef));
        for byte in 0..=u8::MAX {
            let expected = char::from(byte).to_digit(16).map(|digit| u64::from(digit) << 20);
            let mut digits = *b"0000000000000000";
            digits[10] = byte;
            assert_eq!(sixteen_digits(&digits), expected, "{byte}");
        }
    }
}
