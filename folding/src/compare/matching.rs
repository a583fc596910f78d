//! Which names of the two sides are one function, and by which rule.

use super::names::{canonical, edit_distance, scope};
use super::tree::{ROOT, Tree};
use crate::names::split_mark;
use serde::Serialize;
use std::collections::{BTreeMap, HashMap, HashSet};

/// In the order in which they are tried. What is equal needs none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum MatchRule {
    /// Names that compilers, libraries, allocators and kernels spell differently
    Canonical,
    /// A file says that they are one
    Alias,
    /// The heaviest thread of each side, whatever the program is called
    Thread,
    /// Names alike, under one caller, one known to either side alone
    Similar,
    /// Other names that call the same functions, under one caller, one known to either side alone
    Callees,
}

impl MatchRule {
    /// A guess from what is alike, and no more.
    pub fn is_guess(self) -> bool {
        matches!(self, Self::Thread | Self::Similar | Self::Callees)
    }
}

/// A function, or a thread's name, as the sides call it.
pub struct Key {
    pub name: String,
    pub kernel: bool,
    pub thread: bool,
    /// Stands for all functions of its object that have no name.
    pub nameless: bool,
    /// The spellings of each side.
    pub spelled: [Vec<String>; 2],
}

/// Names that were taken for one.
#[derive(Serialize)]
pub struct Match {
    pub before: String,
    pub after: String,
    pub rule: MatchRule,
    /// A guess: "taken for the same".
    pub taken_for_the_same: bool,
}

#[derive(Default)]
pub struct Matching {
    rules: Vec<MatchRule>,
    aliases: HashMap<String, String>,
    apart: HashSet<String>,
    pub keys: Vec<Key>,
    by_name: HashMap<(bool, String), u32>,
    by_spelling: HashMap<(String, u32), u32>,
    objects: Vec<String>,
    by_object: HashMap<String, u32>,
    /// The key that stands for each.
    stands: Vec<u32>,
    joined: Vec<(u32, u32, MatchRule)>,
}

/// Ends the key of a name that is nothing but itself; no name has it.
const APART: char = '\0';
/// A guess needs so many samples of each of the two names.
const LEAST_SAMPLES: u64 = 10;
/// The share of their time in which two functions have to do the same.
const LEAST_OVERLAP: f64 = 0.5;
/// Of the functions that one side alone has below one caller, those looked at.
const MOST_CANDIDATES: usize = 40;

impl Matching {
    /// `aliases`: names, each with the one that stands for it; `apart`: names that are nothing but themselves.
    pub fn new(aliases: Vec<(String, String)>, apart: &[String], rules: &[MatchRule]) -> Self {
        let aliases = match rules.contains(&MatchRule::Alias) {
            true => aliases.iter().map(|(alias, name)| (canonical(alias), canonical(name))).collect(),
            false => HashMap::new(),
        };
        Self { rules: rules.to_vec(), aliases, apart: apart.iter().cloned().collect(), ..Self::default() }
    }

    pub fn object(&mut self, role: &str) -> u32 {
        if let Some(&object) = self.by_object.get(role) {
            return object;
        }
        self.objects.push(role.to_owned());
        self.by_object.insert(role.to_owned(), self.objects.len() as u32 - 1);
        self.objects.len() as u32 - 1
    }

    pub fn object_name(&self, object: u32) -> &str {
        self.objects.get(object as usize).map_or("", |name| name)
    }

    /// The key of a frame of `object`, as that side spells it.
    pub fn frame(&mut self, side: usize, spelled: &str, object: u32) -> u32 {
        let known = self.by_spelling.get(&(spelled.to_owned(), object)).copied();
        let key = known.unwrap_or_else(|| {
            let (plain, mark) = split_mark(spelled.as_bytes());
            let nameless = plain == b"[unknown]" || (plain.starts_with(b"[") && plain.ends_with(b"]"));
            let kernel = mark == Some(b'k');
            let plain = String::from_utf8_lossy(plain);
            let name = if nameless {
                format!("[{}]", self.object_name(object).trim_matches(['[', ']']))
            } else if self.apart.contains(&*plain) {
                format!("{plain}{APART}")
            } else {
                let name = match self.rules.contains(&MatchRule::Canonical) {
                    true => canonical(spelled),
                    false => format!("{plain}{}", if kernel { "_[k]" } else { "" }),
                };
                self.aliases.get(&name).cloned().unwrap_or(name)
            };
            let key = self.key(
                name,
                Key { name: String::new(), kernel, thread: false, nameless, spelled: Default::default() },
            );
            self.by_spelling.insert((spelled.to_owned(), object), key);
            key
        });
        self.spell(side, key, spelled)
    }

    pub fn thread(&mut self, side: usize, comm: &str) -> u32 {
        let key = Key {
            name: String::new(),
            kernel: false,
            thread: true,
            nameless: false,
            spelled: Default::default(),
        };
        let key = self.key(comm.to_owned(), key);
        self.spell(side, key, comm)
    }

    fn key(&mut self, name: String, made: Key) -> u32 {
        let place = (made.thread, name);
        if let Some(&key) = self.by_name.get(&place) {
            return key;
        }
        let key = self.keys.len() as u32;
        self.keys.push(Key { name: place.1.clone(), ..made });
        self.stands.push(key);
        self.by_name.insert(place, key);
        key
    }

    fn spell(&mut self, side: usize, key: u32, spelled: &str) -> u32 {
        let known = &mut self.keys[key as usize].spelled[side];
        if !known.iter().any(|one| one == spelled) {
            known.push(spelled.to_owned());
        }
        key
    }

    /// The key that stands for `key`.
    pub fn of(&self, key: u32) -> u32 {
        self.stands[key as usize]
    }

    /// What the key that stands for others is called: as the second side does, or else the first.
    pub fn shown(&self, key: u32) -> &str {
        let spelled = |side: usize| {
            let keys = (0..self.keys.len()).filter(|&one| self.stands[one] == key);
            keys.flat_map(|one| self.keys[one].spelled[side].first()).next()
        };
        // Rarely more than one: those that were joined.
        let own = &self.keys[key as usize].spelled;
        let name = own[1].first().or_else(|| if self.is_joined(key) { spelled(1) } else { None });
        name.or(own[0].first()).map_or("", |name| split_mark_i(name))
    }

    fn is_joined(&self, key: u32) -> bool {
        self.joined.iter().any(|&(a, b, _)| a == key || b == key)
    }

    fn join(&mut self, a: u32, b: u32, rule: MatchRule) {
        for stands in &mut self.stands {
            if *stands == b {
                *stands = a;
            }
        }
        self.joined.push((a, b, rule));
    }

    /// Matches names that one side alone has, under callers that both have. Whether any was found.
    pub fn extend(&mut self, tree: &Tree) -> bool {
        let alone = Alone::new(self, tree);
        for rule in [MatchRule::Thread, MatchRule::Similar, MatchRule::Callees] {
            if !self.rules.contains(&rule) {
                continue;
            }
            let mut pairs = match rule {
                MatchRule::Thread => alone.threads(self),
                MatchRule::Similar => alone.pairs(|a, b| alone.similar(self, a, b)),
                _ => alone.pairs(|a, b| alone.alike(a, b)),
            };
            // The most alike first, then the heaviest.
            pairs.sort_by(|a, b| b.2.total_cmp(&a.2).then(a.0.cmp(&b.0)).then(a.1.cmp(&b.1)));
            let mut used = HashSet::new();
            for (a, b, _) in pairs {
                if used.insert(a) & used.insert(b) {
                    self.join(a, b, rule);
                }
            }
            if !used.is_empty() {
                return true;
            }
        }
        false
    }

    /// The names that are not spelled alike on both sides and were taken for one.
    pub fn matches(&self, tree: &Tree) -> Vec<Match> {
        let used: HashSet<u32> = tree.key.iter().copied().collect();
        let mut found = Vec::new();
        let told = |before: &str, after: &str, rule: MatchRule| Match {
            before: before.to_owned(),
            after: after.to_owned(),
            rule,
            taken_for_the_same: rule.is_guess(),
        };
        for key in &self.keys {
            let [before, after] = &key.spelled;
            let plain = |name: &String| split_mark_i(name).to_owned();
            if let (Some(a), Some(b)) = (before.first(), after.first()) {
                let equal = before.iter().any(|one| after.iter().any(|other| plain(one) == plain(other)));
                if !equal
                    && !key.nameless
                    && used.contains(&self.of(self.by_name[&(key.thread, key.name.clone())]))
                {
                    let same = canonical(a) == canonical(b);
                    found.push(told(a, b, if same { MatchRule::Canonical } else { MatchRule::Alias }));
                }
            }
        }
        for &(a, b, rule) in &self.joined {
            let spelled = |key: u32, side: usize| self.keys[key as usize].spelled[side].first();
            if let (Some(before), Some(after)) = (spelled(a, 0), spelled(b, 1)) {
                found.push(told(before, after, rule));
            }
        }
        found.sort_by(|a, b| (a.rule, &a.before, &a.after).cmp(&(b.rule, &b.before, &b.after)));
        found
    }
}

/// A name without the mark of an inlined frame, which the other side may not have.
fn split_mark_i(name: &str) -> &str {
    name.strip_suffix("_[i]").unwrap_or(name)
}

/// The functions that one side alone has, with the callers that both have.
struct Alone<'t> {
    tree: &'t Tree,
    children: Vec<Vec<u32>>,
    is_thread: Vec<bool>,
    /// Of each caller that both sides have: the nodes below it whose names either side alone knows.
    callers: Vec<[Vec<u32>; 2]>,
}

impl<'t> Alone<'t> {
    fn new(matching: &Matching, tree: &'t Tree) -> Self {
        let mut known = vec![[false; 2]; matching.keys.len()];
        for node in 1..tree.len() {
            let known = &mut known[tree.key[node] as usize];
            known.iter_mut().zip(tree.samples[node]).for_each(|(known, samples)| *known |= samples > 0);
        }
        let children = tree.children();
        let mut callers = Vec::new();
        for node in 0..tree.len() as u32 {
            if tree.only(node).is_some() {
                continue;
            }
            let mut found = [Vec::new(), Vec::new()];
            for &child in &children[node as usize] {
                let key = tree.key[child as usize];
                if let Some(side) = tree.only(child) {
                    let lone: &mut Vec<u32> = &mut found[side];
                    let name = &matching.keys[key as usize];
                    let is_candidate =
                        known[key as usize] != [true, true] && !name.nameless && !name.name.ends_with(APART);
                    if is_candidate && lone.len() < MOST_CANDIDATES {
                        lone.push(child);
                    }
                }
            }
            if found.iter().all(|lone| !lone.is_empty()) {
                callers.push(found);
            }
        }
        let is_thread = matching.keys.iter().map(|key| key.thread).collect();
        Self { tree, children, is_thread, callers }
    }

    /// The heaviest thread of each side, where it has most of the side's time.
    fn threads(&self, matching: &Matching) -> Vec<(u32, u32, f64)> {
        let heaviest = |side: usize| {
            let threads = self.children[ROOT as usize].iter().copied();
            let found = threads.max_by(|a, b| self.us(*a, side).total_cmp(&self.us(*b, side)))?;
            let alone =
                self.tree.only(found) == Some(side) && self.us(found, side) > 0.5 * self.us(ROOT, side);
            (alone && matching.keys[self.key(found) as usize].thread).then_some(self.key(found))
        };
        heaviest(0).zip(heaviest(1)).map(|(a, b)| vec![(a, b, 1.0)]).unwrap_or_default()
    }

    fn us(&self, node: u32, side: usize) -> f64 {
        self.tree.us[node as usize][side]
    }

    fn key(&self, node: u32) -> u32 {
        self.tree.key[node as usize]
    }

    /// Pairs of keys with how much they are alike, if they are; more for those that weigh more.
    fn pairs(&self, alike: impl Fn(u32, u32) -> Option<f64>) -> Vec<(u32, u32, f64)> {
        let mut found: BTreeMap<(u32, u32), f64> = BTreeMap::new();
        let all: f64 = self.us(ROOT, 0) + self.us(ROOT, 1);
        for [before, after] in &self.callers {
            for (&a, &b) in before.iter().flat_map(|a| after.iter().map(move |b| (a, b))) {
                if self.is_thread[self.key(a) as usize] || self.is_thread[self.key(b) as usize] {
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
    fn similar(&self, matching: &Matching, a: u32, b: u32) -> Option<f64> {
        if !self.seen_enough(a, b) {
            return None;
        }
        let [a, b] = [a, b].map(|node| &matching.keys[self.key(node) as usize]);
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
