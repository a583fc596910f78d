//! Weighted stacks: what every input folds into and every output reads.

use crate::error::Error;
use crate::frame::Frame;
use crate::intern::Interner;
use crate::locations::Locations;
use crate::options::StackDetail;
use crate::stacks::Stacks;
use crate::weights::Tally;
use std::collections::HashMap;
use std::io::{self, Write};

/// Bytes that a frame takes with its place in the tables.
const FRAME: usize = 128;

/// Different stacks, root first, the command being the first frame.
#[derive(Default)]
pub struct Profile {
    /// Names, objects and commands.
    texts: Interner<u8>,
    frames: Interner<Frame<u32>>,
    /// The frame of each name without an origin: folded text has nothing else, and asks for each of its frames.
    named: Vec<Option<u32>>,
    stacks: Stacks,
    /// The same stacks by the sites of their instructions, where the input and the options give them.
    pub located: Locations,
    /// The build ids of objects, by name, where the input has them.
    pub build_ids: HashMap<Vec<u8>, Vec<u8>>,
}

impl Profile {
    /// Makes room for this many stacks more, which have so many frames together.
    pub fn reserve(&mut self, stacks: usize, frames: usize) {
        self.stacks.reserve(stacks, frames);
    }

    /// The number of a frame.
    pub fn intern(&mut self, frame: Frame<&[u8]>) -> u32 {
        if frame.origin.is_some() {
            let frame = frame.map(|text| self.texts.intern(text).0);
            return self.frames.intern(&[frame]).0;
        }
        let name = self.texts.intern(frame.name).0;
        if let Some(&Some(known)) = self.named.get(name as usize) {
            return known;
        }
        self.named.resize(self.texts.len(), None);
        *self.named[name as usize].insert(self.frames.intern(&[Frame::named(name)]).0)
    }

    /// The number of the frame that a known one is after a change.
    pub fn changed(&mut self, frame: u32, change: impl FnOnce(&mut Frame<u32>)) -> u32 {
        let mut frame = self.frames.get(frame)[0];
        change(&mut frame);
        self.frames.intern(&[frame]).0
    }

    /// The number of a frame, if it was seen.
    pub fn find(&self, frame: Frame<&[u8]>) -> Option<u32> {
        // No text has the highest number.
        let frame = frame.map(|text| self.texts.find(text).unwrap_or(u32::MAX));
        self.frames.find(&[frame])
    }

    pub fn frame(&self, frame: u32) -> Frame<&[u8]> {
        self.frames.get(frame)[0].map(|&text| self.texts.get(text))
    }

    /// What folded text shows for a frame.
    pub fn name(&self, frame: u32) -> &[u8] {
        self.texts.get(self.frames.get(frame)[0].name)
    }

    /// How many frames there are, whether stacks have them or not.
    pub fn frames(&self) -> usize {
        self.frames.len()
    }

    /// Adds to the stack made of these frames, root first; gives its number.
    pub fn add(&mut self, chain: &[u32], tally: Tally) -> u32 {
        self.stacks.add(chain, tally)
    }

    /// Adds all stacks of another profile, which has none by place; gives the number of each here.
    pub fn absorb(&mut self, other: &Profile) -> Vec<u32> {
        for (object, id) in &other.build_ids {
            self.build_ids.entry(object.clone()).or_insert_with(|| id.clone());
        }
        self.absorb_as(other, |frame| frame)
    }

    fn absorb_as(&mut self, other: &Profile, change: impl Fn(Frame<&[u8]>) -> Frame<&[u8]>) -> Vec<u32> {
        let frames: Vec<u32> =
            (0..other.frames() as u32).map(|id| self.intern(change(other.frame(id)))).collect();
        let mut chain = Vec::new();
        let add = |stack| {
            chain.clear();
            chain.extend(other.chain(stack).iter().map(|&id| frames[id as usize]));
            self.add(&chain, other.tally(stack))
        };
        (0..other.stacks() as u32).map(add).collect()
    }

    /// The same stacks as folded text shows them: frames without their origins. And the number there of each stack here.
    pub fn plain(&self) -> (Self, Vec<u32>) {
        let mut plain = Self::default();
        let numbers = plain.absorb_as(self, |frame| Frame::named(frame.name));
        (plain, numbers)
    }

    /// The same, where frames have origins.
    pub fn by_name(&self, detail: StackDetail) -> Option<(Self, Vec<u32>)> {
        let by_name = match detail {
            StackDetail::Names => true,
            StackDetail::Sites => !self.located.is_empty(),
            StackDetail::Addresses | StackDetail::Objects | StackDetail::ObjectsAndSites => false,
        };
        (!by_name).then(|| self.plain())
    }

    /// What the stack holds, if it was seen.
    pub fn find_mut(&mut self, chain: &[u32]) -> Option<&mut Tally> {
        self.stacks.find_mut(chain)
    }

    /// Takes the numbers of samples from the weights of the same stacks in another profile.
    pub fn take_counts(&mut self, counts: &Self) -> Result<(), Error> {
        self.stacks.forget_samples();
        for stack in 0..counts.stacks() as u32 {
            let chain: Vec<u32> =
                counts.chain(stack).iter().filter_map(|&id| self.find(counts.frame(id))).collect();
            let whole = chain.len() == counts.chain(stack).len();
            let tally = self.stacks.find_mut(&chain).filter(|_| whole);
            let count = u64::try_from(counts.tally(stack).weight);
            match (tally, count) {
                (Some(tally), Ok(count)) => tally.samples = count,
                _ => {
                    return Err(Error::usage(
                        "--count-event: a stack was counted that was not weighed, or too often",
                    ));
                }
            }
        }
        Ok(())
    }

    /// Bytes that frames, stacks and places take, about.
    pub fn size(&self) -> u64 {
        let numbers = self.stacks.numbers() + self.located.numbers();
        (size_of::<u32>() * numbers + FRAME * self.frames.len()) as u64
    }

    pub fn stacks(&self) -> usize {
        self.stacks.len()
    }

    pub fn chain(&self, stack: u32) -> &[u32] {
        self.stacks.chain(stack)
    }

    pub fn tally(&self, stack: u32) -> Tally {
        self.stacks.tally(stack)
    }

    pub fn total(&self) -> Tally {
        self.stacks.total()
    }

    /// The stacks in the order of their frames' names, frame by frame: siblings stay together, and the
    /// order does not depend on the order of the samples.
    pub fn sorted(&self) -> Vec<u32> {
        self.stacks.sorted(&self.ranks())
    }

    /// The place of each frame in their order, from 1: by name, then by origin.
    pub fn ranks(&self) -> Vec<u32> {
        let mut sorted: Vec<u32> = (0..self.frames() as u32).collect();
        sorted.sort_by_cached_key(|&id| self.frame(id));
        let mut rank = vec![0; sorted.len()];
        sorted.iter().zip(1..).for_each(|(&id, place)| rank[id as usize] = place);
        rank
    }

    /// `comm;root;...;leaf`, appended to `text`.
    pub fn write_stack(&self, stack: u32, text: &mut Vec<u8>) {
        for (depth, &frame) in self.chain(stack).iter().enumerate() {
            if depth > 0 {
                text.push(b';');
            }
            text.extend_from_slice(self.name(frame));
        }
    }
}

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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::Origin;

    #[test]
    fn frames_of_one_name_and_different_origins_are_different() {
        let code = |object: &'static [u8], inlined, address| Some(Origin::Code { address, object, inlined });
        let command = |comm: &'static [u8], pid, tid| Some(Origin::Command { pid, tid, comm });
        // In their order.
        let origins = [
            None,
            code(b"", true, None),
            code(b"/tmp/a@b", false, None),
            code(b"/tmp/a@b", true, None),
            code(b"/usr/lib/libc.so.6", false, Some(9)),
            code(b"/usr/lib/libc.so.6", false, Some(0xffff_ffff_8100_0000)),
            command(b"", None, Some(7)),
            command(b"kworker/0:1H", Some(-1), None),
        ];
        let mut profile = Profile::default();
        for (number, &origin) in origins.iter().enumerate() {
            let frame = Frame { name: &b"a name"[..], origin };
            assert_eq!(profile.find(frame), None);
            let id = profile.intern(frame);
            assert_eq!((id, profile.find(frame)), (number as u32, Some(id)));
            assert_eq!((profile.frame(id), profile.name(id)), (frame, &b"a name"[..]));
            assert_eq!(profile.changed(id, |frame| frame.origin = None), 0);
        }
        assert_eq!(profile.ranks(), [1, 2, 3, 4, 5, 6, 7, 8]);
    }
}
