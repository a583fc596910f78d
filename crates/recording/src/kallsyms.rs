//! The text of kallsyms: a line a symbol, of which address, type, name, and for modules `[module]` are printed.

/// A line of a function.
#[derive(Clone, Copy, Debug)]
pub struct Function<'l> {
    pub address: u64,
    /// `T`, `t`, `W` or `w`
    pub kind: u8,
    pub name: &'l [u8],
    /// Empty for the kernel itself.
    pub module: &'l [u8],
}

impl<'l> Function<'l> {
    #[inline]
    fn of(address: u64, kind: u8, rest: &'l [u8]) -> Self {
        let (name, module) = split_module(rest);
        Self { address, kind, name, module }
    }
}

/// Calls `take` with each function, and where its line begins.
#[inline]
pub fn each_function<'t>(text: &'t [u8], mut take: impl FnMut(usize, Function<'t>)) {
    let (mut begin, mut high) = (0, UpperHalf::default());
    for end in memchr::memchr_iter(b'\n', text).chain([text.len()]) {
        let start = std::mem::replace(&mut begin, end + 1);
        if let Some(function) = function(&text[start..end], &mut high) {
            take(start, function);
        }
    }
}

/// The name of the function whose line begins here.
pub fn name_at(text: &[u8], start: usize) -> &[u8] {
    let from = text.get(start..).unwrap_or(&[]);
    let line = &from[..memchr::memchr(b'\n', from).unwrap_or(from.len())];
    function(line, &mut UpperHalf::default()).map_or(b"", |function| function.name)
}

/// The address at which the line that begins here has its symbol.
pub fn address_at(text: &[u8], start: usize) -> u64 {
    let line = text.get(start..).unwrap_or(&[]);
    let address = line.first_chunk().and_then(|digits| UpperHalf::default().sixteen_digits(digits));
    address.or_else(|| number(line).map(|(address, _)| address)).unwrap_or(0)
}

/// The name of a function, and its module if it has one.
#[inline]
fn split_module(rest: &[u8]) -> (&[u8], &[u8]) {
    match rest {
        [.., b']'] => match memchr::memchr2(b'\t', b' ', rest) {
            Some(end) => (&rest[..end], rest[end + 1..].trim_ascii()),
            None => (rest, b""),
        },
        _ => (rest, b""),
    }
}

#[inline]
fn function<'l>(line: &'l [u8], high: &mut UpperHalf) -> Option<Function<'l>> {
    let is_function = |kind: u8| matches!(kind, b'T' | b't' | b'W' | b'w');
    // Addresses have 16 digits on every machine of 64 bits.
    if let Some(([address @ .., b' ', kind, b' '], rest)) = line.split_first_chunk::<19>() {
        if !is_function(*kind) {
            return None;
        }
        if let Some(address) = high.sixteen_digits(address) {
            return Some(Function::of(address, *kind, rest));
        }
    }
    let (address, rest) = number(line)?;
    let [b' ', kind, b' ', rest @ ..] = rest else { return None };
    is_function(*kind).then(|| Function::of(address, *kind, rest))
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
    #[inline]
    fn sixteen_digits(&mut self, digits: &[u8; 16]) -> Option<u64> {
        let (high, low) = (digits.first_chunk::<8>()?, digits.last_chunk::<8>()?);
        if *high != self.digits {
            *self = Self { digits: *high, value: eight_digits(u64::from_be_bytes(*high))? << 32 };
        }
        Some(self.value | eight_digits(u64::from_be_bytes(*low))?)
    }
}

/// Hexadecimal digits, all eight at once.
#[inline]
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
