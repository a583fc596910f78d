//! Which files lay at the paths of mapped ones: of a packed run on the machine where it was packed, of what was copied
//! while it was mapped (ground/results/files_at_paths.py writes both).
//!
//! ```text
//! ioflame-files 1
//! 254:0 1314 7a9d2f...c1 /usr/lib/x86_64-linux-gnu/libc.so.6
//! 254:0 1422 - /usr/bin/a program without a build id
//! ```

use crate::regular;
use std::collections::HashMap;
use std::ffi::OsStr;
use std::io::ErrorKind;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

const FIRST_LINE: &[u8] = b"ioflame-files 1";
const LARGEST: u64 = 64 << 20;

/// Which file a path led to, on the machine and in the container where it was mapped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct DeviceInode {
    pub major: u32,
    pub minor: u32,
    pub inode: u64,
}

impl DeviceInode {
    /// The file of this path here.
    pub fn of_path(path: &[u8]) -> Option<Self> {
        let file = std::fs::metadata(OsStr::from_bytes(path)).ok()?;
        let (major, minor) = (libc::major(file.dev()), libc::minor(file.dev()));
        Some(Self { major, minor, inode: file.ino() })
    }
}

/// Which file it was, and its build id if it has one.
type FileAtPath = (DeviceInode, Option<Vec<u8>>);

/// By the paths that they lay at.
#[derive(Debug, Default)]
pub struct FilesAtPaths {
    files: HashMap<Vec<u8>, FileAtPath>,
    /// Why it could not be read: then nothing is known of any path.
    pub problem: Option<String>,
}

impl FilesAtPaths {
    /// `None` where there is none: nothing was packed or copied, or by a version that wrote none.
    pub fn read(path: &Path) -> Option<Self> {
        let text = match regular::read(path, LARGEST) {
            Err(error) if error.kind() == ErrorKind::NotFound => return None,
            text => text.map_err(|error| error.to_string()),
        };
        let refused = |why: String| Self {
            files: HashMap::new(),
            problem: Some(format!(
                "{}: not used, {why}; files that the recording has no build id of may have no names; fix: unpack the \
                 run again, with the version of ioflame that wrote it or a newer one",
                path.display()
            )),
        };
        Some(text.and_then(|text| parse(&text)).map_or_else(refused, |files| Self { files, problem: None }))
    }

    pub fn file(&self, path: &[u8]) -> Option<DeviceInode> {
        self.files.get(path).map(|(file, _)| *file)
    }

    pub fn build_id(&self, path: &[u8]) -> Option<&[u8]> {
        self.files.get(path)?.1.as_deref()
    }
}

fn parse(text: &[u8]) -> Result<HashMap<Vec<u8>, FileAtPath>, String> {
    let shown = |line: &[u8]| String::from_utf8_lossy(&line[..line.len().min(80)]).into_owned();
    let mut lines = text.split(|&byte| byte == b'\n');
    let first = lines.next().unwrap_or_default();
    if first != FIRST_LINE {
        return Err(format!("it begins with '{}', not with '{}'", shown(first), shown(FIRST_LINE)));
    }
    if !text.ends_with(b"\n") {
        return Err("its last line is cut short".to_owned());
    }
    let entry = |line| file(line).ok_or_else(|| format!("a line of it is '{}'", shown(line)));
    lines.filter(|line| !line.is_empty()).map(entry).collect()
}

fn file(line: &[u8]) -> Option<(Vec<u8>, FileAtPath)> {
    let mut words = line.splitn(4, |&byte| byte == b' ');
    let mut word = || words.next().map(|word| std::str::from_utf8(word).ok());
    let (device, inode, build_id) = (word()??, word()??, word()??);
    let (major, minor) = device.split_once(':')?;
    let identity =
        DeviceInode { major: major.parse().ok()?, minor: minor.parse().ok()?, inode: inode.parse().ok()? };
    let build_id = if build_id == "-" { None } else { Some(bytes_of_hex(build_id)?) };
    Some((words.next()?.to_vec(), (identity, build_id)))
}

fn bytes_of_hex(text: &str) -> Option<Vec<u8>> {
    let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
    text.len().is_multiple_of(2).then(|| text.as_bytes().chunks(2).map(byte).collect())?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_known_by_their_paths() {
        let read = parse(b"ioflame-files 1\n254:1 7 0aff /usr/lib/a library.so\n0:35 8 - /x\n").unwrap();
        let file = |major, minor, inode| DeviceInode { major, minor, inode };
        assert_eq!(read[&b"/usr/lib/a library.so"[..]], (file(254, 1, 7), Some(vec![0x0a, 0xff])));
        assert_eq!(read[&b"/x"[..]], (file(0, 35, 8), None));
    }

    #[test]
    fn what_is_damaged_is_refused_with_its_line() {
        for (text, named) in [
            ("", "begins with ''"),
            ("ioflame-files 2\n", "begins with 'ioflame-files 2'"),
            ("ioflame-files 1\n254:1 7 0aff /usr/lib/li", "cut short"),
            ("ioflame-files 1\n254:1 7 0af /x\n", "'254:1 7 0af /x'"),
            ("ioflame-files 1\n254 7 0aff /x\n", "'254 7 0aff /x'"),
            ("ioflame-files 1\n254:1 7 0aff\n", "'254:1 7 0aff'"),
            ("ioflame-files 1\n254:1 7 \u{e9}0 /x\n", "'254:1 7 \u{e9}0 /x'"),
        ] {
            let why = parse(text.as_bytes()).unwrap_err();
            assert!(why.contains(named), "{text:?}: {why}");
        }
    }
}
