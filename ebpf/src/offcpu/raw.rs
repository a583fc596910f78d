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
    /// As the program reports it: a wait in a futex is still `Sleep`. None: blocked since before it was looked at.
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

impl types::thread {
    /// What its present stretch is counted under.
    pub fn key(&self) -> Key {
        let Self { kernel, user, waker_kernel, waker_user, futex, tid, state, waker, .. } = *self;
        Key::new(&types::key { kernel, user, waker_kernel, waker_user, futex, tid, state, waker })
    }

    pub fn name(&self) -> Vec<u8> {
        text(&self.comm)
    }

    /// When what it was blocked by ended, as the program says it; None: not yet.
    pub fn woken_at(&self) -> Option<u64> {
        (self.woken > self.got).then_some(self.woken.max(self.since))
    }
}
