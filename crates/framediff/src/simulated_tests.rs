//! What differs is reported, and what does not is not.

use crate::explain::Explanation;
use crate::sides::{NONE, Side, SideProfile, SliceCost, StackCost};
use crate::{Basis, FrameComparison, FrameNames, MatchRule};

const ALL_RULES: [MatchRule; 5] =
    [MatchRule::Canonical, MatchRule::Alias, MatchRule::Thread, MatchRule::Similar, MatchRule::Callees];

/// splitmix64, and from it what the simulations draw.
struct Dice(u64);

impl Dice {
    fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn part(&mut self) -> f64 {
        (self.number() >> 11) as f64 / (1_u64 << 53) as f64
    }

    fn normal(&mut self) -> f64 {
        (0..12).map(|_| self.part()).sum::<f64>() - 6.0
    }

    fn poisson(&mut self, mean: f64) -> u64 {
        if mean > 30.0 {
            return (mean + mean.sqrt() * self.normal()).max(0.0).round() as u64;
        }
        let (end, mut product, mut count) = ((-mean).exp(), self.part(), 0);
        while product > end {
            product *= self.part();
            count += 1;
        }
        count
    }
}

/// A program: frames with the one above each, and the samples a second of those that end there.
#[derive(Clone)]
struct Program {
    parent: Vec<u32>,
    rate: Vec<f64>,
    /// A frame that is where an interrupt enters the kernel.
    interrupt: Option<usize>,
}

const SECONDS: u32 = 10;

impl Program {
    /// 120 frames, of which the lightest are seen once in a while.
    fn random(dice: &mut Dice) -> Self {
        let parent =
            (0..120).map(|node| if node == 0 { NONE } else { (dice.number() % node) as u32 }).collect();
        let rate = (0..120).map(|_| 0.02 * (8.0 * dice.part()).exp() / 8.0).collect();
        Self { parent, rate, interrupt: None }
    }

    /// A session: all frames dearer by a common effect, each by one of its own; in a second, all by how busy it was.
    fn session(&self, dice: &mut Dice, names: &mut FrameNames, side: usize, effect: f64) -> Vec<SideProfile> {
        let object = names.object("(program)");
        let thread = names.thread(side, "t");
        let name_of = |node: usize| match self.interrupt {
            Some(entry) if entry == node => "asm_common_interrupt_[k]".to_owned(),
            _ => format!("f{node}"),
        };
        let key = (0..self.parent.len()).map(|node| names.frame(side, &name_of(node), object)).collect();
        let common = 1.0 + effect * dice.normal();
        // Every tenth is a matter of chance, as interrupts are: half or twice as much in another session.
        let own = |node: usize, dice: &mut Dice| match node % 10 {
            9 => (20.0 * effect * dice.normal()).exp(),
            _ => (1.0 + effect * dice.normal()).max(0.0),
        };
        let costs: Vec<f64> =
            self.rate.iter().enumerate().map(|(node, rate)| rate * common * own(node, dice)).collect();
        let (mut slices, mut samples) = (Vec::new(), vec![0; costs.len()]);
        for slice in 0..SECONDS {
            let busy = 1.0 + 0.5 * (dice.part() - 0.5);
            for (stack, cost) in costs.iter().enumerate() {
                let seen = dice.poisson(cost * busy);
                samples[stack] += seen;
                if seen > 0 {
                    slices.push(SliceCost { slice, stack: stack as u32, weight: seen as f64 * 1e6 });
                }
            }
        }
        let stack = |(node, &samples): (usize, &u64)| StackCost {
            thread,
            node: node as u32,
            weight: samples as f64 * 1e6,
            samples,
        };
        vec![SideProfile {
            parent: self.parent.clone(),
            key,
            object: vec![object; self.parent.len()],
            inlined: vec![false; self.parent.len()],
            stacks: samples.iter().enumerate().map(stack).collect(),
            slices,
            slice_count: SECONDS,
            queries: 100_000.0,
            us: 1e-3,
            samples: samples.iter().sum(),
        }]
    }
}

/// Two programs, of each of which the sessions are made.
fn compared_by(
    basis: Basis,
    rules: &[MatchRule],
    programs: [&Program; 2],
    mut sessions: impl FnMut(&Program, &mut FrameNames, usize) -> Vec<Vec<SideProfile>>,
) -> FrameComparison {
    let mut names = FrameNames::new(Vec::new(), &[], rules);
    let sides = [0, 1].map(|number| Side {
        name: ["A", "B"][number].to_owned(),
        sessions: sessions(programs[number], &mut names, number),
        event: None,
        unit: "ns".to_owned(),
    });
    FrameComparison::new(sides, names, basis)
}

fn compared(
    before: &Program,
    after: &Program,
    sessions: usize,
    effect: f64,
    dice: &mut Dice,
) -> FrameComparison {
    compared_by(Basis::Sessions, &ALL_RULES, [before, after], |program, names, side| {
        (0..sessions).map(|_| program.session(dice, names, side, effect)).collect()
    })
}

fn different(comparison: &FrameComparison) -> usize {
    (0..comparison.tree.len() as u32).filter(|&node| comparison.inference.is_different(node)).count()
}

/// A tenth of what shows a probability: `FRAMEDIFF_TIMES=1000` does it by hand.
fn times() -> usize {
    std::env::var("FRAMEDIFF_TIMES").map_or(10, |times| times.parse().expect("a number"))
}

/// No more alarms than one in twenty, and what chance adds less than once in a hundred times.
fn assert_few(alarms: usize, what: &str) {
    let times = times() as f64;
    assert!(alarms as f64 <= 0.05 * times + 3.2 * (0.0475 * times).sqrt(), "{alarms} of {times} with {what}");
}

#[test]
fn the_same_against_itself_has_no_different_frame_in_95_of_100() {
    // One session a side knows nothing of the others: less than what is then assumed must stay quiet too.
    for (sessions, effect) in [(4, 0.03), (8, 0.0), (6, 0.1), (1, 0.04)] {
        let mut dice = Dice(sessions as u64);
        let alarms = (0..times())
            .filter(|_| {
                let program = Program::random(&mut dice);
                different(&compared(&program, &program, sessions, effect, &mut dice)) > 0
            })
            .count();
        assert_few(alarms, &format!("{sessions} sessions, effect {effect}"));
    }
}

#[test]
fn a_frame_that_costs_more_is_found_and_named() {
    let mut dice = Dice(7);
    let mut before = Program::random(&mut dice);
    before.rate[40] = 80.0;
    let mut after = before.clone();
    after.rate[40] *= 1.5;
    let found = compared(&before, &after, 6, 0.02, &mut dice);
    let explanation = Explanation::new(&found.tree, &found.inference);
    assert_eq!(explained(&found), ["f40"]);
    let figure = found.inference.node(explanation.lines[0]);
    let wanted = 40.0 * f64::from(SECONDS) * 1e3 / 100_000.0;
    assert!((figure.delta() - wanted).abs() < figure.half, "{figure:?} {wanted}");
    assert!(explanation.moved.is_empty());
}

/// Each side of one profile that costs the same, so that shares are compared, as two files are.
fn two_profiles(
    basis: Basis,
    before: &Program,
    after: &Program,
    dice: &mut Dice,
    counted: bool,
) -> FrameComparison {
    compared_by(basis, &[], [before, after], |program, names, side| {
        let mut session = program.session(dice, names, side, 0.0);
        let profile = &mut session[0];
        let weight: f64 = profile.stacks.iter().map(|stack| stack.weight).sum();
        (profile.queries, profile.us) = (1.0, 100.0 / weight);
        if !counted {
            profile.samples = 0;
            profile.stacks.iter_mut().for_each(|stack| stack.samples = 0);
        }
        vec![session]
    })
}

fn explained(found: &FrameComparison) -> Vec<&str> {
    let lines = Explanation::new(&found.tree, &found.inference).lines;
    lines.iter().map(|&node| found.names.shown(found.tree.key[node as usize])).collect()
}

#[test]
fn two_samples_of_one_program_have_no_different_frame_in_95_of_100() {
    let mut dice = Dice(11);
    for basis in [Basis::Samples, Basis::Shares] {
        let alarms = (0..times())
            .filter(|_| {
                let program = Program::random(&mut dice);
                different(&two_profiles(basis, &program, &program, &mut dice, true)) > 0
            })
            .count();
        assert_few(alarms, &format!("{basis:?}"));
    }
}

#[test]
fn of_two_profiles_what_grew_is_named_and_nothing_has_only_moved() {
    let mut dice = Dice(3);
    let before = Program {
        rate: vec![20.0; 12],
        parent: (0..12).map(|n| if n == 0 { NONE } else { 0 }).collect(),
        interrupt: None,
    };
    let mut after = before.clone();
    after.rate[7] *= 3.0;
    let found = two_profiles(Basis::Shares, &before, &after, &mut dice, true);
    let explanation = Explanation::new(&found.tree, &found.inference);
    assert_eq!(explained(&found)[0], "f7");
    assert!(explanation.moved.is_empty(), "shares always cancel");
    // 20 of 240 samples became 60 of 280.
    let figure = found.inference.node(explanation.lines[0]);
    let wanted = 100.0 * (60.0 / 280.0 - 20.0 / 240.0);
    assert!((figure.delta() - wanted).abs() < figure.half, "{figure:?} {wanted}");
}

#[test]
fn an_interrupt_is_the_machine_s_doing() {
    let mut dice = Dice(5);
    let before =
        Program { parent: vec![NONE, 0, 1, 0], rate: vec![0.0, 80.0, 0.1, 80.0], interrupt: Some(2) };
    let after = Program { rate: vec![0.0, 80.0, 12.0, 80.0], ..before.clone() };
    let found = two_profiles(Basis::Shares, &before, &after, &mut dice, true);
    let entry = (1..found.tree.len() as u32)
        .find(|&node| found.names.shown(found.tree.key[node as usize]).starts_with("asm_common"))
        .unwrap();
    let figure = found.inference.node(entry);
    assert!(figure.delta() > 5.0 && figure.delta() < figure.half && !figure.different, "{figure:?}");
    // What it interrupted has lost nothing: no function differs either.
    let functions = found.inference.function_keys.len();
    assert!((0..functions).all(|number| found.inference.function(number).iter().all(|one| !one.different)));
}

#[test]
fn without_numbers_of_samples_a_difference_is_a_part_of_the_whole() {
    let mut dice = Dice(9);
    let before =
        Program { parent: vec![NONE, 0, 0, 0, 0], rate: vec![0.0, 500.0, 500.0, 30.0, 0.0], interrupt: None };
    let after = Program { rate: vec![0.0, 500.0, 500.0, 0.0, 60.0], ..before.clone() };
    let found = two_profiles(Basis::Shares, &before, &after, &mut dice, false);
    let of = |name: &str| {
        let is = |&node: &u32| found.names.shown(found.tree.key[node as usize]) == name;
        (1..found.tree.len() as u32).find(is).unwrap()
    };
    assert_eq!([of("f3"), of("f4")].map(|node| found.tree.only(node)), [Some(0), Some(1)]);
    for node in 1..found.tree.len() as u32 {
        let figure = found.inference.node(node);
        assert_eq!(figure.different, figure.delta().abs() > 1.0, "{figure:?}");
    }
    assert!(found.inference.node(of("f4")).different);
}
