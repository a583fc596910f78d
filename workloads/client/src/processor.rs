//! Counters of the processor and the kernel for this program, read at the edges of each phase: at full speed, and without
//! stacks.
//!
//! The interface is perf_event_open(2)'s.

use observer::Failure;
use perf_event_open_sys::bindings as kernel;
use std::fs::File;
use std::io::{Error, Read};
use std::os::fd::FromRawFd;

/// Names as perf has them; `:u` leaves out what the kernel does.
const EVENTS: [(&str, u32, u64); 4] = [
    ("instructions", kernel::PERF_TYPE_HARDWARE, kernel::PERF_COUNT_HW_INSTRUCTIONS as u64),
    ("branch-misses", kernel::PERF_TYPE_HARDWARE, kernel::PERF_COUNT_HW_BRANCH_MISSES as u64),
    ("page-faults", kernel::PERF_TYPE_SOFTWARE, kernel::PERF_COUNT_SW_PAGE_FAULTS as u64),
    ("context-switches", kernel::PERF_TYPE_SOFTWARE, kernel::PERF_COUNT_SW_CONTEXT_SWITCHES as u64),
];
const OF_THE_PROGRAM: &str = ":u";

/// Counters of these events, which run from now on.
#[derive(Debug)]
pub struct Processor {
    counters: Vec<(String, File)>,
}

impl Processor {
    /// names:   by commas, as `--counted_events` has them
    /// threads: of those that are started later as well, and not of the calling thread alone
    ///
    /// Usage error for a name that is not known; host error where the event cannot be counted here.
    pub fn open(names: &str, threads: bool) -> Result<Self, Failure> {
        let counters = names.split(',').map(|name| Ok((name.to_owned(), counter(name, threads)?)));
        Ok(Self { counters: counters.collect::<Result<_, Failure>>()? })
    }

    /// Counts since they were opened, by event.
    pub fn read(&self) -> Result<Vec<u64>, Failure> {
        self.counters.iter().map(|(name, file)| count(name, file)).collect()
    }

    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.counters.iter().map(|(name, _)| name.as_str())
    }
}

fn counter(name: &str, threads: bool) -> Result<File, Failure> {
    let plain = name.strip_suffix(OF_THE_PROGRAM).unwrap_or(name);
    let Some((_, kind, config)) = EVENTS.iter().find(|(known, _, _)| *known == plain) else {
        let known: Vec<&str> = EVENTS.iter().map(|(known, _, _)| *known).collect();
        return Err(Failure::usage(format!("--counted_events={name} is not known"))
            .meaning("nothing was started")
            .mend(format!("any of {}, with {OF_THE_PROGRAM} for the program alone", known.join(", "))));
    };
    let mut attr = kernel::perf_event_attr::default();
    attr.type_ = *kind;
    attr.size = size_of::<kernel::perf_event_attr>() as u32;
    attr.config = *config;
    attr.read_format =
        u64::from(kernel::PERF_FORMAT_TOTAL_TIME_ENABLED | kernel::PERF_FORMAT_TOTAL_TIME_RUNNING);
    attr.set_exclude_kernel(u64::from(plain != name));
    attr.set_exclude_hv(1);
    attr.set_inherit(u64::from(threads));
    // SAFETY: the structure lives during the call and says its size; a file of our own comes back, or -1.
    let descriptor = unsafe { perf_event_open_sys::perf_event_open(&mut attr, 0, -1, -1, 0) };
    if descriptor < 0 {
        return Err(cannot(name, &Error::last_os_error()));
    }
    // SAFETY: nobody else has it.
    Ok(unsafe { File::from_raw_fd(descriptor) })
}

fn cannot(name: &str, error: &Error) -> Failure {
    let failure = Failure::host(format!("{name} cannot be counted here: {error}"));
    match error.raw_os_error() {
        Some(libc::ENOENT | libc::EOPNOTSUPP | libc::ENODEV) => failure
            .meaning("this processor has no such counter, or the virtual machine is not given it")
            .mend("count under callgrind, which needs none"),
        _ => failure.mend("sudo sysctl kernel.perf_event_paranoid=2"),
    }
}

/// Reads a counter. One that shared the hardware with others ran only part of the time: its count would be an estimate.
fn count(name: &str, mut file: &File) -> Result<u64, Failure> {
    let mut fields = [0_u8; 24];
    file.read_exact(&mut fields)?;
    let [count, enabled, running] = [0, 8, 16].map(|at| {
        let mut word = [0_u8; 8];
        word.copy_from_slice(&fields[at..at + 8]);
        u64::from_ne_bytes(word)
    });
    if running == enabled {
        return Ok(count);
    }
    Err(Failure::measurement(format!("{name} was counted for {running} ns of {enabled} ns"))
        .meaning("somebody else uses the processor's counters: what is missing would be estimated")
        .mend("end what counts beside it (the NMI watchdog does: sudo sysctl kernel.nmi_watchdog=0)"))
}
