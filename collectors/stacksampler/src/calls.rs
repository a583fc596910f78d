//! System calls that a stop would end, cut short or prolong. The program must not notice a stop, so threads that wait
//! in such a call are not stopped; if a thread enters one just before its stop, we make the kernel restart the call
//! (x86-64 only: arm64 has overwritten the first argument by then).
//!
//! signal(7), "Interruption of system calls and library functions by stop signals", names most of them; the others are
//! from the kernel's source.

use libc::c_long;
use recording::parse::Syscall;

/// They end with EINTR before they have done anything, so the same call with the same arguments is right: on
/// sockets (with SO_RCVTIMEO or SO_SNDTIMEO) the kernel itself does so where there is no timeout. `close` is none of
/// them.
const RESTARTABLE: &[c_long] = &[
    #[cfg(target_arch = "x86_64")]
    libc::SYS_epoll_wait,
    libc::SYS_epoll_pwait,
    libc::SYS_epoll_pwait2,
    libc::SYS_semop,
    libc::SYS_semtimedop,
    libc::SYS_rt_sigtimedwait,
    libc::SYS_io_getevents,
    libc::SYS_io_uring_enter,
    libc::SYS_accept,
    libc::SYS_accept4,
    libc::SYS_connect,
    libc::SYS_recvfrom,
    libc::SYS_recvmsg,
    libc::SYS_recvmmsg,
    libc::SYS_sendto,
    libc::SYS_sendmsg,
    libc::SYS_sendmmsg,
    libc::SYS_read,
    libc::SYS_readv,
    libc::SYS_preadv2,
    libc::SYS_write,
    libc::SYS_writev,
    libc::SYS_pwritev2,
];

/// Harmless but for sockets, which may have SO_RCVTIMEO. That cannot be seen from outside: asking needs a descriptor of
/// the socket (pidfd_getfd), and taking one changes the socket's control group.
const READS: &[c_long] = &[libc::SYS_read, libc::SYS_readv, libc::SYS_preadv2];

/// A stop ends them with a part of what they were to write, or to do: a thread asleep in them waits for a pipe, a
/// socket, a terminal or a driver. One that waits for a disk does not notice a stop.
const CUT_SHORT: &[c_long] = &[
    libc::SYS_write,
    libc::SYS_writev,
    libc::SYS_pwritev2,
    libc::SYS_sendfile,
    libc::SYS_splice,
    libc::SYS_tee,
    libc::SYS_vmsplice,
    // SO_LINGER
    libc::SYS_close,
    libc::SYS_ioctl,
];

/// The kernel restarts it with its whole timeout. (libc has no name for it.)
#[cfg(target_arch = "x86_64")]
const IO_PGETEVENTS: c_long = 333;
#[cfg(target_arch = "aarch64")]
const IO_PGETEVENTS: c_long = 292;

/// Whether we can make the kernel restart a call.
const CAN_RESTART: bool = cfg!(target_arch = "x86_64");

const ERESTARTNOHAND: i64 = 514;
const ERESTART_RESTARTBLOCK: i64 = 516;

/// Whether the program would notice a stop of a thread that waits in this call.
///
/// asleep:    it waits in the state S
/// is_socket: whether one of its descriptors is a socket
/// filtered:  whether seccomp filters its system calls: the call that the kernel puts in the place of some
///            (restart_syscall) may be one that kills the process
pub fn reveals_stop(
    call: &Syscall,
    asleep: bool,
    is_socket: impl FnOnce(u64) -> bool,
    filtered: impl FnOnce() -> bool,
) -> bool {
    let number = call.number;
    if READS.contains(&number) {
        return asleep && is_socket(call.arguments[0]);
    }
    if CUT_SHORT.contains(&number) {
        return asleep;
    }
    RESTARTABLE.contains(&number)
        || number == IO_PGETEVENTS
        || match remaining(call) {
            Remaining::Nothing => false,
            Remaining::Kept => !CAN_RESTART && filtered(),
            Remaining::Lost => filtered(),
        }
}

/// What happens to a call's timeout when the call restarts with its own arguments, where the kernel would continue it
/// with restart_syscall.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Remaining {
    /// The kernel has no use for restart_syscall.
    Nothing,
    /// It is a point in time, or there is none.
    Kept,
    /// It would start again, too.
    Lost,
}

fn remaining(call: &Syscall) -> Remaining {
    let [_, second, _, fourth, ..] = call.arguments;
    match call.number {
        libc::SYS_nanosleep => Remaining::Lost,
        libc::SYS_clock_nanosleep if second & libc::TIMER_ABSTIME as u64 == 0 => Remaining::Lost,
        #[cfg(target_arch = "x86_64")]
        libc::SYS_poll if (call.arguments[2] as i32) < 0 => Remaining::Kept,
        #[cfg(target_arch = "x86_64")]
        libc::SYS_poll => Remaining::Lost,
        libc::SYS_futex if fourth != 0 => {
            match second as i32 & !(libc::FUTEX_PRIVATE_FLAG | libc::FUTEX_CLOCK_REALTIME) {
                libc::FUTEX_WAIT => Remaining::Lost,
                libc::FUTEX_WAIT_BITSET => Remaining::Kept,
                _ => Remaining::Nothing,
            }
        }
        _ => Remaining::Nothing,
    }
}

/// The result that a stopped thread's call must get instead of one that would reveal the stop: ERESTARTNOHAND makes the
/// kernel restart it, or end it with EINTR if a signal with a handler is pending, as without us.
///
/// syscall:  the call that the thread returns from, -1 if none
/// returns:  its result now
pub fn restart_result(syscall: i64, returns: i64, filtered: impl FnOnce() -> bool) -> Option<i64> {
    const INTERRUPTED: i64 = -(libc::EINTR as i64);
    const CONTINUES: i64 = -ERESTART_RESTARTBLOCK;
    let reveals = match returns {
        INTERRUPTED => RESTARTABLE.contains(&syscall),
        CONTINUES => syscall >= 0 && filtered(),
        _ => false,
    };
    (CAN_RESTART && reveals).then_some(-ERESTARTNOHAND)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(number: c_long, arguments: [u64; 6]) -> Syscall {
        Syscall { number, arguments, sp: 0, pc: 0 }
    }

    fn shown(number: c_long, arguments: [u64; 6], asleep: bool, filtered: bool) -> bool {
        reveals_stop(&call(number, arguments), asleep, |fd| fd == 3, || filtered)
    }

    #[test]
    fn a_read_is_harmless_but_for_sockets_and_a_write_but_for_disks() {
        assert!(shown(libc::SYS_read, [3, 0, 0, 0, 0, 0], true, false));
        assert!(!shown(libc::SYS_read, [4, 0, 0, 0, 0, 0], true, false));
        assert!(!shown(libc::SYS_read, [3, 0, 0, 0, 0, 0], false, false));
        assert!(shown(libc::SYS_write, [4, 0, 0, 0, 0, 0], true, false));
        assert!(!shown(libc::SYS_write, [4, 0, 0, 0, 0, 0], false, false));
        assert!(shown(libc::SYS_recvfrom, [4, 0, 0, 0, 0, 0], true, false));
        assert!(!shown(libc::SYS_wait4, [3, 0, 0, 0, 0, 0], true, true));
    }

    #[test]
    fn under_a_filter_who_would_go_on_with_restart_syscall_is_left_alone() {
        for (number, arguments) in [
            (libc::SYS_nanosleep, [1, 0, 0, 0, 0, 0]),
            (libc::SYS_clock_nanosleep, [1, 0, 1, 0, 0, 0]),
            (libc::SYS_futex, [1, 128, 1, 1, 0, 0]),
        ] {
            assert!(shown(number, arguments, true, true), "{number}");
            assert!(!shown(number, arguments, true, false), "{number}");
        }
        // A time of the clock, no timeout, and a time of the clock again.
        assert!(!shown(libc::SYS_clock_nanosleep, [1, 1, 1, 0, 0, 0], true, true));
        assert!(!shown(libc::SYS_futex, [1, 128, 1, 0, 0, 0], true, true));
        assert_eq!(shown(libc::SYS_futex, [1, 128 | 256 | 9, 1, 1, 0, 0], true, true), !CAN_RESTART);
    }

    #[test]
    #[cfg(target_arch = "x86_64")]
    fn only_calls_that_have_done_nothing_begin_anew() {
        let eintr = -i64::from(libc::EINTR);
        assert_eq!(restart_result(libc::SYS_io_getevents, eintr, || false), Some(-514));
        assert_eq!(restart_result(libc::SYS_io_getevents, 1, || true), None);
        for number in [libc::SYS_close, libc::SYS_ioctl, libc::SYS_fallocate, -1] {
            assert_eq!(restart_result(number, eintr, || true), None);
        }
        assert_eq!(restart_result(libc::SYS_nanosleep, -516, || true), Some(-514));
        assert_eq!(restart_result(libc::SYS_nanosleep, -516, || false), None);
        assert_eq!(restart_result(-1, -516, || true), None);
        // Not in a call that the kernel begins anew by itself.
        assert_eq!(restart_result(libc::SYS_read, -512, || true), None);
    }
}
