//! Waiting for threads that stop, and for the end of sampling.
//!
//! One thread at a time: seized, interrupted, released. Nothing here can leave a thread stopped: when this program
//! ends, however it ends, the kernel detaches it from every thread it had seized, and those continue.

use nix::errno::Errno;
use nix::libc::{self, c_int};
use nix::sys::ptrace::{self, Options};
use nix::unistd::Pid;
use observer::Failure;
use observer::clock;
use observer::control::{Control, Pipes};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::time::{Duration, Instant};

/// What a wait ended with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// It has stopped, with this signal pending for it, 0 if none. `release` resumes it.
    ///
    /// A number, because nix names the signals up to 31 alone: the others are the program's, or glibc's (setuid in a
    /// process with threads, pthread_cancel), and a thread that is not released with them stays stopped for ever.
    Stopped(Pid, c_int),
    Ended(Pid),
    Nothing,
}

/// Why a thread could not be asked to stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    Ended,
    NotPermitted,
}

/// How long to wait for a thread's stop. One that takes longer (it waits for a disk) gets a snapshot in each round, and
/// is handled as soon as it stops.
pub const PATIENCE: Duration = Duration::from_millis(2);

/// How long to spin for a thread's stop: on two busy CPUs this cut the mean stop from 52 to 17 us.
const SPIN: Duration = Duration::from_micros(30);

pub struct Tracer {
    /// Its signals include SIGCHLD, which reports threads that stop.
    pub control: Control,
    none_stopped_ns: u64,
    /// `schedstat` of the thread that samples.
    schedstat: Option<File>,
}

impl Tracer {
    /// Blocks the signals that end us, so that no thread is left to the kernel to resume when we can do it ourselves.
    pub fn new(pipes: Option<Pipes>) -> Result<Self, Failure> {
        Ok(Self { control: Control::new(pipes)?, none_stopped_ns: 0, schedstat: None })
    }

    /// Whoever calls it samples.
    pub fn sample_here(&mut self) {
        self.schedstat = File::open("/proc/thread-self/schedstat").ok();
    }

    /// Takes the thread without stopping it.
    pub fn seize(&self, thread: Pid) -> Result<(), Refusal> {
        ptrace::seize(thread, Options::empty()).map_err(refusal)
    }

    /// Asks a seized thread to stop.
    pub fn interrupt(&self, thread: Pid) -> Result<(), Refusal> {
        ptrace::interrupt(thread).map_err(refusal)
    }

    /// What has happened to any seized thread since one was interrupted, waiting for it until `deadline`.
    ///
    /// A running thread stops within microseconds. Sleeping until then takes longer: the thread would be stopped while
    /// we wake up.
    pub fn wait_for_stop(&mut self, deadline: Instant) -> Event {
        let begun = Instant::now();
        while begun.elapsed() < SPIN {
            match self.poll() {
                Event::Nothing => {}
                event => return event,
            }
        }
        self.wait(deadline)
    }

    /// What has happened to any seized thread, waiting for it until `deadline`.
    pub fn wait(&mut self, deadline: Instant) -> Event {
        loop {
            // First of all, because a thread may have been stopped since the wake-up.
            match self.poll() {
                Event::Nothing => {}
                event => return event,
            }
            // A stop that came before its signal was taken would not end the sleep: poll once more.
            let end = self.control.take_signals();
            match self.poll() {
                Event::Nothing => {}
                event => return event,
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() || end.is_some() {
                return Event::Nothing;
            }
            let delay = self.wake_up_delay_ns();
            self.control.sleep(Some(left));
            // Whatever ended the sleep came when we were woken up, before we were given a CPU.
            self.none_stopped_ns = clock::now_ns() - (self.wake_up_delay_ns() - delay);
        }
    }

    /// How long this thread has waited for a CPU since its start; 0 where the kernel does not say.
    fn wake_up_delay_ns(&self) -> u64 {
        let mut text = [0; 64];
        let read = self.schedstat.as_ref().map_or(Ok(0), |file| file.read_at(&mut text, 0)).unwrap_or(0);
        // Time on a CPU, time waiting for one, time slices.
        let field =
            std::str::from_utf8(&text[..read]).ok().and_then(|text| text.split(' ').nth(1)?.parse().ok());
        field.unwrap_or(0)
    }

    /// What has happened to any seized thread, without waiting.
    pub fn poll(&mut self) -> Event {
        let before = clock::now_ns();
        let mut status = 0;
        // SAFETY: the call writes one number, which lives on our stack.
        match unsafe { libc::waitpid(-1, &raw mut status, libc::__WALL | libc::WNOHANG) } {
            thread if thread > 0 => event(Pid::from_raw(thread), status),
            _ => {
                self.none_stopped_ns = before;
                Event::Nothing
            }
        }
    }

    /// The last time that no seized thread was seen stopped, CLOCK_MONOTONIC: one that is stopped now stopped then or
    /// later.
    pub fn none_stopped_ns(&self) -> u64 {
        self.none_stopped_ns
    }

    /// Resumes a stopped thread, with the signal that was pending for it.
    pub fn release(&self, thread: Pid, signal: c_int) {
        let signal = std::ptr::without_provenance_mut::<libc::c_void>(signal as usize);
        // SAFETY: the call takes no memory of ours. ESRCH: it was killed meanwhile, which needs no help.
        unsafe {
            libc::ptrace(libc::PTRACE_DETACH, thread.as_raw(), std::ptr::null_mut::<libc::c_void>(), signal)
        };
    }
}

/// What a status of waitpid(2) says of a seized thread.
fn event(thread: Pid, status: c_int) -> Event {
    if !libc::WIFSTOPPED(status) {
        return Event::Ended(thread);
    }
    match status >> 16 {
        // A signal was on its way to it: it is passed on.
        0 => Event::Stopped(thread, libc::WSTOPSIG(status)),
        // The stop that was asked for, or a group stop that lasted already.
        _ => Event::Stopped(thread, 0),
    }
}

fn refusal(errno: Errno) -> Refusal {
    match errno {
        Errno::EPERM | Errno::EACCES => Refusal::NotPermitted,
        _ => Refusal::Ended,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_stop_has_its_signal() {
        let thread = Pid::from_raw(4711);
        for signal in 1..=64 {
            assert_eq!(event(thread, signal << 8 | 0x7f), Event::Stopped(thread, signal));
        }
        for event_stop in [libc::SIGTRAP, libc::SIGSTOP, libc::SIGTTIN] {
            let status = libc::PTRACE_EVENT_STOP << 16 | event_stop << 8 | 0x7f;
            assert_eq!(event(thread, status), Event::Stopped(thread, 0));
        }
        assert_eq!([event(thread, 7 << 8), event(thread, libc::SIGKILL)], [Event::Ended(thread); 2]);
    }
}
