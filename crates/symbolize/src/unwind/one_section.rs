//! `.eh_frame` and what `.debug_frame` describes beside it, as one section with one table to search it by. A program has
//! both where its own files were compiled without unwind tables and those that it was linked with have some; framehop
//! reads one or the other.

use super::eh_frame::{RawEntries, RawEntry};
use std::collections::HashMap;

/// Version 1; places and rows in the form of all linkers.
pub const FORM: [u8; 4] = [1, 0x1b, 0x03, 0x3b];

/// A function's address, and where in the section it is described.
pub type TableRow = (u64, usize);

/// The rows of a table of this form that begins at `start`. `eh_frame`: where the section does
pub fn rows(table: &[u8], start: u64, eh_frame: u64) -> impl Iterator<Item = TableRow> + '_ {
    let word = |bytes: [u8; 4]| i64::from(i32::from_le_bytes(bytes));
    let count =
        table.get(8..12).map_or(0, |count| u32::from_le_bytes([count[0], count[1], count[2], count[3]]));
    let rows = table.get(12..).unwrap_or(&[]).as_chunks::<8>().0;
    rows.iter().take(count as usize).map(move |&[a, b, c, d, e, f, g, h]| {
        let at = |distance| start.wrapping_add_signed(distance);
        (at(word([a, b, c, d])), at(word([e, f, g, h])).wrapping_sub(eh_frame) as usize)
    })
}

/// A table for a section at `start`, as if it began there as well. Of several rows of one function the first counts.
pub fn table(mut rows: Vec<TableRow>, start: u64) -> Vec<u8> {
    rows.sort_unstable();
    rows.dedup_by_key(|(address, _)| *address);
    let row = |&(address, place): &TableRow| {
        let address = i32::try_from(address.wrapping_sub(start) as i64).ok()?;
        Some([address.to_le_bytes(), i32::try_from(place).ok()?.to_le_bytes()].concat())
    };
    let rows: Vec<_> = rows.iter().filter_map(row).collect();
    // From the word itself.
    let eh_frame = -4_i32;
    [&FORM[..], &eh_frame.to_le_bytes(), &(rows.len() as u32).to_le_bytes(), &rows.concat()].concat()
}

/// Appends what `.debug_frame` describes of code, in the form of `.eh_frame`; gives the rows of a table.
pub fn append(section: &mut Vec<u8>, debug_frame: &[u8], is_code: impl Fn(u64) -> bool) -> Vec<TableRow> {
    // Zeros end it.
    section.truncate(RawEntries::of(section).last().map_or(0, |entry| entry.place.end.min(section.len())));
    let mut common = HashMap::new();
    let mut rows = Vec::new();
    for RawEntry { place, id } in RawEntries::of(debug_frame) {
        let Some(body) = debug_frame.get(place.clone()).and_then(|entry| entry.get(8..)) else { continue };
        if id == u32::MAX {
            let Some(body) = common_form(body) else { continue };
            common.insert(place.start, section.len());
            push(section, 0, &body);
            continue;
        }
        let Some(&of) = common.get(&(id as usize)) else { continue };
        let Some(address) = body.first_chunk().map(|address| u64::from_le_bytes(*address)) else { continue };
        // The linker leaves descriptions of functions that it left out, at 0.
        if is_code(address) {
            rows.push((address, section.len()));
            let distance = section.len() + 4 - of;
            push(section, distance as u32, body);
        }
    }
    rows
}

fn push(section: &mut Vec<u8>, id: u32, body: &[u8]) {
    section.extend((body.len() as u32 + 4).to_le_bytes());
    section.extend(id.to_le_bytes());
    section.extend(body);
}

/// What functions have in common, behind its first two words: version 1, which `.eh_frame` has, of any without additions.
fn common_form(body: &[u8]) -> Option<Vec<u8>> {
    let numbers = match *body {
        [1 | 3, 0, ref numbers @ ..] => numbers,
        // With bytes of an address and of a segment.
        [4, 0, 8, 0, ref numbers @ ..] => numbers,
        _ => return None,
    };
    let length = |from: usize| Some(numbers.get(from..)?.iter().position(|byte| *byte < 0x80)? + 1);
    // Units of code and of data, then the register of return addresses, which takes one byte in version 1.
    let units = length(0)?;
    let register = units + length(units)?;
    numbers.get(register).filter(|register| **register < 0x80)?;
    Some([&[1, 0], numbers].concat())
}
