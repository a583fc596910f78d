//! A recording, read: bytes into records, records into the order of their times, samples into their parts. What is in it is
//! not believed: any bytes may come, and what cannot be read is an error or nothing, never a panic.

pub mod attr;
pub mod blocks;
pub mod bytes;
pub mod event_ids;
pub mod header;
pub mod mapped_file;
pub mod record_time;
pub mod sample;
pub mod sorter;
pub mod stream;
