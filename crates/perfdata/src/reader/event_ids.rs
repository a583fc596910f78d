//! The events of a recording, and how a sample is known to be of one.

use super::attr::Attr;
use super::header::Header;
use super::sample::word_at;
use std::collections::HashMap;
use std::sync::Arc;

/// The events, and which of them an id belongs to.
#[derive(Default)]
pub struct EventIds {
    pub attrs: Arc<[Attr]>,
    ids: Arc<HashMap<u64, usize>>,
}

impl EventIds {
    pub fn new(header: &Header) -> Self {
        Self { attrs: header.attrs.as_slice().into(), ids: Arc::clone(&header.ids) }
    }

    /// The event a sample belongs to, and its number.
    #[inline]
    pub fn of(&self, body: &[u8]) -> Option<(usize, &Attr)> {
        if let [only] = &self.attrs[..] {
            return Some((0, only));
        }
        // Events recorded together have their ids at the same offset, or nobody could distinguish them.
        let id = word_at(body, self.attrs.first()?.layout.id?)?;
        let index = self.of_id(id)?;
        Some((index, self.attrs.get(index)?))
    }

    /// The number of the event with this id.
    #[inline]
    pub fn of_id(&self, id: u64) -> Option<usize> {
        self.ids.get(&id).copied()
    }
}
