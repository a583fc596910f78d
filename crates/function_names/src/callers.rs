//! Names of callers behind a function's own, as callgrind writes them: `leaf'caller'caller`.

use crate::spelling::operator_at;

/// The parts between apostrophes that are outside of brackets; the apostrophes of `'lambda'` are part of a name.
pub fn split_callers(name: &[u8]) -> Vec<&[u8]> {
    let mut parts = Vec::new();
    let (mut depth, mut start, mut at) = (0_usize, 0, 0);
    while at < name.len() {
        let rest = &name[at..];
        if let Some(len) = operator_at(name, at) {
            at += len;
            continue;
        }
        match rest[0] {
            b'-' if rest.starts_with(b"->") => at += 1,
            b'<' | b'(' | b'{' | b'[' => depth += 1,
            b'>' | b')' | b'}' | b']' => depth = depth.saturating_sub(1),
            b'\'' if depth == 0 && rest.starts_with(b"'lambda") => {
                at += memchr::memchr(b'\'', &rest[1..]).map_or(0, |end| end + 1);
            }
            b'\'' if depth == 0 => {
                parts.push(&name[start..at]);
                start = at + 1;
            }
            _ => {}
        }
        at += 1;
    }
    parts.push(&name[start..]);
    parts
}

#[cfg(test)]
mod tests {
    use super::split_callers;

    #[test]
    fn callers_are_parted_where_no_bracket_is_open() {
        for (name, parts) in [
            ("main", &["main"][..]),
            ("leaf'middle'2'main'(below main)", &["leaf", "middle", "2", "main", "(below main)"]),
            ("A<(char)39>::f(B<'x'>)'main", &["A<(char)39>::f(B<'x'>)", "main"]),
            ("operator<(A, B)'X::operator->()'main", &["operator<(A, B)", "X::operator->()", "main"]),
            (
                "operator<< <char>(S&)'std::operator<<(T)'f",
                &["operator<< <char>(S&)", "std::operator<<(T)", "f"],
            ),
            (
                "f()::{lambda(int)#1}::operator()(int) const'g",
                &["f()::{lambda(int)#1}::operator()(int) const", "g"],
            ),
            (
                "f()::'lambda'(int)::operator()(int) const'g",
                &["f()::'lambda'(int)::operator()(int) const", "g"],
            ),
        ] {
            let found: Vec<_> =
                split_callers(name.as_bytes()).into_iter().map(String::from_utf8_lossy).collect();
            assert_eq!(found, parts, "{name}");
        }
    }
}
