//! A long sequence of bytes in blocks, each kept as long as somebody needs it. Records lie whole in one block.

use super::mapped_file::{FileWindow, MappedFile};
use std::collections::VecDeque;
use std::io::{self, Read};
use std::ops::Range;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, SyncSender};

/// Bytes read at once.
const BLOCK: usize = 1 << 19;
/// Room in front of a block for the beginning of a record that was cut; the length of a record has 16 bits.
const FRONT: usize = 1 << 16;

/// Part of the sequence.
pub struct Block {
    bytes: BlockBytes,
    start: usize,
    end: usize,
}

enum BlockBytes {
    Read(Vec<u8>),
    Mapped(Arc<FileWindow>),
}

impl BlockBytes {
    #[inline]
    fn all(&self) -> &[u8] {
        match self {
            Self::Read(bytes) => bytes,
            Self::Mapped(window) => window.bytes(),
        }
    }
}

impl Default for Block {
    fn default() -> Self {
        Self { bytes: BlockBytes::Read(vec![0; FRONT + BLOCK]), start: FRONT, end: FRONT }
    }
}

impl Block {
    /// Reads until the block is full or there is no more.
    fn fill(&mut self, input: &mut impl Read) -> io::Result<()> {
        self.start = FRONT;
        self.end = FRONT;
        self.end += read_up_to(input, self.room())?;
        Ok(())
    }

    /// Room behind the end.
    fn room(&mut self) -> &mut [u8] {
        match &mut self.bytes {
            BlockBytes::Read(bytes) => &mut bytes[self.end..],
            BlockBytes::Mapped(_) => &mut [],
        }
    }
}

/// Bytes of a block.
#[derive(Clone, Copy)]
pub struct Body<'a> {
    pub bytes: &'a [u8],
    /// Where they lie, if they stay there as long as somebody wants them, and at which place.
    window: Option<(&'a Arc<FileWindow>, usize)>,
}

impl<'a> Body<'a> {
    /// Bytes that stay nowhere.
    #[inline]
    pub fn of(bytes: &'a [u8]) -> Self {
        Self { bytes, window: None }
    }

    /// The same bytes for as long as they are wanted, if that takes no copy.
    pub fn kept(self) -> Option<SharedBody> {
        let (window, start) = self.window?;
        Some(SharedBody { window: Arc::clone(window), range: start..start + self.bytes.len() })
    }
}

/// Bytes of a window that is kept.
pub struct SharedBody {
    window: Arc<FileWindow>,
    range: Range<usize>,
}

impl SharedBody {
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        self.window.bytes().get(self.range.clone()).unwrap_or(&[])
    }
}

/// The blocks still needed.
#[derive(Default)]
pub struct Blocks {
    held: VecDeque<Block>,
    /// The number of the first one.
    first: u32,
    /// Where the first record not taken yet begins in the last one.
    at: usize,
    spare: Vec<Block>,
}

impl Blocks {
    /// The number of the last block.
    #[inline]
    pub fn last(&self) -> u32 {
        (self.first + self.held.len() as u32).saturating_sub(1)
    }

    /// Bytes of a block that is held; none, if it is not.
    #[inline]
    pub fn get(&self, block: u32, start: u32, len: u16) -> Body<'_> {
        let start = start as usize;
        let Some(block) = self.held.get(block.wrapping_sub(self.first) as usize) else {
            return Body::of(&[]);
        };
        let bytes = block.bytes.all().get(start..start + usize::from(len)).unwrap_or(&[]);
        match &block.bytes {
            BlockBytes::Mapped(window) => Body { bytes, window: Some((window, start)) },
            BlockBytes::Read(_) => Body::of(bytes),
        }
    }

    /// The bytes not taken yet that are there.
    #[inline]
    pub fn rest(&self) -> &[u8] {
        self.held.back().and_then(|last| last.bytes.all().get(self.at..last.end)).unwrap_or(&[])
    }

    /// Takes bytes; gives the place of the first one.
    #[inline]
    pub fn take(&mut self, len: usize) -> (u32, u32) {
        let start = self.at as u32;
        self.at += len;
        (self.last(), start)
    }

    /// Room behind what is there. Blocks before `needed` may be used again.
    pub fn room(&mut self, needed: u32) -> &mut [u8] {
        if self.held.back_mut().is_none_or(|last| last.room().is_empty()) {
            self.release(needed);
            let mut block = self.spare.pop().unwrap_or_default();
            (block.start, block.end) = (FRONT, FRONT);
            self.push(block);
        }
        self.held.back_mut().map_or(&mut [], Block::room)
    }

    /// So much of the room was filled.
    pub fn filled(&mut self, len: usize) {
        if let Some(last) = self.held.back_mut() {
            last.end = (last.end + len).min(last.bytes.all().len());
        }
    }

    /// Adds a block, and puts before it what is left of the one before.
    fn push(&mut self, mut block: Block) {
        let rest = self.rest();
        if let (Some(start), BlockBytes::Read(bytes)) =
            (block.start.checked_sub(rest.len()), &mut block.bytes)
        {
            bytes[start..block.start].copy_from_slice(rest);
            block.start = start;
        }
        self.at = block.start;
        self.held.push_back(block);
    }

    /// Reuses the blocks before `needed`.
    fn release(&mut self, needed: u32) {
        while self.first < needed.min(self.last()) {
            let block = self.held.pop_front().filter(|block| matches!(block.bytes, BlockBytes::Read(_)));
            self.spare.extend(block);
            self.first += 1;
        }
    }
}

/// Where the bytes come from.
pub enum Input<R> {
    Here(R),
    /// A file is looked at where the kernel keeps it.
    Mapped(MappedFile),
    /// Another thread reads them.
    Ahead(BlockReader),
}

/// The near end of a thread that reads.
pub struct BlockReader {
    pub full: Receiver<io::Result<Block>>,
    pub empty: Sender<Block>,
}

impl<R: Read> Input<R> {
    /// Adds bytes; false at the end.
    pub fn more(&mut self, blocks: &mut Blocks, needed: u32) -> io::Result<bool> {
        match self {
            Self::Here(input) => loop {
                match input.read(blocks.room(needed)) {
                    Ok(n) => {
                        blocks.filled(n);
                        return Ok(n > 0);
                    }
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                    Err(error) => return Err(error),
                }
            },
            Self::Mapped(file) => {
                let rest = blocks.rest().len();
                let (window, skipped) = file.next(rest as u64)?;
                let end = window.bytes().len();
                blocks.release(needed);
                blocks.push(Block { bytes: BlockBytes::Mapped(Arc::new(window)), start: skipped, end });
                Ok(end - skipped > rest)
            }
            Self::Ahead(reader) => {
                blocks.release(needed);
                for block in blocks.spare.drain(..) {
                    // A thread that reached the end wants none.
                    let _ = reader.empty.send(block);
                }
                let Ok(block) = reader.full.recv() else { return Ok(false) };
                let block = block?;
                let more = block.end > block.start;
                blocks.push(block);
                Ok(more)
            }
        }
    }
}

/// Reads until the buffer is full or there is no more; how much was read.
pub fn read_up_to(input: &mut (impl Read + ?Sized), buffer: &mut [u8]) -> io::Result<usize> {
    let mut have = 0;
    while have < buffer.len() {
        match input.read(&mut buffer[have..]) {
            Ok(0) => break,
            Ok(n) => have += n,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(have)
}

/// Reads blocks to the end, as long as somebody takes them.
pub fn read_all(mut input: impl Read, full: &SyncSender<io::Result<Block>>, empty: &Receiver<Block>) {
    loop {
        let mut block = empty.try_recv().unwrap_or_default();
        let result = block.fill(&mut input);
        let last = result.is_err() || block.end == block.start;
        if full.send(result.map(|()| block)).is_err() || last {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::{channel, sync_channel};

    /// Takes pieces of all lengths, keeps the last few, and looks at them again.
    fn pieces_stay_whole(mut input: Input<&[u8]>, bytes: &[u8]) {
        let mut blocks = Blocks::default();
        let mut kept: VecDeque<(u32, u32, u16, usize)> = VecDeque::new();
        let (mut taken, mut len) = (0, 1);
        while taken < bytes.len() {
            len = (len * 7 + 3) % 65_521;
            len = len.min(bytes.len() - taken);
            while blocks.rest().len() < len {
                let needed = kept.front().map_or(u32::MAX, |piece| piece.0);
                assert!(input.more(&mut blocks, needed).unwrap());
            }
            let (block, start) = blocks.take(len);
            kept.push_back((block, start, len as u16, taken));
            taken += len;
            for &(block, start, len, from) in &kept {
                assert!(blocks.get(block, start, len).bytes == &bytes[from..from + usize::from(len)]);
            }
            if kept.len() > 40 {
                kept.pop_front();
            }
        }
        assert!(!input.more(&mut blocks, u32::MAX).unwrap());
        assert!(blocks.held.len() + blocks.spare.len() < 10);
    }

    #[test]
    fn records_are_whole_wherever_blocks_end() {
        let bytes: Vec<u8> = (0..5 * BLOCK + 1234).map(|n| (n * 31 / 7) as u8).collect();
        pieces_stay_whole(Input::Here(&bytes[..]), &bytes);
        std::thread::scope(|scope| {
            let (full, take) = sync_channel(2);
            let (give, empty) = channel();
            let input = &bytes[..];
            scope.spawn(move || read_all(input, &full, &empty));
            pieces_stay_whole(Input::Ahead(BlockReader { full: take, empty: give }), &bytes);
        });
    }
}
