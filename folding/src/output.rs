//! Folded text out.

use crate::profile::Profile;
use crate::weights::Tally;
use std::io::{self, Write};

/// Writes `comm;root;...;leaf NUMBER`, one line a stack, in the order of [`Profile::sorted`].
pub fn write_folded(
    profile: &Profile,
    out: &mut dyn Write,
    number: impl Fn(Tally) -> u128,
) -> io::Result<()> {
    let mut text = Vec::with_capacity(1 << 16);
    for stack in profile.sorted() {
        profile.write_stack(stack, &mut text);
        writeln!(text, " {}", number(profile.tally(stack)))?;
        if text.len() > 1 << 15 {
            out.write_all(&text)?;
            text.clear();
        }
    }
    out.write_all(&text)?;
    out.flush()
}
