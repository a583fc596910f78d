//! Stacks that come folded: names are finished, only filters and cuts are left to do.

use super::commands::comm_frame;
use super::{Collector, SampleHead};
use crate::error::Error;
use crate::frame::Frame;
use crate::weights::Tally;
use std::borrow::Cow;

impl Collector {
    /// Adds a stack of folded text: its frames are names as they are, the first is the command.
    pub fn folded(&mut self, frames: impl Iterator<Item = impl AsRef<[u8]>> + Clone, tally: Tally) {
        if let Some(comm) = &self.options.comm {
            let command = frames.clone().next();
            if command.is_none_or(|frame| frame.as_ref() != comm_frame(comm.as_bytes())) {
                self.stats.filter(tally);
                return;
            }
        }
        self.scratch.clear();
        for frame in frames {
            let frame = self.named_frame(Frame::named(frame.as_ref()));
            self.scratch.push(frame);
        }
        self.add_folded(1, tally);
    }

    /// Adds a stack of frames with finished names below the command of `head`, if there is one.
    pub fn folded_of(
        &mut self,
        head: Option<&SampleHead>,
        frames: &[Frame<Cow<[u8]>>],
        tally: Tally,
    ) -> Result<(), Error> {
        if !self.passes(head.unwrap_or(&SampleHead::default()))? {
            self.stats.filter(tally);
            return Ok(());
        }
        let command = head.map(|head| self.comm(head)).transpose()?;
        self.scratch.clear();
        self.scratch.extend(command);
        for frame in frames {
            let frame = self.named_frame(frame.map(|text| &text[..]));
            self.scratch.push(frame);
        }
        self.add_folded(command.iter().len(), tally);
        Ok(())
    }

    /// The number of a frame whose name is finished, its flags noted.
    #[inline]
    fn named_frame(&mut self, frame: Frame<&[u8]>) -> u32 {
        let id = self.profile.intern(frame);
        if id as usize >= self.flags.len() {
            // Commands have none.
            self.flags.resize(id as usize, 0);
            let flags = self.named(frame.name);
            self.flags.push(flags);
        }
        id
    }

    /// Adds the chain at hand, whose first `roots` frames stay whatever is cut.
    fn add_folded(&mut self, roots: usize, tally: Tally) {
        let mut chain = std::mem::take(&mut self.scratch);
        let flags = |&id: &u32| self.flags.get(id as usize).copied().unwrap_or(0);
        match self.kept(chain.iter().rev().map(flags)) {
            None => self.stats.filter(tally),
            Some(kept) => {
                let gone = chain.len() - kept;
                if gone > roots {
                    chain.drain(roots..gone);
                }
                let depth = self.options.max_depth.unwrap_or(usize::MAX);
                chain.truncate(depth.saturating_add(roots));
                self.stats.take(tally);
                self.profile.add(&chain, tally);
            }
        }
        self.scratch = chain;
    }
}
