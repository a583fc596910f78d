//! Who ran under which name, and what was mapped where: the state that the records between samples change.

use super::address_space::{AddressSpace, Map};
use crate::addresses::ProcessAddress;
use crate::budget::{Budget, BudgetShare};
use crate::error::Error;
use crate::intern::IntMap;
use crate::symbols::{DeviceInode, Symbols, UserMapping};
use perfdata::format::{PROTECTION_EXECUTE, ksymbol, misc};
use perfdata::reader::bytes::ByteReader;
use std::borrow::Cow;
use std::collections::VecDeque;
use std::sync::Arc;

/// Threads that have ended and are still known: a CPU's event samples a thread for a while after its record of the end.
const ENDED: usize = 1024;

/// Bytes that a thread or process takes besides its name.
const THREAD: u64 = 192;
/// Mappings that others may cover besides those that records made: forked processes have theirs without any.
const COVERED: u64 = 4 << 20;

#[derive(Default)]
pub struct ProcessMaps {
    pub kernel: AddressSpace,
    processes: IntMap<i32, Process>,
    threads: IntMap<i32, Thread>,
    threads_seen: u64,
    ended: VecDeque<i32>,
    versions: u64,
    /// How many mappings records made, and covered.
    made: u64,
    covered: u64,
    budget: Budget,
}

/// A process that was met.
struct Process {
    space: Option<AddressSpace>,
    /// How many threads it has.
    alive: u32,
    /// The inode of its pid namespace.
    pid_namespace: Option<u64>,
    _share: BudgetShare,
}

/// A thread that has begun.
struct Thread {
    pid: i32,
    name: Option<ThreadName>,
    _share: BudgetShare,
}

/// Forked threads have that of their parent.
type ThreadName = Arc<(Box<[u8]>, BudgetShare)>;

impl ProcessMaps {
    pub fn new(budget: Budget) -> Self {
        Self { budget, ..Self::default() }
    }

    /// Whether records say more of processes than there is memory for.
    pub fn check(&self) -> Result<(), Error> {
        if self.budget.is_exceeded() {
            return Err(Error::partial(format!(
                "the recording is damaged, or needs more memory: it has more processes, mappings and names than half of {} bytes \
                 hold, which is what may be used",
                self.budget.whole()
            )));
        }
        if self.covered > self.made + COVERED {
            return Err(Error::partial(
                "the recording is damaged: its processes replace more mappings than they ever made",
            ));
        }
        Ok(())
    }

    /// The name of a thread; perf's `:TID` where no record names it.
    pub fn comm(&self, tid: i32) -> Cow<'_, [u8]> {
        let name = self.threads.get(&tid).and_then(|thread| thread.name.as_ref());
        match (name, tid) {
            (Some(name), _) => Cow::Borrowed(&name.0),
            (None, 0) => Cow::Borrowed(b"swapper"),
            (None, _) => Cow::Owned(format!(":{tid}").into_bytes()),
        }
    }

    pub fn space(&self, pid: i32) -> Option<&AddressSpace> {
        self.processes.get(&pid)?.space.as_ref()
    }

    /// How many threads have begun, before the recording or while it lasted.
    pub fn threads_seen(&self) -> u64 {
        self.threads_seen
    }

    fn process(&mut self, pid: i32) -> &mut Process {
        let budget = &self.budget;
        let new = || Process { space: None, alive: 0, pid_namespace: None, _share: budget.hold(THREAD) };
        self.processes.entry(pid).or_insert_with(new)
    }

    fn begin_thread(&mut self, pid: i32, tid: i32, name: impl FnOnce(&Self) -> Option<ThreadName>) {
        if let Some(at) = self.ended.iter().position(|&ended| ended == tid) {
            self.ended.remove(at);
            self.forget_thread(tid);
        }
        let name = name(self);
        if let Some(thread) = self.threads.get_mut(&tid) {
            (thread.pid, thread.name) = (pid, name);
            return;
        }
        self.threads.insert(tid, Thread { pid, name, _share: self.budget.hold(THREAD) });
        self.threads_seen += 1;
        self.process(pid).alive += 1;
    }

    fn forget_thread(&mut self, tid: i32) {
        let Some(Thread { pid, .. }) = self.threads.remove(&tid) else { return };
        let Some(process) = self.processes.get_mut(&pid).filter(|process| process.alive > 0) else { return };
        process.alive -= 1;
        if process.alive == 0 {
            self.processes.remove(&pid);
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
            self.process(pid).pid_namespace = Some(at.u64()?);
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
        let text = at.text();
        let named = |this: &Self| Arc::new((text.into(), this.budget.hold(THREAD + text.len() as u64)));
        self.begin_thread(pid, tid, |this| Some(named(this)));
        if misc & misc::COMM_EXEC != 0 {
            // What was mapped before the exec is no longer there.
            self.process(pid).space = None;
        }
        Some(())
    }

    pub fn fork_record(&mut self, misc: u16, body: &[u8]) -> Option<()> {
        let mut at = ByteReader(body);
        let (pid, parent_pid, tid, parent_tid) = (at.i32()?, at.i32()?, at.i32()?, at.i32()?);
        self.begin_thread(pid, tid, |this| this.threads.get(&parent_tid)?.name.clone());
        if pid != parent_pid && misc & misc::FORK_EXEC == 0 {
            let of_parent = self.space(parent_pid).cloned();
            self.process(pid).space = of_parent;
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
            self.map_kernel(map(0, object), version);
            return Some(());
        }
        let (object, absolute) = symbols.user_object(&UserMapping {
            path,
            build_id,
            file,
            pid,
            pid_namespace: self.processes.get(&pid).and_then(|process| process.pid_namespace),
        });
        let file_bias = if absolute { 0 } else { offset.wrapping_sub(start) };
        let budget = self.budget.clone();
        let space = self.process(pid).space.get_or_insert_default();
        self.covered += space.insert(map(file_bias, object), version, &budget);
        self.made += 1;
        Some(())
    }

    fn map_kernel(&mut self, map: Map, version: u64) {
        self.covered += self.kernel.insert(map, version, &self.budget);
        self.made += 1;
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
        self.map_kernel(Map { start, end, file_bias: 0, object }, version);
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

    /// A process begins, and as many others as are remembered come and go.
    #[test]
    fn threads_that_ended_are_forgotten_when_many_others_have() {
        let mut processes = ProcessMaps::default();
        let record = |ids: [i32; 4]| ids.map(i32::to_le_bytes).concat();
        let begin = |processes: &mut ProcessMaps, pid, tid| {
            processes.fork_record(0, &record([pid, 1, tid, 1])).unwrap();
            processes.comm_record(0, &[&record([pid, tid, 0, 0])[..8], &b"t\0"[..]].concat()).unwrap();
            processes.process(pid).space.get_or_insert_default();
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
        assert_eq!(processes.comm(10), &b"t"[..], "what is sampled while it ends has its name");
        begin(&mut processes, 10, 20);
        assert!(processes.space(20).is_none());
        for pid in 1000..1000 + 5 * ENDED as i32 {
            begin(&mut processes, pid, pid);
            end(&mut processes, pid, pid);
        }
        assert!(processes.space(10).is_some(), "two of its threads live");
        assert_eq!(processes.comm(10), &b":10"[..]);
        assert_eq!((processes.processes.len(), processes.threads.len()), (ENDED + 1, ENDED + 2));
        assert_eq!(processes.threads_seen(), 4 + 5 * ENDED as u64);
    }
}
