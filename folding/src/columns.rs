//! Aligned columns for a terminal.

use crate::terminal;
use std::io::{self, Write};

pub struct Column {
    right: bool,
    cells: Vec<String>,
}

impl Column {
    pub fn new(head: &str, right: bool, cells: impl Iterator<Item = String>) -> Self {
        let cells = cells.map(|cell| terminal::name(&cell).into_owned());
        Self { right, cells: std::iter::once(head.to_owned()).chain(cells).collect() }
    }
}

/// The head and the rows of each column, to the width of its widest cell.
pub fn write_columns(columns: &[Column], out: &mut dyn Write) -> io::Result<()> {
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
