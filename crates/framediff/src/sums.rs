//! What each frame costs in each session, and how much that varies.
//!
//! Frames are numbered on from the nodes of the tree: first the nodes, then the functions with all they call, then
//! the functions themselves.

use crate::frame_names::FrameNames;
use crate::sides::{Side, SideProfile};
use crate::tree::{MergedTree, ROOT};

/// Of each number, on one side.
#[derive(Clone, Default)]
pub struct SideSums {
    pub sessions: u32,
    /// Mean us per query over the sessions.
    pub us: Vec<f64>,
    /// Sum of squares of what the sessions differ from the mean by.
    pub squares: Vec<f64>,
    /// Mean over the sessions of the variance that a session's own slices tell.
    pub within: Vec<f64>,
    pub samples: Vec<u64>,
    /// Slices that the variance is from, less one a session.
    pub freedom: u32,
}

pub struct CostSums {
    pub sides: [SideSums; 2],
    /// The keys of the functions, in the order of their numbers.
    pub functions: Vec<u32>,
}

/// Where a stack's weight counts.
struct CountedChains<'t> {
    tree: &'t MergedTree,
    /// Of each node: the function there; `REPEATED` for a thread.
    own: Vec<u32>,
    /// The same, counted from the first: `REPEATED` below itself.
    function: Vec<u32>,
    /// The keys of the functions, in the order of their numbers.
    functions: Vec<u32>,
}

const REPEATED: u32 = u32::MAX;

impl CostSums {
    pub fn new(sides: &[Side; 2], tree: &MergedTree, names: &FrameNames) -> Self {
        let chains = CountedChains::new(tree, names);
        let sums = |side: usize| {
            let mut sums = SideSums::new(chains.len());
            let mut ends = tree.ends[side].iter();
            for session in &sides[side].sessions {
                let mut counter = Counter::new(&chains);
                for (profile, ends) in session.iter().zip(&mut ends) {
                    counter.count(profile, ends);
                    for (stack, &end) in profile.stacks.iter().zip(ends) {
                        chains.each(end, |number| sums.samples[number] += stack.samples);
                    }
                }
                counter.close(session, &mut sums);
            }
            sums.finish();
            sums
        };
        let sides = [sums(0), sums(1)];
        Self { sides, functions: chains.functions }
    }
}

impl<'t> CountedChains<'t> {
    fn new(tree: &'t MergedTree, names: &FrameNames) -> Self {
        let mut number = vec![REPEATED; names.keys.len()];
        let mut functions = Vec::new();
        let mut function = vec![REPEATED; tree.len()];
        let mut own = vec![REPEATED; tree.len()];
        for node in 1..tree.len() {
            let key = tree.key[node];
            if names.keys[key as usize].thread {
                continue;
            }
            let place = &mut number[key as usize];
            if *place == REPEATED {
                *place = functions.len() as u32;
                functions.push(key);
            }
            own[node] = *place;
            if tree.callers(node as u32).all(|above| tree.key[above as usize] != key) {
                function[node] = *place;
            }
        }
        Self { tree, own, function, functions }
    }

    /// How many numbers there are.
    fn len(&self) -> usize {
        self.tree.len() + 2 * self.functions.len()
    }

    fn each(&self, end: u32, mut add: impl FnMut(usize)) {
        let nodes = self.tree.len();
        if self.own[end as usize] != REPEATED {
            add(nodes + self.functions.len() + self.own[end as usize] as usize);
        }
        let mut node = end;
        loop {
            add(node as usize);
            if self.function[node as usize] != REPEATED {
                add(nodes + self.function[node as usize] as usize);
            }
            if node == ROOT {
                break;
            }
            node = self.tree.parent[node as usize];
        }
    }
}

impl SideSums {
    fn new(len: usize) -> Self {
        let zeros = vec![0.0; len];
        Self {
            us: zeros.clone(),
            squares: zeros.clone(),
            within: zeros,
            samples: vec![0; len],
            ..Self::default()
        }
    }

    fn finish(&mut self) {
        let sessions = f64::from(self.sessions.max(1));
        for ((us, squares), within) in self.us.iter_mut().zip(&mut self.squares).zip(&mut self.within) {
            *us /= sessions;
            *squares = (*squares - sessions * *us * *us).max(0.0);
            *within /= sessions;
        }
    }
}

/// Adds up one session.
struct Counter<'c> {
    chains: &'c CountedChains<'c>,
    /// Of each number: in the present slice; over the slices, the sum, that of squares, and that of products with the
    /// slice's whole weight.
    now: Vec<f64>,
    sum: Vec<f64>,
    square: Vec<f64>,
    product: Vec<f64>,
    touched: Vec<u32>,
    all: f64,
    all_square: f64,
    slices: u32,
}

impl<'c> Counter<'c> {
    fn new(chains: &'c CountedChains) -> Self {
        let zeros = || vec![0.0; chains.len()];
        Self {
            chains,
            now: zeros(),
            sum: zeros(),
            square: zeros(),
            product: zeros(),
            touched: Vec::new(),
            all: 0.0,
            all_square: 0.0,
            slices: 0,
        }
    }

    fn count(&mut self, profile: &SideProfile, ends: &[u32]) {
        if profile.slices.is_empty() {
            for (stack, &end) in profile.stacks.iter().zip(ends) {
                self.add(stack.weight * profile.us, end);
            }
            // One slice has no variance; a session of nothing else has that of its number of samples alone.
            self.end_slice();
            self.slices += 1;
            return;
        }
        for slice in profile.slices.chunk_by(|a, b| a.slice == b.slice) {
            for cell in slice {
                self.add(cell.weight * profile.us, ends[cell.stack as usize]);
            }
            self.end_slice();
        }
        self.slices += profile.slice_count;
    }

    fn add(&mut self, us: f64, end: u32) {
        let Self { now, touched, .. } = self;
        self.chains.each(end, |number| {
            if now[number] == 0.0 {
                touched.push(number as u32);
            }
            now[number] += us;
        });
    }

    fn end_slice(&mut self) {
        let all = self.now[ROOT as usize];
        for number in self.touched.drain(..) {
            let number = number as usize;
            let us = std::mem::take(&mut self.now[number]);
            self.sum[number] += us;
            self.square[number] += us * us;
            self.product[number] += us * all;
        }
        self.all += all;
        self.all_square += all * all;
    }

    /// A session's cost is its us by its queries; the variance is that of the node's share, a ratio of sums over
    /// slices: n / (n - 1) times the sum of squared residuals (us - share x all) by the square of the sum of all
    /// (Cochran, Sampling Techniques, 6.4).
    fn close(self, session: &[SideProfile], sums: &mut SideSums) {
        sums.sessions += 1;
        sums.freedom += self.slices.saturating_sub(1);
        let queries: f64 = session.iter().map(|profile| profile.queries).sum();
        if self.all <= 0.0 {
            return;
        }
        let slices = f64::from(self.slices);
        let small = if self.slices > 1 { slices / (slices - 1.0) } else { 0.0 };
        for (number, &sum) in self.sum.iter().enumerate().filter(|(_, sum)| **sum > 0.0) {
            let share = sum / self.all;
            let residuals =
                self.square[number] - 2.0 * share * self.product[number] + share * share * self.all_square;
            let us = sum / queries;
            sums.us[number] += us;
            sums.squares[number] += us * us;
            sums.within[number] += small * residuals.max(0.0) / (queries * queries);
        }
    }
}
