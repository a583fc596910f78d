//! A frame, and where it comes from: what pprof has a place for and folded text has not.

use crate::intern::{HashKeys, Item};
use std::hash::{BuildHasher, Hash, Hasher};

/// Two frames of one name and different origins are two. `S` is a text, or its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Frame<S> {
    /// What folded text shows.
    pub name: S,
    /// Where it is known and asked for.
    pub origin: Option<Origin<S>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Origin<S> {
    Code {
        /// As the object counts it, where the recording has it.
        address: Option<u64>,
        object: S,
        inlined: bool,
    },
    /// The first frame of a stack.
    Command { pid: Option<i64>, tid: Option<i64>, comm: S },
}

impl<S> Frame<S> {
    /// A frame of which only the name is known.
    pub fn named(name: S) -> Self {
        Self { name, origin: None }
    }

    /// The same with other texts.
    pub fn map<'s, T>(&'s self, mut text: impl FnMut(&'s S) -> T) -> Frame<T> {
        let name = text(&self.name);
        let origin = self.origin.as_ref().map(|origin| match *origin {
            Origin::Code { address, ref object, inlined } => {
                Origin::Code { address, object: text(object), inlined }
            }
            Origin::Command { pid, tid, ref comm } => Origin::Command { pid, tid, comm: text(comm) },
        });
        Frame { name, origin }
    }
}

impl Item for Frame<u32> {
    fn hash(frames: &[Self], keys: HashKeys) -> u64 {
        let mut hasher = keys.build_hasher();
        Hash::hash_slice(frames, &mut hasher);
        hasher.finish()
    }
}
