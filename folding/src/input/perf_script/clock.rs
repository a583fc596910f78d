//! Whether the times of a text are the trace's clock: `perf script --deltatime` prints the time since the sample before,
//! `--reltime` that since the first.

use crate::error::Error;
use crate::options::Options;

/// How the times of samples follow one another, in the order of the text.
#[derive(Clone, Copy, Debug, Default)]
pub struct Clock {
    last: u64,
    rises: u64,
    falls: u64,
    /// No clock of a machine that runs is at 0.
    saw_zero: bool,
}

impl Clock {
    pub fn see(&mut self, time: u64) {
        self.rises += u64::from(time > self.last);
        self.falls += u64::from(time < self.last);
        self.saw_zero |= time == 0;
        self.last = time;
    }

    pub fn absorb(&mut self, other: Self) {
        self.rises += other.rises;
        self.falls += other.falls;
        self.saw_zero |= other.saw_zero;
    }

    /// Differences fall about as often as they rise; a clock falls where one text ends and another one follows.
    fn is_of_differences(&self) -> bool {
        self.falls > 1 && self.falls * 3 > self.rises && self.rises * 3 > self.falls
    }

    /// Refuses what needs the trace's clock where the times are none.
    pub fn refuse_differences(&self, options: &Options) -> Result<(), Error> {
        let slices = options.slice.is_some().then_some("--slices");
        let Some(option) = options.needing_time().or(slices) else { return Ok(()) };
        let (what, printed) = if self.is_of_differences() {
            ("differences, each is since the sample before", "--deltatime")
        } else if self.saw_zero && options.intervals.is_some() {
            ("those since the first sample", "--reltime")
        } else {
            return Ok(());
        };
        Err(Error::usage(format!(
            "{option} needs the trace's clock, but the times of this text are {what} (perf script {printed}).\n\
             print it without {printed}"
        )))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_are_told_from_a_clock() {
        let of = |times: &[u64]| {
            let mut clock = Clock::default();
            times.iter().for_each(|&time| clock.see(time));
            clock.is_of_differences()
        };
        assert!(of(&[0, 5029, 5013, 5030, 5011, 5010]));
        assert!(of(&[5013, 5030, 4011, 5010, 3000]));
        for clock in [
            &[][..],
            &[0, 5029, 10_013],
            &[10, 20, 30, 10, 20, 30],
            &[10, 10, 20, 20, 30, 25, 40],
            &[7, 6],
            &[7, 6, 5, 4, 3, 2, 1],
        ] {
            assert!(!of(clock), "{clock:?}");
        }
    }
}
