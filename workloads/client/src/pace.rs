//! A rate: every operation has a moment at which it is due, and all threads take the next one from one queue.

use crate::clock;
use crate::distributions::exponential;
use crate::rate_steps::RateSteps;
use crate::role::{Arrivals, KeyLaw, Limit, Role};
use fastrand::Rng;
use std::hint::spin_loop;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// No sleep is longer, so that the end of a run is not slept through.
const LONGEST_SLEEP_NS: u64 = 50_000_000;
/// A thread that slept runs some 5 to 10 us after its timer. So it sleeps until this long before, and spins for the
/// rest; a longer spin would take a CPU from the engine.
const SPIN_NS: u64 = 20_000;

/// The queue of a role's operations. A thread that is free takes the next, whether it is due or not yet.
#[derive(Debug)]
pub struct Schedule {
    arrivals: Arrivals,
    /// Operations a second.
    rate: f64,
    /// Between two operations, on average.
    interval_ns: f64,
    rate_steps: Option<Arc<RateSteps>>,
    // Held for some 20 ns. A gap is drawn and added at once: with a counter alone, arrivals would not be in order.
    next: Mutex<Next>,
}

#[derive(Debug)]
struct Next {
    random: Rng,
    /// Operations that were taken.
    taken: u64,
    /// Operations that nobody has taken yet.
    left: u64,
    /// When the next is due, from the beginning; in the arrivals' own time where the rate changes.
    due_ns: f64,
}

/// Operations that one thread took from the queue together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DueOperations {
    /// From the beginning.
    pub due_ns: u64,
    pub operations: u64,
}

/// How a thread came to an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// It was busy when the operation became due.
    Queued,
    /// It waited for the operation, which is due now.
    Idle,
    /// The run was over before.
    Over,
}

impl Schedule {
    /// operations: how many there are; u64::MAX where something else ends the run
    pub fn new(arrivals: Arrivals, rate: f64, operations: u64, seed: u64) -> Self {
        let next = Next { random: Rng::with_seed(seed), taken: 0, left: operations, due_ns: 0.0 };
        let schedule =
            Self { arrivals, rate, interval_ns: 1e9 / rate, rate_steps: None, next: Mutex::new(next) };
        if arrivals == Arrivals::Poisson {
            // The beginning is no arrival.
            schedule.next().advance(arrivals, schedule.interval_ns, 1);
        }
        schedule
    }

    /// None where no rate is held.
    pub fn of(role: &Role, seed: u64) -> Option<Self> {
        let operations = match role.operations {
            _ if !shares_queue(role) => u64::MAX,
            Limit::Time => u64::MAX,
            Limit::EachThread(operations) => operations.saturating_mul(role.threads),
            Limit::AllThreads(operations) => operations,
        };
        (role.rate > 0.0).then(|| Self {
            rate_steps: role.rate_steps.clone(),
            ..Self::new(role.arrivals, role.rate, operations, seed)
        })
    }

    /// Operations that are offered in a second, on average until `ns`.
    pub fn offered(&self, ns: u64) -> f64 {
        let ns = (ns as f64).max(1.0);
        self.rate_steps.as_ref().map_or(self.rate, |steps| self.rate * steps.own_ns(ns) / ns)
    }

    /// Takes up to `most` operations; None where the queue is empty.
    pub fn take(&self, most: u64) -> Option<DueOperations> {
        let mut next = self.next();
        let operations = most.min(next.left);
        if operations == 0 {
            return None;
        }
        let due_ns = self.rate_steps.as_ref().map_or(next.due_ns, |steps| steps.clock_ns(next.due_ns)) as u64;
        next.left -= operations;
        next.taken += operations;
        next.advance(self.arrivals, self.interval_ns, operations);
        Some(DueOperations { due_ns, operations })
    }

    /// Operations due `ns` after the beginning that no thread took; where their random gaps were not drawn, the expected
    /// number.
    pub fn waiting(&self, ns: u64) -> u64 {
        let own_ns = self.rate_steps.as_ref().map_or(ns as f64, |steps| steps.own_ns(ns as f64));
        let behind = own_ns - self.next().due_ns;
        if behind < 0.0 { 0 } else { 1 + (behind / self.interval_ns) as u64 }
    }

    /// A thread that panicked left it whole.
    fn next(&self) -> MutexGuard<'_, Next> {
        self.next.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Next {
    /// After `operations` that arrived together the gap is as many times as long, so that the rate is of operations.
    fn advance(&mut self, arrivals: Arrivals, interval_ns: f64, operations: u64) {
        match arrivals {
            // A product: a sum would add up what each interval is rounded by.
            Arrivals::Fixed => self.due_ns = self.taken as f64 * interval_ns,
            Arrivals::Poisson => {
                self.due_ns += exponential(&mut self.random, operations as f64 * interval_ns);
            }
        }
    }
}

/// Whether the threads of a role share its operations. Otherwise a thread that finished its own would leave the queue to
/// the others; only where keys come in order has each thread a range of its own.
pub fn shares_queue(role: &Role) -> bool {
    role.rate > 0.0 && !matches!(role.keys, KeyLaw::InOrder(_))
}

/// Waits until `due_ns` of the clock. on_time: at the price of some CPU
pub fn wait_until(due_ns: u64, on_time: bool, over: &AtomicBool) -> Wait {
    let spin_ns = if on_time { SPIN_NS } else { 0 };
    let mut now = clock::now_ns();
    if now >= due_ns {
        return Wait::Queued;
    }
    while now < due_ns {
        if over.load(Ordering::Relaxed) {
            return Wait::Over;
        }
        if due_ns - now > spin_ns {
            clock::sleep_until((due_ns - spin_ns).min(now + LONGEST_SLEEP_NS));
        } else {
            spin_loop();
        }
        now = clock::now_ns();
    }
    Wait::Idle
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread;

    const RATE: f64 = 10_000.0;
    const INTERVAL_NS: f64 = 1e9 / RATE;

    fn due_times(schedule: &Schedule, count: u64) -> Vec<u64> {
        (0..count).map(|_| schedule.take(1).unwrap().due_ns).collect()
    }

    #[test]
    fn threads_take_each_due_time_once_and_in_order() {
        for arrivals in [Arrivals::Fixed, Arrivals::Poisson] {
            let shared = Schedule::new(arrivals, RATE, 40_001, 7);
            let taken: Vec<Vec<u64>> = thread::scope(|scope| {
                let take = || std::iter::from_fn(|| shared.take(1)).map(|taken| taken.due_ns).collect();
                let threads: Vec<_> = (0..4).map(|_| scope.spawn(take)).collect();
                threads.into_iter().map(|thread| thread.join().unwrap()).collect()
            });
            assert!(taken.iter().all(|of_thread| of_thread.is_sorted()));
            let mut all: Vec<u64> = taken.concat();
            all.sort_unstable();
            assert_eq!(all, due_times(&Schedule::new(arrivals, RATE, 40_001, 7), 40_001));
            assert_eq!(shared.take(1), None);
        }
    }

    #[test]
    fn fixed_arrivals_are_multiples_of_the_interval() {
        let schedule = Schedule::new(Arrivals::Fixed, 3.0, u64::MAX, 1);
        let due = due_times(&schedule, 3_000_001);
        assert_eq!(&due[..4], &[0, 333_333_333, 666_666_666, 1_000_000_000]);
        assert_eq!(due[3_000_000], 1_000_000 * 1_000_000_000);
    }

    #[test]
    fn random_gaps_have_the_mean_and_the_variance_of_an_exponential() {
        let count = 1_000_000;
        let due = due_times(&Schedule::new(Arrivals::Poisson, RATE, u64::MAX, 3), count + 1);
        let gaps: Vec<f64> = due.windows(2).map(|two| (two[1] - two[0]) as f64 / INTERVAL_NS).collect();
        let n = count as f64;
        let mean = gaps.iter().sum::<f64>() / n;
        let variance = gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>() / n;
        // Of n draws the mean has a standard deviation of 1 / sqrt(n), the variance one of sqrt(8 / n).
        assert!((mean - 1.0).abs() < 5.0 / n.sqrt(), "mean {mean}");
        assert!((variance - 1.0).abs() < 5.0 * (8.0 / n).sqrt(), "variance {variance}");
        let other = due_times(&Schedule::new(Arrivals::Poisson, RATE, u64::MAX, 4), 2);
        assert_ne!(other, &due[..2]);
    }

    #[test]
    fn operations_taken_together_count_as_many_towards_the_rate() {
        let taken = |due_ns, operations| Some(DueOperations { due_ns, operations });
        let schedule = Schedule::new(Arrivals::Fixed, 1000.0, 25, 1);
        assert_eq!((schedule.take(10), schedule.take(10)), (taken(0, 10), taken(10_000_000, 10)));
        assert_eq!((schedule.take(10), schedule.take(10)), (taken(20_000_000, 5), None));
        let schedule = Schedule::new(Arrivals::Poisson, RATE, u64::MAX, 5);
        let last = (0..100_000).map(|_| schedule.take(10).unwrap().due_ns).last().unwrap();
        assert!((last as f64 / (1e6 * INTERVAL_NS) - 1.0).abs() < 5.0 / 100_000_f64.sqrt(), "{last}");
    }

    #[test]
    fn what_is_due_and_not_taken_is_waiting() {
        let schedule = Schedule::new(Arrivals::Fixed, 1000.0, 5, 1);
        assert_eq!(due_times(&schedule, 5).last(), Some(&4_000_000));
        // The next would be due after 5 ms.
        let waiting = [4_999_999, 5_000_000, 5_999_999, 14_000_001].map(|ns| schedule.waiting(ns));
        assert_eq!(waiting, [0, 1, 1, 10]);
    }

    #[test]
    fn who_comes_late_was_busy_and_who_waits_begins_no_earlier_than_due() {
        let over = AtomicBool::new(false);
        assert_eq!(wait_until(clock::now_ns(), true, &over), Wait::Queued);
        let due = clock::now_ns() + 3_000_000;
        assert_eq!(wait_until(due, true, &over), Wait::Idle);
        assert!(clock::now_ns() >= due);
        over.store(true, Ordering::Relaxed);
        assert_eq!(wait_until(clock::now_ns() + 1_000_000_000_000, false, &over), Wait::Over);
    }

    /// Latencies in a queue of one server: an operation begins when it is due and the one before has ended.
    fn latencies(rate: f64, count: u64, mut service_ns: impl FnMut() -> f64) -> impl Iterator<Item = f64> {
        let schedule = Schedule::new(Arrivals::Poisson, rate, count, 11);
        let mut free_ns = 0.0;
        std::iter::from_fn(move || schedule.take(1)).map(move |taken| {
            let due_ns = taken.due_ns as f64;
            free_ns = f64::max(due_ns, free_ns) + service_ns();
            free_ns - due_ns
        })
    }

    #[test]
    fn one_server_with_equal_services_has_the_mean_of_an_m_d_1_queue() {
        let service = 100_000.0;
        for load in [0.5, 0.8] {
            let count = 1_000_000;
            let mean = latencies(load * 1e9 / service, count, || service).sum::<f64>() / count as f64;
            let expected = service + load * service / (2.0 * (1.0 - load));
            assert!((mean / expected - 1.0).abs() < 0.03, "load {load}: {mean}, expected {expected}");
        }
    }

    #[test]
    fn one_server_with_random_services_has_the_p99_of_an_m_m_1_queue() {
        let service = 100_000.0;
        for load in [0.5, 0.8] {
            let expected = service * 100_f64.ln() / (1.0 - load);
            // 2 (1 + load) / (1 - load)^2 latencies in a row hold as much information as one independent latency.
            // With so many operations the p99 has a standard deviation of 1 %.
            let in_a_row: f64 = 2.0 * (1.0 + load) / (1.0_f64 - load).powi(2);
            let count = (in_a_row * 0.99 / 0.01 / (0.01 * 100_f64.ln()).powi(2)) as u64;
            let mut random = Rng::with_seed(5);
            // How many are above the bounds says on which side of them the p99 is.
            let (mut above_low, mut above_high) = (0, 0);
            for latency in latencies(load * 1e9 / service, count, || exponential(&mut random, service)) {
                above_low += u64::from(latency > 0.97 * expected);
                above_high += u64::from(latency > 1.03 * expected);
            }
            let hundredth = count / 100;
            assert!(above_low >= hundredth, "load {load}: the p99 is below 97 % of {expected}: {above_low}");
            assert!(
                above_high <= hundredth,
                "load {load}: the p99 is above 103 % of {expected}: {above_high}"
            );
        }
    }
}
