//! Mangled names made readable, in the form `perf script` prints: no arguments, no return type.

use cpp_demangle::{DemangleOptions, DemangleWrite, ParseOptions, Symbol};
use function_names::SHORT_STREAMS;
use std::borrow::Cow;

/// Names longer than this are left as they are; a demangled name can be far longer than the mangled one.
const LONGEST: usize = 16 << 10;
const LONGEST_READABLE: usize = 256 << 10;
/// How many times as long as mangled names readable ones are, most of them at most.
const READABLE: usize = 8;
const RECURSION: u32 = 96;

fn is_mangled(name: &[u8]) -> bool {
    let begins = name.starts_with(b"_Z") || name.starts_with(b"_R") || name.starts_with(b"_GLOBAL_");
    begins && name.len() <= LONGEST
}

/// The readable form of a C++ or Rust name; any other name unchanged.
pub fn demangle(name: &[u8]) -> Cow<'_, [u8]> {
    if !is_mangled(name) {
        return Cow::Borrowed(name);
    }
    if let Some(function) = name.strip_suffix(b"@plt") {
        return Cow::Owned([&demangle(function), &b"@plt"[..]].concat());
    }
    rust(name).or_else(|| cpp(name)).map_or(Cow::Borrowed(name), |readable| Cow::Owned(readable.into_bytes()))
}

/// `_R...`, and `_ZN...17h<hash>E` without the hash.
fn rust(name: &[u8]) -> Option<String> {
    let text = std::str::from_utf8(name).ok()?;
    let demangled = rustc_demangle::try_demangle(text).ok()?;
    Some(format!("{demangled:#}"))
}

/// A name of C++ with its arguments.
pub fn with_arguments(name: &str) -> Option<String> {
    is_mangled(name.as_bytes()).then(|| limited(name.as_bytes(), DemangleOptions::new()))?
}

fn limited(name: &[u8], form: DemangleOptions) -> Option<String> {
    let limits = ParseOptions::default().recursion_limit(RECURSION);
    let symbol = Symbol::new_with_options(name, &limits).ok()?;
    let mut readable = Limited(String::with_capacity(name.len() * READABLE));
    symbol.structured_demangle(&mut readable, &form.recursion_limit(RECURSION)).ok()?;
    Some(readable.0)
}

fn cpp(name: &[u8]) -> Option<String> {
    let readable = limited(name, DemangleOptions::new().no_params().no_return_type())?;
    let name = literal_operator(&readable).unwrap_or(readable);
    Some(spell(thunk(&name).as_deref().unwrap_or(&name)))
}

/// Text that refuses to grow without end: a short mangled name can have a readable form of gigabytes.
struct Limited(String);

impl DemangleWrite for Limited {
    fn write_string(&mut self, part: &str) -> std::fmt::Result {
        if self.0.len() + part.len() > LONGEST_READABLE {
            return Err(std::fmt::Error);
        }
        self.0.push_str(part);
        Ok(())
    }
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
fn spell(name: &str) -> String {
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
    // A member function's reference qualifier (`&`, `&&`) does not belong to its name.
    let mut rest = name.strip_suffix(" &&").or_else(|| name.strip_suffix(" &")).unwrap_or(name);
    loop {
        // Everything else stays the same.
        let same = rest.bytes().position(|byte| matches!(byte, b's' | b'(' | b'<' | b'>'));
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
                .chain(&SHORT_STREAMS)
                .find_map(|(short, long)| Some((long, word(short)?)))
            {
                out.push_str(long);
                rest = behind;
                if rest.starts_with('>') {
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
        match first {
            '<' if !out.ends_with("operator") && !out.ends_with("operator<") => depth += 1,
            '>' if !out.ends_with('-') && !out.ends_with("operator") => depth = depth.saturating_sub(1),
            '(' if depth > 0 && opens_function_type(&out, rest) => out.push(' '),
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
    let typed = word > 0 || before.ends_with(['>', '*', '&']) && !before.ends_with("(*");
    if !typed || matches!(keyword, "operator" | "decltype" | "sizeof" | "lambda" | "noexcept" | "alignof") {
        return false;
    }
    let mut depth = 0_usize;
    let close = rest.find(|c| {
        match c {
            '(' => depth += 1,
            ')' => depth -= 1,
            _ => {}
        }
        depth == 0
    });
    close.is_some_and(|close| {
        let behind = rest[close + 1..].trim_start_matches(" const");
        !behind.starts_with("::")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each argument is a pair of the one before: 400 bytes are terabytes.
    #[test]
    fn a_name_that_would_fill_all_memory_stays_as_it_is() {
        let number = |n: u32| char::from_digit(n, 36).expect("a digit").to_ascii_uppercase();
        let pairs: String = (0..35).map(|n| format!("S_IS{0}_S{0}_E", number(n))).collect();
        let name = format!("_Z1fSt4pairIiiE{pairs}");
        assert_eq!((with_arguments(&name), &*demangle(name.as_bytes())), (None, &b"f"[..]));
        let few = with_arguments(&name[.."_Z1fSt4pairIiiES_IS0_S0_E".len()]);
        assert_eq!(
            few.as_deref(),
            Some("f(std::pair<int, int>, std::pair<std::pair<int, int>, std::pair<int, int> >)")
        );
    }

    #[test]
    fn readable_names_have_no_arguments() {
        for (mangled, readable) in [
            ("_ZN7rocksdb6DBImpl3GetERKNS_11ReadOptionsE", "rocksdb::DBImpl::Get"),
            ("_ZN12_GLOBAL__N_14leafEi", "(anonymous namespace)::leaf"),
            ("_ZN3PtrptEv", "Ptr::operator->"),
            ("_ZN3FooclEv", "Foo::operator()"),
            ("_RNvCs1234_7mycrate3foo", "mycrate::foo"),
            ("_ZN4core3fmt5Write9write_fmt17h0123456789abcdefE", "core::fmt::Write::write_fmt"),
            ("_ZN3Foo1fEi@plt", "Foo::f@plt"),
            ("main", "main"),
            ("_ZN7rocksdb10autovectorIiLm8EE5clearEv", "rocksdb::autovector<int, 8ul>::clear"),
            ("_ZN1fIFivEE1gEv", "f<int ()>::g"),
            ("_ZN6engineli6_turnsEy", "engine::operator\"\" _turns"),
            ("_Zli3_kbPKcm", "operator\"\" _kb"),
            ("_Znonsense", "_Znonsense"),
        ] {
            assert_eq!(String::from_utf8_lossy(&demangle(mangled.as_bytes())), readable);
        }
    }
}
