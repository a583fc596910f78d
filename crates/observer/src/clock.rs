//! CLOCK_MONOTONIC, which every observer stamps its records with.

use nix::time::{ClockId, clock_gettime};
use std::time::Duration;

/// The time base of bpf_ktime_get_ns, too.
pub fn now_ns() -> u64 {
    nanoseconds(ClockId::CLOCK_MONOTONIC)
}

/// CPU time of this process.
pub fn cpu_ns() -> u64 {
    nanoseconds(ClockId::CLOCK_PROCESS_CPUTIME_ID)
}

/// CLOCK_MONOTONIC of a start in clock ticks since boot.
pub fn of_boot_ticks(ticks: u64) -> u64 {
    let hz =
        nix::unistd::sysconf(nix::unistd::SysconfVar::CLK_TCK).ok().flatten().unwrap_or(100).max(1) as u64;
    let suspended = nanoseconds(ClockId::CLOCK_BOOTTIME).saturating_sub(now_ns());
    (ticks.saturating_mul(1_000_000_000) / hz).saturating_sub(suspended)
}

fn nanoseconds(clock: ClockId) -> u64 {
    clock_gettime(clock).map_or(0, |time| Duration::from(time).as_nanos() as u64)
}
