//! C++ names as GNU's c++filt spells them, and so perf and callgrind, from how `cpp_demangle` does.

use function_names::SHORT_STREAMS;

/// A name without arguments, as `c++filt --no-params` prints it.
pub fn spell(readable: &str) -> String {
    let mut name = readable.to_owned();
    for respelled in [literal_operator, thunk, behind_member, packs] {
        if let Some(other) = respelled(&name) {
            name = other;
        }
    }
    spell_words(without_qualifiers(&name))
}

/// Without what qualifies a member function (`const`, `&`), which belongs to its arguments; a type that a value is
/// converted to keeps it.
fn without_qualifiers(name: &str) -> &str {
    let name = name.strip_suffix(" &&").or_else(|| name.strip_suffix(" &")).unwrap_or(name);
    let plain = name.strip_suffix(" volatile").unwrap_or(name);
    let plain = plain.strip_suffix(" const").unwrap_or(plain);
    if plain.contains("operator ") { name } else { plain }
}

/// `A const*::B` as `A::B const*`, and `A(B)::*` as `A::*(B)`: what follows a type that a template has as its argument
/// was put behind the class, not behind the member.
fn behind_member(name: &str) -> Option<String> {
    const SUFFIXES: [&str; 4] = ["*", "&", " const", " volatile"];
    if !["*::", "&::", " const::", " volatile::", ")::*"].iter().any(|mark| name.contains(mark)) {
        return None;
    }
    let (mut out, mut rest) = (String::with_capacity(name.len()), name);
    while let Some((before, member)) = rest.split_once("::") {
        out.push_str(before);
        let mut class = &out[..];
        if member.starts_with('*') && class.ends_with(')') {
            class = &class[..open_bracket(class)?];
        }
        while let Some(shorter) = SUFFIXES.iter().find_map(|suffix| class.strip_suffix(suffix)) {
            class = shorter;
        }
        // `f() const::{lambda()#1}` is of a function.
        if class.ends_with([')', '(', ' ', ',']) || class.ends_with("operator") {
            class = &out;
        }
        let suffix = out.split_off(class.len());
        let end = if suffix.is_empty() { 0 } else { end_of_member(member) };
        out.push_str("::");
        out.push_str(&member[..end]);
        out.push_str(&suffix);
        rest = &member[end..];
    }
    Some(out + rest)
}

/// Where the bracket opens that the text ends with.
fn open_bracket(text: &str) -> Option<usize> {
    let mut depth = 0_usize;
    text.rfind(|c| {
        match c {
            ')' => depth += 1,
            '(' => depth -= 1,
            _ => {}
        }
        depth == 0
    })
}

/// Where the bracket closes that is open where the text begins.
pub fn end_of_list(text: &str) -> usize {
    let mut depth = 1_usize;
    let close = text.find(|c| {
        match c {
            '(' => depth += 1,
            ')' => depth -= 1,
            _ => {}
        }
        depth == 0
    });
    close.unwrap_or(text.len())
}

/// How long the name of a member is, with its own members; the star of a pointer to one is a name here.
fn end_of_member(text: &str) -> usize {
    let mut depth = 0_usize;
    let end = text.find(|c: char| {
        match c {
            '<' => depth += 1,
            '>' if depth > 0 => {
                depth -= 1;
                return false;
            }
            _ => {}
        }
        depth == 0 && !(c.is_alphanumeric() || matches!(c, '_' | ':' | '<'))
    });
    match end {
        Some(0) if text.starts_with('*') => 1,
        end => end.unwrap_or(text.len()),
    }
}

/// `auto:1...` as `(auto:1)...`.
fn packs(name: &str) -> Option<String> {
    name.contains("...").then_some(())?;
    let (mut out, mut rest) = (String::with_capacity(name.len() + 2), name);
    while let Some((pattern, behind)) = rest.split_once("...") {
        out.push_str(pattern);
        let start = start_of_argument(&out);
        if start < out.len() && !out.ends_with([')', ' ']) && !out.ends_with("sizeof") {
            out.insert(start, '(');
            out.push(')');
        }
        out.push_str("...");
        rest = behind;
    }
    Some(out + rest)
}

/// Where the last argument of the list begins that the text ends in.
fn start_of_argument(text: &str) -> usize {
    let mut depth = 0_usize;
    let before = text.rfind(|c| {
        match c {
            ')' | '>' | '}' => depth += 1,
            '(' | '<' | '{' if depth > 0 => depth -= 1,
            '(' | '<' | '{' | ',' if depth == 0 => return true,
            _ => {}
        }
        false
    });
    before.map_or(0, |before| before + 1 + usize::from(text[before + 1..].starts_with(' ')))
}

/// `scope::operator_kb::operator ""` as `scope::operator"" _kb`.
fn literal_operator(name: &str) -> Option<String> {
    let (before, behind) = name.split_once("::operator \"\"")?;
    let at = before.rfind("operator")?;
    let suffix = &before[at + "operator".len()..];
    Some(format!("{}operator\"\" {suffix}{behind}", &before[..at]))
}

/// `{virtual override thunk({offset(-16)}, NAME)}` as `non-virtual thunk to NAME`.
fn thunk(name: &str) -> Option<String> {
    let inner = name.strip_prefix("{virtual override thunk({")?.strip_suffix(")}")?;
    let (offset, name) = inner.split_once("}, ")?;
    let kind = if offset.starts_with("offset") { "non-virtual" } else { "virtual" };
    Some(format!("{kind} thunk to {name}"))
}

/// `(unsigned long)8` as `8ul`, and `Ret (Args)` for the type of a function: how GNU tools, perf among
/// them, spell what this demangler spells otherwise.
fn spell_words(name: &str) -> String {
    const LITERALS: [(&str, &str); 6] = [
        ("(unsigned long long)", "ull"),
        ("(unsigned long)", "ul"),
        ("(unsigned int)", "u"),
        ("(long long)", "ll"),
        ("(long)", "l"),
        ("(int)", ""),
    ];
    const STRING: (&str, &str) =
        ("std::string", "std::basic_string<char, std::char_traits<char>, std::allocator<char> >");
    let mut out = String::with_capacity(name.len());
    let mut depth = 0_usize;
    let mut rest = name;
    loop {
        // Everything else stays the same.
        let same = rest.bytes().position(|byte| matches!(byte, b's' | b'(' | b')' | b'<' | b'>'));
        let (same, from) = rest.split_at(same.unwrap_or(rest.len()));
        out.push_str(same);
        rest = from;
        let Some(first) = rest.chars().next() else { break };
        let is_word = |c: char| c.is_alphanumeric() || c == '_' || c == ':';
        if first == 's' && rest.starts_with("std::") && !out.ends_with(is_word) {
            let word = |short: &str| {
                Some(rest.strip_prefix(short)?)
                    .filter(|rest| !rest.starts_with(|c: char| c.is_alphanumeric() || c == '_'))
            };
            if let Some((long, behind)) = std::iter::once(&STRING)
                .chain(&[("std::nullptr_t", "decltype(nullptr)")])
                .chain(&SHORT_STREAMS)
                .find_map(|(short, long)| Some((long, word(short)?)))
            {
                out.push_str(long);
                rest = behind;
                if rest.starts_with('>') && long.ends_with('>') {
                    out.push(' ');
                }
                // The constructor is called by the long name, too.
                let (class, _) = long["std::".len()..].split_once('<').unwrap_or_default();
                for scope in ["::~", "::"] {
                    let short = class.trim_start_matches("basic_");
                    if let Some(behind) = rest.strip_prefix(scope).and_then(|rest| rest.strip_prefix(short)) {
                        out.push_str(scope);
                        out.push_str(class);
                        rest = behind;
                        break;
                    }
                }
                continue;
            }
        }
        let casts = if first == '(' && depth > 0 { &LITERALS[..] } else { &[] };
        let literal = casts.iter().find_map(|(cast, suffix)| {
            let value = rest.strip_prefix(cast)?;
            let digits =
                value.len() - value.trim_start_matches(|c: char| c == '-' || c.is_ascii_digit()).len();
            (digits > 0).then(|| (&value[..digits], suffix, &value[digits..]))
        });
        if let Some((digits, suffix, behind)) = literal {
            out.push_str(digits);
            out.push_str(suffix);
            rest = behind;
            continue;
        }
        let closes = first == ')' || first == '>' && depth > 0;
        // Packs of nothing end in commas; one that others follow keeps its own.
        while closes && out.ends_with(", ") {
            out.truncate(out.len() - 2);
        }
        match first {
            '<' if !out.ends_with("operator") && !out.ends_with("operator<") => depth += 1,
            '>' if !out.ends_with('-') && !out.ends_with("operator") => depth = depth.saturating_sub(1),
            '(' if depth > 0 && opens_function_type(&out, rest) => {
                // The address of a function is its name alone.
                let close = (end_of_list(&rest[1..]) + 2).min(rest.len());
                if out[start_of_argument(&out)..].starts_with('&') && rest[close..].starts_with([',', '>']) {
                    rest = &rest[close..];
                    continue;
                }
                out.push(' ');
            }
            _ => {}
        }
        out.push(first);
        rest = &rest[first.len_utf8()..];
    }
    out
}

/// Whether the bracket that `rest` begins with holds the arguments of a function type: a type precedes it, and no scope
/// follows it.
fn opens_function_type(before: &str, rest: &str) -> bool {
    let word = before.len() - before.trim_end_matches(|c: char| c.is_alphanumeric() || c == '_').len();
    let keyword = &before[before.len() - word..];
    let typed =
        word > 0 || before.ends_with(['>', '*', '&']) && !before.ends_with("(*") && !before.ends_with("::*");
    if !typed || matches!(keyword, "operator" | "decltype" | "sizeof" | "lambda" | "noexcept" | "alignof") {
        return false;
    }
    // Nothing is behind one that does not close.
    let behind = rest.get(end_of_list(&rest[1..]) + 2..);
    behind.is_some_and(|behind| !behind.trim_start_matches(" const").starts_with("::"))
}
