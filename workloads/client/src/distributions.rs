//! Random keys, sizes of values and lengths of scans, each from a random number of its own.

use crate::keys::{Order, Permutation};
use fastrand::Rng;

/// A source of key numbers, all below `keys`.
#[derive(Clone, Debug)]
pub enum Keys {
    Uniform {
        keys: u64,
    },
    /// Each key once, and then again; next: its position in the order.
    InOrder {
        order: Order,
        keys: u64,
        next: u64,
    },
    /// A rank by a law, and its key by a permutation, so that no two ranks share a key.
    Ranked {
        ranks: Ranks,
        key_of_rank: Permutation,
    },
    Ranges(Ranges),
}

impl Keys {
    pub fn next(&mut self, random: &mut Rng) -> u64 {
        match self {
            Self::Uniform { keys } => random.u64(..*keys),
            Self::InOrder { order, keys, next } => {
                let number = order.at(*next, *keys);
                *next = (*next + 1) % *keys;
                number
            }
            Self::Ranked { ranks, key_of_rank } => key_of_rank.at(ranks.next(random)),
            Self::Ranges(ranges) => ranges.next(random),
        }
    }
}

/// A duration by an exponential law.
pub fn exponential(random: &mut Rng, mean: f64) -> f64 {
    // From the open end of 0, which has no logarithm.
    -mean * (1.0 - random.f64()).ln()
}

/// Ranks from 0, the most frequent first.
#[derive(Clone, Debug)]
pub enum Ranks {
    Zipf(Zipf),
    Power(Power),
}

impl Ranks {
    fn next(&self, random: &mut Rng) -> u64 {
        match self {
            Self::Zipf(zipf) => zipf.next(random),
            Self::Power(power) => power.next(random),
        }
    }
}

/// P(rank) ~ (rank + 1)^-exponent, exactly: rejection-inversion (Hoermann and Derflinger 1996). exponent > 0.
#[derive(Clone, Debug)]
pub struct Zipf {
    ranks: f64,
    exponent: f64,
    first: f64,
    last: f64,
    accepted: f64,
}

impl Zipf {
    pub fn new(ranks: u64, exponent: f64) -> Self {
        let mut zipf = Self { ranks: ranks as f64, exponent, first: 0.0, last: 0.0, accepted: 0.0 };
        zipf.first = zipf.integral(1.5) - 1.0;
        zipf.last = zipf.integral(zipf.ranks + 0.5);
        zipf.accepted = 2.0 - zipf.inverse(zipf.integral(2.5) - zipf.weight(2.0));
        zipf
    }

    fn next(&self, random: &mut Rng) -> u64 {
        loop {
            let area = self.last + random.f64() * (self.first - self.last);
            let exact = self.inverse(area);
            let rank = exact.round().clamp(1.0, self.ranks);
            if rank - exact <= self.accepted || area >= self.integral(rank + 0.5) - self.weight(rank) {
                return rank as u64 - 1;
            }
        }
    }

    fn weight(&self, rank: f64) -> f64 {
        (-self.exponent * rank.ln()).exp()
    }

    /// Of `weight`, from 1.
    fn integral(&self, rank: f64) -> f64 {
        let log = rank.ln();
        let power = (1.0 - self.exponent) * log;
        if power.abs() < 1e-9 { log } else { power.exp_m1() / power * log }
    }

    fn inverse(&self, area: f64) -> f64 {
        let power = (area * (1.0 - self.exponent)).max(-1.0);
        if power.abs() < 1e-9 { area.exp() } else { (power.ln_1p() / power * area).exp() }
    }
}

/// P(rank <= s) = a s^b for s in 1..=ranks, mixgraph's key distribution; what a and b would put beyond is drawn again.
#[derive(Clone, Debug)]
pub struct Power {
    ranks: u64,
    a: f64,
    b: f64,
}

impl Power {
    /// a: 0 for the one that ends at the last rank, ranks^-b
    pub fn new(ranks: u64, a: f64, b: f64) -> Self {
        Self { ranks, a: if a > 0.0 { a } else { (ranks as f64).powf(-b) }, b }
    }

    fn next(&self, random: &mut Rng) -> u64 {
        // The share of draws that lie within the ranks: none is thrown away.
        let within = (self.a * (self.ranks as f64).powf(self.b)).min(1.0);
        // From the open end of 0: rank s is drawn by a share in (F(s - 1), F(s)].
        let share = (1.0 - random.f64()) * within;
        ((share / self.a).powf(1.0 / self.b).ceil() as u64).clamp(1, self.ranks) - 1
    }
}

/// mixgraph's key ranges: range i of 1..=n with a weight of a e^(b i) + c e^(d i), its keys uniform or by `Power`.
#[derive(Clone, Debug)]
pub struct Ranges {
    /// Sums of weights up to each range, as shares of all.
    sums: Vec<f64>,
    /// The range that has each weight.
    range_order: Permutation,
    within: Option<Power>,
    scattered: Permutation,
    size: u64,
}

/// The weights of key ranges.
#[derive(Clone, Copy, Debug)]
pub struct TwoTermExponential {
    pub a: f64,
    pub b: f64,
    pub c: f64,
    pub d: f64,
}

impl Ranges {
    /// Each has keys / ranges keys; the last keys % ranges keys are never drawn. power: a and b of `Power`. The seed
    /// decides which range is the hot one.
    pub fn new(
        keys: u64,
        ranges: u64,
        weights: TwoTermExponential,
        power: Option<(f64, f64)>,
        seed: u64,
    ) -> Self {
        let TwoTermExponential { a, b, c, d } = weights;
        let mut sum = 0.0;
        let sums: Vec<f64> = (1..=ranges)
            .map(|range| range as f64)
            .map(|i| {
                sum += (a * (b * i).exp() + c * (d * i).exp()).max(0.0);
                sum
            })
            .collect();
        let sums = if sum > 0.0 {
            sums.iter().map(|part| part / sum).collect()
        } else {
            (1..=ranges).map(|range| range as f64 / ranges as f64).collect()
        };
        let size = keys / ranges;
        let within = power.map(|(a, b)| Power::new(size, a, b));
        Self {
            sums,
            range_order: Permutation::new(ranges, seed),
            within,
            scattered: Permutation::new(size, !seed),
            size,
        }
    }

    fn next(&self, random: &mut Rng) -> u64 {
        let share = random.f64();
        let range = self.sums.partition_point(|sum| *sum <= share).min(self.sums.len() - 1) as u64;
        let offset = match &self.within {
            Some(power) => self.scattered.at(power.next(random)),
            None => random.u64(..self.size),
        };
        self.range_order.at(range) * self.size + offset
    }
}

/// Sizes of values and lengths of scans: always the same, or mixgraph's generalized Pareto distribution.
#[derive(Clone, Copy, Debug)]
pub enum Sizes {
    Fixed(usize),
    /// Rounded up and within least..=most: what lies outside is drawn again.
    Pareto {
        theta: f64,
        k: f64,
        sigma: f64,
        least: usize,
        most: usize,
    },
}

impl Sizes {
    /// The largest there may be.
    pub fn most(&self) -> usize {
        match *self {
            Self::Fixed(size) => size,
            Self::Pareto { most, .. } => most,
        }
    }

    pub fn next(&self, random: &mut Rng) -> usize {
        let Self::Pareto { theta, k, sigma, least, most } = *self else { return self.most() };
        // Where next to nothing lies within the bounds, the nearest of them.
        let mut size = 0.0;
        for _ in 0..64 {
            let share = 1.0 - random.f64();
            size = if k == 0.0 {
                theta - sigma * share.ln()
            } else {
                theta + sigma * (share.powf(-k) - 1.0) / k
            };
            if (least as f64..=most as f64).contains(&size.ceil()) {
                return size.ceil() as usize;
            }
        }
        (size as usize).clamp(least, most)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DRAWS: usize = 400_000;

    /// chi-square of the draws below `shares.len()` against these shares, by its degrees of freedom: near 1.
    fn misfit(shares: &[f64], mut draw: impl FnMut(&mut Rng) -> u64) -> f64 {
        let mut random = Rng::with_seed(7);
        let mut seen = vec![0.0; shares.len()];
        for _ in 0..DRAWS {
            seen[draw(&mut random) as usize] += 1.0;
        }
        let expected = shares.iter().map(|share| share * DRAWS as f64);
        let sum: f64 = seen.iter().zip(expected).map(|(seen, due)| (seen - due).powi(2) / due).sum();
        sum / (shares.len() - 1) as f64
    }

    fn normalised(weights: Vec<f64>) -> Vec<f64> {
        let sum: f64 = weights.iter().sum();
        weights.into_iter().map(|weight| weight / sum).collect()
    }

    #[test]
    fn keys_come_as_often_as_their_law_says() {
        let uniform = vec![0.01; 100];
        let mut keys = Keys::Uniform { keys: 100 };
        assert!(misfit(&uniform, |random| keys.next(random)) < 1.5);
        for exponent in [0.5, 0.99, 1.0, 1.5] {
            let shares = normalised((1..=100).map(|rank| f64::from(rank).powf(-exponent)).collect());
            let zipf = Zipf::new(100, exponent);
            assert!(misfit(&shares, |random| zipf.next(random)) < 1.5, "exponent {exponent}");
            assert!(misfit(&uniform, |random| zipf.next(random)) > 100.0);
        }
        let below = |rank: u32| (f64::from(rank) / 100.0).powf(0.35);
        let shares: Vec<f64> = (1..=100).map(|rank| below(rank) - below(rank - 1)).collect();
        // A law that has ranks beyond the last gives the same shares within.
        for a in [0.0, 0.1] {
            let power = Power::new(100, a, 0.35);
            assert!(misfit(&shares, |random| power.next(random)) < 1.5, "a {a}");
        }
    }

    #[test]
    fn a_hot_rank_lies_anywhere_and_alone() {
        let ranks = Ranks::Zipf(Zipf::new(1000, 0.99));
        let mut keys = Keys::Ranked { ranks, key_of_rank: Permutation::new(1000, 3) };
        let mut random = Rng::with_seed(1);
        let mut seen = vec![0; 1000];
        (0..DRAWS).for_each(|_| seen[keys.next(&mut random) as usize] += 1);
        let hottest = (0..1000).max_by_key(|key| seen[*key]).unwrap() as u64;
        assert_eq!(hottest, Permutation::new(1000, 3).at(0));
        assert!(seen.iter().all(|count| *count > 0), "a key that two ranks left is never drawn");
    }

    #[test]
    fn ranges_are_as_hot_as_their_weights() {
        let weights = TwoTermExponential { a: 2.0, b: -0.5, c: 0.1, d: 0.0 };
        let ranges = Ranges::new(1000, 10, weights, None, 9);
        let shares = normalised((1..=10).map(|i| 2.0 * (-0.5 * f64::from(i)).exp() + 0.1).collect());
        let mut by_place = vec![0.0; 10];
        (0..10).for_each(|range| by_place[ranges.range_order.at(range as u64) as usize] = shares[range]);
        assert!(misfit(&by_place, |random| ranges.next(random) / 100) < 2.0);
        let by_power = Ranges::new(1000, 10, weights, Some((0.0, 0.35)), 9);
        assert!(misfit(&by_place, |random| by_power.next(random) / 100) < 2.0);
        assert!(misfit(&[0.01; 100], |random| by_power.next(random) % 100) > 100.0);
    }

    #[test]
    fn sizes_have_the_mean_of_their_law() {
        let mut random = Rng::with_seed(3);
        // Mean sigma / (1 - k) + 1/2 for rounding up; the published value size of mixgraph is about 35 bytes.
        let sizes = Sizes::Pareto { theta: 0.0, k: 0.2615, sigma: 25.45, least: 1, most: 1 << 20 };
        let sum: usize = (0..DRAWS).map(|_| sizes.next(&mut random)).sum();
        let mean = sum as f64 / DRAWS as f64;
        assert!((mean - (25.45 / (1.0 - 0.2615) + 0.5)).abs() < 0.4, "{mean}");
        let bounded = Sizes::Pareto { theta: 0.0, k: 2.517, sigma: 14.236, least: 1, most: 10_000 };
        assert!((0..DRAWS).all(|_| (1..=10_000).contains(&bounded.next(&mut random))));
        assert_eq!(Sizes::Fixed(400).next(&mut random), 400);
    }
}
