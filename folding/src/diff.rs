//! Two profiles side by side, stack by stack and frame by frame.

use crate::profile::Profile;
use serde::Serialize;

/// What makes the two comparable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Basis {
    /// Their totals: shares are compared.
    Weight,
    /// The operations each did: costs of one operation are compared.
    Operations,
    /// Nothing: weights are compared unscaled.
    None,
}

/// All stacks of two profiles; one that only one of them has weighs nothing in the other.
pub struct Diff {
    pub stacks: Profile,
    pub before: Vec<u128>,
    pub after: Vec<u128>,
    /// What a weight of the first is multiplied with and divided by, to compare it with the second's.
    pub scale: (u128, u128),
    pub basis: Basis,
}

/// One frame: what it weighs itself, and with all it calls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FrameWeights {
    pub frame: u32,
    pub self_before: u128,
    pub self_after: u128,
    pub total_before: u128,
    pub total_after: u128,
}

/// `weight * times / by`, whatever the size of the product; `None`: the result does not fit.
fn part_of(weight: u128, (times, by): (u128, u128)) -> Option<u128> {
    // In two parts, so that the product nearly always fits.
    let whole = (weight / by).checked_mul(times)?;
    let rest = weight % by;
    if let Some(product) = rest.checked_mul(times) {
        return whole.checked_add(product / by);
    }
    // Bit by bit of `times`: quotient and remainder are doubled, and `rest` is added.
    let (mut quotient, mut remainder) = (0_u128, 0_u128);
    let add = |quotient: u128, remainder: u128, more: u128| {
        let (sum, carried) = remainder.overflowing_add(more);
        match carried || sum >= by {
            true => Some((quotient.checked_add(1)?, sum.wrapping_sub(by))),
            false => Some((quotient, sum)),
        }
    };
    for bit in (0..u128::BITS).rev() {
        (quotient, remainder) = add(quotient.checked_mul(2)?, remainder, remainder)?;
        if times >> bit & 1 == 1 {
            (quotient, remainder) = add(quotient, remainder, rest)?;
        }
    }
    whole.checked_add(quotient)
}

impl Diff {
    /// `per` are the operations of each; without them shares are compared, unless `raw`.
    pub fn new(before: &Profile, after: &Profile, per: Option<(u64, u64)>, raw: bool) -> Self {
        let mut stacks = Profile::default();
        let (ids_before, ids_after) = (stacks.absorb(before), stacks.absorb(after));
        let weights = |profile: &Profile, ids: &[u32]| {
            let mut weights = vec![0; stacks.stacks()];
            for (stack, &id) in ids.iter().enumerate() {
                weights[id as usize] = profile.tally(stack as u32).weight;
            }
            weights
        };
        let (scale, basis) = match per {
            Some((first, second)) => ((second.into(), u128::from(first).max(1)), Basis::Operations),
            None if raw => ((1, 1), Basis::None),
            None => ((after.total().weight, before.total().weight.max(1)), Basis::Weight),
        };
        Self { before: weights(before, &ids_before), after: weights(after, &ids_after), stacks, scale, basis }
    }

    /// The stacks in order, with the first's weight scaled to the second's.
    ///
    /// The running sum is what gets scaled and rounded, so the column adds up to the scaled total to the unit.
    pub fn rows(&self) -> Vec<(u32, u128, u128)> {
        let (mut sum, mut written) = (0_u128, 0_u128);
        let row = |stack: u32| {
            sum = sum.saturating_add(self.before[stack as usize]);
            let scaled = self.scaled(sum).saturating_sub(written);
            written = written.saturating_add(scaled);
            (stack, scaled, self.after[stack as usize])
        };
        self.stacks.sorted().into_iter().map(row).collect()
    }

    /// Whether the first's weight can be counted when it is scaled.
    pub fn fits(&self) -> bool {
        let sum = self.before.iter().try_fold(0_u128, |sum, &weight| sum.checked_add(weight));
        sum.is_some_and(|sum| part_of(sum, self.scale).is_some())
    }

    fn scaled(&self, weight: u128) -> u128 {
        part_of(weight, self.scale).unwrap_or(u128::MAX)
    }

    /// Every frame, in the order of first sight.
    pub fn frames(&self) -> Vec<FrameWeights> {
        let numbers = 0..self.stacks.frames() as u32;
        let mut frames: Vec<FrameWeights> =
            numbers.map(|frame| FrameWeights { frame, ..FrameWeights::default() }).collect();
        let mut last_stack = vec![u32::MAX; frames.len()];
        for stack in 0..self.stacks.stacks() as u32 {
            let (before, after) = (self.before[stack as usize], self.after[stack as usize]);
            let chain = self.stacks.chain(stack);
            if let Some(&leaf) = chain.last() {
                let leaf = &mut frames[leaf as usize];
                leaf.self_before = leaf.self_before.saturating_add(before);
                leaf.self_after = leaf.self_after.saturating_add(after);
            }
            for &number in chain {
                // A frame that calls itself counts once.
                if std::mem::replace(&mut last_stack[number as usize], stack) != stack {
                    let frame = &mut frames[number as usize];
                    frame.total_before = frame.total_before.saturating_add(before);
                    frame.total_after = frame.total_after.saturating_add(after);
                }
            }
        }
        frames
    }

    /// Stacks that only one of the two has: how many, and what they weigh there.
    pub fn only(&self) -> [(u64, u128); 2] {
        let alone = |mine: &[u128], other: &[u128]| {
            mine.iter()
                .zip(other)
                .filter(|(mine, other)| **mine > 0 && **other == 0)
                .fold((0, 0_u128), |(n, sum), (weight, _)| (n + 1, sum.saturating_add(*weight)))
        };
        [alone(&self.before, &self.after), alone(&self.after, &self.before)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn products_above_the_largest_number_are_divided_to_the_unit() {
        const LARGE: u128 = u128::MAX;
        for (weight, times, by, expected) in [
            (7, 3, 2, Some(10)),
            (LARGE, LARGE, LARGE, Some(LARGE)),
            (LARGE - 1, LARGE, LARGE, Some(LARGE - 1)),
            (LARGE - 1, 3, LARGE, Some(2)),
            (1 << 100, 1 << 100, (1 << 100) + 1, Some((1 << 100) - 1)),
            (1 << 100, 1 << 100, 1 << 73, Some(1 << 127)),
            (1 << 100, 1 << 100, 1 << 72, None),
            (LARGE - 2, LARGE, LARGE - 1, Some(LARGE - 2)),
        ] {
            assert_eq!(part_of(weight, (times, by)), expected, "{weight} * {times} / {by}");
        }
    }
}
