//! Which category a stack belongs to.

use super::rules::{Rules, View, WalkFrom};
use crate::names::{ComparableName, bare};
use crate::profile::Profile;

/// Where a stack was put.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Classification {
    /// Index into the view's rows.
    pub row: usize,
    /// Index of the anchor in the stack, the command being 0; `None` in `other`.
    pub anchor: Option<usize>,
}

/// What a frame's name means to a view; bit *n* is the view's entry *n*.
#[derive(Clone, Copy, Default)]
struct NameMatches {
    anchor: u64,
    under: u64,
    not_under: u64,
    without: u64,
    thread: u64,
}

/// A view prepared for the names of one profile: every different name is matched once.
pub struct Classifier<'a> {
    view: &'a View,
    profile: &'a Profile,
    meanings: Vec<NameMatches>,
    /// The name belongs to the engine.
    of_engine: Vec<bool>,
    kernel: Vec<bool>,
    anywhere: u64,
    needs_under: u64,
    rest: u64,
}

impl<'a> Classifier<'a> {
    pub fn new(rules: &Rules, view: &'a View, profile: &'a Profile) -> Self {
        let names: Vec<ComparableName> =
            (0..profile.frames() as u32).map(|id| bare(profile.name(id))).collect();
        let marked = names.iter().any(|name| name.kernel);
        let bits = |test: &dyn Fn(&super::rules::CategoryRule) -> bool| {
            let bit = |(n, entry)| u64::from(test(entry)) << n;
            view.entries.iter().enumerate().map(bit).fold(0, |all, bit| all | bit)
        };
        // Where nothing is marked, a name with scopes is none of the kernel's.
        let kernels = |name: &ComparableName| {
            name.kernel || !marked && memchr::memmem::find(&name.path, b"::").is_none()
        };
        let meaning = |name: &ComparableName| NameMatches {
            anchor: bits(&|entry| (!entry.kernel || kernels(name)) && entry.anchors.matches(name)),
            under: bits(&|entry| entry.under.matches(name)),
            not_under: bits(&|entry| entry.not_under.matches(name)),
            without: bits(&|entry| entry.without.matches(name)),
            thread: bits(&|entry| entry.threads.matches(name)),
        };
        Self {
            view,
            profile,
            meanings: names.iter().map(meaning).collect(),
            of_engine: names.iter().map(|name| rules.engine_frames.matches(name)).collect(),
            kernel: names.iter().map(|name| name.kernel).collect(),
            anywhere: bits(&|entry| entry.anywhere),
            needs_under: bits(&|entry| !entry.under.is_empty()),
            rest: bits(&|entry| entry.rest),
        }
    }

    /// The category of a stack, by the rule of the view.
    pub fn place(&self, stack: u32) -> Classification {
        let first = |bits: u64| (bits != 0).then(|| bits.trailing_zeros());
        let chain = self.profile.chain(stack);
        let command = chain.first().and_then(|&name| first(self.meanings[name as usize].thread));
        if let Some(entry) = command {
            return Classification { row: self.view.entries[entry as usize].row, anchor: None };
        }
        let mut ancestors = NameMatches::default();
        let mut override_: Option<(u32, usize)> = None;
        let mut walked: Option<(u32, usize)> = None;
        for (depth, &name) in chain.iter().enumerate().skip(1) {
            let meaning = self.meanings[name as usize];
            let allowed = (!self.needs_under | ancestors.under) & !ancestors.not_under;
            if let Some(entry) = first(meaning.anchor & allowed & self.anywhere) {
                if override_.is_none_or(|(best, _)| entry < best) {
                    override_ = Some((entry, depth));
                }
            }
            if let Some(entry) = first(meaning.anchor & allowed & !self.anywhere & !self.rest) {
                if walked.is_none() || self.view.walk == WalkFrom::Leaf {
                    walked = Some((entry, depth));
                }
            }
            ancestors.under |= meaning.under;
            ancestors.not_under |= meaning.not_under;
            ancestors.anchor |= meaning.anchor;
            ancestors.without |= meaning.without;
        }
        let rest = || {
            let entry = first(ancestors.anchor & self.rest & !ancestors.without)?;
            let is_anchor = |&name: &u32| self.meanings[name as usize].anchor >> entry & 1 == 1;
            Some((entry, 1 + chain[1..].iter().position(is_anchor)?))
        };
        match override_.or(walked).or_else(rest) {
            Some((entry, depth)) => {
                Classification { row: self.view.entries[entry as usize].row, anchor: Some(depth) }
            }
            None => Classification { row: self.view.other(), anchor: None },
        }
    }

    /// The frame that says most about a stack in `other`: the leaf-most frame of the engine, else the
    /// leaf-most one outside the kernel, else the leaf.
    pub fn representative_frame(&self, stack: u32) -> Option<u32> {
        let chain = self.profile.chain(stack);
        let frames = chain.get(1..).filter(|frames| !frames.is_empty()).unwrap_or(chain);
        let last =
            |test: &dyn Fn(usize) -> bool| frames.iter().rev().find(|&&name| test(name as usize)).copied();
        last(&|name| self.of_engine[name])
            .or_else(|| last(&|name| !self.kernel[name]))
            .or(frames.last().copied())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::Frame;
    use crate::weights::Tally;

    const RULES: &str = "
        schema = 1
        engine = 'e'
        checked = []
        engine_frames = ['ns::.*']
        [view.owner]
        description = ''
        walk = 'root'
        [[view.owner.category]]
        name = 'read'
        label = ''
        anchors = ['pread']
        [[view.owner.category]]
        name = 'cache'
        label = ''
        anchors = ['Lookup']
        under = ['Data']
        not_under = ['Index']
        [[view.owner.category]]
        name = 'read'
        label = ''
        anchors = ['entry']
        under = ['File']
        [view.whose]
        description = ''
        walk = 'root'
        [[view.whose.category]]
        name = 'pool'
        threads = ['pool:\\d+']
        [[view.whose.category]]
        name = 'application'
        anchors = ['.*']
        rest = true
        without = ['ns::.*']
        [[view.whose.category]]
        name = 'read'
        anchors = ['pread']
        [view.leaf]
        description = ''
        walk = 'leaf'
        [[view.leaf.category]]
        name = 'irq'
        label = ''
        kernel = true
        anywhere = true
        anchors = ['irq']
        [[view.leaf.category]]
        name = 'fs'
        label = ''
        kernel = true
        anchors = ['ext4_\\w*']
        [[view.leaf.category]]
        name = 'user'
        label = ''
        anchors = ['ns::.*', 'ext4_user']
    ";

    fn place(view: &str, stacks: &[&str]) -> Vec<String> {
        let rules = Rules::parse(RULES).expect("rules parse");
        let view = rules.view(view).expect("the view is there");
        let mut profile = Profile::default();
        for stack in stacks {
            let chain: Vec<u32> =
                stack.split(';').map(|name| profile.intern(Frame::named(name.as_bytes()))).collect();
            profile.add(&chain, Tally { weight: 1, samples: 1 });
        }
        let classifier = Classifier::new(&rules, view, &profile);
        (0..profile.stacks() as u32)
            .map(|stack| {
                let place = classifier.place(stack);
                let anchor = place.anchor.map_or(-1, |depth| depth as i64);
                format!("{} {anchor}", view.rows[place.row].0)
            })
            .collect()
    }

    #[test]
    fn the_root_most_anchor_wins_and_conditions_look_at_ancestors() {
        let stacks = [
            "c;main;Data;Lookup;pread",
            "c;main;pread;Data;Lookup",
            "c;main;Lookup",
            "c;Data;Index;Lookup",
            "c;File;entry",
            "c;entry;File",
            "pread;main",
            "c;Data;Lookup;Index",
            "c",
        ];
        let expected = [
            "cache 3", "read 2", "other -1", "other -1", "read 2", "other -1", "other -1", "cache 2",
            "other -1",
        ];
        assert_eq!(place("owner", &stacks), expected);
    }

    #[test]
    fn threads_come_before_the_walk_and_what_is_left_after_it() {
        let of_threads = ["pool:3;main;pread", "pool;main;pread"];
        assert_eq!(place("whose", &of_threads), ["pool -1", "read 2"]);
        let of_rest = ["c;main;ns::a;x", "c;main;x", "c", "c;main;pread"];
        assert_eq!(place("whose", &of_rest), ["other -1", "application 1", "other -1", "read 2"]);
    }

    #[test]
    fn the_leaf_most_anchor_wins_unless_one_counts_anywhere() {
        let marked = [
            "c;ns::a;ns::b;x",
            "c;ns::a;ext4_read_[k];y_[k]",
            "c;irq_[k];ext4_read_[k]",
            "c;ns::a;ext4_read",
            "c;ext4_user",
        ];
        assert_eq!(place("leaf", &marked), ["user 2", "fs 2", "irq 1", "user 1", "user 1"]);
        let unmarked = ["c;ns::a;ext4_read;y", "c;irq;ext4_read", "c;ns::a;TLS init function for other::irq"];
        assert_eq!(place("leaf", &unmarked), ["fs 2", "irq 1", "user 1"]);
    }
}
