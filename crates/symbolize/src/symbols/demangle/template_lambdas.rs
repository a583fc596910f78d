//! Lambdas with template parameters of their own (`[]<class T>(T x)`, C++20), which `cpp_demangle` cannot read: their
//! parameters are taken out of the mangled name, and put into the readable one.

use super::gnu_spelling::end_of_list;

/// A type that nobody's lambda takes. As many of them as the number of a head stand for that head.
const MARK: (&[u8], &str) = (b"De", "decimal128");

/// The template parameters of a lambda, as c++filt prints them.
pub struct Head {
    /// `typename $T0, int $N1`.
    text: String,
    /// `$T0`, `$N1`.
    names: Vec<String>,
}

/// The name without heads of lambdas, and those; `None` where it has none, or one that is not understood.
pub fn take_heads(name: &[u8]) -> Option<(Vec<u8>, Vec<Head>)> {
    let (mut out, mut heads, mut rest) = (Vec::with_capacity(name.len()), Vec::<Head>::new(), name);
    while let Some(at) = memchr::memmem::find(rest, b"UlT") {
        let (before, lambda) = rest.split_at(at + 2);
        out.extend_from_slice(before);
        rest = lambda;
        let mut head = Head { text: String::new(), names: Vec::new() };
        while let Some((kind, name, behind)) = parameter(rest) {
            let name = format!("${name}{}", head.names.len());
            let comma = if head.text.is_empty() { "" } else { ", " };
            head.text += &format!("{comma}{kind} {name}");
            head.names.push(name);
            rest = behind;
        }
        // `T_` is what a lambda with `auto` takes.
        if head.names.is_empty() {
            continue;
        }
        let number = heads.iter().position(|known| known.text == head.text).unwrap_or_else(|| {
            heads.push(head);
            heads.len() - 1
        });
        (0..=number).for_each(|_| out.extend_from_slice(MARK.0));
    }
    out.extend_from_slice(rest);
    (!heads.is_empty()).then_some((out, heads))
}

/// What a template parameter is, the letters of its name, and what follows it.
fn parameter(mangled: &[u8]) -> Option<(String, &'static str, &[u8])> {
    let behind = mangled.get(2..)?;
    match &mangled[..2] {
        b"Ty" => Some(("typename".to_owned(), "T", behind)),
        b"Tn" => {
            let (kind, behind) = builtin(behind)?;
            Some((kind.to_owned(), "N", behind))
        }
        b"Tp" => {
            let (kind, name, behind) = parameter(behind)?;
            Some((kind + "...", name, behind))
        }
        b"Tt" => {
            let (mut kinds, mut rest) = (Vec::new(), behind);
            while let Some((kind, _, behind)) = parameter(rest) {
                kinds.push(kind);
                rest = behind;
            }
            let behind = rest.strip_prefix(b"E")?;
            Some((format!("template<{}> class", kinds.join(", ")), "TT", behind))
        }
        _ => None,
    }
}

/// A type of one letter; any other could be what a later part of the name refers to.
fn builtin(mangled: &[u8]) -> Option<(&'static str, &[u8])> {
    let kind = match mangled.first()? {
        b'b' => "bool",
        b'c' => "char",
        b'a' => "signed char",
        b'h' => "unsigned char",
        b's' => "short",
        b't' => "unsigned short",
        b'i' => "int",
        b'j' => "unsigned int",
        b'l' => "long",
        b'm' => "unsigned long",
        b'x' => "long long",
        b'y' => "unsigned long long",
        _ => return None,
    };
    Some((kind, &mangled[1..]))
}

/// The readable name with the heads where their marks are.
pub fn put_heads(readable: &str, heads: &[Head]) -> String {
    let (mut out, mut rest) = (String::with_capacity(readable.len()), readable);
    while let Some((before, lambda)) = rest.split_once("{lambda(") {
        out.push_str(before);
        let (mut number, mut rest_of) = (0_usize, lambda);
        while let Some(behind) = rest_of.strip_prefix(MARK.1) {
            (number, rest_of) = (number + 1, behind.strip_prefix(", ").unwrap_or(behind));
        }
        let Some(head) = number.checked_sub(1).and_then(|number| heads.get(number)) else {
            out.push_str("{lambda(");
            rest = lambda;
            continue;
        };
        let (arguments, behind) = rest_of.split_at(end_of_list(rest_of));
        let mut arguments = put_heads(if arguments == "void" { "" } else { arguments }, heads);
        for (number, name) in head.names.iter().enumerate().rev() {
            arguments = arguments.replace(&format!("auto:{}", number + 1), name);
        }
        out.push_str(&format!("{{lambda<{}>({arguments}", head.text));
        rest = behind;
    }
    out + rest
}
