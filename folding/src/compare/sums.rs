//! What each frame costs in each session, and how much that varies.
//!
//! Frames are numbered on from the nodes of the tree: first the nodes, then the functions with all they call, then
//! the functions themselves.

use super::matching::Matching;
use super::runs::{Run, Side};
use super::tree::{ROOT, Tree};

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

pub struct Sums {
    pub sides: [SideSums; 2],
    /// The keys of the functions, in the order of their numbers.
    pub functions: Vec<u32>,
}

/// Where a stack's weight counts.
struct CountedChains {
    /// Of each node: the function there, counted from the first, or `REPEATED` below itself or for a thread.
    function: Vec<u32>,
    nodes: usize,
    functions: usize,
}

const REPEATED: u32 = u32::MAX;

impl Sums {
    pub fn of(sides: &[Side; 2], tree: &Tree, matching: &Matching) -> Self {
        let mut number = vec![REPEATED; matching.keys.len()];
        let mut functions = Vec::new();
        let mut function = vec![REPEATED; tree.len()];
        let mut own = vec![REPEATED; tree.len()];
        for node in 1..tree.len() {
            let key = tree.key[node];
            if matching.keys[key as usize].thread {
                continue;
            }
            let place = &mut number[key as usize];
            if *place == REPEATED {
                *place = functions.len() as u32;
                functions.push(key);
            }
            own[node] = *place;
            let mut above = tree.parent[node];
            while above != ROOT && tree.key[above as usize] != key {
                above = tree.parent[above as usize];
            }
            if above == ROOT {
                function[node] = *place;
            }
        }
        let chains = CountedChains { function, nodes: tree.len(), functions: functions.len() };
        let sums = |side: usize| {
            let mut sums = SideSums::new(chains.nodes + 2 * chains.functions);
            let mut ends = tree.ends[side].iter();
            for session in &sides[side].sessions {
                let mut counter = Counter::new(chains.nodes + 2 * chains.functions);
                for (run, ends) in session.iter().zip(&mut ends) {
                    counter.count(run, ends, tree, &chains, &own);
                    for (stack, &end) in run.stacks.iter().zip(ends) {
                        chains.each(tree, end, &own, |number| sums.samples[number] += stack.samples);
                    }
                }
                counter.close(session, &mut sums);
            }
            sums.finish();
            sums
        };
        let sides = [sums(0), sums(1)];
        Self { sides, functions }
    }
}

impl CountedChains {
    fn each(&self, tree: &Tree, end: u32, own: &[u32], mut add: impl FnMut(usize)) {
        if own[end as usize] != REPEATED {
            add(self.nodes + self.functions + own[end as usize] as usize);
        }
        let mut node = end;
        loop {
            add(node as usize);
            if self.function[node as usize] != REPEATED {
                add(self.nodes + self.function[node as usize] as usize);
            }
            if node == ROOT {
                break;
            }
            node = tree.parent[node as usize];
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
struct Counter {
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

impl Counter {
    fn new(len: usize) -> Self {
        let zeros = || vec![0.0; len];
        Self {
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

    fn count(&mut self, run: &Run, ends: &[u32], tree: &Tree, chains: &CountedChains, own: &[u32]) {
        if run.slices.is_empty() {
            for (stack, &end) in run.stacks.iter().zip(ends) {
                self.add(stack.weight * run.us, end, tree, chains, own);
            }
            // One slice has no variance; a session of nothing else has that of its number of samples alone.
            self.end_slice();
            self.slices += 1;
            return;
        }
        for slice in run.slices.chunk_by(|a, b| a.slice == b.slice) {
            for cell in slice {
                self.add(cell.weight * run.us, ends[cell.stack as usize], tree, chains, own);
            }
            self.end_slice();
        }
        self.slices += run.slice_count;
    }

    fn add(&mut self, us: f64, end: u32, tree: &Tree, chains: &CountedChains, own: &[u32]) {
        let Self { now, touched, .. } = self;
        chains.each(tree, end, own, |number| {
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
    fn close(self, session: &[Run], sums: &mut SideSums) {
        sums.sessions += 1;
        sums.freedom += self.slices.saturating_sub(1);
        let queries: f64 = session.iter().map(|run| run.queries).sum();
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
