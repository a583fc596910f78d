//! The least that a folder of `perf.data` can do: read the records as they lie in the file, and count different call
//! chains. No order, no processes, no names. `make bench` measures stackfold against it.
//!
//! `cargo run --release --example chains perf.data`, for a file with one event and frame-pointer chains.

#![allow(clippy::print_stdout, reason = "a benchmark, read by its caller")]

use std::io::{BufReader, Read, Seek, SeekFrom};
use symbolize::intern::Interner;

const SAMPLE: u32 = 9;
/// Identifier, place, thread, time, address, id, stream, processor: 8 bytes each.
const BEFORE_PERIOD: u64 = 1 << 16 | 1 | 1 << 1 | 1 << 2 | 1 << 3 | 1 << 6 | 1 << 9 | 1 << 7;
const PERIOD: u64 = 1 << 8;
const READ: u64 = 1 << 4;
const CALLCHAIN: u64 = 1 << 5;

fn word(bytes: &[u8], at: usize) -> u64 {
    bytes.get(at..at + 8).map_or(0, |word| u64::from_le_bytes(word.try_into().unwrap_or_default()))
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let path = std::env::args_os().nth(1).ok_or("usage: chains perf.data")?;
    let mut file = BufReader::with_capacity(1 << 18, std::fs::File::open(path)?);
    let mut header = [0; 104];
    file.read_exact(&mut header)?;
    let (attrs, data, size) = (word(&header, 24), word(&header, 40), word(&header, 48));
    let mut attr = [0; 48];
    file.seek(SeekFrom::Start(attrs))?;
    file.read_exact(&mut attr)?;
    let kinds = word(&attr, 24);
    if kinds & READ != 0 || kinds & CALLCHAIN == 0 || kinds & PERIOD == 0 {
        return Err("the samples need periods and call chains, and no counter values".into());
    }
    let period = 8 * (kinds & BEFORE_PERIOD).count_ones() as usize;

    let mut chains = Interner::<u64>::default();
    let mut weights: Vec<u64> = Vec::new();
    let (mut chain, mut body, mut samples, mut at) = (Vec::new(), Vec::new(), 0_u64, 0);
    file.seek(SeekFrom::Start(data))?;
    while at < size {
        let mut head = [0; 8];
        file.read_exact(&mut head)?;
        let kind = u32::from_le_bytes([head[0], head[1], head[2], head[3]]);
        let len = u16::from_le_bytes([head[6], head[7]]);
        body.resize(usize::from(len).saturating_sub(8), 0);
        file.read_exact(&mut body)?;
        at += u64::from(len.max(8));
        if kind != SAMPLE {
            continue;
        }
        let depth = word(&body, period + 8) as usize;
        let words = body.get(period + 16..).unwrap_or(&[]).chunks_exact(8).take(depth);
        chain.clear();
        chain.extend(words.map(|bytes| word(bytes, 0)));
        let (id, new) = chains.intern(&chain);
        if new {
            weights.push(0);
        }
        weights[id as usize] += word(&body, period);
        samples += 1;
    }
    println!("{samples} samples, {} chains, weight {}", chains.len(), weights.iter().sum::<u64>());
    Ok(())
}
