//! Records as the program sends them: a head, and as many spans as there are.

use std::mem::{MaybeUninit, offset_of, size_of};

use super::skeleton::{self, types};
use crate::layout::{Plain, plain};

plain!(record, span, stack);

/// The most that is held of one window.
pub const MOST_BYTES: usize = 512 << 20;

/// What came through the ring.
#[derive(Default)]
pub struct Received {
    records: Vec<Box<[u8]>>,
    bytes: usize,
    /// There was no room for these.
    pub lost: u64,
}

impl Received {
    pub fn take(&mut self, bytes: &[u8]) {
        if self.bytes + bytes.len() > MOST_BYTES {
            self.lost += 1;
            return;
        }
        self.bytes += bytes.len();
        self.records.push(bytes.into());
    }

    pub fn len(&self) -> usize {
        self.records.len()
    }

    pub fn records(&self) -> impl Iterator<Item = types::record> {
        self.records.iter().map(|bytes| decoded(bytes))
    }
}

impl types::record {
    pub fn seen(&self) -> &[types::span] {
        &self.span[..(self.spans as usize).min(self.span.len())]
    }
}

/// A record with the spans that were not sent zero.
fn decoded(bytes: &[u8]) -> types::record {
    fn zeroed<T: Plain>() -> MaybeUninit<T> {
        MaybeUninit::zeroed()
    }
    let size = bytes.len().min(size_of::<types::record>());
    assert!(size >= offset_of!(types::record, span), "a record of {} bytes", bytes.len());
    let mut whole = zeroed::<types::record>();
    // SAFETY: no more bytes than the type has, and any are one: it is Plain.
    unsafe {
        std::ptr::copy_nonoverlapping(bytes.as_ptr(), whole.as_mut_ptr().cast(), size);
        whole.assume_init()
    }
}
