//! One thread of a benchmark: draws keys and values, calls the engine, and counts.

use crate::clock::now_ns;
use crate::distributions::Keys;
use crate::engines::Session;
use crate::job::{Job, Limit, Role};
use crate::keys::Key;
use crate::pace::Pace;
use crate::tally::{Finished, Kind, Tally};
use crate::values::Values;
use fastrand::Rng;
use observer::Failure;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// What all threads of a benchmark share.
pub struct Shared<'a> {
    pub job: &'a Job,
    pub values: &'a Values,
    pub over: AtomicBool,
    pub begun_ns: AtomicU64,
}

impl<'a> Shared<'a> {
    /// Of threads that begin now, unless another moment is stored.
    pub fn new(job: &'a Job, values: &'a Values) -> Self {
        Self { job, values, over: AtomicBool::new(false), begun_ns: AtomicU64::new(now_ns()) }
    }
}

/// One thread of a role.
pub struct Worker<'a> {
    pub shared: &'a Shared<'a>,
    role: &'a Role,
    number: u64,
    seed: u64,
    finished: &'a Finished,
}

pub struct Done {
    pub tally: Tally,
    pub ended_ns: u64,
}

impl<'a> Worker<'a> {
    /// number: its place among the role's threads, whose operations follow one another
    pub fn new(
        shared: &'a Shared<'a>,
        role: &'a Role,
        number: u64,
        seed: u64,
        finished: &'a Finished,
    ) -> Self {
        Self { shared, role, number, seed, finished }
    }

    /// Its first operation and the one after its last, of those that all threads of the role do.
    fn part(&self) -> (u64, u64) {
        let (number, threads) = (self.number, self.role.threads);
        match self.role.operations {
            Limit::Time => (number * (self.shared.job.keys / threads), u64::MAX),
            Limit::EachThread(operations) => {
                let first = number * operations;
                (first, first.saturating_add(operations))
            }
            Limit::AllThreads(all) => {
                let at = |number: u64| (u128::from(all) * u128::from(number) / u128::from(threads)) as u64;
                (at(number), at(number + 1))
            }
        }
    }

    pub fn run(&self, session: &mut dyn Session) -> Result<Done, Failure> {
        self.run_between(session, || (), || ())
    }

    /// begins, ends: called at the edges of the operations, with nothing else between them
    pub fn run_between(
        &self,
        session: &mut dyn Session,
        begins: impl FnOnce(),
        ends: impl FnOnce(),
    ) -> Result<Done, Failure> {
        let job = self.shared.job;
        let (first, last) = self.part();
        let mut calls = Operations {
            job,
            role: self.role,
            values: self.shared.values,
            keys: job.keys_of(&self.role.keys, first),
            random: Rng::with_seed(self.seed),
            batch: job.batch_of_keys(self.role.missing)?,
            written: 0,
            tally: Tally::new(self.role.rate > 0.0),
        };
        let threads = self.role.threads as f64;
        let begun = self.shared.begun_ns.load(Ordering::Relaxed);
        let mut pace = Pace::new(self.role.rate / threads, begun);
        let mut left = last - first;
        begins();
        while left > 0 && !self.shared.over.load(Ordering::Relaxed) {
            let kind = calls.choose(&self.role.mix);
            let operations = if kind == Kind::MultiGet { (job.batch as u64).min(left) } else { 1 };
            if !pace.wait(operations, &self.shared.over) {
                break;
            }
            calls.one(kind, operations as usize, session)?;
            if let Some(due_ns) = pace.due_ns() {
                calls.tally.record_from_schedule(kind, now_ns().saturating_sub(due_ns));
            }
            self.finished.add(operations);
            left -= operations;
        }
        session.finish()?;
        ends();
        Ok(Done { tally: calls.tally, ended_ns: now_ns() })
    }
}

/// The measured loop's state. Nothing here allocates once it is made.
struct Operations<'a> {
    job: &'a Job,
    role: &'a Role,
    values: &'a Values,
    keys: Keys,
    random: Rng,
    batch: Vec<Key>,
    written: usize,
    tally: Tally,
}

impl Operations<'_> {
    fn choose(&mut self, mix: &[f64; 5]) -> Kind {
        // One kind alone takes no random number: its share is whole from its place on.
        let first = mix.iter().position(|sum| *sum > 0.0).unwrap_or(0);
        if mix[first] >= 1.0 {
            return Kind::ALL[first];
        }
        let share = self.random.f64();
        Kind::ALL[mix.iter().position(|sum| share < *sum).unwrap_or(first)]
    }

    /// One call of the engine, timed: what is drawn for it is drawn before, what is counted is counted after.
    fn one(&mut self, kind: Kind, operations: usize, session: &mut dyn Session) -> Result<(), Failure> {
        for key in &mut self.batch[..operations] {
            key.set(self.keys.next(&mut self.random));
        }
        let key = self.batch[0];
        let key = key.bytes();
        let begun;
        let tally = &mut self.tally;
        match kind {
            Kind::Get => {
                begun = now_ns();
                let found = session.get(key)?;
                tally.record(kind, 1, now_ns() - begun);
                tally.found += u64::from(found.is_some());
                tally.bytes += found.unwrap_or(0) as u64;
            }
            Kind::MultiGet => {
                begun = now_ns();
                let seen = session.multi_get(&self.batch[..operations])?;
                tally.record(kind, operations as u64, now_ns() - begun);
                tally.found += seen.found;
                tally.bytes += seen.bytes;
            }
            Kind::Seek => {
                let steps = self.role.scans.next(&mut self.random);
                begun = now_ns();
                let scanned = session.scan(key, steps, self.job.back)?;
                tally.record(kind, 1, now_ns() - begun);
                tally.found += u64::from(scanned.found);
                tally.steps += scanned.steps;
                tally.bytes += scanned.bytes;
            }
            Kind::Put => {
                let size = self.role.values.next(&mut self.random);
                let value = self.values.next(&mut self.written, size);
                begun = now_ns();
                session.put(key, value)?;
                tally.record(kind, 1, now_ns() - begun);
                tally.bytes += (key.len() + size) as u64;
            }
            Kind::Delete => {
                begun = now_ns();
                session.delete(key)?;
                tally.record(kind, 1, now_ns() - begun);
            }
        }
        Ok(())
    }
}
