//! The text of /proc: proc(5). Names in it are other people's: they may have any byte.

use perfdata::writer::MappedCode;
use std::ops::Range;

/// What `/proc/TID/stat` says of a thread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stat {
    /// The thread's name, as its bytes are.
    pub comm: Vec<u8>,
    /// R, S, D, T, t, Z, X, I
    pub state: u8,
    /// The process that its process is a child of.
    pub parent: u32,
    /// Its start, in clock ticks since boot.
    pub start_ticks: u64,
}

/// The name is between the first `(` and the last `)`, and may hold both, blanks and line feeds.
pub fn stat(text: &[u8]) -> Option<Stat> {
    let open = text.iter().position(|&byte| byte == b'(')?;
    let close = text.iter().rposition(|&byte| byte == b')')?;
    let comm = text.get(open + 1..close)?.to_vec();
    let mut fields = text[close + 1..].split(|byte| byte.is_ascii_whitespace()).filter(|f| !f.is_empty());
    let state = *fields.next()?.first()?;
    let parent = number(fields.next()?)?;
    // state is field 3, the start is field 22.
    Some(Stat { comm, state, parent, start_ticks: number(fields.nth(17)?)? })
}

fn number<T: std::str::FromStr>(text: &[u8]) -> Option<T> {
    std::str::from_utf8(text).ok()?.parse().ok()
}

/// What `/proc/PID/status` says after `name:`. The process's own name is in it too, but escaped.
pub fn status<'a>(text: &'a [u8], name: &str) -> Option<&'a str> {
    let mut lines = text.split(|&byte| byte == b'\n');
    let line = lines.find_map(|line| line.strip_prefix(name.as_bytes())?.strip_prefix(b":"))?;
    std::str::from_utf8(line).ok().map(str::trim)
}

/// Where a blocked thread entered the kernel: `/proc/TID/syscall`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Syscall {
    /// -1: blocked, but not in a system call (a page fault).
    pub number: i64,
    /// As the program gave them; 0 where it is in no system call.
    pub arguments: [u64; 6],
    pub sp: u64,
    pub pc: u64,
}

/// `None` for `running`, and for whatever is no such line.
pub fn syscall(text: &[u8]) -> Option<Syscall> {
    let text = std::str::from_utf8(text).ok()?.trim();
    let fields: Vec<&str> = text.split(' ').collect();
    let (first, last) = (fields.first()?, fields.get(fields.len().checked_sub(2)?..)?);
    let hex = |text: &str| u64::from_str_radix(text.strip_prefix("0x")?, 16).ok();
    let given = fields.get(1..fields.len() - 2).unwrap_or_default();
    let arguments = std::array::from_fn(|n| given.get(n).and_then(|text| hex(text)).unwrap_or(0));
    Some(Syscall { number: first.parse().ok()?, arguments, sp: hex(last[0])?, pc: hex(last[1])? })
}

/// A frame of `/proc/TID/stack`: function, offset in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KernelFrame {
    pub function: Vec<u8>,
    pub offset: u64,
}

/// Lines like `[<0>] futex_wait_queue+0x60/0x90 [module]`, leaf first.
pub fn kernel_stack(text: &[u8]) -> Vec<KernelFrame> {
    let frame = |line: &[u8]| {
        let place = line.split(|&byte| byte == b' ').nth(1)?;
        let plus = place.iter().position(|&byte| byte == b'+')?;
        let offset = std::str::from_utf8(&place[plus + 1..]).ok()?;
        let offset = offset.split('/').next()?.strip_prefix("0x")?;
        Some(KernelFrame { function: place[..plus].to_vec(), offset: u64::from_str_radix(offset, 16).ok()? })
    };
    text.split(|&byte| byte == b'\n').filter_map(frame).collect()
}

/// A line of `/proc/PID/maps`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mapping {
    pub range: Range<u64>,
    pub offset: u64,
    pub executable: bool,
    /// `major:minor` and inode of its file; inode 0 where it has none.
    pub device: Vec<u8>,
    pub inode: u64,
    /// The path unchanged, `[vdso]` and the like, or empty.
    pub path: Vec<u8>,
}

impl<'a> From<&'a Mapping> for MappedCode<'a> {
    fn from(map: &'a Mapping) -> Self {
        Self { range: map.range.clone(), offset: map.offset, path: &map.path }
    }
}

pub fn maps(text: &[u8]) -> Vec<Mapping> {
    text.split(|&byte| byte == b'\n').filter_map(mapping).collect()
}

fn mapping(line: &[u8]) -> Option<Mapping> {
    // range, permissions, offset, device, inode, path; the path may hold blanks.
    let mut fields = line.splitn(6, |&byte| byte == b' ');
    let range = std::str::from_utf8(fields.next()?).ok()?;
    let (start, end) = range.split_once('-')?;
    let hex = |text: &str| u64::from_str_radix(text, 16).ok();
    let permissions = fields.next()?;
    let offset = hex(std::str::from_utf8(fields.next()?).ok()?)?;
    let device = fields.next().unwrap_or(b"").to_vec();
    let inode = fields.next().and_then(number).unwrap_or(0);
    let path = fields.next().unwrap_or(b"").trim_ascii_start();
    Some(Mapping {
        range: hex(start)?..hex(end)?,
        offset,
        executable: permissions.get(2) == Some(&b'x'),
        device,
        inode,
        path: unescaped(path),
    })
}

/// The kernel writes a line feed in a path as `\012`, and nothing else so.
fn unescaped(path: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(path.len());
    let mut rest = path;
    while let Some((&byte, tail)) = rest.split_first() {
        if let Some(tail) = rest.strip_prefix(b"\\012") {
            out.push(b'\n');
            rest = tail;
        } else {
            out.push(byte);
            rest = tail;
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    const TAIL: &str = " S 1 2 3 0 -1 4194304 1 0 0 0 5 6 0 0 20 0 12 0 987654 1 2 3";

    #[test]
    fn a_thread_may_have_any_name() {
        let names: [&[u8]; 6] = [b"db_bench", b"a) R 1 (b", b"x;y\nz", b" ", b"", b"\xff\xfe) D 9"];
        for name in names {
            let text = [b"4711 (", name, b")", TAIL.as_bytes()].concat();
            assert_eq!(
                stat(&text),
                Some(Stat { comm: name.to_vec(), state: b'S', parent: 1, start_ticks: 987_654 })
            );
        }
        for broken in [&b""[..], b"1 (a", b"1 (a)", b"1 (a) S 1 2", b") 1 ("] {
            assert_eq!(stat(broken), None, "{broken:?}");
        }
    }

    #[test]
    fn a_line_of_the_status() {
        let text = b"Name:\tTracerPid:\\n9\nTracerPid:\t17\nUid:\t0\t0\t0\t0\n";
        assert_eq!([status(text, "TracerPid"), status(text, "None")], [Some("17"), None]);
    }

    #[test]
    fn a_blocked_thread_tells_where_it_entered() {
        let found = syscall(b"202 0x7f 0x80 0x0 0x0 0x0 0xffffffff 0x7ffc10 0x7f1234\n");
        let arguments = [0x7f, 0x80, 0, 0, 0, 0xffff_ffff];
        assert_eq!(found, Some(Syscall { number: 202, arguments, sp: 0x7f_fc10, pc: 0x7f_1234 }));
        let fault = syscall(b"-1 0x7ffc10 0x7f1234\n").unwrap();
        assert_eq!((fault.number, fault.arguments, fault.sp), (-1, [0; 6], 0x7f_fc10));
        assert_eq!([syscall(b"running\n"), syscall(b""), syscall(b"\xff 0x1 0x2")], [None; 3]);
    }

    #[test]
    fn kernel_frames_are_functions_and_offsets() {
        let text =
            b"[<0>] futex_wait_queue+0x60/0x90\n[<0>] ext4_read+0x1f/0x20 [ext4]\nnonsense\n[<0>] x+y/z\n";
        let frames = kernel_stack(text);
        let seen: Vec<(&[u8], u64)> = frames.iter().map(|f| (&f.function[..], f.offset)).collect();
        assert_eq!(seen, [(&b"futex_wait_queue"[..], 0x60), (b"ext4_read", 0x1f)]);
        assert_eq!(kernel_stack(b""), []);
    }

    #[test]
    fn paths_may_hold_blanks_line_feeds_and_anything() {
        let text = b"7f00-7f10 r-xp 00001000 fe:01 42                        /a b/x;\\012y\xff (deleted)\n\
            7f10-7f20 rw-p 00000000 00:00 0 \n\
            zz-7f30 r-xp 0 0 0\n\
            7ffe0000-7ffe2000 r-xp 00000000 00:00 0    [vdso]\n";
        let found = maps(text);
        assert_eq!(found.len(), 3);
        assert_eq!(found[0].path, b"/a b/x;\ny\xff (deleted)");
        assert_eq!((found[0].offset, found[0].executable), (0x1000, true));
        assert_eq!((&found[0].device[..], found[0].inode, found[1].inode), (&b"fe:01"[..], 42, 0));
        assert_eq!((&found[1].path[..], found[1].executable), (&b""[..], false));
        assert_eq!((&found[2].path[..], found[2].range.clone()), (&b"[vdso]"[..], 0x7ffe_0000..0x7ffe_2000));
    }
}
