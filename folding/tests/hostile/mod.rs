//! Files made by somebody who means harm, or by a fault: small ones that would take all memory, or all time. Each is read or
//! refused within 1 GiB and 30 s of CPU.

mod pprofs;
mod programs;
mod recordings;

use crate::common::recording::*;
use crate::common::{Files, program, text};
use std::process::Command;

/// Exit code, output, and what is said, where memory and CPU are bounded by the system.
fn bounded(args: &[&str]) -> (i32, String, String) {
    bounded_with(args, &[])
}

/// The same with some variables of the environment.
fn bounded_with(args: &[&str], environment: &[(&str, &str)]) -> (i32, String, String) {
    const LIMITS: &str = "ulimit -v 1048576 && ulimit -t 30 && exec \"$@\"";
    let mut command = Command::new("sh");
    command.args(["-c", LIMITS, "sh"]).arg(program()).args(args).envs(environment.iter().copied());
    let output = command.output().expect("the shell starts");
    let said = text(&output.stderr);
    let code = output.status.code().unwrap_or_else(|| panic!("{}: {said}", output.status));
    assert!(!said.contains("panicked"), "{said}");
    (code, text(&output.stdout), said)
}

/// The same of one file.
fn folded(bytes: impl AsRef<[u8]>, args: &[&str]) -> (i32, String, String) {
    let files = Files::new();
    bounded(&[&[&*files.write("hostile", bytes)], args].concat())
}

/// What is written of an input that must be folded.
fn written(bytes: impl AsRef<[u8]>, args: &[&str]) -> (String, String) {
    let (code, out, said) = folded(bytes, args);
    assert_eq!(code, 0, "{said}");
    (out, said)
}

/// An input that is refused with this exit code, and this among the reasons.
fn refused(bytes: impl AsRef<[u8]>, args: &[&str], expected: i32, why: &str) {
    let (code, _, said) = folded(bytes, args);
    assert!(code == expected && said.contains(why), "{args:?}: {code} {said}");
}

fn recorded(records: &Records) -> Vec<u8> {
    file(&[Event::default()], records)
}

/// An event whose samples have 20 registers and a copied stack.
fn of_copied_stacks() -> Event {
    let sample_type = Event::default().sample_type | REGS_USER | STACK_USER;
    Event { sample_type, registers: 0xff_0fff, ..Event::default() }
}

/// Adds a sample of such an event, of thread 7.
fn add_copied(records: &mut Records, time: u64, ip: u64, registers: &[u64; 20], stack: &[u64]) {
    const ABI_64: u64 = 2;
    let len = 8 * stack.len() as u64;
    let head = [ip, 7 | 7 << 32, time, 1, 1, USER, ABI_64];
    records.record(9, 2, &words(&[&head[..], registers, &[len], stack, &[len]].concat()));
}

/// Names whose place in a table the author of the input has worked out, if tables are laid out alike in every process: the
/// second factor of a product is 0, so that what follows it makes no difference.
#[test]
fn names_cannot_be_chosen_to_collide() {
    let factor = 0xd6e8_feb8_6659_fd93_u64.to_le_bytes();
    let line = |n: u32| [b"t;0123456789abcdef", &factor[..], format!("{n:08} 1\n").as_bytes()].concat();
    let lines: Vec<u8> = (0..400_000).flat_map(line).collect();
    let (out, _) = written(lines, &["--input-format", "folded"]);
    assert_eq!(out.lines().count(), 400_000);
}
