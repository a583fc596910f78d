//! The events of an input: which is folded, and what is refused.

use crate::error::Error;
use crate::terminal;
use crate::weights::{SampleWeight, Tally};
use serde::Serialize;
use std::collections::HashMap;

/// Events that an error lists.
const LISTED: usize = 100;

/// The totals of one event of the input.
#[derive(Clone, Debug, Serialize)]
pub struct EventTotals {
    #[serde(rename = "event")]
    pub name: String,
    #[serde(skip)]
    pub raw: Vec<u8>,
    #[serde(skip)]
    pub selected: bool,
    #[serde(flatten)]
    pub tally: Tally,
    #[serde(skip)]
    pub without_period: u64,
    /// The part of the input it was first seen in, and how many events its reader had seen before.
    #[serde(skip)]
    pub first_seen: (u64, usize),
}

impl EventTotals {
    fn new(raw: &[u8], selected: bool, first_seen: (u64, usize)) -> Self {
        let name =
            if raw.is_empty() { "[unknown]".into() } else { String::from_utf8_lossy(raw).into_owned() };
        Self { name, raw: raw.to_vec(), selected, tally: Tally::default(), without_period: 0, first_seen }
    }

    pub fn count(&mut self, sample: SampleWeight) {
        self.tally = self.tally.plus(sample.into());
        self.without_period += u64::from(sample.weight.is_none());
    }

    fn absorb(&mut self, other: &Self) {
        self.tally = self.tally.plus(other.tally);
        self.without_period += other.without_period;
        self.first_seen = self.first_seen.min(other.first_seen);
    }
}

#[derive(Default)]
pub struct Events {
    totals: Vec<EventTotals>,
    of_name: HashMap<Vec<u8>, usize>,
    last: usize,
    selected: usize,
}

impl Events {
    /// The totals of the event, and whether it was seen for the first time.
    pub fn find(&mut self, name: &[u8], wanted: Option<&str>, part: u64) -> (&mut EventTotals, bool) {
        let is = |event: &EventTotals| event.raw == name;
        let mut new = false;
        if !self.totals.get(self.last).is_some_and(is) {
            self.last = self.of_name.get(name).copied().unwrap_or_else(|| {
                new = true;
                let selected = wanted.is_none_or(|wanted| selects(wanted.as_bytes(), name));
                self.selected += usize::from(selected);
                self.of_name.insert(name.to_vec(), self.totals.len());
                self.totals.push(EventTotals::new(name, selected, (part, self.totals.len())));
                self.totals.len() - 1
            });
        }
        (&mut self.totals[self.last], new)
    }

    /// The number of the event that was found last.
    pub fn last(&self) -> usize {
        self.last
    }

    #[inline]
    pub fn count(&mut self, event: usize, sample: SampleWeight) {
        if let Some(totals) = self.totals.get_mut(event) {
            totals.count(sample);
        }
    }

    /// How many of them are to be folded; more than one is refused at the end.
    pub fn selected(&self) -> usize {
        self.selected
    }

    pub fn into_totals(self) -> Vec<EventTotals> {
        self.totals
    }

    pub fn absorb(&mut self, other: Self) {
        for event in other.totals {
            match self.of_name.get(&event.raw) {
                Some(&known) => self.totals[known].absorb(&event),
                None => {
                    self.selected += usize::from(event.selected);
                    self.of_name.insert(event.raw.clone(), self.totals.len());
                    self.totals.push(event);
                }
            }
        }
        // One reader reads a whole part, so `first_seen` has the order of the events within it.
        self.totals.sort_by_key(|event| event.first_seen);
        self.of_name = self.totals.iter().zip(0..).map(|(event, at)| (event.raw.clone(), at)).collect();
        self.last = 0;
    }

    /// The event to fold, and the others; or why there is not one.
    pub fn choose(self, wanted: Option<&str>) -> Result<(Option<EventTotals>, Vec<EventTotals>), Error> {
        self.refuse(wanted)?;
        let (selected, other): (Vec<_>, Vec<_>) = self.totals.into_iter().partition(|event| event.selected);
        Ok((selected.into_iter().next(), other))
    }

    /// Samples and weight of the event that was chosen, or of the one that would have been.
    pub fn take(self, chosen: Option<&EventTotals>) -> Tally {
        let meant = |event: &&EventTotals| chosen.map_or(event.selected, |chosen| chosen.raw == event.raw);
        self.totals.iter().filter(meant).fold(Tally::default(), |sum, event| sum.plus(event.tally))
    }

    fn refuse(&self, wanted: Option<&str>) -> Result<(), Error> {
        if let (Some(wanted), 0, false) = (wanted, self.selected(), self.totals.is_empty()) {
            return Err(Error::usage(format!(
                "no sample of the event '{wanted}'; the input holds:\n{}",
                self.list()
            )));
        }
        let Some(first) = self.totals.iter().find(|event| event.selected) else { return Ok(()) };
        if self.selected() > 1 {
            return Err(Error::usage(format!(
                "the input holds several events, and weights of different events do not add up:\n{}\n\
                 choose one with its full name, for example: --event {}",
                self.list(),
                terminal::quoted(&first.name)
            )));
        }
        if first.without_period > 0 {
            return Err(Error::usage(format!(
                "{} of {} samples of '{}' have no period, so what they weigh is unknown.\n\
                 print it: perf script -F comm,tid,time,period,event,ip,sym,dso\n\
                 or let every sample weigh one: --weight count",
                first.without_period,
                first.tally.samples,
                terminal::name(&first.name)
            )));
        }
        Ok(())
    }

    fn list(&self) -> String {
        let line = |event: &EventTotals| {
            let weight = match event.without_period {
                0 => format!("weight {}", event.tally.weight),
                n if n == event.tally.samples => "no periods".to_owned(),
                n => format!("weight {}, {n} without period", event.tally.weight),
            };
            format!("  {}: {} samples, {weight}", terminal::name(&event.name), event.tally.samples)
        };
        let mut lines: Vec<String> = self.totals.iter().take(LISTED).map(line).collect();
        lines
            .extend(self.totals.len().checked_sub(LISTED + 1).map(|more| format!("  and {} more", more + 1)));
        lines.join("\n")
    }
}

/// `--event cycles` means `cycles` and, with modifiers, `cycles:ppp`; never `cycles:u` and `cycles:k` at once,
/// because two events selected are refused.
pub fn selects(wanted: &[u8], event: &[u8]) -> bool {
    let modifiers = |rest: &[u8]| {
        rest.strip_prefix(b":")
            .is_some_and(|m| !m.is_empty() && m.iter().all(|b| b"ukhHGIpPSDWeb".contains(b)))
    };
    event == wanted || event.strip_prefix(wanted).is_some_and(modifiers)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_stand_in_the_order_of_the_input_whoever_read_which_part() {
        let mut early = Events::default();
        early.find(b"first", None, 3);
        early.find(b"second", None, 3);
        let mut late = Events::default();
        late.find(b"second", None, 5);
        late.absorb(early);
        let names: Vec<_> = late.into_totals().into_iter().map(|event| event.name).collect();
        assert_eq!(names, ["first", "second"]);
    }
}
