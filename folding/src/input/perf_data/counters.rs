//! Counters that samples read, and weights that cannot be.

use crate::budget::{Budget, BudgetShare};
use crate::error::Error;
use crate::events::selects;
use crate::intern::IntMap;
use crate::terminal;
use perfdata::reader::attr::Attr;
use std::collections::HashMap;

/// The last value of each counter by thread and id. Where threads inherit an event, each has a counter of its own under the
/// same id (Linux 6.12).
#[derive(Default)]
pub struct Counters {
    known: IntMap<i32, HashMap<u64, Counter>>,
    budget: Budget,
}

struct Counter {
    value: u64,
    _share: BudgetShare,
}

/// Bytes that a counter takes, and the table of its thread.
const COUNTER: u64 = 256;

impl Counters {
    pub fn new(budget: Budget) -> Self {
        Self { budget, ..Self::default() }
    }

    /// What a counter grew by; what went back is no growth.
    pub fn growth(&mut self, thread: i32, id: u64, value: u64) -> Result<u64, u64> {
        let budget = &self.budget;
        let new = || Counter { value: 0, _share: budget.hold(COUNTER) };
        let counter = self.known.entry(thread).or_default().entry(id).or_insert_with(new);
        let before = std::mem::replace(&mut counter.value, value);
        value.checked_sub(before).ok_or(before)
    }

    /// A thread begins or ends: the next one of its number counts from 0.
    pub fn forget(&mut self, thread: i32) {
        self.known.remove(&thread);
    }
}

/// What is summed up of each event, to see whether it can be.
#[derive(Default)]
pub struct WeightLimits {
    /// The first and the last time of the recording.
    times: Option<(u64, u64)>,
    /// By the number of the event: its weight, and how a counter of it went back.
    events: Vec<(u128, Option<String>)>,
}

impl WeightLimits {
    pub fn time(&mut self, time: u64) {
        let (first, last) = self.times.unwrap_or((time, time));
        self.times = Some((first.min(time), last.max(time)));
    }

    fn event(&mut self, event: usize) -> &mut (u128, Option<String>) {
        if self.events.len() <= event {
            self.events.resize(event + 1, (0, None));
        }
        &mut self.events[event]
    }

    pub fn count(&mut self, event: usize, period: Option<u64>) {
        let sum = &mut self.event(event).0;
        *sum = sum.saturating_add(period.unwrap_or(0).into());
    }

    pub fn went_back(&mut self, event: usize, thread: i32, before: u64, value: u64) {
        let why = || format!("its counter in thread {thread} went back from {before} to {value}");
        self.event(event).1.get_or_insert_with(why);
    }

    /// Refuses events whose weight cannot be; `threads` have run on `cpus` processors.
    pub fn check(
        &self,
        attrs: &[Attr],
        wanted: Option<&str>,
        (cpus, threads): (u32, u64),
    ) -> Result<(), Error> {
        let (first, last) = self.times.unwrap_or_default();
        for (attr, (weight, went_back)) in attrs.iter().zip(&self.events) {
            if wanted.is_some_and(|wanted| !selects(wanted.as_bytes(), &attr.name)) {
                continue;
            }
            let too_long = || {
                let interval = attr.clock_interval.filter(|_| cpus > 0 && first < last)?;
                // What a thread ran on each processor before its first sample may lie before the recording's first record.
                let before = u128::from(interval) * u128::from(threads.max(1));
                let most = u128::from(cpus) * (u128::from(last - first) + before);
                (*weight > most).then(|| {
                    format!("its samples weigh {weight} ns, and {cpus} processors had {most} ns at most")
                })
            };
            if let Some(why) = went_back.clone().or_else(too_long) {
                return Err(Error::partial(format!(
                    "{}: {why}: weights of this event are wrong, so it is not folded.\n\
                     let every sample weigh one: stackfold --weight count",
                    terminal::name(&String::from_utf8_lossy(&attr.name))
                )));
            }
        }
        Ok(())
    }
}
