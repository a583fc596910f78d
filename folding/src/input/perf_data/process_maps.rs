//! Who ran under which name, and what was mapped where: the state that the records between samples change.

use crate::addresses::{FileOffset, ProcessAddress};
use crate::intern::IntMap;
use crate::symbols::{DeviceInode, ObjectId, Symbols, UserMapping};
use perfdata::format::{PROTECTION_EXECUTE, ksymbol, misc};
use perfdata::reader::bytes::ByteReader;
use rpds::RedBlackTreeMapSync;
use std::collections::VecDeque;
use std::sync::Arc;

/// Threads that have ended and are still known: a CPU's event samples a thread for a while after its record of the end.
const ENDED: usize = 1024;

/// A mapped range of code.
#[derive(Clone, Copy, Debug)]
pub struct Map {
    pub start: ProcessAddress,
    pub end: ProcessAddress,
    /// What to add to an address to get the offset in the file; 0 where there is no file.
    file_bias: u64,
    pub object: ObjectId,
}

impl Map {
    pub fn offset_of(&self, address: ProcessAddress) -> FileOffset {
        FileOffset(address.0.wrapping_add(self.file_bias))
    }
}

/// The code mapped in one process, or in the kernel. Samples keep the version that they were taken in; it shares all but the
/// change with the one before.
#[derive(Clone)]
pub struct AddressSpace {
    /// By their starts.
    maps: RedBlackTreeMapSync<ProcessAddress, Map>,
    /// Changes whenever the maps do; equal versions mean equal maps.
    pub version: u64,
}

impl Default for AddressSpace {
    fn default() -> Self {
        Self { maps: RedBlackTreeMapSync::new_sync(), version: 0 }
    }
}

impl AddressSpace {
    pub fn find(&self, address: ProcessAddress) -> Option<&Map> {
        self.maps.range(..=address).next_back().map(|(_, map)| map).filter(|map| address < map.end)
    }

    /// In the order of their addresses.
    pub fn maps(&self) -> impl ExactSizeIterator<Item = &Map> {
        self.maps.values()
    }

    /// Maps a range; what it covers of older ones goes.
    fn insert(&mut self, map: Map, version: u64) {
        self.version = version;
        while let Some(&old) =
            self.maps.range(..map.end).next_back().map(|(_, old)| old).filter(|old| old.end > map.start)
        {
            self.maps.remove_mut(&old.start);
            if old.end > map.end {
                self.maps.insert_mut(map.end, Map { start: map.end, ..old });
            }
            if old.start < map.start {
                self.maps.insert_mut(old.start, Map { end: map.start, ..old });
            }
        }
        self.maps.insert_mut(map.start, map);
    }

    fn remove(&mut self, start: ProcessAddress, version: u64) {
        self.version = version;
        self.maps.remove_mut(&start);
    }
}

#[derive(Default)]
pub struct ProcessMaps {
    pub kernel: AddressSpace,
    spaces: IntMap<i32, AddressSpace>,
    comms: IntMap<i32, Arc<[u8]>>,
    /// The process of each thread that has begun.
    threads: IntMap<i32, i32>,
    threads_seen: u64,
    /// How many threads each process has.
    alive: IntMap<i32, u32>,
    ended: VecDeque<i32>,
    /// The inode of each process's pid namespace.
    pid_namespaces: IntMap<i32, u64>,
    versions: u64,
}

impl ProcessMaps {
    /// The name of a thread; perf's `:TID` where no record names it.
    pub fn comm(&mut self, tid: i32) -> &[u8] {
        let unknown = || match tid {
            0 => Arc::from(&b"swapper"[..]),
            _ => Arc::from(format!(":{tid}").into_bytes()),
        };
        self.comms.entry(tid).or_insert_with(unknown)
    }

    pub fn space(&self, pid: i32) -> Option<&AddressSpace> {
        self.spaces.get(&pid)
    }

    /// How many threads have begun, before the recording or while it lasted.
    pub fn threads_seen(&self) -> u64 {
        self.threads_seen
    }

    fn begin_thread(&mut self, pid: i32, tid: i32) {
        if let Some(at) = self.ended.iter().position(|&ended| ended == tid) {
            self.ended.remove(at);
            self.forget_thread(tid);
        }
        if self.threads.insert(tid, pid).is_none() {
            self.threads_seen += 1;
            *self.alive.entry(pid).or_default() += 1;
        }
    }

    fn forget_thread(&mut self, tid: i32) {
        self.comms.remove(&tid);
        let Some(pid) = self.threads.remove(&tid) else { return };
        let Some(alive) = self.alive.get_mut(&pid) else { return };
        *alive -= 1;
        if *alive == 0 {
            self.alive.remove(&pid);
            self.spaces.remove(&pid);
            self.pid_namespaces.remove(&pid);
        }
    }

    /// A thread has ended. It is forgotten when many others have.
    pub fn exit_record(&mut self, body: &[u8]) -> Option<()> {
        let mut at = ByteReader(body);
        let (_pid, _parent, tid) = (at.i32()?, at.i32()?, at.i32()?);
        self.ended.push_back(tid);
        if self.ended.len() > ENDED {
            self.ended.pop_front().into_iter().for_each(|tid| self.forget_thread(tid));
        }
        Some(())
    }

    /// The namespaces of a process: device and inode of each.
    pub fn namespaces_record(&mut self, body: &[u8]) -> Option<()> {
        const PID_NAMESPACE: u64 = 3;
        let mut at = ByteReader(body);
        let (pid, _tid, count) = (at.i32()?, at.i32()?, at.u64()?);
        if count > PID_NAMESPACE {
            at.words(2 * PID_NAMESPACE + 1)?;
            self.pid_namespaces.insert(pid, at.u64()?);
        }
        Some(())
    }

    fn next_version(&mut self) -> u64 {
        self.versions += 1;
        self.versions
    }

    pub fn comm_record(&mut self, misc: u16, body: &[u8]) -> Option<()> {
        let mut at = ByteReader(body);
        let (pid, tid) = (at.i32()?, at.i32()?);
        self.begin_thread(pid, tid);
        self.comms.insert(tid, Arc::from(at.text()));
        if misc & misc::COMM_EXEC != 0 {
            // What was mapped before the exec is no longer there.
            self.spaces.remove(&pid);
        }
        Some(())
    }

    pub fn fork_record(&mut self, misc: u16, body: &[u8]) -> Option<()> {
        let mut at = ByteReader(body);
        let (pid, parent_pid, tid, parent_tid) = (at.i32()?, at.i32()?, at.i32()?, at.i32()?);
        self.begin_thread(pid, tid);
        match self.comms.get(&parent_tid).cloned() {
            Some(comm) => self.comms.insert(tid, comm),
            None => self.comms.remove(&tid),
        };
        if pid != parent_pid && misc & misc::FORK_EXEC == 0 {
            match self.spaces.get(&parent_pid).cloned() {
                Some(space) => self.spaces.insert(pid, space),
                None => self.spaces.remove(&pid),
            };
        }
        Some(())
    }

    /// `MMAP` and `MMAP2`.
    pub fn mmap_record(&mut self, misc: u16, body: &[u8], newer: bool, symbols: &mut Symbols) -> Option<()> {
        let mut at = ByteReader(body);
        let (pid, _tid) = (at.i32()?, at.i32()?);
        let (start, len, offset) = (at.u64()?, at.u64()?, at.u64()?);
        let (mut build_id, mut file) = (None, None);
        if newer {
            let identity = at.take(24)?;
            build_id = (misc & misc::MMAP_BUILD_ID != 0).then(|| build_id_of(identity)).flatten();
            file = if build_id.is_none() { identity_of(identity) } else { None };
            let protection = at.u32()?;
            at.u32()?;
            // perf notes the kernel without any protection.
            if protection & PROTECTION_EXECUTE == 0 && misc & misc::CPU_MODE != misc::KERNEL {
                return Some(());
            }
        } else {
            if misc & misc::MMAP_DATA != 0 {
                return Some(());
            }
        }
        let path = at.text();
        let end = start.checked_add(len)?;
        if start >= end {
            return None;
        }
        let version = self.next_version();
        let map = |file_bias, object| Map {
            start: ProcessAddress(start),
            end: ProcessAddress(end),
            file_bias,
            object,
        };
        if misc & misc::CPU_MODE == misc::KERNEL {
            let object = symbols.kernel_object(path, build_id, start, offset);
            self.kernel.insert(map(0, object), version);
            return Some(());
        }
        let (object, absolute) = symbols.user_object(&UserMapping {
            path,
            build_id,
            file,
            pid,
            pid_namespace: self.pid_namespaces.get(&pid).copied(),
        });
        let file_bias = if absolute { 0 } else { offset.wrapping_sub(start) };
        self.spaces.entry(pid).or_default().insert(map(file_bias, object), version);
        Some(())
    }

    /// Code that the kernel made at run time, BPF programs above all.
    pub fn ksymbol_record(&mut self, body: &[u8], symbols: &mut Symbols) -> Option<()> {
        let mut at = ByteReader(body);
        let (start, len, _kind, flags) = (ProcessAddress(at.u64()?), at.u32()?, at.u16()?, at.u16()?);
        let version = self.next_version();
        if flags & ksymbol::UNREGISTER != 0 {
            self.kernel.remove(start, version);
            return Some(());
        }
        let end = start.0.checked_add(len.into()).map(ProcessAddress).filter(|&end| end > start)?;
        let object = symbols.named_object(at.text());
        self.kernel.insert(Map { start, end, file_bias: 0, object }, version);
        Some(())
    }
}

/// The build id in the 24 bytes of a mapping's identity: its length, three zeros, and twenty bytes that end in zeros.
///
/// A system-wide recording with `--buildid-mmap` makes the kernel (seen on 6.18) mark the mappings of other recordings,
/// too, whose 24 bytes are what they were: device, inode and the inode's generation.
fn build_id_of(identity: &[u8]) -> Option<&[u8]> {
    let (head, room) = identity.split_at(4);
    let (id, padding) = room.split_at_checked(head[0].into())?;
    let marked_rightly = !id.is_empty() && head[1..] == [0; 3] && padding.iter().all(|&byte| byte == 0);
    marked_rightly.then_some(id)
}

/// Device and inode, where the mapping has a file. The inode's generation is left out: perf does not know it of what was mapped
/// before the recording.
fn identity_of(identity: &[u8]) -> Option<DeviceInode> {
    let mut at = ByteReader(identity);
    let (major, minor, inode) = (at.u32()?, at.u32()?, at.u64()?);
    (inode != 0).then_some(DeviceInode { major, minor, inode })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_and_an_inode_are_no_build_id() {
        let identity = |head: [u8; 4], id: &[u8]| [&head, id, &vec![0; 20 - id.len()]].concat();
        let sha1 = identity([20, 0, 0, 0], &[7; 20]);
        assert_eq!(build_id_of(&sha1), Some(&[7; 20][..]));
        assert_eq!(build_id_of(&identity([8, 0, 0, 0], &[7; 8])), Some(&[7; 8][..]), "lld's");
        assert_eq!(build_id_of(&identity([0; 4], &[])), None, "a device without a number, as btrfs has");
        assert_eq!(build_id_of(&identity([254, 0, 0, 0], &[7; 20])), None, "a virtual disk");
        assert_eq!(build_id_of(&identity([3, 1, 0, 0], &[7; 3])), None, "NVMe, device 259");
        assert_eq!(build_id_of(&identity([8, 0, 0, 0], &[7; 16])), None, "SCSI, with a generation");
    }

    fn map(start: u64, end: u64) -> Map {
        Map {
            start: ProcessAddress(start),
            end: ProcessAddress(end),
            file_bias: 0,
            object: ObjectId(start as u32),
        }
    }

    #[test]
    fn a_map_covers_the_older_ones() {
        let mut space = AddressSpace::default();
        for (version, (start, end)) in [(0, 100), (200, 300), (50, 250), (60, 70)].into_iter().enumerate() {
            space.insert(map(start, end), version as u64 + 1);
        }
        let at = |address| space.find(ProcessAddress(address)).map(|map| map.object.0);
        assert_eq!([at(0), at(49), at(50), at(60), at(69), at(70)], [0, 0, 50, 60, 60, 50].map(Some));
        assert_eq!([at(249), at(250), at(299), at(300)], [Some(50), Some(200), Some(200), None]);
        assert_eq!(space.version, 4);
    }

    /// A process begins, and as many others as are remembered come and go.
    #[test]
    fn threads_that_ended_are_forgotten_when_many_others_have() {
        let mut processes = ProcessMaps::default();
        let record = |ids: [i32; 4]| ids.map(i32::to_le_bytes).concat();
        let begin = |processes: &mut ProcessMaps, pid, tid| {
            processes.fork_record(0, &record([pid, 1, tid, 1])).unwrap();
            processes.comm_record(0, &[&record([pid, tid, 0, 0])[..8], &b"t\0"[..]].concat()).unwrap();
            processes.spaces.entry(pid).or_default();
        };
        let end = |processes: &mut ProcessMaps, pid, tid| {
            processes.exit_record(&record([pid, 1, tid, 1])).unwrap();
        };
        // The first thread of 10 ends before the second; 20 ends and its number is given to a thread of 10.
        begin(&mut processes, 10, 10);
        begin(&mut processes, 10, 11);
        begin(&mut processes, 20, 20);
        end(&mut processes, 10, 10);
        end(&mut processes, 20, 20);
        assert_eq!(processes.comm(10), b"t", "what is sampled while it ends has its name");
        begin(&mut processes, 10, 20);
        assert!(processes.space(20).is_none());
        for pid in 1000..1000 + 5 * ENDED as i32 {
            begin(&mut processes, pid, pid);
            end(&mut processes, pid, pid);
        }
        assert!(processes.space(10).is_some(), "two of its threads live");
        assert_eq!(processes.comm(10), b":10");
        assert_eq!((processes.spaces.len(), processes.threads.len()), (ENDED + 1, ENDED + 2));
        assert_eq!(processes.threads_seen(), 4 + 5 * ENDED as u64);
    }
}
