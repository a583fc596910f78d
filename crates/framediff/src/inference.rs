//! Which frames differ: an interval for the difference of each, all of which hold at once with 95 %.
//!
//! The variance of a side's mean over its sessions is moderated (Smyth 2004, limma): the variance between the sessions
//! of one frame, which few sessions show, is averaged with an estimate from all frames: the variance from the slices,
//! and a session effect in proportion to the cost. It is never less than that of the number of samples. The interval is
//! Student's, with the degrees of freedom of Welch and Satterthwaite, at 5 % divided by the number of frames that are
//! tested (Bonferroni, which holds however the frames hang together): so in 95 of 100 comparisons of equal sides no
//! frame at all is different. A frame is tested if both sides together have ten samples of it; one that has the samples
//! of the frame above it is no further test.
//!
//! Two profiles without repeats (`Basis::Samples`, `Basis::Shares`) know nothing of what sessions differ by. Their
//! intervals are of chance in sampling alone: the variance of the numbers of samples (Poisson; of shares binomial), or
//! that of the slices where it is larger and there are slices enough. Where one side's samples are not counted, chance
//! cannot be estimated, and a difference is more than a part of the whole (`LEAST_SHARE`).

use crate::frame_names::FrameNames;
use crate::sums::CostSums;
use crate::tree::{MergedTree, ROOT};
use serde::{Deserialize, Serialize};
use statrs::distribution::{ContinuousCDF, StudentsT};
use std::collections::HashMap;

pub const LEAST_SAMPLES: u64 = 10;
/// The chance that anything at all is different where nothing is.
pub const ALPHA: f64 = 0.05;
/// The estimate from all frames counts as at most so many sessions.
const PRIOR_SESSIONS: f64 = 8.0;
/// A session effect, as a part of the cost (one standard deviation), where sessions are too few to estimate one: that
/// of CPU per read between windows of a 2-core VM whose disk wandered.
pub const ASSUMED_EFFECT: f64 = 0.06;
/// The same in part of the whole, for every frame: what a burst of interrupts is in one session and not in another.
const ASSUMED_OF_WHOLE: f64 = 0.03;
/// Sessions beyond one a side, of both sides, from which the effect is believed.
const LEAST_FREEDOM: u32 = 4;
/// A frame whose variance between sessions is more than so many times the estimate is judged by its sessions alone.
const OWN_VARIANCE: f64 = 4.0;
/// The least session effect that is estimated.
const LEAST_EFFECT: f64 = 0.01;

/// Of the whole: the smallest difference of two profiles whose samples are not counted.
pub const LEAST_SHARE: f64 = 0.01;
/// With fewer slices their variance is hardly known.
const LEAST_SLICES: u32 = 10;
/// Degrees of freedom of a variance that is known.
const KNOWN: f64 = 1e6;

/// What the intervals are of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Basis {
    /// What sessions differ by, and chance in sampling.
    #[default]
    Sessions,
    /// Chance in sampling alone, of one profile a side.
    Samples,
    /// The same for shares: both totals are what they are, and no chance.
    Shares,
}

/// By what a frame is different.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Rule {
    Sessions,
    Samples,
    Share,
}

/// One frame on both sides.
#[derive(Clone, Copy, Debug, Default)]
pub struct Figure {
    pub us: [f64; 2],
    pub samples: [u64; 2],
    /// Standard error of the difference.
    pub error: f64,
    /// Half of the simultaneous interval.
    pub half: f64,
    /// The interval leaves zero, and there are samples enough.
    pub different: bool,
}

impl Figure {
    pub fn delta(&self) -> f64 {
        self.us[1] - self.us[0]
    }
}

/// The frames whose intervals hold at once.
#[derive(Clone, Copy, Debug, Default)]
pub struct Family {
    pub tests: usize,
    /// The smallest difference that would be different: us per query.
    pub least: Option<f64>,
}

pub struct Inference {
    pub basis: Basis,
    pub rule: Rule,
    pub figures: Vec<Figure>,
    pub nodes: Family,
    pub functions: Family,
    pub function_keys: Vec<u32>,
    /// Of sessions, as a part of the cost: one standard deviation.
    pub session_effect: f64,
    pub is_assumed: bool,
    node_count: usize,
}

impl Inference {
    pub fn new(tree: &MergedTree, sums: CostSums, names: &FrameNames, basis: Basis) -> Self {
        let counted = sums.sides.iter().all(|side| side.samples[ROOT as usize] > 0);
        let rule = match basis {
            Basis::Sessions => Rule::Sessions,
            Basis::Samples | Basis::Shares if counted => Rule::Samples,
            Basis::Samples | Basis::Shares => Rule::Share,
        };
        let (nodes, functions) = (tree.len(), sums.functions.len());
        let samples = |number: usize| sums.sides.each_ref().map(|side| side.samples[number]);
        let enough = |number: usize| match rule {
            Rule::Share => sums.sides.iter().any(|side| side.us[number] > 0.0),
            _ => samples(number).iter().sum::<u64>() >= LEAST_SAMPLES,
        };
        let interrupts = match basis {
            Basis::Sessions => Interrupts::default(),
            _ => Interrupts::new(tree, &sums, names),
        };
        let tested_node = |node: usize| {
            let above = tree.parent[node] as usize;
            enough(node)
                && !interrupts.has(node)
                && (node == ROOT as usize || samples(above) != samples(node))
        };
        let node_tests: Vec<usize> = (0..nodes).filter(|&node| tested_node(node)).collect();
        let total = nodes..nodes + functions;
        let own = nodes + functions..nodes + 2 * functions;
        let function_tests = total.filter(|&number| enough(number)).count()
            + own.filter(|&number| enough(number) && samples(number) != samples(number - functions)).count();

        let mut deviations = Deviations::new(&sums);
        if rule == Rule::Sessions {
            deviations.estimate_effect(&node_tests);
        }
        let threshold = LEAST_SHARE * deviations.mean(ROOT as usize);
        let mut quantiles = Quantiles::default();
        let mut figures = Vec::with_capacity(nodes + 2 * functions);
        let (mut node_family, mut function_family) =
            (Family { tests: node_tests.len(), least: None }, Family { tests: function_tests, least: None });
        for number in 0..nodes + 2 * functions {
            let family = if number < nodes { &mut node_family } else { &mut function_family };
            let us = sums.sides.each_ref().map(|side| side.us[number]);
            let (error, freedom) = match rule {
                Rule::Sessions => deviations.error(number),
                Rule::Samples => deviations.error_of_samples(number, basis == Basis::Shares),
                Rule::Share => (0.0, KNOWN),
            };
            let half = interrupts.allowed(number, nodes)
                + match rule {
                    Rule::Share => threshold,
                    _ => error * quantiles.of(freedom, family.tests),
                };
            let tested = enough(number) && !interrupts.has(number);
            if tested && half > 0.0 {
                family.least = Some(family.least.map_or(half, |least| least.min(half)));
            }
            let different = tested && half > 0.0 && (us[1] - us[0]).abs() > half;
            figures.push(Figure { us, samples: samples(number), error, half, different });
        }
        Self {
            basis,
            rule,
            figures,
            nodes: node_family,
            functions: function_family,
            session_effect: if rule == Rule::Sessions { deviations.effect } else { 0.0 },
            is_assumed: rule == Rule::Sessions && deviations.is_assumed,
            node_count: nodes,
            function_keys: sums.functions,
        }
    }

    pub fn node(&self, node: u32) -> &Figure {
        &self.figures[node as usize]
    }

    pub fn is_different(&self, node: u32) -> bool {
        self.node(node).different
    }

    /// With all it calls, and itself, by number of the function.
    pub fn function(&self, number: usize) -> [&Figure; 2] {
        let first = self.node_count + number;
        [&self.figures[first], &self.figures[first + self.function_keys.len()]]
    }
}

/// What interrupts cost, wherever they came.
#[derive(Default)]
struct Interrupts {
    /// Of each node: it is one, or below one.
    within: Vec<bool>,
    /// The cost of them all, on the side where it is more; and what those at each place differ by, added up.
    most: f64,
    apart: f64,
}

impl Interrupts {
    fn new(tree: &MergedTree, sums: &CostSums, names: &FrameNames) -> Self {
        let mut found = Self { within: vec![false; tree.len()], ..Self::default() };
        let mut all = [0.0; 2];
        for node in 1..tree.len() {
            let above = found.within[tree.parent[node] as usize];
            found.within[node] = above || names.keys[tree.key[node] as usize].is_interrupt();
            if found.within[node] && !above {
                let us = [0, 1].map(|side| sums.sides[side].us[node]);
                all = [all[0] + us[0], all[1] + us[1]];
                found.apart += (us[1] - us[0]).abs();
            }
        }
        found.most = all[0].max(all[1]);
        found
    }

    fn has(&self, number: usize) -> bool {
        self.within.get(number).copied().unwrap_or(false)
    }

    /// By how much more a figure may differ; `nodes`: from where numbers are of functions.
    fn allowed(&self, number: usize, nodes: usize) -> f64 {
        match number < nodes {
            true if self.has(number) => self.most,
            true => 0.0,
            false => self.apart,
        }
    }
}

/// How far a frame's cost deviates.
struct Deviations<'s> {
    sums: &'s CostSums,
    /// us per query of one sample, by side.
    of_sample: [f64; 2],
    effect: f64,
    is_assumed: bool,
    effect_freedom: f64,
}

impl<'s> Deviations<'s> {
    fn new(sums: &'s CostSums) -> Self {
        let of_sample = sums.sides.each_ref().map(|side| side.us[0] / (side.samples[0].max(1) as f64));
        Self { sums, of_sample, effect: ASSUMED_EFFECT, is_assumed: true, effect_freedom: KNOWN }
    }

    /// Variance of one session's cost, without what sessions differ by: from the slices, or from the number of
    /// samples where that is more. A side without a sample has those that it would have if both cost the same.
    fn within(&self, number: usize, side: usize) -> f64 {
        let sums = &self.sums.sides[side];
        sums.within[number].max(self.counted(number, side))
    }

    /// That of the number of samples.
    fn counted(&self, number: usize, side: usize) -> f64 {
        let sums = &self.sums.sides[side];
        let all: u64 = self.sums.sides.iter().map(|side| side.samples[number]).sum();
        let exposure = self.of_sample.map(|us| if us > 0.0 { 1.0 / us } else { 0.0 });
        let expected = all as f64 * exposure[side] / (exposure[0] + exposure[1]).max(f64::MIN_POSITIVE);
        let samples = expected.max(sums.samples[number] as f64);
        self.of_sample[side].powi(2) * samples * f64::from(sums.sessions)
    }

    fn mean(&self, number: usize) -> f64 {
        self.sums.sides.iter().map(|side| side.us[number]).sum::<f64>() / 2.0
    }

    /// The part of the cost by which sessions differ beyond their slices: the weighted mean over the frames of
    /// (variance between sessions - within) / cost squared, each weighted by how well it is known.
    fn estimate_effect(&mut self, tests: &[usize]) {
        let freedom: u32 = self.sums.sides.iter().map(|side| side.sessions - 1).sum();
        let (mut above, mut below) = (0.0, 0.0);
        for &number in tests {
            let squared = self.mean(number).powi(2);
            for (place, side) in self.sums.sides.iter().enumerate().filter(|(_, side)| side.sessions > 1) {
                let freedom = f64::from(side.sessions - 1);
                let within = self.within(number, place);
                let weight = freedom * squared / (within + ASSUMED_EFFECT.powi(2) * squared).powi(2);
                if weight.is_finite() {
                    above += weight * (side.squares[number] / freedom - within);
                    below += weight * squared;
                }
            }
        }
        let found = if below > 0.0 { (above / below).max(0.0).sqrt() } else { 0.0 };
        self.is_assumed = freedom < LEAST_FREEDOM;
        self.effect = found.max(if self.is_assumed { ASSUMED_EFFECT } else { LEAST_EFFECT });
        if !self.is_assumed {
            self.effect_freedom = f64::from(freedom);
        }
    }

    /// Standard error of the difference of two profiles by chance in sampling, and its degrees of freedom.
    fn error_of_samples(&self, number: usize, of_shares: bool) -> (f64, f64) {
        let share = self.mean(number) / self.mean(ROOT as usize);
        let of_total = if of_shares { (1.0 - share).max(0.0) } else { 1.0 };
        let (mut variance, mut by_freedom) = (0.0, 0.0);
        for (place, side) in self.sums.sides.iter().enumerate() {
            let counted = self.counted(number, place) * of_total;
            let sliced = if side.freedom >= LEAST_SLICES - 1 { side.within[number] } else { 0.0 };
            let (of_side, freedom) =
                if sliced > counted { (sliced, f64::from(side.freedom)) } else { (counted, KNOWN) };
            variance += of_side;
            by_freedom += of_side.powi(2) / freedom;
        }
        let freedom = if by_freedom > 0.0 { variance.powi(2) / by_freedom } else { 1.0 };
        (variance.sqrt(), freedom)
    }

    /// Standard error of the difference, and its degrees of freedom.
    fn error(&self, number: usize) -> (f64, f64) {
        let of_whole = if self.is_assumed { ASSUMED_OF_WHOLE * self.mean(ROOT as usize) } else { 0.0 };
        let effect = (self.effect * self.mean(number)).powi(2) + of_whole.powi(2);
        let (mut variance, mut by_freedom) = (0.0, 0.0);
        for (place, side) in self.sums.sides.iter().enumerate() {
            let within = self.within(number, place);
            let prior = within + effect;
            if prior <= 0.0 {
                continue;
            }
            let slices = f64::from(side.freedom.max(1));
            let known = prior.powi(2) / (within.powi(2) / slices + effect.powi(2) / self.effect_freedom);
            let (prior_freedom, sessions) = (known.min(PRIOR_SESSIONS), f64::from(side.sessions));
            let (freedom, variance_of_one) = match side.squares[number] / (sessions - 1.0) {
                own if own > OWN_VARIANCE * prior => (sessions - 1.0, own),
                _ => {
                    let freedom = prior_freedom + sessions - 1.0;
                    (freedom, (prior_freedom * prior + side.squares[number]) / freedom)
                }
            };
            // Never below what the number of samples allows, however alike the sessions came out.
            let of_mean = variance_of_one.max(within) / sessions;
            variance += of_mean;
            by_freedom += of_mean.powi(2) / freedom;
        }
        let freedom = if by_freedom > 0.0 { variance.powi(2) / by_freedom } else { 1.0 };
        (variance.sqrt(), freedom)
    }
}

/// Quantiles of Student's distribution, which take long to find.
#[derive(Default)]
struct Quantiles(HashMap<(u64, usize), f64>);

impl Quantiles {
    /// Freedom is rounded down to quarters.
    fn of(&mut self, freedom: f64, tests: usize) -> f64 {
        let quarters = (freedom * 4.0).max(4.0) as u64;
        *self.0.entry((quarters, tests)).or_insert_with(|| quantile(quarters as f64 / 4.0, tests))
    }
}

/// Of two sides, at `ALPHA` by the number of tests.
fn quantile(freedom: f64, tests: usize) -> f64 {
    let tail = ALPHA / (2.0 * tests.max(1) as f64);
    StudentsT::new(0.0, 1.0, freedom).map_or(f64::INFINITY, |student| -student.inverse_cdf(tail))
}

#[cfg(test)]
mod tests {
    use super::quantile;

    #[test]
    fn quantiles_are_those_of_the_tables() {
        // By ioflame/analysis/quantiles.py, which shares no code with the library used here.
        for (freedom, tests, wanted) in [(10.0, 1, 2.228_138_9), (4.0, 100, 10.3063), (22.0, 300, 4.5266)] {
            let found = quantile(freedom, tests);
            assert!((found / wanted - 1.0).abs() < 1e-4, "{freedom} {tests}: {found}, not {wanted}");
        }
    }
}
