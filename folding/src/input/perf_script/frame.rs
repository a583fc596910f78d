//! One frame of a call chain: `ffffffff8158e3e1 next_uptodate_folio+0xc1 ([kernel.kallsyms])`, behind a tab.
//!
//! Any part may be missing (`-F ip,sym`, `-F -symoff`), the object may hold blanks and brackets, inlined
//! frames have no object, and the symbol may be almost anything.

use crate::collector::RawFrame;
use crate::names::cut_offset;
use memchr::{memchr2, memmem};

/// Digits of the widest address.
const ADDRESS: usize = 16;

/// The frame on a line of its own. Every line is some frame: what cannot be split is its symbol.
pub fn parse(line: &[u8]) -> RawFrame<'_> {
    let text = line.trim_ascii();
    let indent = line.len() - line.trim_ascii_start().len();
    let first = first_word(text);
    let rest = text[first.len()..].trim_ascii_start();
    // perf prints the address 16 wide; without that width `add (/bin/x)` is a symbol and its object.
    let wide = indent + first.len() >= ADDRESS;
    match hex(first) {
        Some(address) if wide || !(rest.is_empty() || rest.starts_with(b"(")) => {
            RawFrame { address: Some(address), ..symbol_and_object(rest) }
        }
        _ => symbol_and_object(text),
    }
}

/// The frame at the end of a header line, as perf prints it for events without call chains. Fields of the event may
/// precede it.
pub fn parse_inline(rest: &[u8]) -> Option<RawFrame<'_>> {
    let text = rest.trim_ascii();
    let (before, dso) = split_object(text);
    dso?;
    // The address is the last word of digits that leaves a symbol behind it.
    let mut address = None;
    let mut at = 0;
    while at < before.len() {
        let word = first_word(&before[at..]);
        let behind = at + word.len();
        if behind < before.len() && hex(word).is_some() && (at == 0 || word.len() >= 4) {
            address = Some(at);
        }
        at = behind + (before[behind..].len() - before[behind..].trim_ascii_start().len());
    }
    let at = address?;
    Some(parse(&text[at..]))
}

/// Whether a line that begins with blanks can be a frame whose tab was lost.
pub fn looks_like_frame(line: &[u8]) -> bool {
    let text = line.trim_ascii();
    let first = first_word(text);
    hex(first).is_some() && first.len() < text.len()
}

/// Whether a line begins with an address of 16 digits and a tab, as simpleperf prints the kernel's: no command is as long.
pub fn is_bare(line: &[u8]) -> bool {
    line.get(ADDRESS) == Some(&b'\t') && may_be_bare(line)
}

/// The same of a line of which no more may have been read.
pub fn may_be_bare(begin: &[u8]) -> bool {
    begin.iter().take(ADDRESS).all(u8::is_ascii_hexdigit) && begin.get(ADDRESS).is_none_or(|&b| b == b'\t')
}

fn first_word(text: &[u8]) -> &[u8] {
    &text[..memchr2(b' ', b'\t', text).unwrap_or(text.len())]
}

fn hex(word: &[u8]) -> Option<u64> {
    if word.is_empty() || word.len() > ADDRESS {
        return None;
    }
    word.iter().try_fold(0_u64, |value, &byte| {
        let digit = match byte {
            b'0'..=b'9' => byte - b'0',
            b'a'..=b'f' => byte - b'a' + 10,
            _ => return None,
        };
        Some(value << 4 | u64::from(digit))
    })
}

fn symbol_and_object(text: &[u8]) -> RawFrame<'_> {
    let (text, inlined) = match text.strip_suffix(b"(inlined)") {
        Some(before) if before.is_empty() || before.ends_with(b" ") => (before.trim_ascii_end(), true),
        _ => (text, false),
    };
    let (symbol, dso) = if inlined { (text, None) } else { split_object(text) };
    RawFrame { symbol: cut_offset(symbol), dso, inlined, ..RawFrame::default() }
}

/// `symbol (object)`: the object is in the last balanced pair of round brackets, if a blank precedes it.
fn split_object(text: &[u8]) -> (&[u8], Option<&[u8]>) {
    let Some(inner) = text.strip_suffix(b")") else { return (text, None) };
    let mut depth = 1_usize;
    let balanced = inner.iter().rposition(|&byte| {
        match byte {
            b')' => depth += 1,
            b'(' => depth -= 1,
            _ => {}
        }
        depth == 0
    });
    let is_start = |&open: &usize| open == 0 || inner[open - 1] == b' ';
    // A path with a bracket of its own still begins like a path.
    let path = || [&b" (/"[..], b" (["].iter().filter_map(|start| memmem::find(inner, start)).min();
    let open = balanced.filter(is_start).or_else(|| path().map(|blank| blank + 1));
    match open {
        // `-F +dsoff` prints the offset in the object.
        Some(open) => (text[..open].trim_ascii_end(), Some(cut_offset(&inner[open + 1..]))),
        None => (text, None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Symbol, object, address, and whether it was inlined.
    type Shown = (String, Option<String>, Option<u64>, bool);

    fn frame(line: &str) -> Shown {
        split(parse(line.as_bytes()))
    }

    fn split(raw: RawFrame) -> Shown {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (text(raw.symbol), raw.dso.map(text), raw.address, raw.inlined)
    }

    fn expect(symbol: &str, dso: Option<&str>, address: Option<u64>) -> Shown {
        (symbol.into(), dso.map(Into::into), address, false)
    }

    #[test]
    fn addresses_symbols_objects() {
        let kernel = "\tffffffff8158e3e1 next_uptodate_folio+0xc1 ([kernel.kallsyms])";
        assert_eq!(
            frame(kernel),
            expect("next_uptodate_folio", Some("[kernel.kallsyms]"), Some(0xffff_ffff_8158_e3e1))
        );
        assert_eq!(
            frame("\t            9997 _dl_lookup_symbol_x+0x27 (/usr/lib/ld.so)"),
            expect("_dl_lookup_symbol_x", Some("/usr/lib/ld.so"), Some(0x9997))
        );
        assert_eq!(
            frame("\tffffffff817554ea elf_load"),
            expect("elf_load", None, Some(0xffff_ffff_8175_54ea))
        );
        assert_eq!(frame("\tffffffff817554ea"), expect("", None, Some(0xffff_ffff_8175_54ea)));
        assert_eq!(frame("\tadd (/bin/x)"), expect("add", Some("/bin/x"), None));
        assert_eq!(
            frame("\telf_load ([kernel.kallsyms])"),
            expect("elf_load", Some("[kernel.kallsyms]"), None)
        );
        assert_eq!(frame("    401136 add (/bin/x)"), expect("add", Some("/bin/x"), Some(0x40_1136)));
        assert_eq!(
            frame("\tffffffffffffffff [unknown] ([unknown])"),
            expect("[unknown]", Some("[unknown]"), Some(u64::MAX))
        );
    }

    #[test]
    fn objects_hold_blanks_and_brackets() {
        for dso in [
            "/opt/my app/lib foo.so",
            "[JIT] tid 123",
            "[JIT app cache]",
            "/memfd:x (deleted)",
            "//anon",
            "[heap]",
            "/tmp/a (copy)/x.so",
        ] {
            let line = format!("\t    7f6783cab997 f(int) const+0x3 ({dso})");
            assert_eq!(frame(&line), expect("f(int) const", Some(dso), Some(0x7f67_83ca_b997)), "{dso}");
        }
        assert_eq!(frame("\t 7f6783cab997 f ([JIT] tid 123)").1.as_deref(), Some("[JIT] tid 123"));
        assert_eq!(
            frame("\t            e497 f (/usr/lib/ld.so+0xe497)"),
            expect("f", Some("/usr/lib/ld.so"), Some(0xe497))
        );
        assert_eq!(
            frame("\t            e497 f (/tmp/a)b.so)"),
            expect("f", Some("/tmp/a)b.so"), Some(0xe497))
        );
        assert_eq!(
            frame("\t            e497 f (/tmp/a(b.so)"),
            expect("f", Some("/tmp/a(b.so"), Some(0xe497))
        );
    }

    #[test]
    fn inlined_frames_have_no_object() {
        let expected = ("elf_machine_rela".to_owned(), None, Some(0xe6b4), true);
        assert_eq!(frame("\t            e6b4 elf_machine_rela+0xa94 (inlined)"), expected);
    }

    #[test]
    fn frames_behind_a_header() {
        let inline = |text: &str| parse_inline(text.as_bytes()).map(split);
        let expected = Some(expect("elf_load", Some("[kernel.kallsyms]"), Some(0xffff_ffff_8175_54ea)));
        assert_eq!(inline(" ffffffff817554ea elf_load+0x28a ([kernel.kallsyms])"), expected);
        assert_eq!(inline("    7f0000001000 ffffffff817554ea elf_load+0x28a ([kernel.kallsyms])"), expected);
        assert_eq!(
            inline("prev_pid=5597 ==> next_comm=x ffffffff817554ea elf_load+0x28a ([kernel.kallsyms])"),
            expected
        );
        assert_eq!(
            inline("            1136 add (/bin/x)"),
            Some(expect("add", Some("/bin/x"), Some(0x1136)))
        );
        assert_eq!(inline("prev_comm=t prev_pid=5597 prev_prio=120"), None);
        assert_eq!(inline("(7f1e2215d058)"), None);
        assert_eq!(inline(""), None);
    }
}
