//! The names of both sides: a key for each function, and the keys that represent others.

use function_names::{canonical, split_mark};
use observer::states::{MARKS, OffCpu, WAKER};
use serde::Serialize;
use std::collections::{HashMap, HashSet};

/// Where interrupts enter the kernel. A page fault is the program's own.
const INTERRUPTS: [&str; 6] =
    ["asm_common_interrupt", "common_interrupt", "asm_sysvec_", "sysvec_", "el1h_64_irq", "el0t_64_irq"];

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
#[derive(Default)]
pub struct FrameName {
    pub name: String,
    pub kernel: bool,
    pub thread: bool,
    /// Stands for all functions of its object that have no name.
    pub nameless: bool,
    /// Says why a thread was off its CPU, or who woke it: no code.
    pub state: bool,
    /// No rule may take it for another.
    pub apart: bool,
    /// The spellings of each side.
    pub spelled: [Vec<String>; 2],
}

impl FrameName {
    /// Folded text of others does not mark the kernel.
    pub fn is_interrupt(&self) -> bool {
        !self.thread && INTERRUPTS.iter().any(|entry| self.name.starts_with(entry))
    }
}

/// Numbers of texts in the order they came.
#[derive(Default)]
pub struct Texts {
    pub all: Vec<String>,
    known: HashMap<String, u32>,
}

impl Texts {
    pub fn of(&mut self, text: &str) -> u32 {
        if let Some(&number) = self.known.get(text) {
            return number;
        }
        self.all.push(text.to_owned());
        self.known.insert(text.to_owned(), self.all.len() as u32 - 1);
        self.all.len() as u32 - 1
    }
}

#[derive(Default)]
pub struct FrameNames {
    pub rules: Vec<MatchRule>,
    aliases: HashMap<String, String>,
    apart: HashSet<String>,
    pub keys: Vec<FrameName>,
    by_name: HashMap<(bool, bool, String), u32>,
    by_spelling: HashMap<(String, u32), u32>,
    objects: Texts,
    /// The key that represents each.
    stands: Vec<u32>,
    pub joined: Vec<(u32, u32, MatchRule)>,
}

impl FrameNames {
    /// `aliases`: names, each with the one that replaces it; `apart`: names that match only themselves;
    /// `rules`: which may be used beside equal names.
    pub fn new(aliases: Vec<(String, String)>, apart: &[String], rules: &[MatchRule]) -> Self {
        let aliases = match rules.contains(&MatchRule::Alias) {
            true => aliases.iter().map(|(alias, name)| (canonical(alias), canonical(name))).collect(),
            false => HashMap::new(),
        };
        Self { rules: rules.to_vec(), aliases, apart: apart.iter().cloned().collect(), ..Self::default() }
    }

    pub fn object(&mut self, role: &str) -> u32 {
        self.objects.of(role)
    }

    pub fn object_name(&self, object: u32) -> &str {
        self.objects.all.get(object as usize).map_or("", |name| name)
    }

    /// The key of a frame of `object`, as that side spells it.
    pub fn frame(&mut self, side: usize, spelled: &str, object: u32) -> u32 {
        let place = (spelled.to_owned(), object);
        let key = self.by_spelling.get(&place).copied().unwrap_or_else(|| {
            let key = self.key(self.frame_name(spelled, object));
            self.by_spelling.insert(place, key);
            key
        });
        self.spell(side, key, spelled)
    }

    fn frame_name(&self, spelled: &str, object: u32) -> FrameName {
        let (plain, mark) = split_mark(spelled.as_bytes());
        let plain = String::from_utf8_lossy(plain);
        let state = is_state(&plain);
        let nameless = !state && plain.starts_with('[') && plain.ends_with(']');
        let kernel = mark == Some(b'k');
        let apart = state || !nameless && self.apart.contains(&*plain);
        let name = if nameless {
            format!("[{}]", self.object_name(object).trim_matches(['[', ']']))
        } else if apart {
            plain.into_owned()
        } else {
            let name = match self.rules.contains(&MatchRule::Canonical) {
                true => canonical(spelled),
                false => format!("{plain}{}", if kernel { "_[k]" } else { "" }),
            };
            self.aliases.get(&name).cloned().unwrap_or(name)
        };
        FrameName { name, kernel, nameless, state, apart, ..FrameName::default() }
    }

    pub fn thread(&mut self, side: usize, comm: &str) -> u32 {
        let key = self.key(FrameName { name: comm.to_owned(), thread: true, ..FrameName::default() });
        self.spell(side, key, comm)
    }

    fn key(&mut self, made: FrameName) -> u32 {
        let place = (made.thread, made.apart, made.name.clone());
        if let Some(&key) = self.by_name.get(&place) {
            return key;
        }
        let key = self.keys.len() as u32;
        self.keys.push(made);
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

    /// The key that represents `key`.
    pub fn of(&self, key: u32) -> u32 {
        self.stands[key as usize]
    }

    /// The name of a key that may represent others: the second side's, or else the first side's.
    pub fn shown(&self, key: u32) -> &str {
        let spelled = |side: usize| {
            let keys = (0..self.keys.len()).filter(|&one| self.stands[one] == key);
            keys.flat_map(|one| self.keys[one].spelled[side].first()).next()
        };
        // Rarely more than one: those that were joined.
        let own = &self.keys[key as usize].spelled;
        let name = own[1].first().or_else(|| if self.is_joined(key) { spelled(1) } else { None });
        name.or(own[0].first()).map_or("", |name| without_inline_mark(name))
    }

    fn is_joined(&self, key: u32) -> bool {
        self.joined.iter().any(|&(a, b, _)| a == key || b == key)
    }

    /// From now on the first of each pair represents the second.
    pub fn join(&mut self, rule: MatchRule, pairs: &[(u32, u32)]) {
        for &(a, b) in pairs {
            self.stands.iter_mut().filter(|stands| **stands == b).for_each(|stands| *stands = a);
            self.joined.push((a, b, rule));
        }
    }
}

/// Whether it is a state or a mark of `states.toml`: `[io]`, `[woken by]`.
fn is_state(plain: &str) -> bool {
    let Some(word) = plain.strip_prefix('[').and_then(|word| word.strip_suffix(']')) else { return false };
    OffCpu::ALL.iter().any(|state| state.name() == word) || MARKS.contains(&plain) || plain.starts_with(WAKER)
}

/// A name without the mark of an inlined frame, which the other side may not have.
pub fn without_inline_mark(name: &str) -> &str {
    name.strip_suffix("_[i]").unwrap_or(name)
}
