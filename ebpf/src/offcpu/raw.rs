//! What `bpf/offcpu.h` keeps in its maps.

use libbpf_rs::{MapCore, MapFlags};

use super::futex::Futex;
use crate::refusal::OrRefused;
use observer::Failure;
use observer::states::OffCpu as State;

/// Numbers of stacks that stand for none: not there, and not kept.
pub const NOT_KEPT: u64 = 1;

pub const LOSSES: [&str; 7] =
    ["lost_thread", "lost_sum", "lost_stack", "no_stack", "lost_end", "negative", "missed_in"];

/// The stacks and the thread that time is summed for.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Key {
    pub tid: u32,
    /// As the program tells it: asleep in a futex is `Sleep` still. None: blocked since before it was looked at.
    pub state: Option<State>,
    pub kernel: u64,
    pub user: u64,
    pub waker_kernel: u64,
    pub waker_user: u64,
    pub futex: Futex,
    pub waker: Vec<u8>,
}

#[derive(Clone, Copy, Debug, Default)]
pub struct Sum {
    pub ns: u64,
    pub count: u64,
}

#[derive(Clone, Debug)]
pub struct Thread {
    pub begun: u64,
    pub since: u64,
    woken: u64,
    pub got: u64,
    pub ran_ns: u64,
    pub voluntary: u32,
    pub involuntary: u32,
    pub comm: Vec<u8>,
    /// As its own pid namespace numbers it.
    pub own_number: u32,
    /// What its present stretch is counted under.
    pub key: Key,
}

impl Thread {
    /// When what it was blocked by ended, as the program says it; None: not yet.
    pub fn woken_at(&self) -> Option<u64> {
        (self.woken > self.got).then_some(self.woken.max(self.since))
    }
}

#[derive(Clone, Debug)]
pub struct End {
    pub at: u64,
    pub cpu_ns: u64,
    pub thread: Thread,
}

/// Reads a C structure field by field.
struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    fn take(&mut self, len: usize) -> &'a [u8] {
        let (head, rest) = self.0.split_at(len);
        self.0 = rest;
        head
    }

    fn u64(&mut self) -> u64 {
        u64::from_ne_bytes(self.take(8).try_into().unwrap())
    }

    fn u32(&mut self) -> u32 {
        u32::from_ne_bytes(self.take(4).try_into().unwrap())
    }

    fn state(&mut self) -> Option<State> {
        State::ALL.get(self.u32() as usize).copied()
    }

    fn futex(&mut self) -> Futex {
        Futex { caller: self.u64(), how: self.u32(), value: self.u32() }
    }

    fn name(&mut self) -> Vec<u8> {
        let name = self.take(16);
        name.split(|&byte| byte == 0).next().unwrap_or_default().to_vec()
    }
}

pub fn key(bytes: &[u8]) -> Key {
    let mut at = Fields(bytes);
    let [kernel, user, waker_kernel, waker_user] = [at.u64(), at.u64(), at.u64(), at.u64()];
    let (futex, tid, state, waker) = (at.futex(), at.u32(), at.state(), at.name());
    Key { tid, state, kernel, user, waker_kernel, waker_user, futex, waker }
}

pub fn sum(bytes: &[u8]) -> Sum {
    let mut at = Fields(bytes);
    Sum { ns: at.u64(), count: at.u64() }
}

pub fn thread(bytes: &[u8]) -> Thread {
    let mut at = Fields(bytes);
    let [begun, since, woken, got, ran_ns] = [at.u64(), at.u64(), at.u64(), at.u64(), at.u64()];
    let _cpu_ns = at.u64();
    let [kernel, user, waker_kernel, waker_user] = [at.u64(), at.u64(), at.u64(), at.u64()];
    let futex = at.futex();
    let [voluntary, involuntary, tid, own_number] = [at.u32(), at.u32(), at.u32(), at.u32()];
    let (state, _unused) = (at.state(), at.u32());
    let (comm, waker) = (at.name(), at.name());
    let key = Key { tid, state, kernel, user, waker_kernel, waker_user, futex, waker };
    Thread { begun, since, woken, got, ran_ns, voluntary, involuntary, comm, own_number, key }
}

pub fn end(bytes: &[u8]) -> End {
    let mut at = Fields(bytes);
    End { at: at.u64(), cpu_ns: at.u64(), thread: thread(at.0) }
}

pub fn stack(bytes: &[u8]) -> Vec<u64> {
    let mut at = Fields(bytes);
    let depth = at.u64();
    (0..depth.min(at.0.len() as u64 / 8)).map(|_| at.u64()).collect()
}

/// A key and its value.
type Entry = (Vec<u8>, Vec<u8>);

/// Every entry of a hash map.
pub fn entries(map: &impl MapCore) -> Result<Vec<Entry>, Failure> {
    let mut found = Vec::new();
    for key in map.keys() {
        if let Some(value) = map.lookup(&key, MapFlags::ANY).or_refused()? {
            found.push((key, value));
        }
    }
    Ok(found)
}
