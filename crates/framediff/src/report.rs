//! What a comparison of frames writes: JSON, schema 1.
//!
//! The tree is columns in depth-first order, the whole first, the heaviest child first; costs are CPU us per query.

use crate::cuts::CutReason;
use crate::explain::{CANCELS, CARRIES, Explanation, Moved};
use crate::frame_names::{FrameNames, Texts};
use crate::inference::{ALPHA, Figure, Inference, LEAST_SAMPLES, LEAST_SHARE, Rule};
use crate::matching::{NameMatch, matches};
use crate::sides::{NONE, Side};
use crate::tree::{self, MergedTree, ROOT};
use serde::Serialize;
use std::collections::HashMap;

pub const SCHEMA: u32 = 1;

#[derive(Serialize)]
pub struct FrameReport {
    schema: u32,
    sides: [SideReport; 2],
    rule: RuleReport,
    names: Vec<String>,
    objects: Vec<String>,
    nodes: NodeReport,
    /// With all they call and themselves, those that differ first, then the heaviest.
    functions: Vec<FunctionRow>,
    explanation: Vec<LineReport>,
    /// Lines of the explanation beyond the limit.
    more_lines: usize,
    moved: Vec<MovedReport>,
    matches: Vec<NameMatch>,
    levels: Vec<LevelReport>,
    totals: Totals,
}

#[derive(Serialize)]
struct SideReport {
    name: String,
    event: Option<String>,
    unit: String,
    sessions: usize,
    profiles: usize,
    queries: f64,
    samples: u64,
}

/// By which a frame counts as different.
#[derive(Serialize)]
struct RuleReport {
    /// `sessions`, `samples` or `share`
    by: Rule,
    alpha: f64,
    least_samples: u64,
    node_tests: usize,
    function_tests: usize,
    /// The smallest differences that would count, in us per query; none without a frame that was seen often enough.
    smallest_node: Option<f64>,
    smallest_function: Option<f64>,
    session_effect: f64,
    session_effect_assumed: bool,
    /// With `share`: the part of the mean of both wholes.
    least_share: Option<f64>,
    carries: f64,
    cancels: f64,
}

/// The place of a node's name and object, its cost on both sides, half the interval of the difference, samples.
#[derive(Default, Serialize)]
struct NodeReport {
    depth: Vec<u32>,
    name: Vec<u32>,
    object: Vec<u32>,
    before: Vec<f64>,
    after: Vec<f64>,
    half: Vec<f64>,
    samples_before: Vec<u64>,
    samples_after: Vec<u64>,
    different: Vec<u8>,
}

#[derive(Serialize)]
struct FunctionRow {
    name: u32,
    total: FigureReport,
    own: FigureReport,
}

#[derive(Serialize)]
struct FigureReport {
    before: f64,
    after: f64,
    delta: f64,
    low: f64,
    high: f64,
    samples: [u64; 2],
    different: bool,
}

/// `delta` of `of`, the difference of the whole.
#[derive(Serialize)]
struct LineReport {
    node: usize,
    name: String,
    /// The frames above it, root first.
    path: Vec<String>,
    /// `both`, `vanished` or `new`
    seen: &'static str,
    of: f64,
    #[serde(flatten)]
    figure: FigureReport,
}

#[derive(Serialize)]
struct MovedReport {
    within: String,
    node: usize,
    losing: Vec<String>,
    gaining: Vec<String>,
    /// us per query that the losses and the gains are, and their sum.
    lost: f64,
    gained: f64,
    sum: f64,
}

/// us per query in frames below that are no nodes.
#[derive(Serialize)]
struct LevelReport {
    below: String,
    node: usize,
    object: String,
    why: CutReason,
    before: f64,
    after: f64,
}

/// us per query on the side that has them, of the topmost frames that one side alone has; counted where they differ.
#[derive(Serialize, Default)]
struct Totals {
    vanished: f64,
    new: f64,
    different_nodes: usize,
    vanished_nodes: usize,
    new_nodes: usize,
}

/// Five digits, which is more than any of them is known to.
fn rounded(value: f64) -> f64 {
    if value == 0.0 || !value.is_finite() {
        return 0.0;
    }
    let scale = 10_f64.powi(4 - value.abs().log10().floor() as i32);
    (value * scale).round() / scale
}

impl FigureReport {
    fn new(figure: &Figure) -> Self {
        let delta = figure.delta();
        Self {
            before: rounded(figure.us[0]),
            after: rounded(figure.us[1]),
            delta: rounded(delta),
            low: rounded(delta - figure.half),
            high: rounded(delta + figure.half),
            samples: figure.samples,
            different: figure.different,
        }
    }
}

impl FrameReport {
    pub fn new(sides: &[Side; 2], tree: &MergedTree, names: &FrameNames, inference: &Inference) -> Self {
        let mut name_texts = Texts::default();
        let mut object_texts = Texts::default();
        let mut of_key: HashMap<u32, u32> = HashMap::new();
        let mut name_of = |key: u32| match key {
            NONE => name_texts.of("all"),
            _ => *of_key.entry(key).or_insert_with(|| name_texts.of(names.shown(key))),
        };

        let children = tree.children();
        let mut nodes = NodeReport::default();
        let mut place = vec![usize::MAX; tree.len()];
        let mut totals = Totals::default();
        let mut todo = vec![(ROOT, 0)];
        while let Some((node, depth)) = todo.pop() {
            let figure = inference.node(node);
            if figure.samples == [0, 0] && figure.us == [0.0; 2] && node != ROOT {
                continue;
            }
            place[node as usize] = nodes.depth.len();
            nodes.depth.push(depth);
            nodes.name.push(name_of(tree.key[node as usize]));
            nodes.object.push(object_texts.of(names.object_name(tree.object[node as usize])));
            nodes.before.push(rounded(figure.us[0]));
            nodes.after.push(rounded(figure.us[1]));
            nodes.half.push(rounded(figure.half));
            nodes.samples_before.push(figure.samples[0]);
            nodes.samples_after.push(figure.samples[1]);
            nodes.different.push(u8::from(figure.different));
            let (alone, above) = (only(figure), tree.parent[node as usize]);
            totals.different_nodes += usize::from(figure.different);
            if let Some(side) = alone.filter(|_| above != NONE && only(inference.node(above)).is_none()) {
                *[&mut totals.vanished, &mut totals.new][side] += figure.us[side];
            }
            if figure.different {
                totals.vanished_nodes += usize::from(alone == Some(0));
                totals.new_nodes += usize::from(alone == Some(1));
            }
            todo.extend(children[node as usize].iter().rev().map(|&child| (child, depth + 1)));
        }
        (totals.vanished, totals.new) = (rounded(totals.vanished), rounded(totals.new));

        let functions = function_rows(inference, &mut name_of);
        let found = Explanation::new(tree, inference);
        let words = Words { tree, names, inference, place };
        Self {
            schema: SCHEMA,
            sides: sides.each_ref().map(SideReport::new),
            rule: RuleReport::new(inference),
            matches: matches(names, tree),
            names: name_texts.all,
            objects: object_texts.all,
            nodes,
            functions,
            explanation: found.lines.iter().map(|&node| words.line(node)).collect(),
            more_lines: found.more,
            moved: found.moved.iter().map(|moved| words.moved(moved)).collect(),
            levels: words.levels(),
            totals,
        }
    }
}

fn function_rows(inference: &Inference, name_of: &mut impl FnMut(u32) -> u32) -> Vec<FunctionRow> {
    let mut functions: Vec<FunctionRow> = (0..inference.function_keys.len())
        .map(|number| {
            let [total, own] = inference.function(number).map(FigureReport::new);
            FunctionRow { name: name_of(inference.function_keys[number]), total, own }
        })
        .filter(|row| row.total.samples != [0, 0] || row.total.before > 0.0 || row.total.after > 0.0)
        .collect();
    let order = |row: &FunctionRow| {
        let differs = row.total.different || row.own.different;
        (!differs, -row.own.delta.abs().max(row.total.delta.abs()), -row.total.after.max(row.total.before))
    };
    functions.sort_by(|a, b| {
        let (a, b) = (order(a), order(b));
        a.0.cmp(&b.0).then(a.1.total_cmp(&b.1)).then(a.2.total_cmp(&b.2))
    });
    functions
}

impl SideReport {
    fn new(side: &Side) -> Self {
        Self {
            name: side.name.clone(),
            event: side.event.clone(),
            unit: side.unit.clone(),
            sessions: side.sessions.len(),
            profiles: side.profiles().count(),
            queries: side.queries(),
            samples: side.samples(),
        }
    }
}

impl RuleReport {
    fn new(inference: &Inference) -> Self {
        Self {
            by: inference.rule,
            alpha: ALPHA,
            least_samples: LEAST_SAMPLES,
            node_tests: inference.nodes.tests,
            function_tests: inference.functions.tests,
            smallest_node: inference.nodes.least.map(rounded),
            smallest_function: inference.functions.least.map(rounded),
            session_effect: rounded(inference.session_effect),
            session_effect_assumed: inference.is_assumed,
            least_share: (inference.rule == Rule::Share).then_some(LEAST_SHARE),
            carries: CARRIES,
            cancels: CANCELS,
        }
    }
}

/// Nodes by their names.
struct Words<'c> {
    tree: &'c MergedTree,
    names: &'c FrameNames,
    inference: &'c Inference,
    /// Of each node in the report.
    place: Vec<usize>,
}

impl Words<'_> {
    fn name(&self, node: u32) -> String {
        match self.tree.key[node as usize] {
            NONE => "all".to_owned(),
            key => self.names.shown(key).to_owned(),
        }
    }

    fn line(&self, node: u32) -> LineReport {
        let callers = self.tree.callers(node).filter(|&above| above != ROOT);
        let mut path: Vec<String> = callers.map(|above| self.name(above)).collect();
        path.reverse();
        let figure = self.inference.node(node);
        let seen = match only(figure) {
            Some(0) => "vanished",
            Some(_) => "new",
            None => "both",
        };
        LineReport {
            node: self.place[node as usize],
            name: self.name(node),
            path,
            seen,
            of: rounded(self.inference.node(ROOT).delta()),
            figure: FigureReport::new(figure),
        }
    }

    fn moved(&self, moved: &Moved) -> MovedReport {
        let names = |nodes: &[u32]| nodes.iter().map(|&node| self.name(node)).collect();
        let sum = |nodes: &[u32]| rounded(nodes.iter().map(|&node| self.inference.node(node).delta()).sum());
        MovedReport {
            within: self.name(moved.within),
            node: self.place[moved.within as usize],
            losing: names(&moved.from),
            gaining: names(&moved.to),
            lost: sum(&moved.from),
            gained: sum(&moved.to),
            sum: rounded(moved.sum),
        }
    }

    fn levels(&self) -> Vec<LevelReport> {
        let of_path: HashMap<u64, u32> =
            self.tree.path.iter().zip(0..).map(|(&path, node)| (path, node)).collect();
        let mut cut: Vec<_> = self.tree.cut.iter().collect();
        cut.sort_by(|(_, a), (_, b)| b[0].max(b[1]).total_cmp(&a[0].max(a[1])));
        let level = |(&(below, object, why), us): (&(u64, u32, CutReason), &[f64; 2])| {
            let node = *of_path.get(&below)?;
            Some(LevelReport {
                below: self.name(node),
                node: self.place[node as usize],
                object: self.names.object_name(object).to_owned(),
                why,
                before: rounded(us[0]),
                after: rounded(us[1]),
            })
        };
        cut.into_iter().filter_map(level).collect()
    }
}

fn only(figure: &Figure) -> Option<usize> {
    tree::only(figure.us, figure.samples)
}
