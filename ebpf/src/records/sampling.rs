//! Samples of what runs, by the CPU clock: an event on each CPU runs the program.
//!
//! The interface is perf_event_open(2)'s.

use std::fs;
use std::io::Error;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use libbpf_rs::libbpf_sys::{
    PERF_COUNT_SW_CPU_CLOCK, PERF_FLAG_FD_CLOEXEC, PERF_TYPE_SOFTWARE, perf_event_attr,
};
use libbpf_rs::{Link, ProgramMut};
use observer::Failure;

use crate::refusal::OrRefused;

/// perf's own for benchmarks: in step with no timer of 1,000 Hz.
const HERTZ: u64 = 999;

/// Samples are taken for as long as these are held.
pub struct Samples {
    _links: Vec<Link>,
    _events: Vec<OwnedFd>,
}

impl Samples {
    pub fn begin(program: &ProgramMut) -> Result<Self, Failure> {
        let mut found = Self { _links: Vec::new(), _events: Vec::new() };
        for cpu in online()? {
            let event = event_on(cpu)?;
            found._links.push(program.attach_perf_event(event.as_raw_fd()).or_refused()?);
            found._events.push(event);
        }
        Ok(found)
    }
}

fn event_on(cpu: i32) -> Result<OwnedFd, Failure> {
    // SAFETY: a structure of numbers.
    let mut attr: perf_event_attr = unsafe { std::mem::zeroed() };
    attr.type_ = PERF_TYPE_SOFTWARE;
    attr.size = size_of::<perf_event_attr>() as u32;
    attr.config = u64::from(PERF_COUNT_SW_CPU_CLOCK);
    attr.__bindgen_anon_1.sample_freq = HERTZ;
    attr.set_freq(1);
    // SAFETY: the structure lives during the call and says its size; a file of our own comes back, or -1.
    let descriptor = unsafe {
        libc::syscall(libc::SYS_perf_event_open, &raw const attr, -1, cpu, -1, PERF_FLAG_FD_CLOEXEC)
    };
    if descriptor < 0 {
        let error = Error::last_os_error();
        return Err(Failure::host(format!("CPU {cpu} cannot be sampled: {error}")));
    }
    // SAFETY: nobody else has it.
    Ok(unsafe { OwnedFd::from_raw_fd(descriptor as i32) })
}

/// Numbers of the CPUs that are online: `0-3,8`.
fn online() -> Result<Vec<i32>, Failure> {
    let text = fs::read_to_string("/sys/devices/system/cpu/online")?;
    let number = |text: &str| text.parse::<i32>().map_err(|_| Failure::host(format!("{text:?} is no CPU")));
    let mut found = Vec::new();
    for range in text.trim().split(',') {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        found.extend(number(first)?..=number(last)?);
    }
    Ok(found)
}
