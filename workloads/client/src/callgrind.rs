//! Requests to callgrind, for a client that runs under it. Elsewhere they are a few instructions without effect.
//!
//! The sequences are those of "The Client Request mechanism" in valgrind's manual and of its `valgrind.h`.

use std::ffi::CStr;

const RUNNING_ON_VALGRIND: usize = 0x1001;
const CALLGRIND: usize = (b'C' as usize) << 24 | (b'T' as usize) << 16;
const ZERO_STATS: usize = CALLGRIND + 1;
const DUMP_STATS_AT: usize = CALLGRIND + 3;
const START_INSTRUMENTATION: usize = CALLGRIND + 4;
const STOP_INSTRUMENTATION: usize = CALLGRIND + 5;

/// Counts from here on, from zero; with `--instr-atstart=no` nothing before was counted.
pub fn begin() {
    request(START_INSTRUMENTATION, 0);
    request(ZERO_STATS, 0);
}

/// Writes the counts since `begin` as a part with this name, and stops counting.
pub fn part_ends(name: &CStr) {
    request(DUMP_STATS_AT, name.as_ptr() as usize);
    request(STOP_INSTRUMENTATION, 0);
}

/// Whether the client runs under valgrind.
pub fn is_active() -> bool {
    request(RUNNING_ON_VALGRIND, 0) != 0
}

/// 0 outside of valgrind.
#[inline(always)]
fn request(number: usize, argument: usize) -> usize {
    let words = [number, argument, 0, 0, 0, 0];
    #[cfg(target_arch = "x86_64")]
    {
        let mut answer = 0_usize;
        // SAFETY: rdi is turned by 128 bits in all and rbx exchanged with itself: nothing changes but flags and, under
        // valgrind, the answer.
        unsafe {
            std::arch::asm!(
                "rol rdi, 3", "rol rdi, 13", "rol rdi, 61", "rol rdi, 51", "xchg rbx, rbx",
                inout("rdx") answer, in("rax") words.as_ptr(),
            );
        }
        answer
    }
    #[cfg(target_arch = "aarch64")]
    {
        let mut answer = 0_usize;
        // SAFETY: as above, with x12 and x10.
        unsafe {
            std::arch::asm!(
                "ror x12, x12, #3", "ror x12, x12, #13", "ror x12, x12, #51", "ror x12, x12, #61", "orr x10, x10, x10",
                inout("x3") answer, in("x4") words.as_ptr(),
            );
        }
        answer
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    {
        let _ = words;
        0
    }
}
