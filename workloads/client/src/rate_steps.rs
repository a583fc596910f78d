//! A rate that changes with time: `--arrival_steps=FILE`, lines of `SECONDS FACTOR`, from the first to the last and
//! over again. A factor multiplies the rate that was asked for; 0 is a pause.
//!
//! Arrivals are drawn at the rate itself, in a time of their own that runs as fast as the factor says; `clock_ns` is
//! where that lies on the clock.

use observer::Failure;
use std::fs::read_to_string;

const SECOND: f64 = 1e9;
const MOST: f64 = 1e9;

/// One round of steps.
#[derive(Clone, Debug, PartialEq)]
pub struct RateSteps {
    steps: Vec<RateStep>,
    /// Of one round: by the clock, and of the arrivals' own time.
    whole: RateStep,
}

/// A step, which begins where the one before it ends.
#[derive(Clone, Copy, Debug, PartialEq)]
struct RateStep {
    clock_ns: f64,
    own_ns: f64,
}

impl RateSteps {
    /// Usage error for a file that cannot be read, or has a line that is no step, or no step with arrivals.
    pub fn read(path: &str) -> Result<Self, Failure> {
        let text = read_to_string(path).map_err(|why| wrong(path, &why.to_string()))?;
        Self::parse(&text).map_err(|why| wrong(path, &why))
    }

    fn parse(text: &str) -> Result<Self, String> {
        let lines =
            text.lines().enumerate().map(|(at, line)| (at + 1, line.split('#').next().unwrap_or("").trim()));
        let steps: Vec<RateStep> = lines
            .filter(|(_, line)| !line.is_empty())
            .map(|(number, line)| step(line).ok_or_else(|| format!("line {number}, {line:?}, is no step")))
            .collect::<Result<_, _>>()?;
        let sum = |of: fn(&RateStep) -> f64| steps.iter().map(of).sum::<f64>();
        let whole = RateStep { clock_ns: sum(|step| step.clock_ns), own_ns: sum(|step| step.own_ns) };
        if whole.own_ns > 0.0 {
            Ok(Self { steps, whole })
        } else {
            Err("it has no step with arrivals".to_owned())
        }
    }

    /// The clock time of a time of the arrivals' own; both in ns from the beginning.
    pub fn clock_ns(&self, own_ns: f64) -> f64 {
        self.mapped(own_ns, |step| (step.own_ns, step.clock_ns))
    }

    /// The inverse.
    pub fn own_ns(&self, clock_ns: f64) -> f64 {
        self.mapped(clock_ns, |step| (step.clock_ns, step.own_ns))
    }

    /// lengths: of a step, in the time that is given and in the other
    fn mapped(&self, ns: f64, lengths: impl Fn(&RateStep) -> (f64, f64)) -> f64 {
        let (given, other) = lengths(&self.whole);
        let rounds = (ns / given).floor();
        let (mut left, mut mapped) = (ns - rounds * given, rounds * other);
        for (length, other) in self.steps.iter().map(lengths) {
            if left < length {
                return mapped + other * left / length;
            }
            left -= length;
            mapped += other;
        }
        mapped
    }
}

fn step(line: &str) -> Option<RateStep> {
    let mut words = line.split_whitespace().map(|word| word.parse::<f64>().ok());
    let (seconds, factor) = (words.next()??, words.next()??);
    let sensible =
        words.next().is_none() && 0.0 < seconds && seconds <= MOST && (0.0..=MOST).contains(&factor);
    let clock_ns = seconds * SECOND;
    sensible.then_some(RateStep { clock_ns, own_ns: clock_ns * factor })
}

fn wrong(path: &str, why: &str) -> Failure {
    Failure::usage(format!("--arrival_steps={path}: {why}"))
        .meaning("how the rate changes is not known; nothing was started")
        .mend("lines of SECONDS FACTOR, such as `10 1` and `2 3.5`")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_follow_one_another_and_begin_again() {
        let steps = RateSteps::parse("2 1 # the rate itself\n\n1 0\n1 4\n").unwrap();
        // Of the 4 s of a round two run at the speed of the clock, one does not advance, one runs four times as fast.
        for (own, clock) in
            [(0.0, 0.0), (1.5, 1.5), (2.0, 3.0), (4.0, 3.5), (6.0, 4.0), (7.0, 5.0), (61.0, 41.0)]
        {
            assert!((steps.clock_ns(own * SECOND) / SECOND - clock).abs() < 1e-9, "{own}");
        }
        for (clock, own) in [(1.5, 1.5), (2.5, 2.0), (3.5, 4.0), (4.0, 6.0), (41.0, 61.0)] {
            assert!((steps.own_ns(clock * SECOND) / SECOND - own).abs() < 1e-9, "{clock}");
        }
    }

    #[test]
    fn later_arrivals_are_later_by_the_clock() {
        let steps = RateSteps::parse("0.3 0.7\n0.1 0\n0.2 9\n").unwrap();
        let clock: Vec<f64> = (0..10_000).map(|at| steps.clock_ns(f64::from(at) * 1e6)).collect();
        assert!(clock.is_sorted());
        for (at, clock) in clock.iter().enumerate() {
            assert!((steps.own_ns(*clock) - at as f64 * 1e6).abs() < 1.0, "{at}");
        }
    }

    #[test]
    fn lines_that_are_no_steps_are_named() {
        for (text, why) in [
            ("10 1\n10\n", "line 2, \"10\", is no step"),
            ("10 fast", "line 1, \"10 fast\", is no step"),
            ("0 1", "line 1, \"0 1\", is no step"),
            ("1 -1", "line 1, \"1 -1\", is no step"),
            ("1 NaN", "line 1, \"1 NaN\", is no step"),
            ("1 2 3", "line 1, \"1 2 3\", is no step"),
            ("5 0\n", "it has no step with arrivals"),
            ("# nothing\n", "it has no step with arrivals"),
        ] {
            assert_eq!(RateSteps::parse(text).unwrap_err(), why);
        }
    }
}
