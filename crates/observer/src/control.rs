//! The control protocol: how a program that observes learns when its window begins and ends.
//!
//! Two pipes, `--control IN,OUT` (open file descriptors): orders come in on one, answers go out on the other. Each is a
//! line of text. `NS` is the moment by CLOCK_MONOTONIC, in ns.
//!
//! ```text
//! state       ioflame            program        what happens
//! preparing                                     all that takes time: programs loaded, probes attached, maps read
//!                           <--  ready NS       nothing is counted yet
//! ready       open         -->
//! counting                  <--  open NS        counting since then
//! counting    close        -->
//! closed                    <--  close NS       counting until then; nobody is held any more
//! closed      open         -->                  the next turn, of a program that takes turns (`--turns`): as `ready`
//! writing     (end of file) -->                 its files are made whole
//! ended                                         exit code 0
//! ```
//!
//! - The window is the program's from `open` to `close`, to the ns that it answers: nothing outside of it is counted.
//! - A program that takes turns has no probe in place but in them: what puts them there comes between the order and the
//!   answer `open`, and what takes them away before the answer `close`; neither is in the turn. Its files are of all turns.
//! - A refusal is not a line: at any point the program may end instead of answering; the end of OUT shows it at once.
//!   Its exit code says whose it is (1 the measurement's, 2 the request's, 3 the host's) and its standard error what it
//!   is: what failed, then maybe `  meaning: ...` and `  fix: ...` (`Failure`).
//! - The end of IN is a `close`, and so is any order but `open`: when ioflame dies, the window closes, what was counted
//!   is written, and the program ends. Before `open` it ends with exit code 1 and writes nothing. Answers that nobody
//!   reads any more are no failure.
//! - SIGINT, SIGTERM and SIGHUP are a `close`, too; while it prepares they may end the program at once.
//! - `close NS` comes unasked where a signal closed the window, its `--seconds` are over, or the observed process
//!   ended; an order that crosses it is not answered again. No turn comes after it, nor after a signal between two: the
//!   program completes its files and ends, and an `open` is answered by the end of OUT.
//! - Without `--control` the window opens at once, and closes after `--seconds` or by a signal.
//!
//! The other end is `ground/system/control.py`; gdb's sampler (`collectors/pmp_gdb.py`) serves the same lines.
//! `perf record` has a protocol of its own (`--control fd:`), and bpftrace takes no orders at all (`ebpf/bpftrace.py`).

use crate::{Failure, clock};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsFd, FromRawFd, RawFd};
use std::str::FromStr;
use std::time::{Duration, Instant};

const OPEN: &[u8] = b"open\n";

/// `IN,OUT`: file descriptors that this program was started with.
#[derive(Clone, Copy, Debug)]
pub struct Pipes {
    orders: RawFd,
    answers: RawFd,
}

impl FromStr for Pipes {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let numbers = text.split_once(',').and_then(|(a, b)| Some((a.parse().ok()?, b.parse().ok()?)));
        let (orders, answers) =
            numbers.filter(|&(a, b)| a > 2 && b > 2 && a != b).ok_or("two file descriptors, IN,OUT")?;
        Ok(Self { orders, answers })
    }
}

/// What closes the window before its time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    Signal,
    /// `close` was ordered, or nobody is there any more to order it.
    Closed,
}

/// The program's end of the protocol.
pub struct Control {
    signals: SignalFd,
    orders: Option<File>,
    answers: Option<File>,
    /// Of the orders what was not followed yet.
    heard: Vec<u8>,
    /// `open` was ordered; what comes next closes.
    opens: bool,
    /// What is left of the order that closed comes first.
    skips: bool,
    signalled: bool,
    end: Option<End>,
}

impl Control {
    /// Blocks the signals that close a window, and SIGCHLD, which only ends a wait, in this thread and those it starts.
    pub fn new(pipes: Option<Pipes>) -> Result<Self, Failure> {
        let set: SigSet =
            [Signal::SIGCHLD, Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP].into_iter().collect();
        let signals = set
            .thread_block()
            .and_then(|()| SignalFd::with_flags(&set, SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC))
            .map_err(|error| Failure::host(format!("signals cannot be blocked: {error}")))?;
        // SAFETY: whoever started us passed these descriptors for us alone.
        let file = |descriptor| unsafe { File::from_raw_fd(descriptor) };
        Ok(Self {
            signals,
            orders: pipes.map(|pipes| file(pipes.orders)),
            answers: pipes.map(|pipes| file(pipes.answers)),
            heard: Vec::new(),
            opens: pipes.is_none(),
            skips: false,
            signalled: false,
            end: None,
        })
    }

    /// Answers `ready` and waits for the order to open. Measurement error where the end comes instead.
    pub fn ready(&mut self) -> Result<(), Failure> {
        self.answer("ready", clock::now_ns());
        if self.is_ordered_to_open() {
            Ok(())
        } else {
            Err(Failure::measurement("the window was never opened"))
        }
    }

    /// Waits, of a window that is closed, for the order to open the next; false where the end comes instead.
    pub fn again(&mut self) -> bool {
        let closed = self.end.take() == Some(End::Closed);
        (self.opens, self.skips) = (false, closed);
        self.follow();
        closed && !self.signalled && self.is_ordered_to_open()
    }

    fn is_ordered_to_open(&mut self) -> bool {
        while !self.opens && self.end.is_none() {
            self.sleep(None);
            self.take_signals();
        }
        self.opens
    }

    /// Answers that counting has begun, at `ns`.
    pub fn opened(&mut self, ns: u64) {
        self.answer("open", ns);
    }

    /// Answers that counting has ended, at `ns`.
    pub fn closed(&mut self, ns: u64) {
        self.answer("close", ns);
    }

    /// What closes the window, as far as is known now.
    pub fn end(&mut self) -> Option<End> {
        self.sleep(Some(Duration::ZERO));
        self.take_signals();
        self.end
    }

    /// What closes the window until `deadline`; None: nothing did.
    pub fn end_until(&mut self, deadline: Instant) -> Option<End> {
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            if self.end().is_some() || left.is_zero() {
                return self.end;
            }
            self.sleep(Some(left));
        }
    }

    /// Whether a signal comes until `deadline`, of a window that is closed.
    pub fn signal_until(&mut self, deadline: Instant) -> bool {
        let before = self.end.take();
        let again = self.end_until(deadline) == Some(End::Signal);
        self.end = before.or(self.end);
        again
    }

    /// Takes the signals that have come. One that came before does not end the next `sleep`.
    pub fn take_signals(&mut self) -> Option<End> {
        while let Ok(Some(info)) = self.signals.read_signal() {
            if info.ssi_signo != Signal::SIGCHLD as u32 {
                self.signalled = true;
                self.end.get_or_insert(End::Signal);
            }
        }
        self.end
    }

    /// Sleeps until there is a signal or an order, for `at_most` so long.
    pub fn sleep(&mut self, at_most: Option<Duration>) {
        // Rounded up: a timeout of 0 would spin.
        let rounded = |time: Duration| if time.is_zero() { 0 } else { time.as_millis() as i64 + 1 };
        let timeout = at_most.map_or(PollTimeout::NONE, |time| {
            PollTimeout::try_from(rounded(time)).unwrap_or(PollTimeout::MAX)
        });
        let mut fds = vec![PollFd::new(self.signals.as_fd(), PollFlags::POLLIN)];
        // What comes after the end is not looked at before `again`.
        let orders = self.orders.iter().filter(|_| self.end.is_none());
        fds.extend(orders.map(|orders| PollFd::new(orders.as_fd(), PollFlags::POLLIN)));
        let _ = poll(&mut fds, timeout);
        if fds.get(1).and_then(PollFd::any) == Some(true) {
            self.take_orders();
        }
    }

    fn take_orders(&mut self) {
        let mut bytes = [0; 64];
        let read = self.orders.as_mut().map_or(Ok(0), |orders| orders.read(&mut bytes)).unwrap_or(0);
        self.heard.extend(&bytes[..read]);
        if read == 0 {
            self.orders = None;
        }
        self.follow();
    }

    /// Does what was ordered, as far as it was heard.
    fn follow(&mut self) {
        if self.skips {
            let end = self.heard.iter().position(|&byte| byte == b'\n');
            self.heard.drain(..end.map_or(self.heard.len(), |at| at + 1));
            self.skips = end.is_none();
        }
        if !self.opens && self.heard.starts_with(OPEN) {
            self.heard.drain(..OPEN.len());
            self.opens = true;
        }
        let wanted: &[u8] = if self.opens { &[] } else { OPEN };
        if self.orders.is_none() || !wanted.starts_with(&self.heard) {
            self.end.get_or_insert(End::Closed);
        }
    }

    fn answer(&mut self, word: &str, ns: u64) {
        if let Some(answers) = &mut self.answers {
            // In one write: a reader may look at it as soon as there is anything.
            let _ = answers.write_all(format!("{word} {ns}\n").as_bytes());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{BufRead, BufReader};
    use std::os::fd::IntoRawFd;

    /// A server on pipes of its own, and the other ends of these.
    fn served() -> (Control, File, BufReader<File>) {
        let (orders, order) = nix::unistd::pipe().unwrap();
        let (answer, answers) = nix::unistd::pipe().unwrap();
        let text = format!("{},{}", orders.into_raw_fd(), answers.into_raw_fd());
        let control = Control::new(Some(text.parse().unwrap())).unwrap();
        (control, File::from(order), BufReader::new(File::from(answer)))
    }

    fn line(answers: &mut BufReader<File>) -> String {
        let mut line = String::new();
        answers.read_line(&mut line).unwrap();
        line
    }

    #[test]
    fn a_window_is_opened_and_closed_by_orders() {
        let (mut control, mut orders, mut answers) = served();
        orders.write_all(b"op").unwrap();
        assert_eq!(control.end(), None);
        orders.write_all(b"en\n").unwrap();
        control.ready().unwrap();
        assert!(line(&mut answers).starts_with("ready "));
        control.opened(17);
        assert_eq!((line(&mut answers), control.end()), ("open 17\n".to_owned(), None));
        assert_eq!(control.end_until(Instant::now() + Duration::from_millis(5)), None);
        orders.write_all(b"close\n").unwrap();
        assert_eq!(control.end_until(Instant::now() + Duration::from_secs(600)), Some(End::Closed));
        control.closed(18);
        assert_eq!(line(&mut answers), "close 18\n");
    }

    #[test]
    fn turns_end_with_the_orders_or_a_signal() {
        let (mut control, mut orders, mut answers) = served();
        orders.write_all(b"open\nclo").unwrap();
        control.ready().unwrap();
        assert_eq!(control.end(), Some(End::Closed));
        control.closed(1);
        orders.write_all(b"se\nopen\n").unwrap();
        assert!(control.again());
        assert_eq!(control.end_until(Instant::now() + Duration::from_millis(5)), None);
        orders.write_all(b"close\nopen\nclose\n").unwrap();
        assert_eq!(control.end(), Some(End::Closed));
        control.closed(2);
        assert!(control.again());
        assert_eq!(control.end(), Some(End::Closed));
        drop(orders);
        assert!(!control.again());
        assert!(line(&mut answers).starts_with("ready ") && line(&mut answers) == "close 1\n");

        // In a turn, and between two.
        for (order, end) in [("open\n", None), ("open\nclose\n", Some(End::Closed))] {
            let (mut control, mut orders, _answers) = served();
            orders.write_all(order.as_bytes()).unwrap();
            control.ready().unwrap();
            assert_eq!(control.end(), end);
            nix::sys::signal::raise(Signal::SIGTERM).unwrap();
            assert!(control.end_until(Instant::now() + Duration::from_secs(600)).is_some());
            assert!(!control.again(), "{order}");
        }
    }

    #[test]
    fn who_orders_may_be_gone() {
        let (mut control, mut orders, answers) = served();
        orders.write_all(b"open\n").unwrap();
        control.ready().unwrap();
        drop((orders, answers));
        assert_eq!(control.end(), Some(End::Closed));
        control.closed(1);
        let (mut control, orders, _answers) = served();
        drop(orders);
        let failure = control.ready().unwrap_err();
        assert_eq!((failure.exit_code, failure.to_string()), (1, "the window was never opened".to_owned()));
    }

    #[test]
    fn a_signal_closes_the_window() {
        let mut control = Control::new(None).unwrap();
        control.ready().unwrap();
        assert_eq!(control.end(), None);
        // To this thread alone: the others of these tests have not blocked it.
        nix::sys::signal::raise(Signal::SIGTERM).unwrap();
        assert_eq!(control.end_until(Instant::now() + Duration::from_secs(600)), Some(End::Signal));
    }

    #[test]
    fn descriptors_are_two_numbers() {
        for wrong in ["", "3", "3,", "3,x", "3,3", "0,4", "-1,4"] {
            assert!(wrong.parse::<Pipes>().is_err(), "{wrong}");
        }
    }
}
