//! Whether a function is where threads begin, by its unwind table. Names would show it where there are any: the C
//! libraries of Debian, Ubuntu and Arch come without those of `start_thread` and `clone3`.
//!
//! What starts a thread is written in assembly, and says that its return address is undefined (`_start`, `clone`). What
//! it calls ends the thread and never returns (`start_thread`, `__libc_start_call_main`): its frame, once it is there,
//! is never taken down. Parts of functions that compilers put elsewhere (`.cold`) begin with a frame, and are neither.

use super::eh_frame::{EhFrames, LONGEST};
use gimli::{AArch64, CfaRule, Register, RegisterRule, UnwindContext, X86_64};

/// Where the caller's stack ends when a function is entered, for each register of return addresses.
const AT_ENTRY: [(Register, CfaRule<usize>); 2] = [
    (X86_64::RA, CfaRule::RegisterAndOffset { register: X86_64::RSP, offset: 8 }),
    (AArch64::X30, CfaRule::RegisterAndOffset { register: AArch64::SP, offset: 0 }),
];

/// The functions of a file, to be asked.
pub struct ThreadStarts<'a> {
    pub frames: EhFrames<'a>,
}

impl ThreadStarts<'_> {
    /// Whether threads begin in the function around an address of the file; `None` where nothing describes it.
    pub fn has(&self, address: u64) -> Option<bool> {
        let Self { frames } = self;
        let entry = frames.entry_of(address)?;
        if entry.entry_len() > LONGEST {
            return None;
        }
        let back = entry.cie().return_address_register();
        let (_, at_entry) = AT_ENTRY.iter().find(|(register, _)| *register == back)?;
        let mut context = UnwindContext::new();
        let mut rows = entry.rows(&frames.eh_frame, &frames.bases, &mut context).ok()?;
        let (mut first, mut has_frame, mut returns) = (true, false, false);
        while let Some(row) = rows.next_row().ok()? {
            if row.contains(address) && row.register(back) == Some(RegisterRule::Undefined) {
                return Some(true);
            }
            let entered = row.cfa() == at_entry;
            returns |= if first { !entered } else { entered && has_frame };
            has_frame |= !entered;
            first = false;
        }
        Some(has_frame && !returns)
    }
}
