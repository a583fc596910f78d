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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::unwind::UnwindSections;
    use object::{Object, ObjectSymbol};
    use std::hint::black_box;

    /// Ends with its thread, as what libc starts threads with.
    #[inline(never)]
    fn never_returns(times: u64) -> ! {
        let held: Vec<u64> = black_box((0..times).collect());
        loop {
            black_box(&held);
        }
    }

    #[inline(never)]
    fn returns(times: u64) -> u64 {
        let held: Vec<u64> = black_box((0..times).collect());
        if held.len() > 7 { held[7] } else { held.iter().sum() }
    }

    #[test]
    fn a_thread_begins_where_nothing_returns_to() {
        assert_eq!(black_box(returns as fn(u64) -> u64)(3), 3);
        black_box(never_returns as fn(u64) -> !);
        let bytes = std::fs::read(std::env::current_exe().unwrap()).unwrap();
        let sections = UnwindSections::of_bytes(&bytes).unwrap();
        let file = object::File::parse(&bytes[..]).unwrap();
        let starts = ThreadStarts { frames: sections.frames().unwrap() };
        let begins = |is_it: &dyn Fn(&str) -> bool| {
            let symbol = file.symbols().find(|symbol| symbol.name().is_ok_and(is_it)).unwrap();
            starts.has(symbol.address() + 1)
        };
        assert_eq!(begins(&|name| name == "_start"), Some(true));
        assert_eq!(begins(&|name| name.contains("starts5tests13never_returns")), Some(true));
        assert_eq!(begins(&|name| name.contains("starts5tests7returns")), Some(false));
        assert_eq!(starts.has(1), None, "nothing lies there");
    }
}
