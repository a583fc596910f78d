//! From the records of the programs to those of the file.

use std::fs;
use std::io::{self, BufWriter};
use std::path::Path;

use observer::states::OffCpu as State;

use super::file::{self, FileSpan, FileSpanKind, Head};
use super::raw::Received;
use super::skeleton::types::{record as Record, span as Span, span_kind};
use super::split::{self, OwnRequest, Parts, QueryPart, Wait};
use super::wait_stacks::{WaitClassifier, WaitStacks};

/// What became of the records.
pub struct Written {
    pub places: WaitStacks,
    pub waits_beyond: u64,
    pub requests_beyond: u64,
    /// Records whose parts were more than the whole.
    pub uneven: u64,
}

/// The file of records appears whole or not at all.
pub fn write_records(
    path: &Path,
    clocks: [u64; 2],
    received: &Received,
    classifier: &WaitClassifier,
) -> io::Result<Written> {
    let mut out = BufWriter::with_capacity(1 << 18, fs::File::create(path)?);
    let mut written =
        Written { places: WaitStacks::default(), waits_beyond: 0, requests_beyond: 0, uneven: 0 };
    file::write_head(&mut out, clocks)?;
    for record in received.records() {
        written.waits_beyond += u64::from(record.waits_beyond);
        written.requests_beyond += u64::from(record.requests_beyond);
        let (head, spans, over) = encode_record(&record, &mut written.places, classifier);
        written.uneven += u64::from(over > 0);
        file::write_record(&mut out, &head, &spans)?;
    }
    out.into_inner().map_err(io::IntoInnerError::into_error)?.sync_data()?;
    Ok(written)
}

/// A record as the file has it; by how much its parts are more than the whole.
fn encode_record(
    record: &Record,
    places: &mut WaitStacks,
    classifier: &WaitClassifier,
) -> (Head, Vec<FileSpan>, u64) {
    let is = |span: &Span, kind: span_kind| u32::from(span.kind) == kind.0;
    let is_request = |span: &&Span| is(span, span_kind::REQUEST);
    let (begin, end) = (record.begun, record.ended);
    let requests: Vec<OwnRequest> = record
        .seen()
        .iter()
        .filter(is_request)
        .map(|span| OwnRequest {
            held_until: if span.state == 0 { 0 } else { span.at[0] },
            issued: span.at[1],
            completed: span.at[2],
        })
        .collect();
    // The number of each among the spans, from 1 on.
    let at: Vec<u16> =
        (1_u16..).zip(record.seen()).filter(|(_, span)| is_request(span)).map(|(at, _)| at).collect();
    let mut parts: Parts = [0; split::PARTS.len()];
    let mut spans = Vec::with_capacity(record.seen().len());
    for span in record.seen() {
        if is_request(&span) {
            let (major, minor) = ((span.kernel >> 32) as u32, span.kernel as u32);
            let device = major << 20 | minor;
            spans.push(FileSpan {
                at: span.at,
                kind: FileSpanKind::Request,
                bytes: span.who,
                device,
                beside: [0, 16, 32, 48].map(|shift| (span.other >> shift) as u16),
                ..FileSpan::default()
            });
            continue;
        }
        if is(span, span_kind::SAMPLE) {
            spans.push(FileSpan {
                // The query's end was read before it was over.
                at: span.at.map(|at| at.clamp(begin, end)),
                kind: FileSpanKind::Sample,
                place: places.of_sample(span),
                ..FileSpan::default()
            });
            continue;
        }
        let [left, woken, runs] = span.at;
        let (place, state, awaited) = places.of(span, woken.saturating_sub(left), classifier);
        let more = record.requests_beyond > 0;
        let wait = Wait { left, woken, runs, other: span.other, awaited, more }.within(begin, end);
        let (request, part) = wait.add_to(&mut parts, &requests);
        spans.push(FileSpan {
            at: [wait.left, wait.woken, wait.runs],
            place,
            waker: span.who,
            part: part as u16,
            awaited: request.map_or(0, |request| at[request]),
            state: state as u16,
            ..FileSpan::default()
        });
    }
    add_beyond(record, &mut parts);
    let over = split::close(&mut parts, end - begin);
    let head = Head {
        begin_ns: begin,
        end_ns: end,
        own_ns: record.own_ns,
        bytes: record.bytes,
        parts,
        tid: record.tid,
        weight: record.weight,
        reads: record.reads,
        min_flt: record.min_flt,
        maj_flt: record.maj_flt,
        flags: record.flags,
        waits_beyond: record.waits_beyond,
        requests_beyond: record.requests_beyond,
        samples: record.samples,
    };
    (head, spans, over)
}

/// Waits that had no room of their own, by what the kernel says of them alone.
fn add_beyond(record: &Record, parts: &mut Parts) {
    for (state, ns) in State::ALL.into_iter().zip(record.beyond_ns) {
        let part = match state {
            State::Preempted | State::Woken => QueryPart::RunQueue,
            State::Io | State::Uninterruptible => QueryPart::UnknownIo,
            _ => QueryPart::Blocked,
        };
        parts[part as usize] += ns;
    }
}
