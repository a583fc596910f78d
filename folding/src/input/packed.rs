//! Inputs packed with gzip, xz or zstd, whatever they hold.

use flate2::read::MultiGzDecoder;
use lzma_rust2::XzReader;
use perfdata::reader::stream::most_unpacked;
use std::io::{self, BufReader, Cursor, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use zstd::stream::read::Decoder as ZstdDecoder;

const GZIP: &[u8] = b"\x1f\x8b";
const XZ: &[u8] = b"\xfd7zXZ\0";
const ZSTD: &[u8] = b"\x28\xb5\x2f\xfd";

/// For the dictionary of xz, which at its highest level takes 64 MiB. zstd refuses more than 128 MiB itself.
const MEMORY_KIB: u32 = 128 << 10;

/// Whether an input that begins so is packed.
pub fn is_packed(head: &[u8]) -> bool {
    [GZIP, XZ, ZSTD].iter().any(|magic| head.starts_with(magic))
}

/// What a packed input holds.
pub struct Unpacker {
    decoder: Box<dyn Read + Send>,
    /// Bytes that the decoder took so far.
    taken: Arc<AtomicU64>,
    given: u64,
    /// Nothing follows it.
    failure: Option<String>,
}

impl Unpacker {
    /// head: the first bytes of the input, which is packed; rest: those that follow
    pub fn new(head: Vec<u8>, rest: impl Read + Send + 'static) -> io::Result<Self> {
        let taken = Arc::new(AtomicU64::new(0));
        let magic = head.get(..2).unwrap_or_default();
        let (is_gzip, is_xz) = (GZIP.starts_with(magic), XZ.starts_with(magic));
        let input =
            Counted { input: BufReader::new(Cursor::new(head).chain(rest)), taken: Arc::clone(&taken) };
        let decoder: Box<dyn Read + Send> = if is_gzip {
            Box::new(MultiGzDecoder::new(input))
        } else if is_xz {
            Box::new(XzReader::new_mem_limit(input, true, MEMORY_KIB))
        } else {
            Box::new(ZstdDecoder::new(input)?)
        };
        Ok(Self { decoder, taken, given: 0, failure: None })
    }
}

impl Read for Unpacker {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        if self.failure.is_none() {
            match self.decoder.read(out) {
                Ok(len) => {
                    self.given += len as u64;
                    let taken = self.taken.load(Ordering::Relaxed);
                    if self.given <= most_unpacked(taken) {
                        return Ok(len);
                    }
                    let given = self.given;
                    self.failure = Some(format!(
                        "it unpacks to more than any profile does: {taken} bytes to {given} so far"
                    ));
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => return Err(error),
                Err(error) => self.failure = Some(format!("unpacking it failed: {error}")),
            }
        }
        Err(io::Error::other(self.failure.clone().unwrap_or_default()))
    }
}

/// Counts what is read.
struct Counted<R> {
    input: R,
    taken: Arc<AtomicU64>,
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let len = self.input.read(out)?;
        self.taken.fetch_add(len as u64, Ordering::Relaxed);
        Ok(len)
    }
}

/// Appends all of an input; false: it has more bytes than `most`.
pub fn read_whole(input: &mut dyn Read, most: usize, bytes: &mut Vec<u8>) -> io::Result<bool> {
    while bytes.len() <= most {
        // Never more room than may be needed.
        let more = bytes.len().clamp(1 << 16, most + 1 - bytes.len().min(most));
        bytes.try_reserve_exact(more)?;
        if input.take(more as u64).read_to_end(bytes)? < more {
            return Ok(true);
        }
    }
    Ok(false)
}
