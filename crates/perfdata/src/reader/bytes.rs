//! Reading numbers out of records: every read may find too little, none panics.

/// What is left of a record.
#[derive(Clone, Copy, Debug)]
pub struct ByteReader<'a>(pub &'a [u8]);

impl<'a> ByteReader<'a> {
    #[inline]
    pub fn take(&mut self, len: u64) -> Option<&'a [u8]> {
        let (head, rest) = self.0.split_at_checked(usize::try_from(len).ok()?)?;
        self.0 = rest;
        Some(head)
    }

    #[inline]
    pub fn u16(&mut self) -> Option<u16> {
        self.take(2)?.try_into().ok().map(u16::from_le_bytes)
    }

    #[inline]
    pub fn u32(&mut self) -> Option<u32> {
        self.take(4)?.try_into().ok().map(u32::from_le_bytes)
    }

    #[inline]
    pub fn i32(&mut self) -> Option<i32> {
        self.take(4)?.try_into().ok().map(i32::from_le_bytes)
    }

    #[inline]
    pub fn u64(&mut self) -> Option<u64> {
        self.take(8)?.try_into().ok().map(u64::from_le_bytes)
    }

    /// That many numbers of 8 bytes, as bytes.
    #[inline]
    pub fn words(&mut self, count: u64) -> Option<&'a [u8]> {
        self.take(count.checked_mul(8)?)
    }

    /// Up to the first zero byte.
    pub fn text(&self) -> &'a [u8] {
        until_zero(self.0)
    }

    /// A string of a header: its length, then that many bytes with zeros behind.
    #[inline]
    pub fn string(&mut self) -> Option<&'a [u8]> {
        let len = self.u32()?;
        self.take(len.into()).map(until_zero)
    }
}

#[inline]
pub fn until_zero(bytes: &[u8]) -> &[u8] {
    &bytes[..memchr::memchr(0, bytes).unwrap_or(bytes.len())]
}

/// The numbers of a slice whose length is a multiple of 8.
#[inline]
pub fn words(bytes: &[u8]) -> impl DoubleEndedIterator<Item = u64> + ExactSizeIterator + '_ {
    bytes.chunks_exact(8).map(|word| u64::from_le_bytes(word.try_into().unwrap_or_default()))
}
