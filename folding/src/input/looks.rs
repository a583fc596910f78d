//! What an input looks like from its first bytes.

use super::folded;
use super::perf_script::is_header;

/// So many bytes tell.
pub const ENOUGH: u64 = 1 << 13;

/// A message that begins with a sample type; of what was packed, anything that is no text.
pub fn like_pprof(head: &[u8], packed: bool) -> bool {
    matches!(head, [0x0a, 0..=32, 0x08 | 0x10, ..]) || packed && head.iter().any(|&byte| byte < b'\t')
}

/// Its first line since valgrind 3.13, and its first two before.
pub fn like_callgrind(head: &[u8]) -> bool {
    head.starts_with(b"# callgrind format")
        || head.starts_with(b"version:") && memchr::memmem::find(head, b"\ncreator: callgrind").is_some()
}

/// Stacks and numbers: the first line that is no comment is one, holds no time and no event, and no call chain follows.
pub fn like_folded(head: &[u8]) -> bool {
    let empty = |line: &&[u8]| line.trim_ascii().is_empty() || folded::is_comment(line);
    let mut lines = head.split(|&b| b == b'\n').filter(|line| !empty(line));
    let Some(first) = lines.next() else { return false };
    let chain = lines.next().is_some_and(|line| matches!(line.first(), Some(b'\t' | b' ')));
    // Only the first bytes were read: the end of the line is not known.
    let stack = folded::is_stack(first) || first.len() as u64 >= ENOUGH && first.contains(&b';');
    let marked = first.contains(&b';') || !matches!(first.first(), Some(b'#' | b'\t' | b' '));
    stack && marked && !chain && !is_header(first)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folded_text_is_told_from_perf_script() {
        for folded in [
            "a;b 1\n",
            "swapper 12\n",
            "\nmy app;operator new 12.0\r\n",
            "a;b 3\nc 4\n",
            "a: b;c 7\n",
            "a;b 1.5\n",
            "# mode: wall\n# duration: 12\n\na;b 1\n",
            "#a;b 1\n",
            "a;b\t7\n",
        ] {
            assert!(like_folded(folded.as_bytes()), "{folded:?}");
        }
        for script in [
            "",
            "# captured on: Fri Nov 20 12\n",
            "t 17640 [000]  1968.424864:          1 cycles: \n\t401136 f\n",
            "t  17640\n\t401136 f\n",
            "t  17640\n    401136 f\n",
            "t 17640  1968.424864:    2004008 \n",
            "t  5389  1217.587827: PERF_RECORD_LOST lost 1\n",
            "  t 17640 [000]  1968.424864:          1 cycles:  401136 f (/bin/t)\n",
        ] {
            assert!(!like_folded(script.as_bytes()), "{script:?}");
        }
    }
}
