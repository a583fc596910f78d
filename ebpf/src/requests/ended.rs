//! The requests that ended, as rows of equal length; files and threads are listed once each, and are numbers in the
//! rows.

use std::collections::HashMap;
use std::hash::Hash;

use serde::Serialize;

use super::OPERATIONS;
use super::skeleton::types;

/// Stands for no file, no stack.
const NONE: u32 = u32::MAX;
/// Bytes of a row; little endian, in the order of `Row::bytes`. `ground.results.requests` reads them.
const ROW_BYTES: usize = 48;

/// What a request of some operation took, of all that ended, kept or not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct OperationTotal {
    pub requests: u64,
    pub bytes: u64,
    pub queue_ns: u64,
    pub device_ns: u64,
}

/// A file, its path from itself upwards as far as it was followed, with the inode of each part.
#[derive(Serialize)]
pub struct SeenFile {
    device: (u32, u32),
    inode: u64,
    generation: u32,
    path: Vec<String>,
    inodes: Vec<u64>,
}

/// A thread as the loader's pid namespace numbers it; zeros where it is not visible there.
#[derive(Serialize)]
pub struct SeenThread {
    tid: u32,
    pid: u32,
    name: String,
}

/// Device, inode and generation.
type Inode = (u32, u64, u32);
type Comm = [i8; 16];

/// Numbers things in the order in which they are first seen.
struct Numbers<T>(HashMap<T, u32>);

impl<T: Eq + Hash> Numbers<T> {
    fn of(&mut self, key: T) -> u32 {
        let next = self.0.len() as u32;
        *self.0.entry(key).or_insert(next)
    }

    fn in_order(&self) -> Vec<&T> {
        let mut found: Vec<(&T, &u32)> = self.0.iter().collect();
        found.sort_by_key(|(_, number)| **number);
        found.into_iter().map(|(key, _)| key).collect()
    }
}

pub struct EndedRequests {
    pub rows: Vec<u8>,
    pub totals: [OperationTotal; OPERATIONS.len()],
    pub not_kept: u64,
    /// Writes of data that empty the device's cache first.
    pub flushing_writes: u64,
    preflush: u32,
    /// Stacks in the order of their numbers: the hash of each, the name of its thread, and how many requests had it.
    pub stacks: Vec<(u64, Comm, u64)>,
    most: usize,
    files: Numbers<Inode>,
    threads: Numbers<(u32, u32, Comm)>,
    stack_numbers: Numbers<(u64, Comm)>,
}

impl EndedRequests {
    /// most: rows that are kept; preflush: the mask of that flag
    pub fn new(most: usize, preflush: u32) -> Self {
        Self {
            rows: Vec::new(),
            totals: Default::default(),
            not_kept: 0,
            flushing_writes: 0,
            preflush,
            stacks: Vec::new(),
            most,
            files: Numbers(HashMap::new()),
            threads: Numbers(HashMap::new()),
            stack_numbers: Numbers(HashMap::new()),
        }
    }

    pub fn kept(&self) -> u64 {
        (self.rows.len() / ROW_BYTES) as u64
    }

    /// All of them, kept or not.
    pub fn seen(&self) -> u64 {
        self.kept() + self.not_kept
    }

    pub fn add(&mut self, request: &types::flight) {
        let operation = group_of(request.flags);
        // A flush was first seen when it was issued; what was never issued waited for one.
        let issued = if request.issued == 0 { request.ended } else { request.issued };
        let queue_ns = issued.saturating_sub(request.started);
        let device_ns = request.ended.saturating_sub(issued);
        let total = &mut self.totals[operation];
        total.requests += 1;
        total.bytes += u64::from(request.bytes);
        total.queue_ns += queue_ns;
        total.device_ns += device_ns;
        self.flushing_writes += u64::from(
            operation == types::operation::WRITE.0 as usize
                && request.bytes > 0
                && request.flags & self.preflush != 0,
        );
        if self.rows.len() / ROW_BYTES >= self.most {
            self.not_kept += 1;
            return;
        }
        let file = request.file;
        let file = if file.inode == 0 && file.device == 0 {
            NONE
        } else {
            self.files.of((file.device, file.inode, file.generation))
        };
        let thread = self.threads.of((request.tid, request.tgid, request.comm));
        let stack = if request.stack > u64::from(types::no_stack::NOT_KEPT.0) {
            self.stack(request.stack, request.comm)
        } else {
            NONE
        };
        for number in [request.ended, request.offset] {
            self.rows.extend(number.to_le_bytes());
        }
        let (queue, device) = (at_most_u32(queue_ns), at_most_u32(device_ns));
        for number in [queue, device, request.bytes, request.flags, file, thread, stack] {
            self.rows.extend(number.to_le_bytes());
        }
        let small = [operation as u32, request.found, request.submitter, request.several];
        self.rows.extend(small.map(|number| number as u8));
    }

    fn stack(&mut self, hash: u64, comm: Comm) -> u32 {
        let number = self.stack_numbers.of((hash, comm));
        if number as usize == self.stacks.len() {
            self.stacks.push((hash, comm, 0));
        }
        self.stacks[number as usize].2 += 1;
        number
    }

    /// In the order of their numbers. names: the paths that were kept
    pub fn files(&self, names: Vec<(types::file_key, types::path)>) -> Vec<SeenFile> {
        let paths: HashMap<Inode, types::path> =
            names.into_iter().map(|(key, path)| ((key.device, key.inode, key.generation), path)).collect();
        let file = |key: &&Inode| {
            let (path, inodes) = paths.get(*key).map(parts_of).unwrap_or_default();
            let (device, inode, generation) = **key;
            // As the kernel has it inside: 12 bits, and 20.
            SeenFile { device: (device >> 20, device & 0xf_ffff), inode, generation, path, inodes }
        };
        self.files.in_order().iter().map(file).collect()
    }

    pub fn threads(&self) -> Vec<SeenThread> {
        let thread = |key: &&(u32, u32, Comm)| SeenThread { tid: key.0, pid: key.1, name: text(&key.2) };
        self.threads.in_order().iter().map(thread).collect()
    }
}

/// Names and inodes of a path, the file's own first. The root of a file system has an inode and no name.
fn parts_of(path: &types::path) -> (Vec<String>, Vec<u64>) {
    let there = path.parts.iter().take_while(|part| part.inode != 0);
    there.map(|part| (text(&part.name), part.inode)).unzip()
}

fn text(name: &[i8]) -> String {
    let bytes: Vec<u8> = name.iter().map(|&byte| byte as u8).take_while(|&byte| byte != 0).collect();
    String::from_utf8_lossy(&bytes).into_owned()
}

fn at_most_u32(ns: u64) -> u32 {
    u32::try_from(ns).unwrap_or(u32::MAX)
}

/// As `group_of` in device.h.
fn group_of(flags: u32) -> usize {
    use types::operation;
    let group = match flags & 0xff {
        0 => operation::READ,
        2 => operation::FLUSH,
        3 => operation::DISCARD,
        odd if odd & 1 == 1 => operation::WRITE,
        _ => operation::OTHER,
    };
    group.0 as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(flags: u32, inode: u64, tid: u32) -> types::flight {
        let file = types::file_key { inode, device: 254 << 20 | 1, generation: 7 };
        let times = (100, 150, 250);
        types::flight {
            started: times.0,
            issued: times.1,
            ended: times.2,
            offset: 8192,
            mapping: 0,
            stack: 0,
            file,
            flags,
            bytes: 4096,
            found: 1,
            submitter: 1,
            tid,
            tgid: 5,
            several: 0,
            unused: 0,
            comm: [b'a' as i8; 16],
        }
    }

    fn number(row: &[u8], at: usize) -> u32 {
        u32::from_le_bytes(row[at..at + 4].try_into().unwrap())
    }

    #[test]
    fn a_row_has_its_file_and_thread_by_number() {
        let mut ended = EndedRequests::new(3, 1 << 18);
        for (flags, inode, tid) in [(0, 11, 1), (1, 12, 1), (0, 11, 2), (0, 11, 2)] {
            ended.add(&request(flags, inode, tid));
        }
        assert_eq!((ended.kept(), ended.not_kept, ended.rows.len()), (3, 1, 3 * ROW_BYTES));
        let rows: Vec<&[u8]> = ended.rows.chunks(ROW_BYTES).collect();
        let columns = |at: usize| rows.iter().map(|row| number(row, at)).collect::<Vec<_>>();
        assert_eq!(columns(16), [50, 50, 50]);
        assert_eq!(columns(20), [100, 100, 100]);
        assert_eq!((columns(32), columns(36), columns(40)), (vec![0, 1, 0], vec![0, 0, 1], vec![NONE; 3]));
        assert_eq!(rows[1][44..], [1, 1, 1, 0]);
        // What was not kept is in the totals.
        assert_eq!(
            ended.totals[0],
            OperationTotal { requests: 3, bytes: 3 * 4096, queue_ns: 150, device_ns: 300 }
        );
        let files = ended.files(Vec::new());
        assert_eq!((files.len(), files[0].device, files[1].inode), (2, (254, 1), 12));
        assert_eq!(ended.threads()[1].tid, 2);
    }

    #[test]
    fn what_was_never_issued_waited_in_the_queue() {
        let mut ended = EndedRequests::new(1, 1 << 18);
        ended.add(&types::flight { issued: 0, bytes: 0, ..request(1, 0, 1) });
        let total = ended.totals[1];
        assert_eq!((total.requests, total.queue_ns, total.device_ns), (1, 150, 0));
    }

    #[test]
    fn stacks_are_told_apart_by_the_names_of_their_threads() {
        let mut ended = EndedRequests::new(4, 1 << 18);
        let other = types::flight { comm: [b'b' as i8; 16], stack: 99, ..request(0, 11, 1) };
        for request in [types::flight { stack: 99, ..request(0, 11, 1) }, other, other] {
            ended.add(&request);
        }
        assert_eq!(ended.stacks.iter().map(|stack| stack.2).collect::<Vec<_>>(), [1, 2]);
    }
}
