//! No engine: every key is there, and nothing is done. What is left is the client's own time.
//!
//! With `--service_time` each call keeps its CPU busy for so long, so that a queue before it is one whose latencies are
//! known from theory.

use super::{About, MultiGetResult, Opening, ScanResult, Session, Store};
use crate::clock::now_ns;
use crate::distributions::exponential;
use crate::flags::Flags;
use crate::keys::Key;
use fastrand::Rng;
use observer::Failure;
use std::hint::spin_loop;
use std::sync::atomic::{AtomicU64, Ordering};

/// The longest service time, in seconds.
const LONGEST_S: f64 = 10.0;
const UNITS: [(&str, f64); 4] = [("ns", 1.0), ("us", 1e3), ("ms", 1e6), ("s", 1e9)];

/// How long a call takes, in ns.
#[derive(Clone, Copy, Debug, PartialEq)]
enum ServiceTime {
    Fixed(f64),
    /// By its mean.
    Exponential(f64),
}

/// The store. sessions: how many there were, each with random numbers of its own.
struct NothingStore {
    service_time: Option<ServiceTime>,
    seed: u64,
    sessions: AtomicU64,
}

/// A session.
pub struct NothingSession {
    service_time: Option<ServiceTime>,
    random: Rng,
}

pub fn opening(flags: &Flags) -> Result<Opening, Failure> {
    flags.text("db");
    flags.text("use_existing_db");
    let service_time = flags.text("service_time").map(service_time).transpose()?;
    let seed = flags.number("seed", 1)?;
    Ok(Box::new(move || Ok(Box::new(NothingStore { service_time, seed, sessions: AtomicU64::new(0) }))))
}

/// Of `fixed:100us` or `exponential:100us`.
fn service_time(text: &str) -> Result<ServiceTime, Failure> {
    let parsed = || {
        let (law, time) = text.split_once(':')?;
        let (number, unit) = time.split_at(time.find(|c: char| c.is_ascii_alphabetic())?);
        let (_, ns) = UNITS.iter().find(|(name, _)| *name == unit)?;
        let ns = number.parse::<f64>().ok()? * ns;
        let law = match law {
            "fixed" => ServiceTime::Fixed,
            "exponential" => ServiceTime::Exponential,
            _ => return None,
        };
        (1.0..=LONGEST_S * 1e9).contains(&ns).then(|| law(ns))
    };
    parsed().ok_or_else(|| {
        Failure::usage(format!("--service_time={text} is not fixed:TIME or exponential:TIME"))
            .meaning(format!("TIME is 1ns to {LONGEST_S}s, such as 100us or 2.5ms; nothing was started"))
            .mend("--service_time=fixed:100us")
    })
}

impl Store for NothingStore {
    fn about(&self) -> About {
        About { engine: "nothing", version: env!("CARGO_PKG_VERSION").to_owned(), library: String::new() }
    }

    fn session(&self) -> Result<Box<dyn Session + '_>, Failure> {
        let number = self.sessions.fetch_add(1, Ordering::Relaxed);
        // Far from the seeds of the threads, which count up from the same one.
        let random = Rng::with_seed(self.seed.rotate_left(32).wrapping_add(number));
        Ok(Box::new(NothingSession { service_time: self.service_time, random }))
    }
}

impl NothingSession {
    /// One whose calls return at once.
    pub fn at_once() -> Self {
        Self { service_time: None, random: Rng::with_seed(1) }
    }

    /// Spins: a sleep would end late, and a CPU that serves is busy.
    fn serve(&mut self) {
        let Some(service_time) = self.service_time else { return };
        let begun = now_ns();
        let ns = match service_time {
            ServiceTime::Fixed(ns) => ns,
            ServiceTime::Exponential(mean) => exponential(&mut self.random, mean),
        };
        while now_ns() - begun < ns as u64 {
            spin_loop();
        }
    }
}

impl Session for NothingSession {
    fn get(&mut self, key: &[u8]) -> Result<Option<usize>, Failure> {
        self.serve();
        Ok(Some(key.len()))
    }

    fn multi_get(&mut self, keys: &[Key]) -> Result<MultiGetResult, Failure> {
        self.serve();
        Ok(MultiGetResult { found: keys.len() as u64, bytes: 0 })
    }

    fn scan(&mut self, _key: &[u8], steps: usize, _back: bool) -> Result<ScanResult, Failure> {
        self.serve();
        Ok(ScanResult { found: true, steps: steps as u64, bytes: 0 })
    }

    fn put(&mut self, _key: &[u8], _value: &[u8]) -> Result<(), Failure> {
        self.serve();
        Ok(())
    }

    fn delete(&mut self, _key: &[u8]) -> Result<(), Failure> {
        self.serve();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_service_time_is_a_law_and_a_time() {
        for (text, expected) in [
            ("fixed:100us", ServiceTime::Fixed(1e5)),
            ("exponential:2.5ms", ServiceTime::Exponential(2.5e6)),
            ("fixed:1ns", ServiceTime::Fixed(1.0)),
            ("fixed:10s", ServiceTime::Fixed(1e10)),
        ] {
            assert_eq!(service_time(text).unwrap(), expected, "{text}");
        }
        for text in ["", "100us", "fixed:", "fixed:100", "fixed:us", "fixed:0us", "fixed:-1us", "fixed:11s"] {
            assert!(service_time(text).is_err(), "{text}");
        }
        for text in ["uniform:100us", "fixed:100 us", "fixed:100usec", "fixed:nanus", "fixed:1us:2us"] {
            assert!(service_time(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_call_takes_its_service_time_and_random_ones_have_the_mean() {
        let mut fixed =
            NothingSession { service_time: Some(ServiceTime::Fixed(50_000.0)), ..NothingSession::at_once() };
        let before = now_ns();
        fixed.put(b"", b"").unwrap();
        assert!(now_ns() - before >= 50_000);
        let count = 4_000;
        let mut random = NothingSession {
            service_time: Some(ServiceTime::Exponential(1_000.0)),
            ..NothingSession::at_once()
        };
        let before = now_ns();
        (0..count).for_each(|_| assert!(random.get(b"key").unwrap().is_some()));
        // Five standard deviations below the mean: a busy host only adds.
        assert!(
            (now_ns() - before) as f64 >= f64::from(count) * 1_000.0 * (1.0 - 5.0 / f64::from(count).sqrt())
        );
    }
}
