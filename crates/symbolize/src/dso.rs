//! What the name of a mapped object says about a frame.

use memchr::memmem;

/// Bracketed names that are not kernel modules.
const USER_BRACKETS: [&[u8]; 8] =
    [b"[vdso]", b"[vsyscall]", b"[heap]", b"[stack]", b"[anon]", b"[unknown]", b"[uprobes]", b"[inlined]"];

/// Whether the object is the kernel, one of its modules, or a program it runs.
pub fn is_kernel(dso: &[u8]) -> bool {
    if dso.starts_with(b"[") {
        let name = dso.split(|&b| b == b' ').next().unwrap_or(dso);
        return !is_jit(dso)
            && !USER_BRACKETS.contains(&name)
            && !name.starts_with(b"[stack:")
            && !name.starts_with(b"[anon:");
    }
    let base = base(dso);
    base.starts_with(b"vmlinux")
        || base.starts_with(b"bpf_prog_")
        || base.ends_with(b".ko")
        || memmem::find(base, b".ko.").is_some()
}

/// Whether the object is memory that holds no code.
pub fn is_data(dso: &[u8]) -> bool {
    dso.starts_with(b"[stack") || dso.starts_with(b"[heap]")
}

/// Whether the object holds code made at run time.
pub fn is_jit(dso: &[u8]) -> bool {
    let base = base(dso);
    dso.starts_with(b"[JIT]")
        || dso.starts_with(b"[JIT app cache]")
        || base.starts_with(b"jitted-")
        || (base.starts_with(b"perf-") && base.ends_with(b".map"))
}

/// `[name]`: shown for an unresolved symbol of a known object.
pub fn bracketed(dso: &[u8]) -> Option<Vec<u8>> {
    let name = dso.strip_suffix(b" (deleted)").unwrap_or(dso);
    if name.is_empty() || name == b"[unknown]" {
        return None;
    }
    if name.starts_with(b"[JIT] tid ") {
        return Some(b"[JIT]".to_vec());
    }
    if name.starts_with(b"[") {
        return Some(name.to_vec());
    }
    Some([b"[", &without_random(base(name))[..], b"]"].concat())
}

/// Digits that no version has: a library that a JVM unpacks has 17 to 20 of its own in its name, a date has 8 to 14.
const RANDOM: usize = 15;
/// Length of a UUID.
const UUID: usize = 36;

/// The name of a file, with `*` where each run has another number or UUID: `librocksdbjni1640531527853426401.so`,
/// `perf-71.map`.
pub fn without_random(name: &[u8]) -> Vec<u8> {
    let is_map =
        |name: &[u8]| name.strip_prefix(b"perf-").and_then(|name| name.strip_suffix(b".map")).map(is_digits);
    if is_map(name) == Some(true) {
        return b"perf-*.map".to_vec();
    }
    // Nearly always: neither is in so little.
    if name.len() < UUID && name.iter().filter(|byte| byte.is_ascii_digit()).count() < RANDOM {
        return name.to_vec();
    }
    let (mut out, mut rest) = (Vec::with_capacity(name.len()), name);
    while let Some((&first, behind)) = rest.split_first() {
        let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
        let random = if digits >= RANDOM { digits } else { uuid(rest) };
        if random > 0 {
            out.push(b'*');
            rest = &rest[random..];
            continue;
        }
        // The rest of a number is none.
        let plain = digits.max(1);
        out.push(first);
        out.extend_from_slice(&behind[..plain - 1]);
        rest = &behind[plain - 1..];
    }
    out
}

fn is_digits(text: &[u8]) -> bool {
    !text.is_empty() && text.iter().all(u8::is_ascii_digit)
}

/// How long the UUID is that the text begins with; 0 if it does with none.
fn uuid(text: &[u8]) -> usize {
    let is_part = |(at, byte): (usize, &u8)| match at {
        8 | 13 | 18 | 23 => *byte == b'-',
        _ => byte.is_ascii_hexdigit(),
    };
    if text.len() >= UUID && text.iter().take(UUID).enumerate().all(is_part) { UUID } else { 0 }
}

/// The object in front of a symbol: its base name, without brackets.
pub fn plain(dso: &[u8]) -> Option<Vec<u8>> {
    let mut name = bracketed(dso)?;
    name.retain(|b| !matches!(b, b'[' | b']'));
    Some(name)
}

fn base(path: &[u8]) -> &[u8] {
    let path = path.strip_suffix(b" (deleted)").unwrap_or(path);
    memchr::memrchr(b'/', path).map_or(path, |slash| &path[slash + 1..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernel_is_decided_by_the_object() {
        for dso in [
            "[kernel.kallsyms]",
            "[kernel.vmlinux]",
            "[guest.kernel.kallsyms.123]",
            "[nf_conntrack_ipv4]",
            "/usr/lib/debug/boot/vmlinux-6.1",
            "/lib/modules/6.1/kernel/fs/ext4/ext4.ko",
            "/lib/modules/6.1/ext4.ko.xz",
            "bpf_prog_6deef7357e7b4530_sd_fw",
        ] {
            assert!(is_kernel(dso.as_bytes()), "{dso}");
        }
        for dso in [
            "[vdso]",
            "[heap]",
            "[unknown]",
            "[JIT] tid 123",
            "[JIT app cache]",
            "[vsyscall]",
            "[stack:12]",
            "/usr/lib/libc.so.6",
            "/tmp/perf-7539.map",
            "//anon",
            "/opt/vm/linux",
            "",
        ] {
            assert!(!is_kernel(dso.as_bytes()), "{dso}");
        }
    }

    #[test]
    fn run_time_code_is_known_by_its_object() {
        for dso in
            ["/tmp/perf-7539.map", "/tmp/jitted-31714-4145673320.so", "[JIT] tid 123", "[JIT app cache]"]
        {
            assert!(is_jit(dso.as_bytes()), "{dso}");
        }
        assert!(!is_jit(b"/usr/lib/libjit.so"));
        assert!(!is_jit(b"/etc/perf-notes.txt"));
    }

    #[test]
    fn unknown_symbols_take_the_name_of_their_object() {
        let name = |dso: &str| bracketed(dso.as_bytes()).map(|b| String::from_utf8_lossy(&b).into_owned());
        assert_eq!(name("/usr/lib/librocksdb.so.7.8.3").as_deref(), Some("[librocksdb.so.7.8.3]"));
        assert_eq!(name("/memfd:x (deleted)").as_deref(), Some("[memfd:x]"));
        assert_eq!(name("/opt/my app/lib foo.so (deleted)").as_deref(), Some("[lib foo.so]"));
        assert_eq!(name("//anon").as_deref(), Some("[anon]"));
        for (path, shown) in [
            ("/tmp/librocksdbjni1640531527853426401.so", "[librocksdbjni*.so]"),
            (
                "/tmp/libnetty_transport_native_epoll_x86_6417031234567890123456.so",
                "[libnetty_transport_native_epoll_x86_*.so]",
            ),
            (
                "/tmp/snappy-1.1.10-c0a8f1d2-93ab-4f0e-8a51-0123456789ab-libsnappyjava.so",
                "[snappy-1.1.10-*-libsnappyjava.so]",
            ),
            ("/usr/lib/libabsl_base.so.20220623.0.0", "[libabsl_base.so.20220623.0.0]"),
            ("/opt/plugin-20261128180922.so", "[plugin-20261128180922.so]"),
            ("/tmp/perf-7539.map", "[perf-*.map]"),
            ("[JIT] tid 71", "[JIT]"),
        ] {
            assert_eq!(name(path).as_deref(), Some(shown));
        }
        assert_eq!(name("[heap]").as_deref(), Some("[heap]"));
        assert_eq!(name("[unknown]"), None);
        assert_eq!(name(""), None);
    }
}
