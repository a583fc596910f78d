//! What a wait in a futex is for: a lock, a condition, the end of a thread. The kernel does not know; the call's
//! operation and value show it, with the function of the C library that made the call.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::ops::Range;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::Path;

use observer::Process;
use observer::states::OffCpu as State;
use recording::parse::{self, Mapping};

use symbolize::addresses::ObjectAddress;
use symbolize::budget::Budget;
use symbolize::symbols::elf::{self, Elf};

use super::skeleton::types::{futex_how, futex_room};

/// How many the program has room for, and the words of the stack that it looks through.
const MOST: usize = futex_room::CALLERS.0 as usize;
const STACK_WORDS: usize = futex_room::STACK_WORDS.0 as usize;

/// `how` of `struct futex`.
const OPERATION: u32 = futex_how::FUTEX_COMMAND.0;
const PRIVATE: u32 = futex_how::FUTEX_PRIVATE.0;
pub const SEEN: u32 = futex_how::FUTEX_SEEN.0;
const LIBRARY: u32 = futex_how::FUTEX_LIBRARY.0;
/// Of a word that says which thread has the lock: others wait for it.
const WAITERS: u32 = 0x8000_0000;
/// Operations, linux/futex.h.
const WAIT: u32 = 0;
const LOCK_PI: u32 = 6;
const WAIT_BITSET: u32 = 9;
const WAIT_REQUEUE_PI: u32 = 11;
const LOCK_PI2: u32 = 13;
const NR_FUTEX: i64 = libc::SYS_futex;

/// What a function of the C library waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Use {
    Lock,
    Condition,
    Join,
    /// `syscall()`: the futex is somebody else's.
    Foreign,
}

/// Functions of glibc and musl. Those that begin with two underscores are local: only a symbol table names them.
const FUNCTIONS: [(Use, &[&str]); 4] = [
    (
        Use::Lock,
        &[
            "pthread_mutex_lock",
            "pthread_mutex_timedlock",
            "pthread_mutex_clocklock",
            "mtx_lock",
            "mtx_timedlock",
            "pthread_rwlock_rdlock",
            "pthread_rwlock_wrlock",
            "pthread_rwlock_timedrdlock",
            "pthread_rwlock_timedwrlock",
            "pthread_rwlock_clockrdlock",
            "pthread_rwlock_clockwrlock",
            "sem_wait",
            "sem_timedwait",
            "sem_clockwait",
            "__lll_lock_wait_private",
            "__lll_lock_wait",
            "__pthread_mutex_lock_full",
            "__pthread_mutex_cond_lock",
            "__pthread_mutex_clocklock_common",
            "__new_sem_wait_slow64",
        ],
    ),
    (
        Use::Condition,
        &[
            "pthread_cond_wait",
            "pthread_cond_timedwait",
            "pthread_cond_clockwait",
            "cnd_wait",
            "cnd_timedwait",
        ],
    ),
    (
        Use::Join,
        &[
            "pthread_join",
            "pthread_timedjoin_np",
            "pthread_clockjoin_np",
            "thrd_join",
            "__pthread_clockjoin_ex",
        ],
    ),
    (Use::Foreign, &["syscall"]),
];

/// `struct futex`: what the program, or /proc, saw of a thread's call; all 0 where it is in none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Futex {
    pub caller: u64,
    pub how: u32,
    pub value: u32,
}

/// The functions of the C library as a process has them mapped.
#[derive(Clone, Debug, Default)]
pub struct Callers {
    functions: Vec<(Range<u64>, Use)>,
    /// The code of the library that has them.
    pub library: Range<u64>,
    glibc: bool,
}

impl Callers {
    /// From the symbols of what the process has mapped now; none where it has no C library, or a static one without
    /// names.
    pub fn of(process: &Process) -> Self {
        let maps = parse::maps(&fs::read(process.path("maps")).unwrap_or_default());
        let mut found = Self::default();
        let mut looked_at = BTreeSet::new();
        for map in maps.iter().filter(|map| map.executable && map.path.starts_with(b"/")) {
            if looked_at.insert(&map.path) {
                // Through the process' own root; one that was deleted or replaced since has no names.
                let below = Path::new(std::ffi::OsStr::from_bytes(&map.path[1..]));
                found.add(&process.path("root").join(below), map);
            }
        }
        found.functions.sort_by_key(|(range, _)| range.start);
        found.functions.dedup_by(|next, before| next.0 == before.0);
        found.functions.truncate(MOST);
        found
    }

    fn add(&mut self, path: &Path, map: &Mapping) {
        let Some(elf) = Elf::read(path) else { return };
        let known: BTreeMap<&[u8], Use> = FUNCTIONS
            .iter()
            .flat_map(|(what, names)| names.iter().map(|name| (name.as_bytes(), *what)))
            .collect();
        elf::each_function(path, &Budget::default(), |name, range| {
            // `__new_sem_wait_slow64.constprop.0`
            let plain = name.split(|byte| b".@".contains(byte)).next().unwrap_or(name);
            self.glibc |= plain == b"gnu_get_libc_version";
            let Some(&what) = known.get(plain).filter(|_| !range.is_empty()) else { return };
            let Some(start) = mapped_at(&elf, map, range.start) else { return };
            self.functions.push((start..start.saturating_add(range.end - range.start), what));
            if plain == b"sem_wait" {
                self.library = map.range.clone();
            }
        });
    }

    /// Addresses in order.
    pub fn ranges(&self) -> impl Iterator<Item = &Range<u64>> {
        self.functions.iter().map(|(range, _)| range)
    }

    fn use_of(&self, address: u64) -> Option<Use> {
        let after = self.functions.partition_point(|(range, _)| range.start <= address);
        let (range, what) = self.functions[..after].last()?;
        range.contains(&address).then_some(*what)
    }

    /// What a thread waits for in the call. tids: of the process' threads, as they know themselves
    pub fn state(&self, futex: &Futex, tids: &BTreeSet<u32>) -> State {
        let caller = self.use_of(futex.caller);
        match futex.how & OPERATION {
            LOCK_PI | LOCK_PI2 => return State::Lock,
            WAIT_REQUEUE_PI => return State::Condition,
            // The word is the one that the kernel clears when the thread of that number ends, and wakes as a shared
            // one.
            WAIT | WAIT_BITSET if futex.how & PRIVATE == 0 && tids.contains(&futex.value) => {
                return State::Join;
            }
            _ => {}
        }
        // 2 is a mutex that is taken and waited for, in glibc, musl, Go and Rust (Drepper, "Futexes are tricky").
        let taken = futex.value == 2 || futex.value & WAITERS != 0;
        match caller {
            // A condition of glibc takes its mutex again by another operation than it waits with.
            Some(Use::Condition) if self.glibc && futex.how & OPERATION == WAIT && taken => State::Lock,
            Some(Use::Condition) => State::Condition,
            Some(Use::Lock) => State::Lock,
            Some(Use::Join) => State::Join,
            _ if taken => State::Lock,
            // glibc's conditions and rwlocks wait in their own functions, which are exported; semaphores in a local
            // one.
            None if self.glibc && futex.how & LIBRARY != 0 && futex.value == 0 => State::Lock,
            _ => State::Futex,
        }
    }

    /// What /proc tells of a thread that is blocked: its call's number, arguments, stack pointer and place.
    pub fn blocked(&self, process: &Process, tid: u32) -> Futex {
        let text = fs::read(process.path(&format!("task/{tid}/syscall"))).unwrap_or_default();
        let Some(call) = parse::syscall(&text).filter(|call| call.number == NR_FUTEX) else {
            return Futex::default();
        };
        let [_, operation, value, ..] = call.arguments;
        let within = if self.library.contains(&call.pc) { LIBRARY } else { 0 };
        let how = operation as u32 & (OPERATION | PRIVATE) | SEEN | within;
        Futex { caller: self.caller(process, call.sp, call.pc), how, value: value as u32 }
    }

    /// The innermost function of the library on the stack, as the program finds it; 0: none.
    fn caller(&self, process: &Process, sp: u64, pc: u64) -> u64 {
        let mut words = [0; STACK_WORDS * 8];
        let memory = File::open(process.path("mem"));
        let read = memory.and_then(|memory| memory.read_at(&mut words, sp)).unwrap_or(0);
        let returns = words[..read].chunks_exact(8).map(|word| u64::from_ne_bytes(word.try_into().unwrap()));
        let mut addresses = std::iter::once(pc).chain(returns.map(|address| address.wrapping_sub(1)));
        addresses.find(|&address| self.use_of(address).is_some()).unwrap_or(0)
    }
}

/// Where a mapping of the file has an address of the file; None where another mapping has it.
fn mapped_at(elf: &Elf, map: &Mapping, address: u64) -> Option<u64> {
    let offset = elf.offset_of(ObjectAddress(address))?.0;
    let mapped = map.range.start.checked_add(offset.checked_sub(map.offset)?)?;
    map.range.contains(&mapped).then_some(mapped)
}

/// The constants of a skeleton by which its programs know who waits in a futex (`bpf/futex.h`).
macro_rules! know_callers {
    ($rodata:expr, $callers:expr) => {{
        for (place, range) in $rodata.callers.iter_mut().zip($callers.ranges()) {
            (place.low, place.high) = (range.start, range.end);
            $rodata.callers_known += 1;
        }
        ($rodata.library.low, $rodata.library.high) = ($callers.library.start, $callers.library.end);
    }};
}
pub(crate) use know_callers;

#[cfg(test)]
mod tests {
    use super::*;

    fn callers() -> Callers {
        let functions = vec![(100..200, Use::Lock), (200..300, Use::Condition), (400..500, Use::Foreign)];
        Callers { functions, library: 0..600, glibc: true }
    }

    fn state(caller: u64, how: u32, value: u32) -> State {
        callers().state(&Futex { caller, how: how | SEEN, value }, &BTreeSet::from([17]))
    }

    #[test]
    fn the_caller_tells_where_it_is_known() {
        assert_eq!(state(150, WAIT | PRIVATE, 2), State::Lock);
        assert_eq!(state(150, WAIT_BITSET | PRIVATE, 3), State::Lock);
        assert_eq!(state(250, WAIT_BITSET | PRIVATE, 0), State::Condition);
        assert_eq!(state(250, WAIT_BITSET | PRIVATE, 2), State::Condition);
        // The mutex of a condition, taken again.
        assert_eq!(state(250, WAIT | PRIVATE, 2), State::Lock);
        assert_eq!(state(250, WAIT | PRIVATE, WAITERS), State::Lock);
    }

    #[test]
    fn the_call_tells_where_the_caller_is_not_known() {
        assert_eq!(state(0, LOCK_PI | PRIVATE | LIBRARY, 0), State::Lock);
        assert_eq!(state(0, WAIT_REQUEUE_PI | PRIVATE, 1), State::Condition);
        assert_eq!(state(0, WAIT_BITSET | LIBRARY, 17), State::Join);
        assert_eq!(state(0, WAIT | LIBRARY, 17), State::Join);
        assert_eq!(state(0, WAIT_BITSET | PRIVATE | LIBRARY, 0), State::Lock, "a semaphore");
        assert_eq!(state(0, WAIT_BITSET | PRIVATE | LIBRARY, 2), State::Lock, "a mutex with a time limit");
        // A number of a thread in a private word is none: nobody would wake it.
        assert_eq!(state(0, WAIT_BITSET | PRIVATE | LIBRARY, 17), State::Futex);
        assert_eq!(state(0, WAIT_BITSET, 18), State::Futex);
    }

    #[test]
    fn a_runtimes_own_futex_stays_one_unless_it_is_a_taken_mutex() {
        assert_eq!(state(450, WAIT_BITSET | PRIVATE | LIBRARY, 0), State::Futex);
        assert_eq!(state(0, WAIT | PRIVATE, 0), State::Futex);
        assert_eq!(state(450, WAIT_BITSET | PRIVATE, 2), State::Lock);
        assert_eq!(state(0, WAIT | PRIVATE, 2), State::Lock);
    }
}
