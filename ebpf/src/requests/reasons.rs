//! The stacks of requests, as a recording that stackfold sorts by reason.

use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::path::Path;

use perfdata::format::CONTEXT_USER;
use perfdata::writer::{Recording, Sample};
use recording::{Kernel, Mapping};

use super::skeleton::types;
use crate::session::MeasuredWindow;

/// The recording's event: how many requests had a stack.
const EVENT: &str = "requests";

/// What the stacks are of.
pub struct Given<'a> {
    pub pid: u32,
    pub window: MeasuredWindow,
    pub stacks: HashMap<u64, types::stack>,
    pub mappings: &'a [(Mapping, Option<Vec<u8>>)],
}

/// Writes each stack as a sample of a thread of its own, whose number is that of the stack and 1: by it a row finds what
/// its stack was sorted as. Thread 0 would be the kernel's idle one.
pub fn write_recording(
    path: &Path,
    given: &Given,
    seen: &[(u64, [i8; 16], u64)],
    kernel: &Kernel,
) -> io::Result<()> {
    let mut out = Recording::create(
        File::create(path)?,
        given.pid as i32,
        &[EVENT],
        None,
        kernel,
        given.window.start_ns,
    )?;
    for (mapping, build_id) in given.mappings {
        out.mapping(mapping, build_id.as_deref(), given.window.start_ns)?;
    }
    for (number, (hash, comm, count)) in seen.iter().enumerate() {
        let tid = number as i32 + 1;
        let name: Vec<u8> = comm.iter().map(|&byte| byte as u8).take_while(|&byte| byte != 0).collect();
        out.comm(tid, &name, given.window.start_ns)?;
        let Some(stack) = given.stacks.get(hash) else { continue };
        let depth = (stack.depth as usize).min(stack.addresses.len());
        let chain: Vec<u64> =
            std::iter::once(CONTEXT_USER).chain(stack.addresses[..depth].iter().copied()).collect();
        out.sample(&Sample {
            event: 0,
            time: given.window.end_ns,
            tid,
            period: *count,
            chain: &chain,
            copied: None,
        })?;
    }
    out.finish(kernel)
}
