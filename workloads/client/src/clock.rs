//! CLOCK_MONOTONIC, sleeping until a moment of it, and a thread's CPU time.

pub use observer::clock::now_ns;

/// Sleeps until `ns`; a signal may end it before.
pub fn sleep_until(ns: u64) {
    let until =
        libc::timespec { tv_sec: (ns / 1_000_000_000) as libc::time_t, tv_nsec: (ns % 1_000_000_000) as i64 };
    // SAFETY: both pointers are to nothing or to a value that outlives the call.
    unsafe {
        libc::clock_nanosleep(
            libc::CLOCK_MONOTONIC,
            libc::TIMER_ABSTIME,
            &raw const until,
            std::ptr::null_mut(),
        )
    };
}

/// This thread's sleeps end on time. The kernel may end them 50 us later otherwise, to wake several threads at once.
pub fn wake_on_time() {
    // SAFETY: it changes a number of this thread.
    unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1_u64) };
}

/// CPU time of this thread.
pub fn thread_cpu_ns() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: a clock that every thread has, and a value to be filled in.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}
