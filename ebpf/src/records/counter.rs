//! The program behind its gate, and what comes through its ring.

use std::fs;
use std::sync::atomic::{Ordering, fence};
use std::thread;
use std::time::{Duration, Instant, UNIX_EPOCH};

use libbpf_rs::RingBuffer;
use libbpf_rs::skel::Skel;
use observer::clock::now_ns;
use observer::{Failure, Process};
use recording::{Mapping, Modules};

use super::skeleton::RecordsSkel;
use super::skeleton::types::{counter as Counter, gate_state, loss, row as RecordRow, rows_of};
use crate::cost::MissedRuns;
use crate::histogram::{self, Histogram, read_all, read_counts};
use crate::life::Life;
use crate::refusal::OrRefused;
use crate::session::Counting;

pub const LINGER_STEP: Duration = Duration::from_millis(5);

/// The skeleton behind its gate, and what came through the ring so far.
pub struct RecordsCounter<'a, 'obj, 'ring> {
    pub skeleton: &'a mut RecordsSkel<'obj>,
    process: &'a Process,
    ring: RingBuffer<'ring>,
    modules: Modules,
    pub mappings: Vec<(Mapping, Option<Vec<u8>>)>,
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
            modules: Modules::default(),
            mappings: Vec::new(),
            clocks: [0; 2],
            missed: MissedRuns::default(),
            life,
        }
    }

    pub fn take_mappings(&mut self) {
        let text = fs::read(self.process.path("maps")).unwrap_or_default();
        let process = nix::unistd::Pid::from_raw(self.process.pid() as i32);
        self.mappings.extend(self.modules.update(process, &recording::parse::maps(&text)));
    }

    pub fn gate(&mut self, state: gate_state) {
        if let Some(bss) = self.skeleton.maps.bss_data.as_deref_mut() {
            bss.gate = state.0 as i32;
        }
    }

    pub fn row(&self, row: rows_of) -> Result<(Histogram, u64), Failure> {
        let found: Vec<Vec<RecordRow>> = read_all(&self.skeleton.maps.rows, row.0 as usize, 1)?;
        let cpus = found.into_iter().next().unwrap_or_default();
        let of_cpu = |row: &RecordRow| ([row.count, row.ns, !row.least_flipped, row.most], row.buckets);
        Ok((histogram::of_cpus(cpus.iter().map(of_cpu)), cpus.iter().map(|row| row.own_ns).sum()))
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
