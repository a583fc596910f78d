//! The wire format of protocol buffers: what `profile.proto` uses of it.

/// A message being written.
#[derive(Default)]
pub struct Message {
    pub bytes: Vec<u8>,
}

impl Message {
    pub fn clear(&mut self) {
        self.bytes.clear();
    }

    /// A number; zero is what a missing field means.
    pub fn number(&mut self, field: u32, value: u64) {
        if value != 0 {
            self.varint(u64::from(field) << 3);
            self.varint(value);
        }
    }

    pub fn bytes(&mut self, field: u32, bytes: &[u8]) {
        self.begin_bytes(field, bytes.len());
        self.bytes.extend_from_slice(bytes);
    }

    pub fn message(&mut self, field: u32, fill: impl FnOnce(&mut Self)) {
        self.varint(u64::from(field) << 3 | 2);
        // Nearly every message is short enough for one byte.
        let start = self.bytes.len() + 1;
        self.bytes.push(0);
        fill(self);
        let len = self.bytes.len() - start;
        if len < 0x80 {
            self.bytes[start - 1] = len as u8;
        } else {
            let mut prefix = Self::default();
            prefix.varint(len as u64);
            self.bytes.splice(start - 1..start, prefix.bytes);
        }
    }

    /// The key and length that precede so many bytes of a field.
    fn begin_bytes(&mut self, field: u32, len: usize) {
        self.varint(u64::from(field) << 3 | 2);
        self.varint(len as u64);
    }

    /// Numbers one behind the other, in a field of bytes.
    pub fn packed(&mut self, field: u32, values: impl Iterator<Item = u64> + Clone) {
        let len: usize =
            values.clone().map(|value| (64 - (value | 1).leading_zeros()).div_ceil(7) as usize).sum();
        self.begin_bytes(field, len);
        values.for_each(|value| self.varint(value));
    }

    fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.bytes.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.bytes.push(value as u8);
    }
}

/// A number of up to 32 bits as a varint, and in the highest byte how many bytes that takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Element(u64);

impl Element {
    /// Bytes of the largest one.
    const LONGEST: usize = 5;

    pub fn new(mut value: u32) -> Self {
        let (mut word, mut len) = (0, 0);
        while value >= 0x80 {
            word |= u64::from(value & 0x7f | 0x80) << (8 * len);
            value >>= 7;
            len += 1;
        }
        Self(word | u64::from(value) << (8 * len) | (len + 1) << 56)
    }

    /// What is written, with its length: another one for each number.
    pub fn word(self) -> u64 {
        self.0
    }

    #[inline]
    pub fn number(self) -> u32 {
        (0..Self::LONGEST).map(|at| ((self.0 >> (8 * at)) as u32 & 0x7f) << (7 * at)).sum()
    }
}

/// Appends numbers of a packed field.
#[inline]
pub fn elements(bytes: &mut Vec<u8>, numbers: impl ExactSizeIterator<Item = Element>) {
    // Each is written as a whole word, whose rest the next one overwrites.
    let mut at = bytes.len();
    bytes.resize(at + numbers.len() * Element::LONGEST + size_of::<u64>(), 0);
    for Element(word) in numbers {
        if let Some(room) = bytes.get_mut(at..).and_then(<[u8]>::first_chunk_mut) {
            *room = word.to_le_bytes();
        }
        at += (word >> 56) as usize;
    }
    bytes.truncate(at);
}

/// What a field holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Value<'a> {
    Number(u64),
    Bytes(&'a [u8]),
}

impl<'a> Value<'a> {
    pub fn number(self) -> u64 {
        if let Value::Number(number) = self { number } else { 0 }
    }

    pub fn bytes(self) -> &'a [u8] {
        if let Value::Bytes(bytes) = self { bytes } else { b"" }
    }

    /// The numbers of a repeated field, packed or one by one.
    pub fn numbers(self, take: &mut Vec<u64>) -> Result<(), Malformed> {
        match self {
            Value::Number(number) => take.push(number),
            Value::Bytes(mut rest) => {
                while !rest.is_empty() {
                    take.push(varint(&mut rest)?);
                }
            }
        }
        Ok(())
    }
}

/// The bytes are no message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed;

/// The fields of a message, in order.
pub struct Fields<'a>(pub &'a [u8]);

impl<'a> Iterator for Fields<'a> {
    type Item = Result<(u32, Value<'a>), Malformed>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.0.is_empty() {
            return None;
        }
        let field = field(&mut self.0);
        if field.is_err() {
            self.0 = b"";
        }
        Some(field)
    }
}

fn field<'a>(rest: &mut &'a [u8]) -> Result<(u32, Value<'a>), Malformed> {
    let key = varint(rest)?;
    let number = u32::try_from(key >> 3).map_err(|_| Malformed)?;
    let value = match key & 7 {
        0 => Value::Number(varint(rest)?),
        1 => Value::Number(fixed(take(rest, 8)?)),
        2 => {
            let len = varint(rest)?;
            Value::Bytes(take(rest, usize::try_from(len).map_err(|_| Malformed)?)?)
        }
        5 => Value::Number(fixed(take(rest, 4)?)),
        _ => return Err(Malformed),
    };
    if number == 0 { Err(Malformed) } else { Ok((number, value)) }
}

fn take<'a>(rest: &mut &'a [u8], len: usize) -> Result<&'a [u8], Malformed> {
    let (taken, behind) = rest.split_at_checked(len).ok_or(Malformed)?;
    *rest = behind;
    Ok(taken)
}

fn fixed(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |value, &byte| value << 8 | u64::from(byte))
}

fn varint(rest: &mut &[u8]) -> Result<u64, Malformed> {
    let mut value = 0_u64;
    for shift in 0..10 {
        let byte = take(rest, 1)?[0];
        value |= u64::from(byte & 0x7f).checked_shl(shift * 7).unwrap_or(0);
        if byte < 0x80 {
            return Ok(value);
        }
    }
    Err(Malformed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_come_back() {
        let mut message = Message::default();
        message.number(1, 300);
        message.number(2, 0);
        message.number(3, u64::MAX);
        message.bytes(16, b"name");
        message.packed(4, [0, 127, 128, u64::MAX].into_iter());
        message.message(5, |inner| inner.bytes(1, &[7; 300]));
        message.message(6, |inner| inner.message(1, |inner| inner.number(2, 3)));
        let fields: Vec<_> = Fields(&message.bytes).collect::<Result<_, _>>().expect("well-formed");
        assert_eq!(fields[..2], [(1, Value::Number(300)), (3, Value::Number(u64::MAX))]);
        assert_eq!(fields[2], (16, Value::Bytes(b"name")));
        let mut numbers = Vec::new();
        fields[3].1.numbers(&mut numbers).expect("packed");
        assert_eq!(numbers, [0, 127, 128, u64::MAX]);
        fn first(value: Value<'_>) -> Result<(u32, Value<'_>), Malformed> {
            Fields(value.bytes()).next().expect("a field")
        }
        assert!(matches!(first(fields[4].1), Ok((1, Value::Bytes(bytes))) if *bytes == [7; 300]));
        assert!(matches!(first(fields[5].1), Ok((1, Value::Bytes(b"\x10\x03")))));
        assert_eq!(
            Fields(b"\x0d\x01\x02\x03\x04\x11\x01\0\0\0\0\0\0\0").last(),
            Some(Ok((2, Value::Number(1))))
        );
    }

    #[test]
    fn elements_are_numbers_put_together_before() {
        let values = [0, 1, 127, 128, 300, 16_383, 16_384, 2_097_151, 2_097_152, 1 << 28, u32::MAX];
        let mut chain = Message::default();
        elements(&mut chain.bytes, values.iter().map(|&value| Element::new(value)));
        assert!(values.iter().all(|&value| Element::new(value).number() == value));
        let mut packed = Message::default();
        packed.packed(1, values.iter().map(|&value| value.into()));
        let mut field = Message::default();
        field.bytes(1, &chain.bytes);
        assert_eq!(field.bytes, packed.bytes);
    }

    #[test]
    fn what_is_no_message_is_refused() {
        for bytes in [
            &b"\x08"[..],
            b"\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",
            b"\x0a\x05ab",
            b"\x0b",
            b"\x00\x01",
        ] {
            assert_eq!(Fields(bytes).last(), Some(Err(Malformed)), "{bytes:?}");
        }
    }
}
