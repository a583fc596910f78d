//! Symbol names: what is cut from them, and what of them is compared.
//!
//! A demangled C++ name is not a word: it holds blanks, brackets of three kinds, and operators made of
//! brackets. Everything here cuts only what it can balance, and leaves the rest as it was.

/// Types that demanglers have a short name for, and what they are.
pub const SHORT_STREAMS: [(&str, &str); 3] = [
    ("std::ostream", "std::basic_ostream<char, std::char_traits<char> >"),
    ("std::istream", "std::basic_istream<char, std::char_traits<char> >"),
    ("std::iostream", "std::basic_iostream<char, std::char_traits<char> >"),
];

/// How much of a name is cut.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Tidy {
    /// Nothing: the name as the profiler printed it.
    None,
    /// The trailing argument list, and the type that a template's name begins with.
    #[default]
    Args,
    /// The same and every template argument list.
    Templates,
}

/// The name as it goes into folded text.
pub fn tidy(symbol: &[u8], how: Tidy) -> Vec<u8> {
    let mut name = match how {
        Tidy::None => symbol.to_vec(),
        Tidy::Args => without_arguments(symbol),
        Tidy::Templates => cut_templates(&without_arguments(symbol)),
    };
    escape(&mut name);
    name
}

/// perf 6.12 prints what a template's instance returns and which clone a C++ function is, perf 6.1 does not: they go with
/// the arguments.
fn without_arguments(symbol: &[u8]) -> Vec<u8> {
    if let Some(function) = symbol.strip_suffix(b"@plt") {
        return [&without_arguments(function), &b"@plt"[..]].concat();
    }
    let mut name = long_streams(cut_arguments(without_clone_words(cut_version(symbol))));
    if name.ends_with(b">") {
        let start = name.len() - cut_return_type(&name).len();
        // `foo <anonymous>` of a run-time compiler is no type and a template.
        if name.get(start).is_some_and(|&first| is_word(first) || first == b'(') {
            name.drain(..start);
        }
    }
    name
}

/// `f(int) [clone .isra.0]` without its clone; `f.isra.0`, which every tool prints of C, keeps it.
fn without_clone_words(name: &[u8]) -> &[u8] {
    let clone = name.ends_with(b"]").then(|| memchr::memmem::find(name, b" [clone ")).flatten();
    clone.map_or(name, |clone| &name[..clone])
}

/// Streams by the name that binutils, and so perf 6.1, demangle to; perf 6.12 prints the short one.
fn long_streams(mut name: Vec<u8>) -> Vec<u8> {
    for (short, long) in SHORT_STREAMS {
        let mut from = 0;
        while let Some(found) = memchr::memmem::find(&name[from..], short.as_bytes()) {
            let (at, end) = (from + found, from + found + short.len());
            let is_part = |byte: Option<&u8>| byte.is_some_and(|&byte| is_word(byte));
            let of_another_scope = at > 0 && (name[at - 1] == b':' || is_word(name[at - 1]));
            if of_another_scope || is_part(name.get(end)) {
                from = end;
                continue;
            }
            name.splice(at..end, long.bytes());
            from = at + long.len();
        }
    }
    name
}

/// `;` separates frames, so a name cannot contain it.
pub fn escape(name: &mut [u8]) {
    for byte in name {
        if matches!(byte, b';') {
            *byte = b':';
        } else if matches!(byte, b'\n' | b'\r') {
            *byte = b' ';
        }
    }
}

/// `symbol+0x1f` without its offset.
pub fn cut_offset(symbol: &[u8]) -> &[u8] {
    let Some(plus) = memchr::memrchr(b'+', symbol) else { return symbol };
    match symbol[plus + 1..].strip_prefix(b"0x") {
        Some(digits) if !digits.is_empty() && digits.iter().all(u8::is_ascii_hexdigit) => &symbol[..plus],
        _ => symbol,
    }
}

/// `clock_gettime@@GLIBC_2.17` without its version; `x@plt` is another symbol and stays.
pub fn cut_version(symbol: &[u8]) -> &[u8] {
    let Some(at) = memchr::memrchr(b'@', symbol) else { return symbol };
    let version = &symbol[at + 1..];
    let word = |b: &u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'.');
    if version.is_empty() || version == b"plt" || !version.iter().all(word) {
        return symbol;
    }
    let name = symbol[..at].strip_suffix(b"@").unwrap_or(&symbol[..at]);
    if name.is_empty() { symbol } else { name }
}

/// Splits off what compilers add to a name they cloned: `.isra.0`, `.constprop.1`, `.part.2`, `.cold`,
/// `[clone .cold]`, `(.cold)`.
fn split_clone(name: &[u8]) -> (&[u8], &[u8]) {
    let mut end = name.len();
    loop {
        let head = &name[..end];
        let cut = if head.ends_with(b"]") {
            memchr::memmem::rfind(head, b" [clone ")
        } else if head.ends_with(b")") {
            memchr::memmem::rfind(head, b" (.")
        } else {
            clone_suffix(head)
        };
        match cut {
            Some(cut) if cut > 0 => end = cut,
            _ => return (&name[..end], &name[end..]),
        }
    }
}

/// Where `.isra.0` and its like begin, at the end of `name`.
fn clone_suffix(name: &[u8]) -> Option<usize> {
    let digits = name.iter().rev().take_while(|b| b.is_ascii_digit()).count();
    let stem = &name[..name.len() - digits];
    let stem = if digits > 0 { stem.strip_suffix(b".")? } else { stem };
    let dot = memchr::memrchr(b'.', stem)?;
    matches!(
        &stem[dot + 1..],
        b"isra" | b"constprop" | b"part" | b"cold" | b"lto_priv" | b"localalias" | b"llvm"
    )
    .then_some(dot)
}

/// The name without its last argument list; clone marks behind the list stay.
pub fn cut_arguments(name: &[u8]) -> Vec<u8> {
    let (head, clones) = split_clone(name);
    let mut end = head.len();
    for qualifier in [&b" noexcept"[..], b" &&", b" &", b" volatile", b" const"] {
        if head[..end].ends_with(qualifier) {
            end -= qualifier.len();
        }
    }
    match argument_list(&head[..end]) {
        Some(open) => [&head[..open], clones].concat(),
        None => name.to_vec(),
    }
}

/// Where the argument list that ends the name opens.
fn argument_list(name: &[u8]) -> Option<usize> {
    if !name.ends_with(b")") {
        return None;
    }
    let mut depth = 0_usize;
    let open = name.iter().rposition(|&b| {
        match b {
            b')' => depth += 1,
            b'(' => depth -= 1,
            _ => {}
        }
        depth == 0
    })?;
    let before = &name[..open];
    // `operator()` is the name itself; `(anonymous namespace)` and Go's `(*T)` are scopes; a blank before
    // the list means that this is no C++ name (run-time compilers put file names there).
    let is_list = !before.is_empty()
        && !ends_with_operator(before)
        && !matches!(before.last(), Some(b' ' | b'.' | b':'))
        && name[open..] != *b"(anonymous namespace)";
    is_list.then_some(open)
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte >= 0x80
}

fn ends_with_operator(name: &[u8]) -> bool {
    name.strip_suffix(b"operator").is_some_and(|before| !before.last().is_some_and(|&b| is_word(b)))
}

/// How long the word `operator` with its sign is, where it begins there.
pub(crate) fn operator_at(name: &[u8], at: usize) -> Option<usize> {
    let behind = name[at..].strip_prefix(b"operator")?;
    let is_part = at > 0 && is_word(name[at - 1]) || behind.first().is_some_and(|&b| is_word(b));
    (!is_part).then(|| 8 + operator_sign(behind))
}

/// How many bytes of `rest`, which follows the word `operator`, are the operator's own sign.
fn operator_sign(rest: &[u8]) -> usize {
    const SIGNS: [&[u8]; 12] =
        [b"<=>", b"<<=", b">>=", b"->*", b"()", b"->", b"<<", b">>", b"<=", b">=", b"<", b">"];
    // Demanglers print `operator< <int>` for the template, so `operator<<` is always the shift.
    SIGNS.iter().find(|sign| rest.starts_with(sign)).map_or(0, |sign| sign.len())
}

/// Behind the bracket that closes the one at `open`, or behind `open` if none does.
fn after_parens(name: &[u8], open: usize) -> usize {
    let mut depth = 0_usize;
    for (at, &byte) in name.iter().enumerate().skip(open) {
        match byte {
            b'(' => depth += 1,
            b')' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return at + 1;
        }
    }
    open + 1
}

/// The name without template arguments, at every depth. Unbalanced names stay as they are.
pub fn cut_templates(name: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(name.len());
    let mut depth = 0_usize;
    let mut at = 0;
    while at < name.len() {
        let rest = &name[at..];
        if let Some(len) = operator_at(name, at) {
            if depth == 0 {
                out.extend_from_slice(&rest[..len]);
            }
            at += len;
            continue;
        }
        match rest[0] {
            b'-' if rest.starts_with(b"->") => {
                if depth == 0 {
                    out.extend_from_slice(b"->");
                }
                at += 2;
                continue;
            }
            // Round brackets in an argument may hold comparisons: `<(a>b)>`.
            b'(' if depth > 0 => {
                at = after_parens(name, at);
                continue;
            }
            // `<` at the start or after `:` opens a scope (`<lambda(int)>`, Rust's `<T as Trait>`).
            b'<' if depth > 0 || !matches!(out.last(), None | Some(b':')) => depth += 1,
            b'>' if depth > 0 => {
                depth -= 1;
            }
            byte if depth == 0 => out.push(byte),
            _ => {}
        }
        at += 1;
    }
    if depth > 0 {
        return name.to_vec();
    }
    // `operator< <int>` leaves a blank behind.
    while out.last() == Some(&b' ') {
        out.pop();
    }
    out
}

/// A name made comparable: see [`bare`].
#[derive(Debug, PartialEq, Eq)]
pub struct ComparableName {
    /// Scopes and name, template arguments kept.
    pub full: Vec<u8>,
    /// The same without template arguments.
    pub path: Vec<u8>,
    /// The frame carries the kernel's mark, `_[k]`.
    pub kernel: bool,
}

/// What category rules compare: no mark, no clone suffix, no version, no arguments, no return type, and
/// MyRocks' `my_rocksdb::` read as `rocksdb::`.
pub fn bare(frame: &[u8]) -> ComparableName {
    let (name, mark) = split_mark(frame);
    let kernel = mark == Some(b'k');
    let name = name.strip_suffix(b"@plt").unwrap_or(name);
    let (name, _) = split_clone(cut_version(name));
    let name = cut_arguments(name);
    let name = cut_return_type(&name);
    let full = replace(name, b"my_rocksdb::", b"rocksdb::");
    let path = cut_templates(&full);
    ComparableName { full, path, kernel }
}

/// Splits `name_[k]` into the name and its mark; async-profiler's are `j`, `0` (interpreted) and `1` (of C1) as well.
pub fn split_mark(frame: &[u8]) -> (&[u8], Option<u8>) {
    match frame {
        [name @ .., b'_', b'[', mark @ (b'k' | b'i' | b'j' | b'w' | b'0' | b'1'), b']'] => {
            (name, Some(*mark))
        }
        _ => (frame, None),
    }
}

/// `Ret<A, B> ns::f<T>` without `Ret<A, B> `: what follows the last blank outside brackets, an operator's
/// name (`operator new`, `operator bool`) being one word.
fn cut_return_type(name: &[u8]) -> &[u8] {
    let mut depth = 0_usize;
    let mut start = 0;
    let mut at = 0;
    while at < name.len() {
        let rest = &name[at..];
        if let Some(len) = operator_at(name, at) {
            if depth == 0 {
                break;
            }
            at += len;
            continue;
        }
        match rest[0] {
            b'-' if rest.starts_with(b"->") => at += 1,
            b'(' => {
                at = after_parens(name, at);
                continue;
            }
            b'<' | b'{' | b'[' => depth += 1,
            b'>' | b'}' | b']' => depth = depth.saturating_sub(1),
            b' ' if depth == 0 => start = at + 1,
            _ => {}
        }
        at += 1;
    }
    if start < name.len() { &name[start..] } else { name }
}

fn replace(name: &[u8], from: &[u8], to: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(name.len());
    let mut rest = name;
    while let Some(at) = memchr::memmem::find(rest, from) {
        out.extend_from_slice(&rest[..at]);
        out.extend_from_slice(to);
        rest = &rest[at + from.len()..];
    }
    out.extend_from_slice(rest);
    out
}

#[cfg(test)]
#[path = "spelling_tests.rs"]
mod tests;
