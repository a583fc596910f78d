//! The category table as data: rows with weights and exact shares.

use super::classify::{Classification, Classifier};
use super::rules::{Rules, View};
use crate::profile::Profile;
use serde::Serialize;
use std::collections::HashMap;

const OTHER_FRAMES: usize = 20;

/// What the caller knows and the stacks do not; printed along, never interpreted.
#[derive(Clone, Debug, Default)]
pub struct ReportContext {
    pub event: Option<String>,
    pub unit: Option<String>,
    pub queries: Option<u64>,
    pub reads: Option<u64>,
    /// CPU microseconds of one query, to be shared out among the rows.
    pub us_per_query: Option<f64>,
}

/// The table; as JSON it is the `--format json` output.
#[derive(Debug, Serialize)]
pub struct CategoryReport {
    pub schema: u32,
    pub view: String,
    /// As the rules describe it.
    pub description: String,
    pub rules: String,
    pub rules_checked: Vec<String>,
    pub event: Option<String>,
    pub unit: Option<String>,
    pub total_weight: u128,
    pub total_samples: Option<u64>,
    pub queries: Option<u64>,
    pub reads: Option<u64>,
    pub us_per_query: Option<f64>,
    pub rows: Vec<CategoryRow>,
    pub other_frames: Vec<OtherFrame>,
}

#[derive(Debug, Serialize)]
pub struct CategoryRow {
    pub name: String,
    pub label: String,
    pub weight: u128,
    /// Percent of the total weight.
    pub share: f64,
    pub samples: Option<u64>,
    pub us_per_query: Option<f64>,
}

/// A frame that represents a part of `other`.
#[derive(Debug, Serialize)]
pub struct OtherFrame {
    pub frame: String,
    pub weight: u128,
    pub share: f64,
}

impl CategoryReport {
    /// `counted`: the profile holds numbers of samples too.
    pub fn new(
        name: &str,
        rules: &Rules,
        view: &View,
        profile: &Profile,
        context: ReportContext,
        counted: bool,
    ) -> Self {
        let classifier = Classifier::new(rules, view, profile);
        let mut rows: Vec<CategoryRow> = view.rows.iter().map(CategoryRow::empty).collect();
        let mut other: HashMap<u32, u128> = HashMap::new();
        for stack in 0..profile.stacks() as u32 {
            let tally = profile.tally(stack);
            let place = classifier.place(stack);
            let row = &mut rows[place.row];
            row.weight = row.weight.saturating_add(tally.weight);
            row.samples = counted.then(|| row.samples.unwrap_or(0).saturating_add(tally.samples));
            if place.row == view.other() {
                if let Some(frame) = classifier.representative_frame(stack) {
                    let weight = other.entry(frame).or_default();
                    *weight = weight.saturating_add(tally.weight);
                }
            }
        }
        let total = profile.total();
        for row in &mut rows {
            row.share = share(row.weight, total.weight);
            row.us_per_query = context.us_per_query.map(|us| us * row.share / 100.0);
            row.samples = counted.then(|| row.samples.unwrap_or(0));
        }
        Self {
            schema: 1,
            view: name.to_owned(),
            description: view.description.clone(),
            rules: rules.engine.clone(),
            rules_checked: rules.checked.clone(),
            event: context.event,
            unit: context.unit,
            total_weight: total.weight,
            total_samples: counted.then_some(total.samples),
            queries: context.queries,
            reads: context.reads,
            us_per_query: context.us_per_query,
            rows,
            other_frames: other_frames(profile, other, total.weight),
        }
    }

    /// The shares with two decimals that add up to exactly 100.00: what rounding down leaves over goes to the
    /// rows that lost most by it.
    pub fn printed_shares(&self) -> Vec<String> {
        let weights: Vec<u128> = self.rows.iter().map(|row| row.weight).collect();
        let hundredths = apportion(&weights, 10_000);
        hundredths.iter().map(|n| format!("{}.{:02}", n / 100, n % 100)).collect()
    }
}

impl CategoryRow {
    fn empty((name, label): &(String, String)) -> Self {
        Self {
            name: name.clone(),
            label: label.clone(),
            weight: 0,
            share: 0.0,
            samples: None,
            us_per_query: None,
        }
    }
}

/// The places of all stacks, for those who draw them.
pub fn classifications(rules: &Rules, view: &View, profile: &Profile) -> Vec<Classification> {
    let classifier = Classifier::new(rules, view, profile);
    (0..profile.stacks() as u32).map(|stack| classifier.place(stack)).collect()
}

fn other_frames(profile: &Profile, weights: HashMap<u32, u128>, total: u128) -> Vec<OtherFrame> {
    let mut frames: Vec<(u32, u128)> = weights.into_iter().filter(|&(_, weight)| weight > 0).collect();
    frames.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| profile.name(a.0).cmp(profile.name(b.0))));
    frames.truncate(OTHER_FRAMES);
    let frame = |(frame, weight)| OtherFrame {
        frame: String::from_utf8_lossy(profile.name(frame)).into_owned(),
        weight,
        share: share(weight, total),
    };
    frames.into_iter().map(frame).collect()
}

fn share(part: u128, whole: u128) -> f64 {
    if whole == 0 { 0.0 } else { 100.0 * part as f64 / whole as f64 }
}

/// `parts` equal parts dealt out in proportion to the weights, by largest remainder.
fn apportion(weights: &[u128], parts: u128) -> Vec<u128> {
    let mut weights = weights.to_vec();
    let sum = |weights: &[u128]| weights.iter().try_fold(0_u128, |sum, &w| sum.checked_add(w));
    while sum(&weights).is_none_or(|total| total > u128::MAX / parts) {
        weights.iter_mut().for_each(|weight| *weight >>= 16);
    }
    let total = sum(&weights).unwrap_or(0);
    if total == 0 {
        return vec![0; weights.len()];
    }
    let mut dealt: Vec<u128> = weights.iter().map(|weight| weight * parts / total).collect();
    let left = parts - dealt.iter().sum::<u128>();
    let mut by_remainder: Vec<usize> = (0..weights.len()).collect();
    by_remainder.sort_by_key(|&n| std::cmp::Reverse(weights[n] * parts % total));
    by_remainder.into_iter().take(left as usize).for_each(|n| dealt[n] += 1);
    dealt
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_add_up_whatever_the_weights() {
        assert_eq!(apportion(&[1, 1, 1], 10_000), [3334, 3333, 3333]);
        assert_eq!(apportion(&[2, 1, 0], 10_000), [6667, 3333, 0]);
        assert_eq!(apportion(&[0, 0], 10_000), [0, 0]);
        assert_eq!(apportion(&[u128::MAX, u128::MAX], 10_000), [5000, 5000]);
    }
}
