//! The symbols that a run-time compiler wrote down in `/tmp/perf-PID.map`: address, size, name.
//!
//! Anybody may make a file of that name, so its owner has to be one whose word counts: root, the user of this process, or
//! the user of the process itself while it runs. perf trusts the first two.
//!
//! A process in a container writes the number that it has there, in the container's /tmp. It is found while the process lives, if
//! the recording has its namespaces (`perf record --namespaces`), as another process may have its number by now.

use super::files;
use super::options::SymbolOptions;
use super::table::{Binding, SymbolTable, TableBuilder};
use crate::budget::Budget;
use crate::regular;
use std::collections::BTreeMap;
use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

const LARGEST: u64 = 256 << 20;

/// The symbols of a process, and why there are none where a file is there and not used.
///
/// pid_namespace: the inode of its pid namespace
/// options: where a copy may lie, of the same name, and what may be held of all files
pub fn load(pid: i32, pid_namespace: Option<u64>, options: &SymbolOptions) -> (SymbolTable, Option<String>) {
    let own = PathBuf::from(format!("/tmp/perf-{pid}.map"));
    let copy = options.symfs.as_ref().map(|symfs| files::below(symfs, &own)).filter(|copy| copy.exists());
    let inside = || in_container(pid, pid_namespace?).filter(|inside| inside.exists());
    let path = copy.or_else(inside).unwrap_or(own);
    match text(&path, pid).and_then(|text| table(&text, &options.budget).map_err(Some)) {
        Ok(table) => (table, None),
        Err(why) => (SymbolTable::default(), why.map(|why| format!("{}: not used, {why}", path.display()))),
    }
}

/// Where a process of another pid namespace writes.
fn in_container(pid: i32, pid_namespace: u64) -> Option<PathBuf> {
    let process = PathBuf::from(format!("/proc/{pid}"));
    let inode = |process: &Path| fs::metadata(process.join("ns/pid")).ok().map(|namespace| namespace.ino());
    if inode(&process) != Some(pid_namespace) || inode(Path::new("/proc/self")) == Some(pid_namespace) {
        return None;
    }
    let status = fs::read_to_string(process.join("status")).ok()?;
    let numbers = status.lines().find_map(|line| line.strip_prefix("NSpid:"))?;
    let inside: u32 = numbers.split_whitespace().last()?.parse().ok()?;
    // A link would lead out of the container.
    let tmp = process.join("root/tmp");
    let map = tmp.join(format!("perf-{inside}.map"));
    let is_link = |path: &Path| fs::symlink_metadata(path).is_ok_and(|entry| entry.is_symlink());
    (!is_link(&tmp) && !is_link(&map)).then_some(map)
}

/// The inner `None`: there is no file.
fn text(path: &Path, pid: i32) -> Result<Vec<u8>, Option<String>> {
    let failed = |error: std::io::Error| Some(error).filter(|e| e.kind() != ErrorKind::NotFound);
    let failed = |error| failed(error).map(|error| error.to_string());
    // A link belongs to the user who made it, and may lead anywhere.
    let link = fs::symlink_metadata(path).map_err(failed)?;
    let file = regular::open(path).map_err(failed)?;
    for uid in [link.uid(), file.metadata().map_err(failed)?.uid()] {
        if uid != 0 && Some(uid) != user_of("self") && Some(uid) != user_of(&pid.to_string()) {
            return Err(Some(format!(
                "it belongs to user {uid}, who is neither root nor the one who folds, nor known to be the one whose \
                 process {pid} was; if its names can be trusted: chown -h root {0} && chown root {0}",
                path.display()
            )));
        }
    }
    regular::read_all(&file, LARGEST).map_err(failed)
}

/// Who a process runs as; root where the kernel keeps its memory from its user.
fn user_of(process: &str) -> Option<u32> {
    fs::metadata(Path::new("/proc").join(process)).ok().map(|process| process.uid())
}

/// The table of a text, unless that takes more than is left.
fn table(text: &[u8], budget: &Budget) -> Result<SymbolTable, String> {
    let lines = memchr::memchr_iter(b'\n', text).count() + 1;
    // The ranges and the symbols, each of up to two parts; a list that grows has room for up to twice as many.
    let size = 2 * (text.len() as u64 + 4 * TableBuilder::size(lines));
    let share = budget.take(size).ok_or_else(|| {
        format!(
            "its {lines} lines take {size} bytes, more than is left of {} that all files may take",
            budget.whole()
        )
    })?;
    let mut table = parse(text);
    table.shares.push(share);
    Ok(table)
}

/// The order of the lines is that of time: what is compiled into memory that was free again is what runs there. An entry of
/// no bytes is no code.
fn parse(text: &[u8]) -> SymbolTable {
    let mut by_start: BTreeMap<u64, (u64, &[u8])> = BTreeMap::new();
    for line in text.split(|&byte| byte == b'\n') {
        let entry = number(line).and_then(|(start, rest)| {
            let (size, rest) = number(rest.strip_prefix(b" ")?)?;
            Some((start, size, rest.strip_prefix(b" ")?))
        });
        let Some((start, size, name)) = entry.filter(|(_, size, _)| *size > 0) else { continue };
        let end = start.saturating_add(size);
        while let Some((&old, &(old_end, old_name))) = by_start.range(..end).next_back() {
            if old_end <= start {
                break;
            }
            by_start.remove(&old);
            if old_end > end {
                by_start.insert(end, (old_end, old_name));
            }
            if old < start {
                by_start.insert(old, (start, old_name));
            }
        }
        by_start.insert(start, (end, name.trim_ascii_end()));
    }
    let mut builder = TableBuilder::default();
    for (start, (end, name)) in by_start {
        builder.push(start, end - start, name, Binding { weak: false, global: true });
    }
    builder.build()
}

/// Hexadecimal; the JVM's maps have `0x` before it, others do not.
fn number(text: &[u8]) -> Option<(u64, &[u8])> {
    recording::kallsyms::number(text.strip_prefix(b"0x").unwrap_or(text))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::addresses::ObjectAddress;

    #[test]
    fn a_later_line_is_what_runs_where_an_earlier_one_ran() {
        let map = parse(
            b"1000 100 a_longer_name\n1000 100 f\n1000 0 nothing\n2000 100 around\n2040 20 inside\n\
              3010 10 covered\n3000 40 covers\n303c 8 behind\n",
        );
        let name = |address| map.find(ObjectAddress(address)).map(String::from_utf8_lossy);
        for (address, expected) in [
            (0x1000, Some("f")),
            (0x10ff, Some("f")),
            (0x1100, None),
            (0x203f, Some("around")),
            (0x2050, Some("inside")),
            (0x2060, Some("around")),
            (0x3015, Some("covers")),
            (0x303b, Some("covers")),
            (0x3043, Some("behind")),
            (0x3044, None),
        ] {
            assert_eq!(name(address).as_deref(), expected, "{address:x}");
        }
    }

    #[test]
    fn lines_of_the_jvm_and_of_others_are_read() {
        let text = b"0x00007f21e8ec7620 0x0000000000000258 void Burn.burnCycles()\n7f21e8ed0000 10 LazyCompile:~turn\n\
            no line of a map\n";
        let map = parse(text);
        let name =
            |address| map.find(ObjectAddress(address)).map(|name| String::from_utf8_lossy(name).into_owned());
        assert_eq!(name(0x7f21_e8ec_7877).as_deref(), Some("void Burn.burnCycles()"));
        assert_eq!(name(0x7f21_e8ed_000f).as_deref(), Some("LazyCompile:~turn"));
        assert_eq!(name(0x7f21_e8ed_0010), None);
    }
}
