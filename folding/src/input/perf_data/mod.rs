//! `perf.data`, as `perf record` writes it to a file or to a pipe.
//!
//! ```text
//! Stream (bytes -> records) -> Order (by time) -> State (who, what is mapped) -> ChainBuilder -> SampleBatcher
//! SampleBatcher (batches) -> Chains (addresses, counted) -> naming -> Collector
//! ```
//!
//! Walking copied stacks and naming may be shared out among threads. Reading and putting in order is the work of one.

mod address_resolver;
mod address_space;
mod chain_builder;
mod chain_counts;
mod chains;
mod context_cache;
mod counters;
mod deferred;
mod naming;
mod process_maps;
mod sample_batcher;
mod state;
mod thread_starts;
mod tracker;
mod walk_pool;

use super::Source;
use crate::collector::Collector;
use crate::error::Error;
use crate::symbols::SymbolOptions;
use crate::threads;
use perfdata::format::{MAGIC, MAGIC_SWAPPED, PIPE_HEADER, kind, sample_type};
use perfdata::reader::blocks::{BlockReader, Input, read_all, read_up_to};
use perfdata::reader::bytes::ByteReader;
use perfdata::reader::header::Header;
use perfdata::reader::mapped_file::MappedFile;
pub use perfdata::reader::mapped_file::Storage;
use perfdata::reader::record_time::RecordTime;
use perfdata::reader::sample::word_at;
use perfdata::reader::sorter::{RecordSorter, SortedRecord};
use perfdata::reader::stream::{Record, Stream};
use state::State;
use std::io::{Read, SeekFrom};
use std::sync::mpsc::{channel, sync_channel};
use std::sync::{Mutex, PoisonError};

/// Bytes of records that are worth putting in order.
const PIECE: usize = 1 << 18;
/// Events and ids that are looked at again because more of them are told between samples.
const RETOLD: usize = 1 << 22;
/// Blocks read ahead.
const AHEAD: usize = 4;

/// Whether these first bytes of an input are those of a recording.
pub fn is_recording(head: &[u8]) -> bool {
    head.starts_with(&MAGIC) || head.starts_with(&MAGIC_SWAPPED)
}

/// Whether a recording that begins so can be read from a pipe: its events and names do not follow its records.
pub fn is_of_pipe(head: &[u8]) -> bool {
    head.get(8..).and_then(|head| ByteReader(head).u64()) == Some(PIPE_HEADER)
}

/// Reads recordings into a collector.
pub struct PerfData {
    header: Header,
    state: State,
    /// The events are not those of the header any more.
    stale: bool,
    /// How many events and ids were taken from the header so far.
    retold: usize,
    /// Where records that are no samples keep their time.
    record_time: RecordTime,
    /// Where samples keep theirs, from their beginning, if all are of one event.
    sample_time: Option<u16>,
    sorter: RecordSorter,
    threads: usize,
}

impl PerfData {
    /// With one thread everything is done in turn. With two, symbols are read and chains looked up while records are
    /// read. More of them read the input ahead, and walk copied stacks.
    pub fn new(symbols: SymbolOptions, threads: usize) -> Self {
        Self {
            header: Header::default(),
            state: State::new(symbols, threads),
            stale: true,
            retold: 0,
            record_time: RecordTime::default(),
            sample_time: None,
            sorter: RecordSorter::in_pieces(PIECE),
            threads,
        }
    }

    /// Reads a file, which may be one of either form.
    pub fn read_file<F: Storage>(&mut self, mut file: F, collector: &mut Collector) -> Result<(), Error> {
        let failed = |error: std::io::Error| Error::usage(format!("cannot read the recording: {error}"));
        let mut head = [0; 16];
        file.seek(SeekFrom::Start(0)).map_err(failed)?;
        let have = read_up_to(&mut file, &mut head).map_err(failed)?;
        check_magic(&head[..have])?;
        if is_of_pipe(&head) {
            return self.read_ahead(file, 16, None, collector);
        }
        let (data, trouble) = match self.header.read_file(&mut file).map_err(failed)? {
            Ok(found) => found,
            Err(why) => return Err(Error::partial(format!("nothing can be read of the recording: {why}"))),
        };
        if let Some(why) = trouble {
            collector.cut_short(why);
        }
        let length = file.seek(SeekFrom::End(0)).map_err(failed)?;
        file.seek(SeekFrom::Start(data.offset)).map_err(failed)?;
        let limit = if data.size == 0 {
            collector.cut_short(format!(
                "perf record did not finish the file of {length} bytes: its header says 0 bytes of records"
            ));
            None
        } else {
            Some(data.offset.saturating_add(data.size))
        };
        self.read_ahead(file, data.offset, limit, collector)
    }

    /// Reads records, their bytes in a thread of its own if there may be one.
    fn read_ahead<F: Storage>(
        &mut self,
        file: F,
        offset: u64,
        limit: Option<u64>,
        collector: &mut Collector,
    ) -> Result<(), Error> {
        if self.header.attrs.iter().any(|attr| attr.has(sample_type::STACK_USER)) {
            if let Some(mapped) = file.file().and_then(|file| MappedFile::new(file, offset)) {
                return self.read_records(Stream::new(Input::<F>::Mapped(mapped), offset, limit), collector);
            }
        }
        // Bytes that another processor read are slow to come by: for two threads it gains nothing.
        if self.threads <= 2 {
            return self.read_records(Stream::new(Input::Here(file), offset, limit), collector);
        }
        let (full, take) = sync_channel(AHEAD);
        let (give, empty) = channel();
        let file = &Mutex::new(Some(file));
        let taken = || file.lock().unwrap_or_else(PoisonError::into_inner).take();
        let ahead = move || taken().map_or((), |file| read_all(file, &full, &empty));
        let here = |running| {
            let input = match if running == 0 { taken() } else { None } {
                Some(file) => Input::Here(file),
                None => Input::Ahead(BlockReader { full: take, empty: give }),
            };
            self.read_records(Stream::new(input, offset, limit), collector)
        };
        threads::beside("read", [ahead], here).0
    }

    fn read_records<R: Read>(
        &mut self,
        mut stream: Stream<R>,
        collector: &mut Collector,
    ) -> Result<(), Error> {
        self.prepare(collector)?;
        loop {
            match stream.next(self.sorter.needed()) {
                Ok(Some(record)) => {
                    self.record(&stream, record, collector)?;
                    // What waits must not keep all that follows it.
                    self.sorter.tidy(stream.held(self.sorter.needed()), |place| stream.body(place));
                }
                Ok(None) => break,
                Err(broken) => {
                    collector.cut_short(format!("byte {}: {}", broken.offset, broken.why));
                    break;
                }
            }
        }
        if self.stale {
            self.prepare(collector)?;
        }
        let state = &mut self.state;
        self.sorter.finish(|place| stream.body(place), |record| state.ordered(record, collector))?;
        drop(stream);
        state.finish(collector)
    }

    /// Once the events are known.
    fn prepare(&mut self, collector: &Collector) -> Result<(), Error> {
        self.stale = false;
        self.retold += self.header.attrs.len() + self.header.ids.len();
        if self.retold > RETOLD + self.header.ids.len() {
            return Err(Error::partial(format!(
                "the recording is damaged: it tells its {} events again and again between their samples",
                self.header.attrs.len()
            )));
        }
        let attrs = &self.header.attrs;
        self.record_time = attrs.first().map_or_else(RecordTime::default, RecordTime::new);
        self.sample_time = match &attrs[..] {
            [only] => only.layout.time,
            _ => None,
        };
        self.sorter.let_samples_overtake(matches!(&attrs[..], [only] if !only.reads_counters()));
        self.state.prepare(&mut self.header, collector.options());
        Ok(())
    }

    /// One record, in the order of the file.
    fn record<R: Read>(
        &mut self,
        stream: &Stream<R>,
        record: Record,
        collector: &mut Collector,
    ) -> Result<(), Error> {
        let Record { kind, misc, place } = record;
        let whole = stream.body(place);
        let body = whole.bytes;
        if !kind::is_known(kind) {
            // It is not known where such a record keeps its time, so it must not be put in order.
            collector.stats.unknown(kind);
            return Ok(());
        }
        if kind < kind::FIRST_OF_PERF {
            if self.stale {
                self.prepare(collector)?;
            }
            let time = self.time(kind, body);
            if time == 0 || time == u64::MAX {
                return self.state.ordered(SortedRecord { kind, misc, body: whole }, collector);
            }
            self.state.limits.time(time);
            self.sorter.push(time, kind, misc, place);
            if !self.sorter.is_full() {
                return Ok(());
            }
        }
        match kind {
            kind::HEADER_ATTR => {
                self.header
                    .attr_record(body)
                    .map_err(|why| Error::partial(format!("the recording is damaged: {why}")))?;
            }
            kind::EVENT_UPDATE => self.header.event_update(body),
            kind::BUILD_ID => {
                self.header.build_id(misc, body);
                self.state.take_build_ids(&mut self.header);
                return Ok(());
            }
            kind::HEADER_FEATURE => {
                if let Some((number, bytes)) = body.split_first_chunk::<8>() {
                    let number = u64::from_le_bytes(*number);
                    self.header.feature(u32::try_from(number).unwrap_or(u32::MAX), bytes);
                }
            }
            kind::FINISHED_ROUND | ..kind::FIRST_OF_PERF => {
                let state = &mut self.state;
                self.sorter.round(|place| stream.body(place), |record| state.ordered(record, collector))?;
                return Ok(());
            }
            _ => return Ok(()),
        }
        self.stale = true;
        Ok(())
    }

    /// The time of a record, 0 if it has none.
    fn time(&self, kind: u32, body: &[u8]) -> u64 {
        if kind == kind::SAMPLE {
            let at = self
                .sample_time
                .or_else(|| self.state.events.of(body).and_then(|(_, attr)| attr.layout.time));
            return at.and_then(|at| word_at(body, at)).unwrap_or(0);
        }
        self.record_time.of(kind, body)
    }
}

impl Source for PerfData {
    /// Reads a recording from a pipe.
    fn read(&mut self, input: &mut dyn Read, collector: &mut Collector) -> Result<(), Error> {
        let mut head = [0; 16];
        let have = read_up_to(input, &mut head)
            .map_err(|error| Error::usage(format!("cannot read the recording: {error}")))?;
        check_magic(&head[..have])?;
        if !is_of_pipe(&head) {
            return Err(Error::usage(
                "this recording is a file with its events and names at the end, which a pipe cannot reach.\n\
                 give the file: stackfold perf.data",
            ));
        }
        self.read_records(Stream::new(Input::Here(input), 16, None), collector)
    }
}

fn check_magic(head: &[u8]) -> Result<(), Error> {
    if head.starts_with(&MAGIC_SWAPPED) {
        return Err(Error::usage("the recording comes from a machine of the other byte order"));
    }
    if !head.starts_with(&MAGIC) {
        return Err(Error::usage("this is no recording of perf: it does not begin with PERFILE2"));
    }
    if head.len() < 16 {
        return Err(Error::partial(format!("the recording ends after {} bytes", head.len())));
    }
    Ok(())
}
