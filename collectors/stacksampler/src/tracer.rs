//! What can be waited for: threads that stop, signals to this program, orders through its control pipe.
//!
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
use std::fs::File;
use std::io::Read;
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

/// What ends the sampling before its time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    Signal,
    /// `close` came through the control pipe, or its other end is gone.
    Closed,
}

pub struct Tracer {
    signals: SignalFd,
    control: Option<File>,
    opened: bool,
    end: Option<End>,
}

impl Tracer {
    /// Blocks the signals that end us, so that no thread is left to the kernel to resume when we can do it ourselves.
    /// control: the pipe that orders come through.
    pub fn new(control: Option<File>) -> nix::Result<Self> {
        let mut set = SigSet::empty();
        for signal in [Signal::SIGCHLD, Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP] {
            set.add(signal);
        }
        set.thread_block()?;
        let signals = SignalFd::with_flags(&set, SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC)?;
        Ok(Self { signals, opened: control.is_none(), control, end: None })
    }

    /// What asked us to end.
    pub fn end(&mut self) -> Option<End> {
        self.sleep(PollTimeout::ZERO);
        self.drain();
        self.end
    }

    /// Waits for the order to begin, where orders are given; false when we are to end instead.
    pub fn wait_for_open(&mut self) -> bool {
        while !self.opened && self.end().is_none() {
            self.sleep(PollTimeout::NONE);
        }
        self.end().is_none()
    }

    fn drain(&mut self) {
        while let Ok(Some(info)) = self.signals.read_signal() {
            let signal = Signal::try_from(info.ssi_signo as i32).ok();
            if signal != Some(Signal::SIGCHLD) {
                self.end.get_or_insert(End::Signal);
            }
        }
    }

    fn take_order(&mut self) {
        let mut order = [0; 64];
        let read = self.control.as_mut().map_or(Ok(0), |control| control.read(&mut order));
        match &order[..read.unwrap_or(0)] {
            b"open\n" => self.opened = true,
            _ => {
                self.end.get_or_insert(End::Closed);
                self.control = None;
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
            if left.is_zero() || self.end.is_some() {
                return Event::Nothing;
            }
            // Rounded up: a timeout of 0 would spin.
            let milliseconds = left.as_millis() as i64 + 1;
            self.sleep(PollTimeout::try_from(milliseconds).unwrap_or(PollTimeout::MAX));
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

    fn sleep(&mut self, at_most: PollTimeout) {
        let mut fds = vec![PollFd::new(self.signals.as_fd(), PollFlags::POLLIN)];
        fds.extend(self.control.iter().map(|control| PollFd::new(control.as_fd(), PollFlags::POLLIN)));
        let _ = poll(&mut fds, at_most);
        if fds.get(1).and_then(PollFd::any) == Some(true) {
            self.take_order();
        }
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
