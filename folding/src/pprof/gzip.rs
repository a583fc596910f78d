//! gzip of one member, whose pieces are packed apart from each other, as pigz does: each ends on a byte (a sync flush), so
//! that what follows may be packed by somebody else.

use crate::pool;
use flate2::{Compress, Compression, Crc, FlushCompress, Status};
use std::io::{self, Write};
use std::sync::{Mutex, PoisonError};

/// Magic, deflate, no flags, no time, the fastest level, a system nobody knows.
const HEADER: [u8; 10] = [0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 4, 255];
/// A last block with nothing in it.
const LAST_BLOCK: [u8; 2] = [3, 0];
/// Pieces that wait to be packed, for each thread.
const WAITING: usize = 4;

/// A piece, packed.
pub struct Packed {
    bytes: Vec<u8>,
    crc: Crc,
}

/// Packs pieces. What that needs is large, so it is kept.
#[derive(Default)]
pub struct Packer(Mutex<Vec<Compress>>);

impl Packer {
    pub fn pack(&self, text: &[u8]) -> io::Result<Packed> {
        let spare = || self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let known = spare().pop();
        let mut packer = known.unwrap_or_else(|| Compress::new(Compression::fast(), false));
        let mut bytes = Vec::with_capacity(text.len() / 2 + 64);
        loop {
            let rest = text.get(packer.total_in() as usize..).unwrap_or_default();
            let status =
                packer.compress_vec(rest, &mut bytes, FlushCompress::Sync).map_err(io::Error::other)?;
            // Room that is left tells that nothing is held back.
            if packer.total_in() as usize == text.len() && bytes.len() < bytes.capacity() {
                break;
            }
            if status == Status::StreamEnd {
                return Err(io::Error::other("deflate ended before its text"));
            }
            bytes.reserve(bytes.capacity().max(64));
        }
        packer.reset();
        spare().push(packer);
        let mut crc = Crc::new();
        crc.update(text);
        Ok(Packed { bytes, crc })
    }
}

/// A file being written.
pub struct Gzip<'o> {
    out: &'o mut dyn Write,
    crc: Crc,
    pub packer: &'o Packer,
    waiting: Vec<Vec<u8>>,
    threads: usize,
}

impl<'o> Gzip<'o> {
    pub fn begin(out: &'o mut dyn Write, packer: &'o Packer, threads: usize) -> io::Result<Self> {
        out.write_all(&HEADER)?;
        Ok(Self { out, crc: Crc::new(), packer, waiting: Vec::new(), threads })
    }

    /// Adds a piece, which is packed together with others by several threads.
    pub fn text(&mut self, text: Vec<u8>) -> io::Result<()> {
        self.waiting.push(text);
        if self.waiting.len() >= WAITING * self.threads { self.pack_waiting() } else { Ok(()) }
    }

    /// Adds a piece that was packed already.
    pub fn packed(&mut self, piece: &Packed) -> io::Result<()> {
        self.pack_waiting()?;
        self.add(piece)
    }

    fn pack_waiting(&mut self) -> io::Result<()> {
        let waiting = std::mem::take(&mut self.waiting);
        for piece in pool::each(&waiting, self.threads, |text| self.packer.pack(text)) {
            self.add(&piece?)?;
        }
        Ok(())
    }

    fn add(&mut self, piece: &Packed) -> io::Result<()> {
        self.crc.combine(&piece.crc);
        self.out.write_all(&piece.bytes)
    }

    pub fn finish(mut self) -> io::Result<()> {
        self.pack_waiting()?;
        self.out.write_all(&LAST_BLOCK)?;
        self.out.write_all(&self.crc.sum().to_le_bytes())?;
        self.out.write_all(&self.crc.amount().to_le_bytes())?;
        self.out.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;

    fn unpacked(file: &[u8]) -> Vec<u8> {
        let (mut decoder, mut text) = (flate2::read::GzDecoder::new(file), Vec::new());
        decoder.read_to_end(&mut text).expect("one member, with the right sum");
        assert!(decoder.into_inner().is_empty());
        text
    }

    #[test]
    fn pieces_come_back_in_their_order() {
        let texts: Vec<Vec<u8>> = (0..40_u32)
            .map(|n| (0..n * 997).map(|at| (at.wrapping_mul(at ^ n) >> (n % 13)) as u8).collect())
            .collect();
        let mut files = Vec::new();
        for threads in [1, 3] {
            let (packer, mut file) = (Packer::default(), Vec::new());
            let mut gzip = Gzip::begin(&mut file, &packer, threads).unwrap();
            for (n, text) in texts.iter().enumerate() {
                if n % 7 == 3 {
                    gzip.packed(&packer.pack(text).unwrap()).unwrap();
                } else {
                    gzip.text(text.clone()).unwrap();
                }
            }
            gzip.finish().unwrap();
            assert!(unpacked(&file) == texts.concat());
            files.push(file);
        }
        assert!(files[0] == files[1]);
    }

    #[test]
    fn nothing_is_a_file_too() {
        let (packer, mut file) = (Packer::default(), Vec::new());
        Gzip::begin(&mut file, &packer, 1).unwrap().finish().unwrap();
        assert_eq!(unpacked(&file), b"");
    }
}
