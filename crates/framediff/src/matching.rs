//! Which names of the two sides are one function, by a guess: what they are called, and what they call.

use crate::frame_names::{FrameName, FrameNames, MatchRule, without_inline_mark};
use crate::tree::{MergedTree, ROOT};
use function_names::canonical;
use serde::Serialize;
use std::collections::{BTreeMap, HashMap, HashSet};

/// Names that were taken for one.
#[derive(Serialize)]
pub struct NameMatch {
    before: String,
    after: String,
    rule: MatchRule,
    /// A guess: "taken for the same".
    taken_for_the_same: bool,
}

/// A guess needs so many samples of each of the two names.
const LEAST_SAMPLES: u64 = 10;
/// The share of their time in which two functions have to do the same.
const LEAST_OVERLAP: f64 = 0.5;
/// Of the functions that one side alone has below one caller, those looked at.
const MOST_CANDIDATES: usize = 40;

/// Names that one side alone has, under callers that both have, and are one by the first rule that finds any.
pub fn found(names: &FrameNames, tree: &MergedTree) -> Option<(MatchRule, Vec<(u32, u32)>)> {
    let alone = Alone::new(names, tree);
    for rule in [MatchRule::Thread, MatchRule::Similar, MatchRule::Callees] {
        if !names.rules.contains(&rule) {
            continue;
        }
        let mut pairs = match rule {
            MatchRule::Thread => alone.threads(),
            MatchRule::Similar => alone.pairs(|a, b| alone.similar(a, b)),
            _ => alone.pairs(|a, b| alone.alike(a, b)),
        };
        // The most alike first, then the heaviest.
        pairs.sort_by(|a, b| b.2.total_cmp(&a.2).then(a.0.cmp(&b.0)).then(a.1.cmp(&b.1)));
        let mut used = HashSet::new();
        let free = pairs.into_iter().filter(|&(a, b, _)| used.insert(a) & used.insert(b));
        let pairs: Vec<(u32, u32)> = free.map(|(a, b, _)| (a, b)).collect();
        if !pairs.is_empty() {
            return Some((rule, pairs));
        }
    }
    None
}

/// The names that are not spelled alike on both sides and were taken for one.
pub fn matches(names: &FrameNames, tree: &MergedTree) -> Vec<NameMatch> {
    let used: HashSet<u32> = tree.key.iter().copied().collect();
    let mut found = Vec::new();
    let mut tell = |before: &String, after: &String, rule: MatchRule| {
        let (before, after, taken_for_the_same) = (before.clone(), after.clone(), rule.is_guess());
        found.push(NameMatch { before, after, rule, taken_for_the_same });
    };
    for (key, name) in (0..).zip(&names.keys) {
        let [before, after] = &name.spelled;
        let plain = without_inline_mark;
        if let (Some(a), Some(b)) = (before.first(), after.first()) {
            let equal = before.iter().any(|one| after.iter().any(|other| plain(one) == plain(other)));
            if !equal && !name.nameless && used.contains(&names.of(key)) {
                let same = canonical(a) == canonical(b);
                tell(a, b, if same { MatchRule::Canonical } else { MatchRule::Alias });
            }
        }
    }
    for &(a, b, rule) in &names.joined {
        let spelled = |key: u32, side: usize| names.keys[key as usize].spelled[side].first();
        if let (Some(before), Some(after)) = (spelled(a, 0), spelled(b, 1)) {
            tell(before, after, rule);
        }
    }
    found.sort_by(|a, b| (a.rule, &a.before, &a.after).cmp(&(b.rule, &b.before, &b.after)));
    found
}

/// The functions that one side alone has, with the callers that both have.
struct Alone<'t> {
    tree: &'t MergedTree,
    names: &'t FrameNames,
    children: Vec<Vec<u32>>,
    /// Of each caller that both sides have: the nodes below it whose names either side alone knows.
    callers: Vec<[Vec<u32>; 2]>,
}

impl<'t> Alone<'t> {
    fn new(names: &'t FrameNames, tree: &'t MergedTree) -> Self {
        let mut known = vec![[false; 2]; names.keys.len()];
        for node in 1..tree.len() {
            let known = &mut known[tree.key[node] as usize];
            let seen = |side: usize| tree.samples[node][side] > 0 || tree.us[node][side] > 0.0;
            known.iter_mut().enumerate().for_each(|(side, known)| *known |= seen(side));
        }
        let children = tree.children();
        let mut callers = Vec::new();
        for node in (0..tree.len() as u32).filter(|&node| tree.only(node).is_none()) {
            let found = [0, 1].map(|side| {
                let is_candidate = |&child: &u32| {
                    let key = tree.key[child as usize] as usize;
                    let name = &names.keys[key];
                    tree.only(child) == Some(side) && known[key] != [true; 2] && !name.nameless && !name.apart
                };
                let lone = children[node as usize].iter().copied().filter(is_candidate);
                lone.take(MOST_CANDIDATES).collect::<Vec<u32>>()
            });
            if found.iter().all(|lone| !lone.is_empty()) {
                callers.push(found);
            }
        }
        Self { tree, names, children, callers }
    }

    /// The heaviest thread of each side, where it has most of the side's time.
    fn threads(&self) -> Vec<(u32, u32, f64)> {
        let heaviest = |side: usize| {
            let threads = self.children[ROOT as usize].iter().copied();
            let found = threads.max_by(|a, b| self.us(*a, side).total_cmp(&self.us(*b, side)))?;
            let alone =
                self.tree.only(found) == Some(side) && self.us(found, side) > 0.5 * self.us(ROOT, side);
            alone.then_some(self.key(found))
        };
        heaviest(0).zip(heaviest(1)).map(|(a, b)| (a, b, 1.0)).into_iter().collect()
    }

    fn us(&self, node: u32, side: usize) -> f64 {
        self.tree.us[node as usize][side]
    }

    fn key(&self, node: u32) -> u32 {
        self.tree.key[node as usize]
    }

    fn name(&self, node: u32) -> &FrameName {
        &self.names.keys[self.key(node) as usize]
    }

    /// Pairs of keys with how much they are alike, if they are; more for those that weigh more.
    fn pairs(&self, alike: impl Fn(u32, u32) -> Option<f64>) -> Vec<(u32, u32, f64)> {
        let mut found: BTreeMap<(u32, u32), f64> = BTreeMap::new();
        let all: f64 = self.us(ROOT, 0) + self.us(ROOT, 1);
        for [before, after] in &self.callers {
            for (&a, &b) in before.iter().flat_map(|a| after.iter().map(move |b| (a, b))) {
                if self.name(a).thread || self.name(b).thread {
                    continue;
                }
                if let Some(score) = alike(a, b) {
                    let weight = (self.us(a, 0) + self.us(b, 1)) / all.max(f64::MIN_POSITIVE);
                    let best = found.entry((self.key(a), self.key(b))).or_default();
                    *best = best.max(score + 1e-3 * weight.min(1.0));
                }
            }
        }
        found.into_iter().map(|((a, b), score)| (a, b, score)).collect()
    }

    /// One scope and nearly one name, or one name in another class of the same outer namespace or without a scope.
    fn similar(&self, a: u32, b: u32) -> Option<f64> {
        if !self.seen_enough(a, b) {
            return None;
        }
        let [a, b] = [a, b].map(|node| self.name(node));
        if a.kernel != b.kernel {
            return None;
        }
        let ((scope_a, last_a), (scope_b, last_b)) = (scope(&a.name), scope(&b.name));
        if scope_a == scope_b {
            let longest = last_a.len().max(last_b.len());
            return edit_distance(last_a, last_b, longest / 3)
                .map(|distance| 1.0 - distance as f64 / longest as f64);
        }
        // Debug information of one line a function (-g1) names inlined functions without their scopes.
        if last_a == last_b && (scope_a.is_empty() || scope_b.is_empty()) {
            return Some(0.95);
        }
        let outer = |scope: &str| scope.split("::").next().unwrap_or("").to_owned();
        (last_a == last_b && !scope_a.is_empty() && outer(scope_a) == outer(scope_b)).then_some(0.9)
    }

    /// What is seen once in a while is on one side alone by chance.
    fn seen_enough(&self, a: u32, b: u32) -> bool {
        [a, b].iter().enumerate().all(|(side, &node)| self.tree.samples[node as usize][side] >= LEAST_SAMPLES)
    }

    /// The share of their time in which both do the same: in callees of one name, or in themselves where they call
    /// nobody.
    fn alike(&self, a: u32, b: u32) -> Option<f64> {
        let (tree, of) = (self.tree, [a, b]);
        if !self.seen_enough(a, b) || tree.object[a as usize] != tree.object[b as usize] {
            return None;
        }
        let mut shares: HashMap<u32, [f64; 2]> = HashMap::new();
        let mut own = [1.0; 2];
        for side in 0..2 {
            for &child in &self.children[of[side] as usize] {
                let share = self.us(child, side) / self.us(of[side], side);
                shares.entry(self.key(child)).or_default()[side] += share;
                own[side] -= share;
            }
        }
        let shared: f64 = shares.values().map(|[a, b]| a.min(*b)).sum();
        let costs = [self.us(a, 0), self.us(b, 1)];
        let leaves = own.iter().all(|own| *own > 0.9);
        if leaves {
            // Nothing is known of them but their caller and what they cost.
            let ratio = costs[0].min(costs[1]) / costs[0].max(costs[1]);
            let only_two = self.callers.iter().any(|[before, after]| {
                before.len() == 1 && after.len() == 1 && before[0] == a && after[0] == b
            });
            return (only_two && ratio > LEAST_OVERLAP).then_some(ratio);
        }
        let overlap = shared + own[0].min(own[1]);
        (shared > 0.1 && overlap > LEAST_OVERLAP).then_some(overlap)
    }
}

/// The scope and the last part of a canonical name.
fn scope(name: &str) -> (&str, &str) {
    name.rsplit_once("::").unwrap_or(("", name))
}

/// How many characters have to be put in, taken out or changed to make one of the other; `None` if more than `most`.
fn edit_distance(a: &str, b: &str, most: usize) -> Option<usize> {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    if a.len().abs_diff(b.len()) > most {
        return None;
    }
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.iter().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], i + 1);
        for (j, y) in b.iter().enumerate() {
            let changed = diagonal + usize::from(x != y);
            diagonal = row[j + 1];
            row[j + 1] = changed.min(row[j] + 1).min(diagonal + 1);
        }
        if row.iter().all(|&distance| distance > most) {
            return None;
        }
    }
    row.last().copied().filter(|&distance| distance <= most)
}

#[cfg(test)]
mod tests {
    use super::edit_distance;

    #[test]
    fn distances_are_counted_up_to_the_bound() {
        for (a, b, most, wanted) in [
            ("ReadBlock", "ReadBlocks", 3, Some(1)),
            ("kitten", "sitting", 3, Some(3)),
            ("kitten", "sitting", 2, None),
            ("", "abc", 3, Some(3)),
            ("same", "same", 0, Some(0)),
        ] {
            assert_eq!(edit_distance(a, b, most), wanted, "{a} {b}");
        }
    }
}
