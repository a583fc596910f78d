//! When what a record tells happened, of records that are no samples.

use super::attr::Attr;
use super::bytes::{ByteReader, until_zero};
use crate::format::{BPF_EVENT_LEN, kind, ksymbol, sample_type};

/// Where they keep their time: of thread, time, ids and CPU, with which they end.
#[derive(Clone, Copy, Default)]
pub struct RecordTime {
    /// How many bytes before the end; 0 if they have none.
    from_end: usize,
    /// How many bytes after what is a record's own.
    after_own: usize,
}

impl RecordTime {
    pub fn new(attr: &Attr) -> Self {
        use sample_type::{CPU, ID, IDENTIFIER, STREAM_ID, TID, TIME};
        if !attr.sample_id_all || !attr.has(TIME) {
            return Self::default();
        }
        let after = [ID, STREAM_ID, CPU, IDENTIFIER].iter().filter(|&&bit| attr.has(bit)).count();
        Self { from_end: 8 * (1 + after), after_own: if attr.has(TID) { 8 } else { 0 } }
    }

    /// In ns of the recording's clock; 0 if it has none.
    ///
    /// Where several recordings are told of a BPF program, Linux (seen on 6.18) makes the record larger for each of
    /// them, by thread, time, ids and CPU once more: what is at its end is then what the buffer held before. The time of
    /// these two kinds is looked for from the front.
    pub fn of(&self, kind: u32, body: &[u8]) -> u64 {
        if self.from_end == 0 {
            return 0;
        }
        let at = match kind {
            kind::KSYMBOL => {
                let name = until_zero(body.get(ksymbol::NAME_AT..).unwrap_or(&[]));
                Some(ksymbol::NAME_AT + (name.len() + 1).next_multiple_of(8) + self.after_own)
            }
            kind::BPF_EVENT => Some(BPF_EVENT_LEN + self.after_own),
            _ => body.len().checked_sub(self.from_end),
        };
        at.and_then(|at| ByteReader(body.get(at..)?).u64()).unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Thread, time, id and CPU: 1 to 4.
    fn record(own: &[u8], stale: &[u8]) -> Vec<u8> {
        let ids = (1_u64..=4).flat_map(u64::to_le_bytes);
        own.iter().copied().chain(ids).chain(stale.iter().copied()).collect()
    }

    #[test]
    fn the_time_of_a_record_is_its_own_though_the_kernel_made_it_too_large() {
        use sample_type::{CPU, ID, TID, TIME};
        let attr = Attr { sample_id_all: true, sample_type: TID | TIME | ID | CPU, ..Attr::default() };
        let time = RecordTime::new(&attr);
        let of_name = |name: &[u8]| [&[7; 16], name].concat();
        for stale in [&[][..], &[9; 32], &[9; 64]] {
            assert_eq!(time.of(kind::BPF_EVENT, &record(&[7; 16], stale)), 2);
            for name in [&b"seven..\0"[..], b"\0\0\0\0\0\0\0\0", b"eight...\0\0\0\0\0\0\0\0"] {
                assert_eq!(time.of(kind::KSYMBOL, &record(&of_name(name), stale)), 2);
            }
        }
        assert_eq!(time.of(kind::COMM, &record(b"\x07\0\0\0\x07\0\0\0comm\0\0\0\0", &[])), 2);
        // What is cut has none, and nothing is read beside it.
        for kind in [kind::KSYMBOL, kind::BPF_EVENT, kind::COMM] {
            assert!((0..20).all(|len| time.of(kind, &vec![7; len]) == 0));
        }
    }

    #[test]
    fn without_a_clock_in_each_record_there_is_no_time() {
        let attr = Attr { sample_type: sample_type::TIME, ..Attr::default() };
        assert_eq!(RecordTime::new(&attr).of(kind::COMM, &[1; 64]), 0);
    }
}
