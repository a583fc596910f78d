//! The registers of a stopped thread, in the order and numbers of perf's `PERF_REG_*`.

use nix::sys::ptrace;
use nix::unistd::Pid;

/// What a walk begins with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Place {
    pub pc: u64,
    pub sp: u64,
    pub fp: u64,
}

pub struct Registers {
    pub place: Place,
    /// Those of `MASK`, in the order of its bits.
    pub values: Vec<u64>,
    /// The system call it is in, -1 if none.
    pub syscall: i64,
    /// What a system call it comes back from returns.
    pub returns: i64,
}

impl Registers {
    /// Whether it is about to enter a system call again that was interrupted (the kernel's ERESTARTSYS to
    /// ERESTART_RESTARTBLOCK, which no program ever sees).
    pub fn restarts(&self) -> bool {
        (-516..=-512).contains(&self.returns)
    }
}

#[cfg(target_arch = "x86_64")]
mod arch {
    use super::{Pid, Place, Registers, ptrace};

    /// All but DS, ES, FS and GS, which perf does not take for user code either.
    pub const MASK: u64 = 0x00ff_0fff;

    pub fn registers(thread: Pid) -> nix::Result<Registers> {
        let r = ptrace::getregs(thread)?;
        let values = vec![
            r.rax, r.rbx, r.rcx, r.rdx, r.rsi, r.rdi, r.rbp, r.rsp, r.rip, r.eflags, r.cs, r.ss, r.r8, r.r9,
            r.r10, r.r11, r.r12, r.r13, r.r14, r.r15,
        ];
        let place = Place { pc: r.rip, sp: r.rsp, fp: r.rbp };
        Ok(Registers { place, values, syscall: r.orig_rax as i64, returns: r.rax as i64 })
    }

    /// A return address as it lies on the stack.
    pub fn code_address(address: u64) -> u64 {
        address
    }
}

#[cfg(target_arch = "aarch64")]
mod arch {
    use super::{Pid, Place, Registers, ptrace};

    /// x0 to x30, sp, pc
    pub const MASK: u64 = (1 << 33) - 1;

    pub fn registers(thread: Pid) -> nix::Result<Registers> {
        let r = ptrace::getregs(thread)?;
        let values = r.regs.iter().copied().chain([r.sp, r.pc]).collect();
        // The call's number is in x8, but nothing tells whether the thread is in a call: /proc/TID/syscall does.
        let place = Place { pc: r.pc, sp: r.sp, fp: r.regs[29] };
        Ok(Registers { place, values, syscall: -1, returns: r.regs[0] as i64 })
    }

    /// A return address as it lies on the stack: its upper bits may hold a signature (pointer authentication).
    pub fn code_address(address: u64) -> u64 {
        address & ((1 << 48) - 1)
    }
}

pub use arch::{MASK, code_address, registers};

/// System calls that end with EINTR when their thread is stopped and let go, whatever the program thinks of it
/// (signal(7), "Interruption of system calls and library functions by stop signals"; io_uring_enter by its source).
/// Threads in them are not stopped.
pub const NOT_RESTARTED: &[i64] = &[
    #[cfg(target_arch = "x86_64")]
    libc::SYS_epoll_wait,
    libc::SYS_epoll_pwait,
    libc::SYS_epoll_pwait2,
    libc::SYS_semop,
    libc::SYS_semtimedop,
    libc::SYS_rt_sigtimedwait,
    libc::SYS_io_getevents,
    libc::SYS_io_uring_enter,
];
