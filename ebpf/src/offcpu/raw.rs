//! What `bpf/offcpu.h` keeps in its maps.

use super::futex::Futex;
use super::skeleton::{self, types};
use crate::layout::plain;
use observer::states::OffCpu as State;

plain!(end, key, stack, sum, thread);

/// The number of a stack that was not kept.
pub const NOT_KEPT: u64 = types::no_stack::NOT_KEPT.0 as u64;

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

impl Key {
    pub fn new(of: &types::key) -> Self {
        Self {
            tid: of.tid,
            state: State::ALL.get(of.state as usize).copied(),
            kernel: of.kernel,
            user: of.user,
            waker_kernel: of.waker_kernel,
            waker_user: of.waker_user,
            futex: Futex { caller: of.futex.caller, how: of.futex.how, value: of.futex.value },
            waker: text(&of.waker),
        }
    }
}

/// A name as far as its NUL.
fn text(name: &[i8; 16]) -> Vec<u8> {
    name.iter().map(|&byte| byte as u8).take_while(|&byte| byte != 0).collect()
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
    pub fn new(of: &types::thread) -> Self {
        let types::thread { kernel, user, waker_kernel, waker_user, futex, tid, state, waker, .. } = *of;
        Self {
            begun: of.begun,
            since: of.since,
            woken: of.woken,
            got: of.got,
            ran_ns: of.ran_ns,
            voluntary: of.voluntary,
            involuntary: of.involuntary,
            comm: text(&of.comm),
            own_number: of.own_number,
            key: Key::new(&types::key { kernel, user, waker_kernel, waker_user, futex, tid, state, waker }),
        }
    }

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

impl End {
    pub fn new(of: &types::end) -> Self {
        Self { at: of.at, cpu_ns: of.cpu_ns, thread: Thread::new(&of.thread) }
    }
}
