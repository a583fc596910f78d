//! One thread of a benchmark: draws keys and values, calls the engine, and counts.

use crate::clock::{now_ns, wake_on_time};
use crate::distributions::Keys;
use crate::engines::Session;
use crate::job::Job;
use crate::keys::Key;
use crate::pace::{Schedule, Wait, shares_queue, wait_until};
use crate::role::{Limit, Role};
use crate::tally::{Finished, Kind, Tally};
use crate::values::Values;
use fastrand::Rng;
use observer::Failure;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// State shared by all threads of a benchmark.
pub struct Shared<'a> {
    pub job: &'a Job,
    pub values: &'a Values,
    pub over: AtomicBool,
    pub begun_ns: AtomicU64,
    /// When `over` became true; 0 before.
    pub over_ns: AtomicU64,
}

impl<'a> Shared<'a> {
    /// They begin now, unless another time is stored.
    pub fn new(job: &'a Job, values: &'a Values) -> Self {
        let (begun_ns, over_ns) = (AtomicU64::new(now_ns()), AtomicU64::new(0));
        Self { job, values, over: AtomicBool::new(false), begun_ns, over_ns }
    }

    /// No thread begins another operation.
    pub fn end(&self) {
        if !self.over.swap(true, Ordering::Relaxed) {
            self.over_ns.store(now_ns(), Ordering::Relaxed);
        }
    }
}

/// One thread of a role.
pub struct Worker<'a> {
    pub shared: &'a Shared<'a>,
    role: &'a Role,
    number: u64,
    seed: u64,
    finished: &'a Finished,
    /// None in a closed loop: each operation begins when the one before has ended.
    schedule: Option<&'a Schedule>,
}

pub struct Done {
    pub tally: Tally,
    /// When it stopped taking operations.
    pub stopped_ns: u64,
    /// When its last transaction had ended, too.
    pub ended_ns: u64,
}

impl<'a> Worker<'a> {
    /// number: its number among the role's threads
    pub fn new(
        shared: &'a Shared<'a>,
        role: &'a Role,
        number: u64,
        seed: u64,
        finished: &'a Finished,
    ) -> Self {
        Self { shared, role, number, seed, finished, schedule: None }
    }

    /// Takes operations from a queue that the role's threads share.
    pub fn with_schedule(self, schedule: Option<&'a Schedule>) -> Self {
        Self { schedule, ..self }
    }

    /// Its range of the role's operations: the first, and the one after the last.
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
            tally: Tally::new(self.schedule.is_some()),
        };
        let begun = self.shared.begun_ns.load(Ordering::Relaxed);
        let over = &self.shared.over;
        let mut left = if shares_queue(self.role) { u64::MAX } else { last - first };
        if self.role.on_time {
            wake_on_time();
        }
        let mut free_ns = begun;
        begins();
        while left > 0 && !over.load(Ordering::Relaxed) {
            let kind = calls.choose(&self.role.mix);
            let mut operations = if kind == Kind::MultiGet { (job.batch as u64).min(left) } else { 1 };
            let Some(schedule) = self.schedule else {
                calls.call(kind, operations as usize, session)?;
                self.finished.add(operations);
                left -= operations;
                continue;
            };
            let Some(due) = schedule.take(operations) else { break };
            operations = due.operations;
            let due_ns = begun.saturating_add(due.due_ns);
            let wait = wait_until(due_ns, self.role.on_time, over);
            if wait == Wait::Over {
                break;
            }
            let call = calls.call(kind, operations as usize, session)?;
            // Time neither in the queue nor in the engine is the client's own.
            let own_ns = call.begun_ns.saturating_sub(due_ns.max(free_ns));
            free_ns = call.ended_ns;
            let (ns, waited) = (call.ended_ns.saturating_sub(due_ns), wait == Wait::Idle);
            calls.tally.record_from_schedule(kind, ns, waited, own_ns);
            self.finished.add(operations);
            left -= operations;
        }
        let stopped_ns = now_ns();
        session.finish()?;
        ends();
        Ok(Done { tally: calls.tally, stopped_ns, ended_ns: now_ns() })
    }
}

/// A call of the engine.
struct Call {
    begun_ns: u64,
    ended_ns: u64,
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
        // A single kind takes no random number.
        let first = mix.iter().position(|sum| *sum > 0.0).unwrap_or(0);
        if mix[first] >= 1.0 {
            return Kind::ALL[first];
        }
        let share = self.random.f64();
        Kind::ALL[mix.iter().position(|sum| share < *sum).unwrap_or(first)]
    }

    /// Times one call of the engine: random numbers are drawn before it, results are counted after it.
    fn call(&mut self, kind: Kind, operations: usize, session: &mut dyn Session) -> Result<Call, Failure> {
        for key in &mut self.batch[..operations] {
            key.set(self.keys.next(&mut self.random));
        }
        let key = self.batch[0];
        let key = key.bytes();
        let (begun_ns, ended_ns);
        let tally = &mut self.tally;
        match kind {
            Kind::Get => {
                begun_ns = now_ns();
                let found = session.get(key)?;
                ended_ns = now_ns();
                tally.found += u64::from(found.is_some());
                tally.bytes += found.unwrap_or(0) as u64;
            }
            Kind::MultiGet => {
                begun_ns = now_ns();
                let result = session.multi_get(&self.batch[..operations])?;
                ended_ns = now_ns();
                tally.found += result.found;
                tally.bytes += result.bytes;
            }
            Kind::Seek => {
                let steps = self.role.scans.next(&mut self.random);
                begun_ns = now_ns();
                let scanned = session.scan(key, steps, self.job.back)?;
                ended_ns = now_ns();
                tally.found += u64::from(scanned.found);
                tally.steps += scanned.steps;
                tally.bytes += scanned.bytes;
            }
            Kind::Put => {
                let size = self.role.values.next(&mut self.random);
                let value = self.values.next(&mut self.written, size);
                begun_ns = now_ns();
                session.put(key, value)?;
                ended_ns = now_ns();
                tally.bytes += (key.len() + size) as u64;
            }
            Kind::Delete => {
                begun_ns = now_ns();
                session.delete(key)?;
                ended_ns = now_ns();
            }
        }
        tally.record(kind, operations as u64, ended_ns - begun_ns);
        Ok(Call { begun_ns, ended_ns })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engines::{MultiGetResult, ScanResult};
    use crate::flags::Flags;
    use crate::role::Step;
    use std::thread;

    /// A session whose operations count in `done`, and wait until it is `until`.
    struct Held<'a> {
        done: &'a AtomicU64,
        begun: &'a AtomicBool,
        until: u64,
    }

    impl Session for Held<'_> {
        fn get(&mut self, _key: &[u8]) -> Result<Option<usize>, Failure> {
            self.begun.store(true, Ordering::Release);
            while self.done.load(Ordering::Acquire) < self.until {
                thread::yield_now();
            }
            self.done.fetch_add(1, Ordering::Release);
            Ok(None)
        }

        fn multi_get(&mut self, _keys: &[Key]) -> Result<MultiGetResult, Failure> {
            unreachable!("nobody asks for it")
        }

        fn scan(&mut self, _key: &[u8], _steps: usize, _back: bool) -> Result<ScanResult, Failure> {
            unreachable!("nobody asks for it")
        }

        fn put(&mut self, _key: &[u8], _value: &[u8]) -> Result<(), Failure> {
            unreachable!("nobody asks for it")
        }

        fn delete(&mut self, _key: &[u8]) -> Result<(), Failure> {
            unreachable!("nobody asks for it")
        }
    }

    #[test]
    fn the_others_take_what_a_thread_in_a_slow_operation_does_not() {
        let flags = ["benchmarks=readrandom", "threads=2", "reads=50", "benchmark_read_rate_limit=1e8"];
        let job = Job::read(&Flags::parse(flags.map(|flag| format!("--{flag}"))).unwrap()).unwrap();
        let Step::Benchmark { roles, .. } = &job.steps[0] else { panic!("readrandom is a benchmark") };
        let values = Values::new(job.compression_ratio, job.longest_value);
        let shared = Shared::new(&job, &values);
        let schedule = Schedule::of(&roles[0], 1);
        let (done, begun, finished) = (AtomicU64::new(0), AtomicBool::new(false), Finished::default());
        let run = |number, until| {
            let worker = Worker::new(&shared, &roles[0], number, 1, &finished);
            let session = &mut Held { done: &done, begun: &begun, until };
            worker.with_schedule(schedule.as_ref()).run(session).unwrap().tally.total()
        };
        thread::scope(|scope| {
            let slow = scope.spawn(|| run(0, 99));
            while !begun.load(Ordering::Acquire) {
                thread::yield_now();
            }
            assert_eq!(run(1, 0), 99);
            assert_eq!(slow.join().unwrap(), 1);
        });
    }
}
