//! Stacks as the kernel took them, made into the chains of a recording.

use perfdata::format::{CONTEXT_KERNEL, CONTEXT_USER};
use recording::Kernel;

/// Frames of the tracer on top of a kernel stack: its program, and what calls it.
const TRACER: [&[u8]; 5] =
    [b"bpf_prog_", b"bpf_trace_run", b"__bpf_trace_", b"__traceiter_", b"bpf_get_stack"];
/// How deep the tracer's own frames can lie.
const TRACER_DEPTH: usize = 8;
/// Functions that a futex waits in, whatever it is for.
const FUTEX: [&[u8]; 4] = [b"futex_", b"__futex_", b"do_futex", b"rt_mutex_"];
const IO: [&[u8]; 3] = [b"io_schedule", b"blk_io_schedule", b"wait_on_page_bit"];
/// Functions that wait for requests submitted to io_uring or libaio; before Linux 6.5 they do not say that it is IO.
const SUBMITTED: [&[u8]; 2] = [b"io_cqring_wait", b"read_events"];
/// What is called where a page is not there: from the program, or from within a system call.
const FAULTS: [&[u8]; 5] =
    [b"asm_exc_page_fault", b"exc_page_fault", b"handle_mm_fault", b"do_page_fault", b"do_translation_fault"];
/// Where an interrupt entered: what is below was interrupted, and has nothing to do with it.
const INTERRUPTS: [&[u8]; 4] = [b"asm_common_interrupt", b"asm_sysvec_", b"el1h_64_irq", b"el0t_64_irq"];

fn one_of(names: &[&[u8]], kernel: &Kernel, address: u64) -> bool {
    let name = kernel.name_at(address);
    names.iter().any(|start| name.starts_with(start))
}

/// A kernel stack, leaf first, without the frames of the program that took it.
pub fn without_tracer<'a>(addresses: &'a [u64], kernel: &Kernel) -> &'a [u64] {
    let top = &addresses[..addresses.len().min(TRACER_DEPTH)];
    match top.iter().rposition(|&address| one_of(&TRACER, kernel, address)) {
        Some(last) => &addresses[last + 1..],
        None => addresses,
    }
}

/// The part of a kernel stack that an interrupt ran, where it is one's.
pub fn interrupt<'a>(addresses: &'a [u64], kernel: &Kernel) -> Option<&'a [u64]> {
    let entry = addresses.iter().position(|&address| one_of(&INTERRUPTS, kernel, address))?;
    Some(&addresses[..=entry])
}

/// Whether a thread with this kernel stack waits in a futex.
pub fn is_futex(addresses: &[u64], kernel: &Kernel) -> bool {
    addresses.iter().any(|&address| one_of(&FUTEX, kernel, address))
}

/// Whether a thread with this kernel stack waits for storage.
pub fn is_io(addresses: &[u64], kernel: &Kernel) -> bool {
    addresses.iter().any(|&address| one_of(&IO, kernel, address))
}

/// Whether a thread with this kernel stack waits for requests that were submitted before.
pub fn is_submitted(addresses: &[u64], kernel: &Kernel) -> bool {
    addresses.iter().any(|&address| one_of(&SUBMITTED, kernel, address))
}

/// Whether a thread with this kernel stack waits for a page of its memory.
pub fn is_fault(addresses: &[u64], kernel: &Kernel) -> bool {
    addresses.iter().any(|&address| one_of(&FAULTS, kernel, address))
}

/// A chain being made, leaf first.
#[derive(Default)]
pub struct Chain(pub Vec<u64>);

impl Chain {
    /// Frames of the kernel, or names of ours among them; leaf first.
    pub fn kernel(&mut self, addresses: &[u64]) {
        self.with_mark(CONTEXT_KERNEL, addresses);
    }

    pub fn user(&mut self, addresses: &[u64]) {
        self.with_mark(CONTEXT_USER, addresses);
    }

    /// A user stack upside down: a waker's, on top of what it woke. All but the leaf are return addresses. A reader
    /// sees that by their order, which is reversed here, so the addresses of the calls are given instead.
    pub fn user_reversed(&mut self, addresses: &[u64]) {
        for (depth, &address) in addresses.iter().enumerate().rev() {
            self.with_mark(CONTEXT_USER, &[address - u64::from(depth > 0)]);
        }
    }

    fn with_mark(&mut self, mark: u64, addresses: &[u64]) {
        if !addresses.is_empty() {
            self.0.push(mark);
            self.0.extend(addresses);
        }
    }
}
