//! The program behind its gate, and what comes through its ring.

use std::sync::atomic::{Ordering, fence};
use std::thread;
use std::time::{Duration, Instant, UNIX_EPOCH};

use libbpf_rs::RingBuffer;
use libbpf_rs::skel::Skel;
use observer::clock::now_ns;
use observer::{Failure, Process};

use super::skeleton::RecordsSkel;
use super::skeleton::types::{counter as Counter, gate_state, loss, rows_of};
use crate::cost::MissedRuns;
use crate::histogram::{Histogram, read_counts, read_rows_and_own};
use crate::life::Life;
use crate::mapped_code::MappedCode;
use crate::refusal::OrRefused;
use crate::session::{Counting, set_gate};

pub const LINGER_STEP: Duration = Duration::from_millis(5);

/// The skeleton behind its gate, and what came through the ring so far.
pub struct RecordsCounter<'a, 'obj, 'ring> {
    pub skeleton: &'a mut RecordsSkel<'obj>,
    process: &'a Process,
    ring: RingBuffer<'ring>,
    pub code: MappedCode<'a>,
    /// CLOCK_MONOTONIC and CLOCK_REALTIME when the gate opened, ns.
    pub clocks: [u64; 2],
    pub missed: MissedRuns,
    pub life: Life<'a>,
}

impl<'a, 'obj, 'ring> RecordsCounter<'a, 'obj, 'ring> {
    pub fn new(
        skeleton: &'a mut RecordsSkel<'obj>,
        process: &'a Process,
        life: Life<'a>,
        ring: RingBuffer<'ring>,
    ) -> Self {
        Self {
            skeleton,
            process,
            ring,
            code: MappedCode::of(process),
            clocks: [0; 2],
            missed: MissedRuns::default(),
            life,
        }
    }

    pub fn gate(&mut self, state: gate_state) {
        set_gate!(self.skeleton, state.0 as i32);
    }

    pub fn row(&self, row: rows_of) -> Result<(Histogram, u64), Failure> {
        Ok(read_rows_and_own(&self.skeleton.maps.rows, row.0 as usize, 1)?.remove(0))
    }

    pub fn counters(&self) -> Result<Vec<u64>, Failure> {
        read_counts(&self.skeleton.maps.counters, 0, Counter::COUNTERS.0 as usize)
    }

    /// Followed queries of the window that have not ended.
    fn under_way(&self) -> Result<u64, Failure> {
        let followed = self.counters()?[Counter::FOLLOWED.0 as usize];
        let ended = self.row(rows_of::ROW_WINDOW)?.0.count;
        let bss = self.skeleton.maps.bss_data.as_deref().expect("the program has variables");
        let abandoned = bss.losses[loss::ABANDONED.0 as usize];
        Ok(followed.saturating_sub(ended + abandoned))
    }

    /// Waits for the queries that are under way; how many of them are still, and for how long it waited.
    pub fn linger(&mut self, longest: Duration) -> Result<(u64, Duration), Failure> {
        let begun = Instant::now();
        loop {
            self.slice()?;
            let left = self.under_way()?;
            if left == 0 || begun.elapsed() >= longest || self.process.has_ended() {
                return Ok((left, begun.elapsed()));
            }
            thread::sleep(LINGER_STEP);
        }
    }
}

impl Counting for RecordsCounter<'_, '_, '_> {
    fn set_gate(&mut self, open: bool) {
        if open {
            let real = UNIX_EPOCH.elapsed().map_or(0, |since| since.as_nanos() as u64);
            self.missed.open(self.skeleton.object());
            self.clocks = [now_ns(), real];
            if let Some(bss) = self.skeleton.maps.bss_data.as_deref_mut() {
                bss.opened_at = self.clocks[0];
                // The pilot's are none of the window's.
                bss.losses = Default::default();
                fence(Ordering::SeqCst);
            }
            self.gate(gate_state::OPEN);
        } else {
            self.gate(gate_state::LINGER);
            self.life.close();
        }
    }

    fn slice(&mut self) -> Result<(), Failure> {
        self.life.look();
        self.ring.consume().or_refused()
    }
}
