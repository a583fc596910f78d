//! Whether the process whose functions are probed lives: one that ends soon after that may have ended for it.

use std::time::Instant;

use serde::Serialize;

use observer::Process;

/// Of a process that is watched, from the moment that its probes are attached.
pub struct Life<'a> {
    process: &'a Process,
    /// None where no function of it was.
    probed: Option<Instant>,
    ended: Ended,
}

/// As results have it.
#[derive(Clone, Copy, Default, Serialize)]
pub struct Ended {
    /// Before the window did.
    process_ended: bool,
    /// Seconds after its functions were probed, where it ended soon.
    ended_soon_s: Option<f64>,
}

impl<'a> Life<'a> {
    /// probed: functions of it are, since now
    pub fn new(process: &'a Process, probed: bool) -> Self {
        Self { process, probed: probed.then(Instant::now), ended: Ended::default() }
    }

    /// Its functions are probed again.
    pub fn probed_again(&mut self) {
        self.probed = self.probed.map(|_| Instant::now());
    }

    /// Every so often while the window is open.
    pub fn look(&mut self) {
        let soon = || self.probed.and_then(|probed| self.process.ended_soon(probed));
        self.ended.ended_soon_s = self.ended.ended_soon_s.or_else(soon);
    }

    /// The window ends.
    pub fn close(&mut self) {
        self.ended.process_ended = self.process.has_ended();
    }

    pub fn ended(&self) -> Ended {
        self.ended
    }
}
