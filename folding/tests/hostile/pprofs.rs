//! Profiles of pprof.

use super::{refused, written};
use flate2::{Compression, write::GzEncoder};
use std::io::Write;

fn varint(mut value: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    while value >= 0x80 {
        bytes.push(value as u8 | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
    bytes
}

fn message(field: u64, bytes: &[u8]) -> Vec<u8> {
    [varint(field << 3 | 2), varint(bytes.len() as u64), bytes.to_vec()].concat()
}

fn number(field: u64, value: u64) -> Vec<u8> {
    [varint(field << 3), varint(value)].concat()
}

/// A profile with one type of samples, and what is put behind that.
fn profile(rest: &[&[u8]]) -> Vec<u8> {
    let types = message(1, &[number(1, 1), number(2, 2)].concat());
    let names: Vec<u8> =
        [&b""[..], b"cpu", b"nanoseconds", b"f"].iter().flat_map(|name| message(6, name)).collect();
    [types, names, rest.concat()].concat()
}

/// Locations whose functions inlined a thousand others, and samples that are a thousand times in each.
#[test]
fn frames_are_not_multiplied_without_end() {
    let function = message(5, &[number(1, 1), number(2, 3)].concat());
    let line = message(4, &number(1, 1));
    let location = message(4, &[number(1, 1), line.repeat(10_000)].concat());
    let sample = message(2, &[message(1, &[1; 10_000]), message(2, &[1])].concat());
    let once = message(2, &[message(1, &[1]), message(2, &[1])].concat());
    let (out, _) = written(profile(&[&function, &location, &once]), &["--input-format", "pprof"]);
    assert_eq!(out, "f;".repeat(9_999) + "f 1\n");
    let many = profile(&[&function, &location, &sample.repeat(500)]);
    refused(many, &["--input-format", "pprof"], 2, "frames");
}

/// A gigabyte of what takes two bytes each, in a megabyte.
#[test]
fn what_is_unpacked_is_bounded_with_what_is_made_of_it() {
    let line = message(4, &[]);
    let samples = message(2, &[]);
    for field in [message(6, b""), samples, message(15, b""), message(1, b""), message(4, &line.repeat(60))] {
        let count = (1 << 20) / field.len();
        let mut member = GzEncoder::new(Vec::new(), Compression::best());
        member.write_all(&field.repeat(count)).expect("memory");
        let packed = member.finish().expect("memory").repeat(400);
        refused(packed, &["--input-format", "pprof"], 2, "pprof");
    }
}

#[test]
fn labels_and_values_of_one_sample_are_bounded() {
    let sample = |inner: Vec<u8>| profile(&[&message(2, &inner)]);
    for inner in [message(3, b"").repeat(60 << 20), message(2, &vec![1; 200 << 20])] {
        refused(sample(inner), &["--input-format", "pprof"], 2, "sample");
    }
}
