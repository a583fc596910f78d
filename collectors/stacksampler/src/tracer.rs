//! One thread at a time: seized, interrupted, let go. Nothing here can leave a thread stopped: when this program ends,
//! however it ends, the kernel detaches it from every thread it had seized, and those go on.

use nix::errno::Errno;
use nix::libc;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::ptrace::{self, Options};
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

/// What a wait ended with.
pub enum Event {
    /// It stands still. It goes on with `release`.
    Stopped(Pid, Option<Signal>),
    Gone(Pid),
    Nothing,
}

/// Why a thread could not be asked to stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    Gone,
    NotPermitted,
}

/// How long the CPU is kept for a thread's stop: seen on two busy CPUs, it takes the mean stop from 52 to 17 us.
const SPIN: Duration = Duration::from_micros(30);

pub struct Tracer {
    signals: SignalFd,
    ended_by: Option<Signal>,
}

impl Tracer {
    /// Blocks the signals that end us, so that no thread is left to the kernel to resume when we can do it ourselves.
    pub fn new() -> nix::Result<Self> {
        let mut set = SigSet::empty();
        for signal in [Signal::SIGCHLD, Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP] {
            set.add(signal);
        }
        set.thread_block()?;
        let signals = SignalFd::with_flags(&set, SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC)?;
        Ok(Self { signals, ended_by: None })
    }

    /// The signal that asked us to end.
    pub fn ended_by(&mut self) -> Option<Signal> {
        self.drain();
        self.ended_by
    }

    fn drain(&mut self) {
        while let Ok(Some(info)) = self.signals.read_signal() {
            let signal = Signal::try_from(info.ssi_signo as i32).ok();
            if let Some(signal) = signal.filter(|&signal| signal != Signal::SIGCHLD) {
                self.ended_by = Some(signal);
            }
        }
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
    /// A running thread stops within microseconds; to be woken up takes longer, and the thread would stand still for it.
    pub fn wait_for_stop(&mut self, deadline: Instant) -> Event {
        let begun = Instant::now();
        while begun.elapsed() < SPIN {
            match self.now() {
                Event::Nothing => {}
                event => return event,
            }
        }
        self.wait(deadline)
    }

    /// What has happened to any seized thread, waiting for it until `deadline`.
    pub fn wait(&mut self, deadline: Instant) -> Event {
        loop {
            // First of all, because a thread may stand still since the wake-up.
            match self.now() {
                Event::Nothing => {}
                event => return event,
            }
            // A stop that came before the drain would have no signal left to end the sleep: look once more.
            self.drain();
            match self.now() {
                Event::Nothing => {}
                event => return event,
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() || self.ended_by.is_some() {
                return Event::Nothing;
            }
            self.sleep(left);
        }
    }

    /// What has happened to any seized thread, without waiting.
    fn now(&self) -> Event {
        let flags = WaitPidFlag::__WALL | WaitPidFlag::WNOHANG;
        match waitpid(None, Some(flags)) {
            // The stop that was asked for, or a group stop that lasted already.
            Ok(WaitStatus::PtraceEvent(thread, _, event)) if event == libc::PTRACE_EVENT_STOP => {
                Event::Stopped(thread, None)
            }
            Ok(WaitStatus::PtraceEvent(thread, ..)) => Event::Stopped(thread, None),
            // A signal was on its way to it: it is passed on.
            Ok(WaitStatus::Stopped(thread, signal)) => Event::Stopped(thread, Some(signal)),
            Ok(WaitStatus::Exited(thread, _) | WaitStatus::Signaled(thread, ..)) => Event::Gone(thread),
            _ => Event::Nothing,
        }
    }

    fn sleep(&self, at_most: Duration) {
        let mut fds = [PollFd::new(self.signals.as_fd(), PollFlags::POLLIN)];
        // Rounded up: a timeout of 0 would spin.
        let timeout = PollTimeout::try_from(at_most.as_millis() as i64 + 1).unwrap_or(PollTimeout::MAX);
        let _ = poll(&mut fds, timeout);
    }

    /// Lets a stopped thread go on, with the signal that was on its way.
    pub fn release(&self, thread: Pid, signal: Option<Signal>) {
        // ESRCH: it was killed meanwhile, which needs no help.
        let _ = ptrace::detach(thread, signal);
    }
}

fn refusal(errno: Errno) -> Refusal {
    match errno {
        Errno::EPERM | Errno::EACCES => Refusal::NotPermitted,
        _ => Refusal::Gone,
    }
}
