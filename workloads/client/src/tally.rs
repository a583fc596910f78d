//! Counts and latencies of threads, and their summary at the end.

use hdrhistogram::Histogram;
use serde::Serialize;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};

/// An operation as the engine sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Get,
    /// Of several keys, each of which counts as an operation.
    MultiGet,
    /// A seek and the steps after it: one operation.
    Seek,
    Put,
    Delete,
}

impl Kind {
    pub const ALL: [Self; 5] = [Self::Get, Self::MultiGet, Self::Seek, Self::Put, Self::Delete];

    pub fn name(self) -> &'static str {
        match self {
            Self::Get => "get",
            Self::MultiGet => "multiget",
            Self::Seek => "seek",
            Self::Put => "put",
            Self::Delete => "delete",
        }
    }

    pub fn reads(self) -> bool {
        matches!(self, Self::Get | Self::MultiGet | Self::Seek)
    }
}

/// Operations finished so far: written by one thread, read by the report. A cache line of its own.
#[derive(Default)]
#[repr(align(128))]
pub struct Finished(AtomicU64);

impl Finished {
    pub fn add(&self, operations: u64) {
        // One writer: a load and a store, no locked instruction.
        self.0.store(self.0.load(Ordering::Relaxed) + operations, Ordering::Relaxed);
    }

    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Latencies from 1 ns to 10 minutes within 0.1 %; longer ones count as that.
fn latencies() -> Histogram<u64> {
    Histogram::new_with_bounds(1, 600_000_000_000, 3).expect("bounds that a histogram can have")
}

/// Counts of one thread, or of several together.
#[derive(Clone)]
pub struct Tally {
    pub operations: [u64; 5],
    pub found: u64,
    pub bytes: u64,
    /// Keys that scans looked at.
    pub steps: u64,
    latencies: [Histogram<u64>; 5],
    /// None where no rate is kept.
    paced: Option<Paced>,
}

/// Histograms of operations with a schedule.
#[derive(Clone)]
struct Paced {
    /// From the moment that each was due.
    from_schedule: [Histogram<u64>; 5],
    /// By how much threads that waited for an operation began it late.
    late: Histogram<u64>,
    /// How long threads that found an operation waiting took from the end of their last call to the next.
    between: Histogram<u64>,
}

impl Default for Tally {
    fn default() -> Self {
        Self {
            operations: [0; 5],
            found: 0,
            bytes: 0,
            steps: 0,
            latencies: std::array::from_fn(|_| latencies()),
            paced: None,
        }
    }
}

impl Tally {
    /// paced: a rate is held, so latencies are counted from its schedule, too
    pub fn new(paced: bool) -> Self {
        let histograms = || Paced {
            from_schedule: std::array::from_fn(|_| latencies()),
            late: latencies(),
            between: latencies(),
        };
        Self { paced: paced.then(histograms), ..Self::default() }
    }

    /// Counts an operation that ended `ns` after it was due. waited: its thread waited for it; own_ns: how long it was
    /// due and the thread free before the call. Allocates nothing.
    pub fn record_from_schedule(&mut self, kind: Kind, ns: u64, waited: bool, own_ns: u64) {
        let Some(paced) = &mut self.paced else { return };
        paced.from_schedule[kind as usize].saturating_record(ns.max(1));
        let own = if waited { &mut paced.late } else { &mut paced.between };
        own.saturating_record(own_ns.max(1));
    }

    /// Counts `operations` that took `ns` together. Allocates nothing.
    pub fn record(&mut self, kind: Kind, operations: u64, ns: u64) {
        self.operations[kind as usize] += operations;
        self.latencies[kind as usize].saturating_record(ns.max(1));
    }

    pub fn add(&mut self, other: &Self) {
        for kind in Kind::ALL {
            self.operations[kind as usize] += other.operations[kind as usize];
        }
        for (own, others) in self.histograms_mut().zip(other.histograms()) {
            own.add(others).expect("histograms of the same bounds");
        }
        self.found += other.found;
        self.bytes += other.bytes;
        self.steps += other.steps;
    }

    fn histograms(&self) -> impl Iterator<Item = &Histogram<u64>> {
        let paced = self
            .paced
            .iter()
            .flat_map(|paced| paced.from_schedule.iter().chain([&paced.late, &paced.between]));
        self.latencies.iter().chain(paced)
    }

    fn histograms_mut(&mut self) -> impl Iterator<Item = &mut Histogram<u64>> {
        let paced = self.paced.iter_mut();
        let paced = paced
            .flat_map(|paced| paced.from_schedule.iter_mut().chain([&mut paced.late, &mut paced.between]));
        self.latencies.iter_mut().chain(paced)
    }

    pub fn total(&self) -> u64 {
        self.operations.iter().sum()
    }

    pub fn reads(&self) -> u64 {
        Kind::ALL.iter().filter(|kind| kind.reads()).map(|kind| self.operations[*kind as usize]).sum()
    }

    fn kinds(&self) -> impl Iterator<Item = Kind> {
        Kind::ALL.into_iter().filter(|kind| self.operations[*kind as usize] > 0)
    }

    pub fn by_kind(&self) -> BTreeMap<&'static str, u64> {
        self.kinds().map(|kind| (kind.name(), self.operations[kind as usize])).collect()
    }

    pub fn latency(&self) -> BTreeMap<&'static str, Latency> {
        self.kinds().map(|kind| (kind.name(), Latency::of(&self.latencies[kind as usize]))).collect()
    }

    /// None where no rate is held.
    pub fn latency_from_schedule(&self) -> Option<BTreeMap<&'static str, Latency>> {
        let paced = self.paced.as_ref()?;
        let of = |kind: Kind| (kind.name(), Latency::of(&paced.from_schedule[kind as usize]));
        Some(self.kinds().map(of).collect())
    }

    /// None where no thread ever waited for an operation.
    pub fn late(&self) -> Option<Latency> {
        self.paced.as_ref().filter(|paced| !paced.late.is_empty()).map(|paced| Latency::of(&paced.late))
    }

    /// None where no operation ever waited for a thread.
    pub fn between_calls(&self) -> Option<Latency> {
        self.paced.as_ref().filter(|paced| !paced.between.is_empty()).map(|paced| Latency::of(&paced.between))
    }

    /// Of all kinds of operation, from the moment that each was due; 0 where no rate is held.
    pub fn p99_from_schedule_us(&self) -> f64 {
        let Some(paced) = &self.paced else { return 0.0 };
        let mut all = latencies();
        for kind in &paced.from_schedule {
            all.add(kind).expect("histograms of the same bounds");
        }
        Latency::of(&all).p99
    }
}

/// Of one kind of operation, in us, except `count`.
#[derive(Serialize, Debug)]
pub struct Latency {
    pub count: u64,
    pub mean: f64,
    pub stdev: f64,
    pub min: f64,
    pub p50: f64,
    pub p75: f64,
    pub p99: f64,
    pub p99_9: f64,
    pub p99_99: f64,
    pub max: f64,
}

impl Latency {
    fn of(histogram: &Histogram<u64>) -> Self {
        let at = |share| histogram.value_at_quantile(share) as f64 / 1e3;
        Self {
            count: histogram.len(),
            mean: histogram.mean() / 1e3,
            stdev: histogram.stdev() / 1e3,
            min: histogram.min() as f64 / 1e3,
            p50: at(0.5),
            p75: at(0.75),
            p99: at(0.99),
            p99_9: at(0.999),
            p99_99: at(0.9999),
            max: histogram.max() as f64 / 1e3,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_those_of_a_known_distribution() {
        let (mut even, mut odd) = (Tally::default(), Tally::default());
        // 1 to 1,000,000 ns, each once, by two threads.
        for ns in 1..=1_000_000 {
            if ns % 2 == 0 { &mut even } else { &mut odd }.record(Kind::Get, 1, ns);
        }
        even.record(Kind::Put, 1, u64::MAX);
        even.add(&odd);
        assert_eq!(even.by_kind(), BTreeMap::from([("get", 1_000_000), ("put", 1)]));
        let latency = even.latency();
        let get = &latency["get"];
        for (seen, us) in [
            (get.p50, 500.0),
            (get.p75, 750.0),
            (get.p99, 990.0),
            (get.p99_9, 999.0),
            (get.p99_99, 999.9),
            (get.max, 1000.0),
            (get.mean, 500.0),
            (get.stdev, 1000.0 / 12_f64.sqrt()),
        ] {
            assert!((seen / us - 1.0).abs() < 1.1e-3, "{seen} for {us}");
        }
        assert_eq!((get.count, latency["put"].count), (1_000_000, 1));
        assert!(latency["put"].max >= 600e6);
    }
}
