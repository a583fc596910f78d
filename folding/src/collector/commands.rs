//! The command frame of a stack.

use super::filters::no_pid;
use super::{Collector, Label, SampleHead};
use crate::error::Error;
use crate::frame::{Frame, Origin};
use crate::names;

/// A command frame made before; a few threads take turns.
pub(super) struct LastComm {
    comm: Vec<u8>,
    pid: Option<i64>,
    tid: Option<i64>,
    frame: u32,
}

impl Collector {
    pub(super) fn comm(&mut self, head: &SampleHead) -> Result<u32, Error> {
        let (pid, tid) = match self.options.label {
            Label::Comm => (None, None),
            Label::Pid => (Some(head.pid.ok_or_else(|| no_pid("--pid"))?), None),
            Label::Tid => (Some(head.pid.ok_or_else(|| no_pid("--tid"))?), head.tid),
        };
        let kept = if self.options.detail.has_origins() { (head.pid, head.tid) } else { (pid, tid) };
        let slot = kept.1.or(kept.0).unwrap_or(0) as usize % self.last_comms.len();
        if let Some(last) = &self.last_comms[slot] {
            if last.comm == head.comm && (last.pid, last.tid) == kept {
                return Ok(last.frame);
            }
        }
        let mut name = comm_frame(head.comm);
        if let Some(pid) = pid {
            name.extend_from_slice(format!("-{pid}").as_bytes());
        }
        if self.options.label == Label::Tid {
            let tid = tid.map_or_else(|| "?".to_owned(), |tid| tid.to_string());
            name.extend_from_slice(format!("/{tid}").as_bytes());
        }
        let (pid, tid) = kept;
        let origin =
            self.options.detail.has_origins().then_some(Origin::Command { pid, tid, comm: head.comm });
        let frame = self.profile.intern(Frame { name: &name, origin });
        self.last_comms[slot] = Some(LastComm { comm: head.comm.to_vec(), pid, tid, frame });
        Ok(frame)
    }
}

/// The command as a frame: the field writes `_` for a blank.
pub(super) fn comm_frame(comm: &[u8]) -> Vec<u8> {
    if comm.is_empty() {
        return b"[unknown]".to_vec();
    }
    let mut name: Vec<u8> = comm.iter().map(|&b| if b.is_ascii_whitespace() { b'_' } else { b }).collect();
    names::escape(&mut name);
    name
}
