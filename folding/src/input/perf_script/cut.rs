//! Where the text may be cut so that each piece reads as it would have in place.

use super::{frame, header};
use memchr::memrchr;

/// The end of the last line before which, or behind which, no sample is open.
///
/// A line that begins with neither tab nor blank closes the sample before it, unless it is a frame of simpleperf's, as a header
/// does that begins with blanks (a padded command); an empty line leaves none open.
pub fn last(text: &[u8]) -> Option<usize> {
    let mut below = text.len();
    while let Some(feed) = memrchr(b'\n', &text[..below]) {
        let end = feed + 1;
        let apart = match text.get(end) {
            _ if text[..feed].ends_with(b"\n") || text[..feed].ends_with(b"\n\r") => true,
            None | Some(b'\t') => false,
            Some(b' ') => {
                memchr::memchr(b'\n', &text[end..]).is_some_and(|len| header::has_time(&text[end..end + len]))
            }
            Some(_) => !frame::may_be_bare(&text[end..]),
        };
        if apart {
            return Some(end);
        }
        below = feed;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::last;

    #[test]
    fn between_samples() {
        fn end(text: &str) -> Option<&str> {
            last(text.as_bytes()).map(|end| &text[..end])
        }
        assert_eq!(end("t 1.000001:\n\t1 f\n\nt 1.000002:\n\t1 g"), Some("t 1.000001:\n\t1 f\n\n"));
        assert_eq!(end("t 1.000001:\n\t1 f\n\n"), Some("t 1.000001:\n\t1 f\n\n"));
        assert_eq!(end("\t1 f\r\n\r\n\t1 g\r\n"), Some("\t1 f\r\n\r\n"));
        assert_eq!(end("  t 1.000001: f\n  t 1.000002: f\n"), Some("  t 1.000001: f\n"));
        assert_eq!(end("  t 1.000001: f\n  t 1.0000"), None);
        assert_eq!(end("\t1 f\n\t1 g\n  leaf.cc:12\n"), None);
        let bare = "t\t1 1.000001:\nffffffc010081234\tf (k)\n";
        assert_eq!(end(bare), None);
        assert_eq!(end(&bare[..bare.len() - 10]), None);
        assert_eq!(end("t 1.000001:\n\t1 f\nfade 1.000002: f"), Some("t 1.000001:\n\t1 f\n"));
        assert_eq!(end(""), None);
    }
}
