//! The category table as text: for a terminal, for a program, and stack by stack for a drawing.

use super::classify::Classification;
use super::report::CategoryReport;
use super::rules::View;
use crate::profile::Profile;
use crate::terminal;
use std::io::{self, Write};

/// Aligned columns: what the numbers are, the rows, then what fell into `other`.
pub fn write_table(report: &CategoryReport, out: &mut dyn Write) -> io::Result<()> {
    let unit = report.unit.as_deref().unwrap_or("weight of unstated unit");
    let event = report.event.as_deref().map_or(String::new(), |event| format!(", event {event}"));
    writeln!(
        out,
        "{} view, rules {} (checked with {}); 100 % = {} {unit}{event}",
        report.view,
        report.rules,
        report.rules_checked.join(", "),
        report.total_weight
    )?;
    let mut columns = vec![Column::new("category", false, report.rows.iter().map(|row| row.name.clone()))];
    columns.push(Column::new("share %", true, report.printed_shares().into_iter()));
    if report.us_per_query.is_some() {
        let us = report.rows.iter().map(|row| format!("{:.3}", row.us_per_query.unwrap_or(0.0)));
        columns.push(Column::new("us/query", true, us));
    }
    if report.total_samples.is_some() {
        columns.push(Column::new(
            "n",
            true,
            report.rows.iter().map(|row| row.samples.unwrap_or(0).to_string()),
        ));
    }
    columns.push(Column::new("what", false, report.rows.iter().map(|row| row.label.clone())));
    write_columns(&columns, out)?;
    if report.other_frames.is_empty() {
        return Ok(());
    }
    writeln!(out, "\nin other, by the leaf-most frame of the engine:")?;
    for frame in &report.other_frames {
        writeln!(out, "  {:5.2}  {}", frame.share, frame.frame)?;
    }
    Ok(())
}

/// One line a row; a column without data is empty.
pub fn write_tsv(report: &CategoryReport, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "category\tshare\tweight\tsamples\tus_per_query\tlabel")?;
    for row in &report.rows {
        let samples = row.samples.map_or(String::new(), |n| n.to_string());
        let us = row.us_per_query.map_or(String::new(), |us| us.to_string());
        writeln!(out, "{}\t{}\t{}\t{samples}\t{us}\t{}", row.name, row.share, row.weight, row.label)?;
    }
    Ok(())
}

/// `category<TAB>anchor_depth<TAB>samples<TAB>weight<TAB>stack`: the contract with the flame graph writer.
/// The depth counts from the command, 0; it is -1 in `other`.
pub fn write_stacks(
    view: &View,
    profile: &Profile,
    classifications: &[Classification],
    out: &mut dyn Write,
) -> io::Result<()> {
    let mut text = Vec::new();
    for stack in profile.sorted() {
        let place = classifications[stack as usize];
        let tally = profile.tally(stack);
        let depth = place.anchor.map_or("-1".to_owned(), |depth| depth.to_string());
        text.clear();
        write!(text, "{}\t{depth}\t{}\t{}\t", view.rows[place.row].0, tally.samples, tally.weight)?;
        profile.write_stack(stack, &mut text);
        text.push(b'\n');
        out.write_all(&text)?;
    }
    Ok(())
}

/// A column for a terminal.
struct Column {
    right: bool,
    cells: Vec<String>,
}

impl Column {
    fn new(head: &str, right: bool, cells: impl Iterator<Item = String>) -> Self {
        let cells = cells.map(|cell| terminal::name(&cell).into_owned());
        Self { right, cells: std::iter::once(head.to_owned()).chain(cells).collect() }
    }
}

/// The head and the rows of each column, to the width of its widest cell.
fn write_columns(columns: &[Column], out: &mut dyn Write) -> io::Result<()> {
    for line in 0..columns.first().map_or(0, |column| column.cells.len()) {
        let mut text = String::new();
        for column in columns {
            let width = column.cells.iter().map(|cell| cell.chars().count()).max().unwrap_or(0);
            let cell = &column.cells[line];
            text += &if column.right { format!("{cell:>width$}  ") } else { format!("{cell:<width$}  ") };
        }
        writeln!(out, "{}", text.trim_end())?;
    }
    Ok(())
}
