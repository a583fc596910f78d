//! The registers of a stopped thread, in the order and numbers of perf's `PERF_REG_*`.

use nix::sys::ptrace;
use nix::unistd::Pid;

/// The registers that a walk begins with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Position {
    pub pc: u64,
    pub sp: u64,
    pub fp: u64,
}

pub struct Registers {
    pub position: Position,
    /// Those of `MASK`, in the order of its bits.
    pub values: [u64; COUNT],
    /// The system call that the thread is in, -1 if none.
    pub syscall: i64,
    /// The result of the system call that it returns from.
    pub returns: i64,
}

impl Registers {
    /// Whether it is about to restart an interrupted system call (the kernel's ERESTARTSYS to
    /// ERESTART_RESTARTBLOCK, which no program ever sees).
    pub fn restarts(&self) -> bool {
        (-516..=-512).contains(&self.returns)
    }
}

#[cfg(target_arch = "x86_64")]
mod arch {
    use super::{Pid, Position, Registers, ptrace};

    /// All but DS, ES, FS and GS, which perf does not take for user code either.
    pub const MASK: u64 = 0x00ff_0fff;
    pub const COUNT: usize = 20;

    /// The code segment of 64-bit programs (`__USER_CS`).
    const USER_CODE_64: u64 = 0x33;

    pub fn registers(thread: Pid) -> nix::Result<Registers> {
        let r = ptrace::getregs(thread)?;
        let values = [
            r.rax, r.rbx, r.rcx, r.rdx, r.rsi, r.rdi, r.rbp, r.rsp, r.rip, r.eflags, r.cs, r.ss, r.r8, r.r9,
            r.r10, r.r11, r.r12, r.r13, r.r14, r.r15,
        ];
        let position = Position { pc: r.rip, sp: r.rsp, fp: r.rbp };
        // 32-bit programs have other numbers for their calls.
        let syscall = if r.cs == USER_CODE_64 { r.orig_rax as i64 } else { -1 };
        Ok(Registers { position, values, syscall, returns: r.rax as i64 })
    }

    /// Replaces the result of the call that a stopped thread returns from.
    pub fn set_returns(thread: Pid, value: i64) -> nix::Result<()> {
        let offset = std::mem::offset_of!(libc::user_regs_struct, rax);
        ptrace::write_user(thread, std::ptr::without_provenance_mut(offset), value)
    }

    /// Whether a thread at `pc` is in the call that returns to `after`.
    pub fn entered_at(pc: u64, after: u64) -> bool {
        pc == after
    }

    /// A return address as it lies on the stack.
    pub fn code_address(address: u64) -> u64 {
        address
    }
}

#[cfg(target_arch = "aarch64")]
mod arch {
    use super::{Pid, Position, Registers, ptrace};

    /// x0 to x30, sp, pc
    pub const MASK: u64 = (1 << 33) - 1;
    pub const COUNT: usize = 33;

    pub fn registers(thread: Pid) -> nix::Result<Registers> {
        let r = ptrace::getregs(thread)?;
        let mut values = [0; COUNT];
        values[..31].copy_from_slice(&r.regs);
        (values[31], values[32]) = (r.sp, r.pc);
        // The call's number is in x8, but the registers do not show whether the thread is in a call: /proc/TID/syscall
        // does.
        let position = Position { pc: r.pc, sp: r.sp, fp: r.regs[29] };
        Ok(Registers { position, values, syscall: -1, returns: r.regs[0] as i64 })
    }

    /// Not here: the kernel has put the result in the place of the first argument, which a tracer cannot get.
    pub fn set_returns(_: Pid, _: i64) -> nix::Result<()> {
        Err(nix::errno::Errno::ENOSYS)
    }

    /// Whether a thread at `pc` is in the call that returns to `after`: where it is to begin anew, the kernel has set
    /// it back by one instruction before the stop.
    pub fn entered_at(pc: u64, after: u64) -> bool {
        pc == after || pc.wrapping_add(4) == after
    }

    /// A return address as it lies on the stack: its upper bits may hold a signature (pointer authentication).
    pub fn code_address(address: u64) -> u64 {
        address & ((1 << 48) - 1)
    }
}

pub use arch::{COUNT, MASK, code_address, entered_at, registers, set_returns};
