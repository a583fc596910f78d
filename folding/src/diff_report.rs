//! What a comparison prints.

use crate::columns::{Column, write_columns};
use crate::diff::{Basis, Diff};
use crate::stats::{Stats, UNSTATED};
use serde::Serialize;
use std::io::{self, Write};

/// `stack BEFORE AFTER`, the first scaled; the format of difffolded.
pub fn write_folded(diff: &Diff, out: &mut dyn Write) -> io::Result<()> {
    let mut text = Vec::new();
    for (stack, before, after) in diff.rows() {
        diff.stacks.write_stack(stack, &mut text);
        writeln!(text, " {before} {after}")?;
        out.write_all(&text)?;
        text.clear();
    }
    out.flush()
}

#[derive(Debug, Serialize)]
pub struct DiffReport {
    schema: u32,
    event: Option<String>,
    unit: String,
    /// What makes the two comparable, and so what `before`, `after` and `delta` of a frame are: percent of
    /// the recording's weight, weight of one operation, or weight.
    basis: Basis,
    operations: Option<[u64; 2]>,
    weight: [u128; 2],
    samples: [u64; 2],
    vanished_stacks: OneSided,
    new_stacks: OneSided,
    /// By the size of the change of what they weigh themselves.
    frames: Vec<FrameRow>,
}

#[derive(Debug, Serialize)]
struct OneSided {
    stacks: u64,
    weight: u128,
}

#[derive(Clone, Debug, Serialize)]
struct FrameRow {
    frame: String,
    #[serde(rename = "self")]
    alone: Change,
    total: Change,
}

#[derive(Clone, Copy, Debug, Serialize)]
struct Change {
    weight_before: u128,
    weight_after: u128,
    before: f64,
    after: f64,
    delta: f64,
}

impl DiffReport {
    pub fn new(diff: &Diff, stats: [&Stats; 2], per: Option<(u64, u64)>) -> Self {
        let weight = stats.map(|stats| stats.weight);
        let unit = stats.iter().map(|stats| &*stats.unit).find(|unit| *unit != UNSTATED).unwrap_or(UNSTATED);
        let divisors = match (diff.basis, per) {
            (Basis::Operations, Some((before, after))) => [before as f64, after as f64],
            (Basis::Weight, _) => weight.map(|weight| weight as f64 / 100.0),
            _ => [1.0, 1.0],
        };
        let change = |before: u128, after: u128| {
            let (b, a) = (before as f64 / divisors[0], after as f64 / divisors[1]);
            Change { weight_before: before, weight_after: after, before: b, after: a, delta: a - b }
        };
        let mut frames: Vec<FrameRow> = diff
            .frames()
            .iter()
            .map(|frame| FrameRow {
                frame: String::from_utf8_lossy(diff.stacks.name(frame.frame)).into_owned(),
                alone: change(frame.self_before, frame.self_after),
                total: change(frame.total_before, frame.total_after),
            })
            .collect();
        sort(&mut frames, |row| row.alone);
        let [vanished, new] = diff.only().map(|(stacks, weight)| OneSided { stacks, weight });
        Self {
            schema: 1,
            event: stats.iter().find_map(|stats| stats.event.clone()),
            unit: unit.to_owned(),
            basis: diff.basis,
            operations: per.map(|(before, after)| [before, after]),
            weight,
            samples: stats.map(|stats| stats.samples),
            vanished_stacks: vanished,
            new_stacks: new,
            frames,
        }
    }
}

/// The largest change first; equal ones by name.
fn sort(rows: &mut [FrameRow], which: impl Fn(&FrameRow) -> Change) {
    rows.sort_by(|a, b| {
        let size = |row: &FrameRow| which(row).delta.abs();
        size(b).total_cmp(&size(a)).then_with(|| a.frame.cmp(&b.frame))
    });
}

pub fn write_table(report: &DiffReport, top: usize, out: &mut dyn Write) -> io::Result<()> {
    let of = match report.basis {
        Basis::Weight => "% of each recording's weight".to_owned(),
        Basis::Operations => {
            let [before, after] = report.operations.unwrap_or([0, 0]);
            format!("{} an operation ({before} operations before, {after} after)", report.unit)
        }
        Basis::None => report.unit.clone(),
    };
    let event = report.event.as_deref().map_or(String::new(), |event| format!(", event {event}"));
    let [before, after] = report.weight;
    writeln!(out, "weight {before} before, {after} after ({}{event}); columns in {of}", report.unit)?;
    writeln!(
        out,
        "{} stacks vanished (weight {}), {} are new (weight {})",
        report.vanished_stacks.stacks,
        report.vanished_stacks.weight,
        report.new_stacks.stacks,
        report.new_stacks.weight
    )?;
    let mut by_total = report.frames.clone();
    sort(&mut by_total, |row| row.total);
    write_rows("self", report.frames.iter().map(|row| (row, row.alone)), top, out)?;
    write_rows("total", by_total.iter().map(|row| (row, row.total)), top, out)
}

fn write_rows<'r>(
    what: &str,
    rows: impl Iterator<Item = (&'r FrameRow, Change)>,
    top: usize,
    out: &mut dyn Write,
) -> io::Result<()> {
    let rows: Vec<(&FrameRow, Change)> = rows.filter(|(_, change)| change.delta != 0.0).take(top).collect();
    writeln!(out)?;
    let number =
        |value: fn(&Change) -> f64| rows.iter().map(move |(_, change)| format!("{:.3}", value(change)));
    let delta = rows.iter().map(|(_, change)| format!("{:+.3}", change.delta));
    let columns = [
        Column::new("delta", true, delta),
        Column::new("before", true, number(|change| change.before)),
        Column::new("after", true, number(|change| change.after)),
        Column::new(what, false, rows.iter().map(|(row, _)| row.frame.clone())),
    ];
    write_columns(&columns, out)
}
