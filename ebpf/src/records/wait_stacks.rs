//! Where queries waited: each state with its stacks once, by a number, and the recording of them that stackfold reads.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::Path;

use observer::states::OffCpu as State;
use perfdata::writer::{Recording, Sample};
use recording::{Kernel, Mapping};

use super::skeleton::types::{span as Span, stack as Stack};
use super::split::Awaited;
use crate::offcpu::chains::{self, Chain};
use crate::offcpu::futex::{Callers, Futex, SEEN};

/// The recording's event: ns that queries were blocked; of places where they ran, samples.
const EVENT: &str = "blocked";
/// The name of threads that represent places where queries ran.
const RAN: &str = "on_cpu";

/// The process and the kernel, to find out what a wait was for.
pub struct WaitClassifier {
    pub kernel: Kernel,
    pub callers: Callers,
    /// What the process' threads call themselves: by that they are joined.
    pub tids: BTreeSet<u32>,
    pub stacks: BTreeMap<u64, Stack>,
}

impl WaitClassifier {
    fn stack(&self, number: u64) -> &[u64] {
        self.stacks.get(&number).map_or(&[], |stack| &stack.addresses[..stack.depth as usize])
    }

    /// The state of a wait, and what was waited for.
    fn classify(&self, wait: &Span) -> (State, Awaited) {
        let kernel = self.stack(wait.kernel);
        let state = State::ALL.get(wait.state as usize).copied().unwrap_or(State::Sleep);
        let futex = Futex { caller: wait.futex.caller, how: wait.futex.how, value: wait.futex.value };
        let state = match state {
            State::Sleep if futex.how & SEEN != 0 || chains::is_futex(kernel, &self.kernel) => {
                self.callers.state(&futex, &self.tids)
            }
            other => other,
        };
        let awaited = match state {
            State::Preempted | State::Woken => Awaited::Nothing,
            _ if chains::is_fault(kernel, &self.kernel) => Awaited::Page,
            // A file system may wait for a page without saying that it waits for IO.
            State::Io | State::Uninterruptible => Awaited::Storage,
            _ if chains::is_submitted(kernel, &self.kernel) => Awaited::Storage,
            _ => Awaited::Another,
        };
        (state, awaited)
    }
}

#[derive(Clone, Copy)]
struct WaitStack {
    number: u32,
    state: State,
    awaited: Awaited,
    blocked_ns: u64,
}

/// By what the program saw of a wait: state, stacks, and the futex.
type WaitKey = (u16, u64, u64, (u64, u32, u32));

#[derive(Default)]
pub struct WaitStacks {
    known: BTreeMap<WaitKey, WaitStack>,
    /// State and stacks.
    numbers: BTreeMap<(u16, u64, u64), u32>,
    /// Where queries ran, by stacks: the number, and samples.
    ran: BTreeMap<(u64, u64), (u32, u64)>,
}

impl WaitStacks {
    /// The number of a wait's stack from 1 on (0 for one that was preempted), its state, and what was waited for.
    ///
    /// blocked_ns: to be added to the place's weight in the recording
    pub fn of(&mut self, wait: &Span, blocked_ns: u64, classifier: &WaitClassifier) -> (u32, State, Awaited) {
        let futex = (wait.futex.caller, wait.futex.how, wait.futex.value);
        let (numbers, ran) = (&mut self.numbers, self.ran.len());
        let stack = self.known.entry((wait.state, wait.kernel, wait.user, futex)).or_insert_with(|| {
            let (state, awaited) = classifier.classify(wait);
            let next = (numbers.len() + ran) as u32 + 1;
            let number = match awaited {
                Awaited::Nothing => 0,
                _ => *numbers.entry((state as u16, wait.kernel, wait.user)).or_insert(next),
            };
            WaitStack { number, state, awaited, blocked_ns: 0 }
        });
        stack.blocked_ns += blocked_ns;
        (stack.number, stack.state, stack.awaited)
    }

    /// The number of the stack that a sample fell into.
    pub fn of_sample(&mut self, sample: &Span) -> u32 {
        let next = (self.numbers.len() + self.ran.len()) as u32 + 1;
        let (number, samples) = self.ran.entry((sample.kernel, sample.user)).or_insert((next, 0));
        *samples += 1;
        *number
    }

    pub fn len(&self) -> usize {
        self.numbers.len() + self.ran.len()
    }

    /// Writes the stacks: a stack is a thread of its number, called by its state, with its time as its weight.
    pub fn write(
        &self,
        path: &Path,
        pid: u32,
        time: u64,
        mappings: &[(Mapping, Option<Vec<u8>>)],
        classifier: &WaitClassifier,
    ) -> io::Result<()> {
        let kernel = &classifier.kernel;
        let mut out = Recording::create(fs::File::create(path)?, pid as i32, &[EVENT], None, kernel, time)?;
        for (mapping, build_id) in mappings {
            out.mapping(mapping, build_id.as_deref(), time)?;
        }
        let waits = self.known.iter().filter(|(_, stack)| stack.number > 0).map(
            |((_, kernel_stack, user_stack, _), stack)| {
                (stack.number, stack.state.name(), stack.blocked_ns, kernel_stack, user_stack)
            },
        );
        let ran = self.ran.iter().map(|((kernel_stack, user_stack), (number, samples))| {
            (*number, RAN, *samples, kernel_stack, user_stack)
        });
        for (number, name, weight, kernel_stack, user_stack) in waits.chain(ran) {
            let mut chain = Chain::default();
            chain.kernel(chains::without_tracer(classifier.stack(*kernel_stack), kernel));
            chain.user(classifier.stack(*user_stack));
            if chain.0.is_empty() {
                continue;
            }
            let tid = number as i32;
            out.comm(tid, name.as_bytes(), time)?;
            let period = weight.max(1);
            out.sample(&Sample { event: 0, time, tid, period, chain: &chain.0, copied: None })?;
        }
        out.finish(kernel)
    }
}
