//! The events of an input: which is folded, and what is refused.

use crate::error::Error;
use crate::terminal;
use crate::weights::{SampleWeight, Tally};
use serde::Serialize;
use std::collections::{HashMap, HashSet};

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
    /// Of those that are to be folded and are one event of several PMUs: `cpu_core` and `cpu_atom`, each of its own CPUs.
    pmus: HashSet<Vec<u8>>,
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
                self.select(selected, wanted, name);
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

    fn select(&mut self, selected: bool, wanted: Option<&str>, name: &[u8]) {
        self.selected += usize::from(selected);
        if let (true, Some((pmu, event))) = (selected, of_pmu(name)) {
            if wanted.is_some_and(|wanted| wanted.as_bytes() == event) {
                self.pmus.insert(pmu.to_vec());
            }
        }
    }

    /// Whether several are to be folded whose weights do not add up, which is refused at the end.
    pub fn is_ambiguous(&self) -> bool {
        self.selected > 1 && self.pmus.len() < self.selected
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
        self.pmus.extend(other.pmus);
        // One reader reads a whole part, so `first_seen` has the order of the events within it.
        self.totals.sort_by_key(|event| event.first_seen);
        self.of_name = self.totals.iter().zip(0..).map(|(event, at)| (event.raw.clone(), at)).collect();
        self.last = 0;
    }

    /// The event to fold, and the others; or why there is not one.
    pub fn choose(self, wanted: Option<&str>) -> Result<(Option<EventTotals>, Vec<EventTotals>), Error> {
        self.refuse(wanted)?;
        let (mut selected, other): (Vec<_>, Vec<_>) =
            self.totals.into_iter().partition(|event| event.selected);
        if let (Some(wanted), true) = (wanted, selected.len() > 1) {
            let mut all = EventTotals::new(wanted.as_bytes(), true, (0, 0));
            selected.iter().for_each(|event| all.absorb(event));
            selected = vec![all];
        }
        Ok((selected.into_iter().next(), other))
    }

    /// Samples and weight of the event that was chosen, or of the one that would have been.
    pub fn take(self, chosen: Option<&EventTotals>) -> Tally {
        let meant = |event: &&EventTotals| {
            let is_part =
                |chosen: &EventTotals| of_pmu(&event.raw).is_some_and(|(_, name)| name == chosen.raw);
            chosen.map_or(event.selected, |chosen| chosen.raw == event.raw || is_part(chosen))
        };
        self.totals.iter().filter(meant).fold(Tally::default(), |sum, event| sum.plus(event.tally))
    }

    fn refuse(&self, wanted: Option<&str>) -> Result<(), Error> {
        if let (Some(wanted), 0, false) = (wanted, self.selected, self.totals.is_empty()) {
            return Err(Error::usage(format!(
                "no sample of the event '{wanted}'; the input holds:\n{}",
                self.list()
            )));
        }
        let Some(first) = self.totals.iter().find(|event| event.selected) else { return Ok(()) };
        if self.is_ambiguous() {
            // One event of several PMUs adds up under its own name.
            let of_several = of_pmu(&first.raw).map(|(_, name)| String::from_utf8_lossy(name).into_owned());
            let is_meant = |name: &String| {
                let mut all = Self::default();
                self.totals.iter().for_each(|event| {
                    all.select(selects(name.as_bytes(), &event.raw), Some(name), &event.raw);
                });
                all.selected > 1 && !all.is_ambiguous()
            };
            let example = of_several.filter(is_meant).unwrap_or_else(|| first.name.clone());
            return Err(Error::usage(format!(
                "the input holds several events, and weights of different events do not add up:\n{}\n\
                 choose one with its full name, for example: --event {}",
                self.list(),
                terminal::quoted(&example)
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
/// because two events selected are refused. Of a machine with two kinds of CPU it is `cpu_core/cycles/P` and
/// `cpu_atom/cycles/P`, whose weights add up: each is of CPUs of its own.
pub fn selects(wanted: &[u8], event: &[u8]) -> bool {
    let modifiers = |rest: &[u8]| rest.strip_prefix(b":").is_some_and(|m| !m.is_empty() && are_modifiers(m));
    event == wanted
        || event.strip_prefix(wanted).is_some_and(modifiers)
        || of_pmu(event).is_some_and(|(_, name)| name == wanted)
}

fn are_modifiers(text: &[u8]) -> bool {
    text.iter().all(|byte| b"ukhHGIpPSDWeb".contains(byte))
}

/// `cpu_core/cycles/P` as `cpu_core` and `cycles`.
fn of_pmu(event: &[u8]) -> Option<(&[u8], &[u8])> {
    let mut parts = event.split(|&byte| byte == b'/');
    let (pmu, name, modifiers) = (parts.next()?, parts.next()?, parts.next()?);
    let is_name = |part: &[u8]| !part.is_empty() && !part.contains(&b',') && !part.contains(&b'=');
    (parts.next().is_none() && is_name(pmu) && is_name(name) && are_modifiers(modifiers))
        .then_some((pmu, name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_of_two_kinds_of_cpu_adds_up_and_others_do_not() {
        let chosen = |names: &[&str], wanted: Option<&str>| {
            let (mut events, mut late) = (Events::default(), Events::default());
            for (name, weight) in names.iter().zip([3, 4, 5]) {
                let part = if weight == 4 { &mut late } else { &mut events };
                part.find(name.as_bytes(), wanted, weight)
                    .0
                    .count(SampleWeight::new(crate::options::Weight::Period, Some(weight)));
            }
            events.absorb(late);
            let (event, other) = events.choose(wanted).map_err(|error| error.to_string())?;
            Ok::<_, String>((event.map(|event| (event.name, event.tally.weight)), other.len()))
        };
        let hybrid = ["cpu_core/cycles/P", "cpu_atom/cycles/P", "cpu_core/instructions/"];
        assert_eq!(chosen(&hybrid, Some("cycles")), Ok((Some(("cycles".to_owned(), 7)), 1)));
        assert_eq!(
            chosen(&hybrid, Some("cpu_atom/cycles/P")).map(|(event, _)| event.map(|one| one.1)),
            Ok(Some(4))
        );
        let cycles = |names: &[&str], wanted| chosen(names, Some(wanted)).map(|(event, _)| event);
        assert_eq!(cycles(&["cycles:ppp"], "cycles"), Ok(Some(("cycles:ppp".to_owned(), 3))));
        assert_eq!(cycles(&["cycles:u", "cycles:k"], "cycles:k"), Ok(Some(("cycles:k".to_owned(), 4))));
        let said = chosen(&hybrid[..2], None).expect_err("two");
        assert!(said.contains("for example: --event 'cycles'"), "{said}");
        for refused in [
            ["cpu_core/cycles/u", "cpu_core/cycles/k"],
            ["cycles:u", "cycles:k"],
            ["cycles", "cpu_core/cycles/"],
        ] {
            assert!(chosen(&refused, Some("cycles")).is_err(), "{refused:?}");
        }
    }

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
