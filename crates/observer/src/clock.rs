//! CLOCK_MONOTONIC, which every observer stamps its records with.

/// The time base of bpf_ktime_get_ns, too.
#[inline]
pub fn now_ns() -> u64 {
    nanoseconds(libc::CLOCK_MONOTONIC)
}

/// CPU time of this process.
pub fn cpu_ns() -> u64 {
    nanoseconds(libc::CLOCK_PROCESS_CPUTIME_ID)
}

/// CLOCK_MONOTONIC of a start in clock ticks since boot.
pub fn of_boot_ticks(ticks: u64) -> u64 {
    let hz =
        nix::unistd::sysconf(nix::unistd::SysconfVar::CLK_TCK).ok().flatten().unwrap_or(100).max(1) as u64;
    let suspended = nanoseconds(libc::CLOCK_BOOTTIME).saturating_sub(now_ns());
    (ticks.saturating_mul(1_000_000_000) / hz).saturating_sub(suspended)
}

/// Twice for each operation of the client, whose time is part of what is measured: nix takes 20 ns more for it.
#[inline]
fn nanoseconds(clock: libc::clockid_t) -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the kernel writes one timespec, which is there.
    let failed = unsafe { libc::clock_gettime(clock, &raw mut time) } != 0;
    if failed { 0 } else { time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64 }
}
