//! `perf.data`, as `perf record` writes it to a file or to a pipe.
//!
//! ```text
//! Stream (bytes -> records) -> Order (by time) -> Machine (who, what is mapped) -> Counter -> Chains
//! Chains (addresses, counted) -> naming -> Collector
//! ```
//!
//! Counting and naming may be shared out among threads. Reading and putting in order is the work of one.

mod attr;
mod bytes;
mod chains;
mod counter;
mod header;
mod machine;
mod naming;
mod order;
mod sample;
mod stream;

use super::Source;
use crate::collector::{Collector, Head};
use crate::error::Error;
use crate::intern::IntMap;
use crate::symbols::{Options, Symbols};
use crate::unwind::{self, Mapped, Tables};
use attr::Attr;
use bytes::Bytes;
use chains::Chains;
use counter::{Counter, Counters, Scene};
use header::Header;
use machine::{Machine, Space};
use order::{Order, Ready};
use sample::{Sample, offsets};
use std::collections::HashMap;
use std::io::{Read, Seek, SeekFrom};
use std::sync::Arc;
use stream::{Record, Stream, kind};

/// Bytes of records that are worth putting in order.
const PIECE: usize = 1 << 18;
/// Address spaces whose unwind tables are kept ready.
const SPACES: usize = 64;

/// Whether these first bytes of an input are those of a recording.
pub fn is_recording(head: &[u8]) -> bool {
    head.starts_with(&header::MAGIC) || head.starts_with(&header::MAGIC_SWAPPED)
}

/// Reads recordings into a collector.
pub struct PerfData {
    header: Header,
    state: State,
    /// Where records that are no samples keep their time, from their end.
    time_from_end: usize,
    order: Order,
}

/// What changes from record to record.
struct State {
    events: Events,
    machine: Machine,
    symbols: Symbols,
    /// The last value of each counter that is read in a group.
    counters: HashMap<u64, u64>,
    no_space: Space,
    threads: usize,
    counting: Counting,
    /// Whose stacks are walked.
    walked: Option<unwind::Machine>,
    tables: IntMap<u64, Arc<Tables>>,
    /// What the kernel said when it happened, and what perf counted up at the end: the same losses, told twice.
    lost: Lost,
    lost_at_end: Lost,
}

#[derive(Clone, Copy, Default)]
struct Lost {
    records: u64,
    samples: u64,
}

impl Lost {
    fn add(&mut self, samples: u64) {
        self.records += 1;
        self.samples = self.samples.saturating_add(samples);
    }
}

/// The events, and which of them an id belongs to.
#[derive(Default)]
struct Events {
    attrs: Arc<[Attr]>,
    ids: HashMap<u64, usize>,
}

/// Who counts: this thread, or others.
enum Counting {
    Here(Box<Counter>),
    There(Counters),
}

impl PerfData {
    pub fn new(symbols: Options, threads: usize) -> Self {
        Self {
            header: Header::default(),
            state: State {
                events: Events::default(),
                machine: Machine::default(),
                symbols: Symbols::new(symbols),
                counters: HashMap::new(),
                no_space: Space::default(),
                threads,
                counting: Counting::Here(Box::default()),
                walked: unwind::Machine::own(),
                tables: IntMap::default(),
                lost: Lost::default(),
                lost_at_end: Lost::default(),
            },
            time_from_end: 0,
            order: Order::in_pieces(PIECE),
        }
    }

    /// Reads a file, which may be one of either form.
    pub fn read_file<F: Read + Seek>(&mut self, mut file: F, collector: &mut Collector) -> Result<(), Error> {
        let failed = |error: std::io::Error| Error::usage(format!("cannot read the recording: {error}"));
        let mut head = [0; 16];
        file.seek(SeekFrom::Start(0)).map_err(failed)?;
        let have = read_up_to(&mut file, &mut head).map_err(failed)?;
        check_magic(&head[..have])?;
        if Bytes(&head[8..]).u64() == Some(header::PIPE_HEADER) {
            return self.read_records(Stream::new(file, 16, None), collector);
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
        self.read_records(Stream::new(file, data.offset, limit), collector)
    }

    fn read_records<R: Read>(
        &mut self,
        mut stream: Stream<R>,
        collector: &mut Collector,
    ) -> Result<(), Error> {
        self.prepare();
        if self.state.threads > 1 {
            self.state.counting = Counting::There(Counters::start(self.state.threads));
        }
        loop {
            match stream.next() {
                Ok(Some(record)) => self.record(record, collector)?,
                Ok(None) => break,
                Err(broken) => {
                    collector.cut_short(format!("byte {}: {}", broken.offset, broken.why));
                    break;
                }
            }
        }
        let state = &mut self.state;
        self.order.finish(|record| state.ordered(record, collector))?;
        state.finish(collector);
        for note in self.state.symbols.notes() {
            collector.note(note);
        }
        Ok(())
    }

    /// Once the events are known.
    fn prepare(&mut self) {
        let events = &mut self.state.events;
        events.attrs = self.header.attrs.as_slice().into();
        events.ids.clear();
        for (index, attr) in self.header.attrs.iter().enumerate() {
            events.ids.extend(attr.ids.iter().map(|&id| (id, index)));
        }
        self.time_from_end = self.header.attrs.first().map_or(0, Attr::time_from_end);
        if !self.header.arch.is_empty() {
            self.state.walked = unwind::Machine::of_name(&self.header.arch);
        }
        self.state.symbols.set_recorded(&self.header.build_ids, &self.header.os_release);
    }

    /// One record, in the order of the file.
    fn record(&mut self, record: Record, collector: &mut Collector) -> Result<(), Error> {
        let Record { kind, misc, body } = record;
        let time = if kind < kind::FIRST_OF_PERF { self.time(kind, body) } else { 0 };
        let state = &mut self.state;
        if kind < kind::FIRST_OF_PERF {
            if time == 0 || time == u64::MAX {
                return state.ordered(Ready { kind, misc, body }, collector);
            }
            self.order.push(time, kind, misc, body);
            if !self.order.is_full() {
                return Ok(());
            }
        }
        match kind {
            kind::HEADER_ATTR => self.header.attr_record(body),
            kind::EVENT_UPDATE => self.header.event_update(body),
            kind::BUILD_ID => self.header.build_id(misc, body),
            kind::HEADER_FEATURE => {
                if let Some((number, bytes)) = body.split_first_chunk::<8>() {
                    let number = u64::from_le_bytes(*number);
                    self.header.feature(u32::try_from(number).unwrap_or(u32::MAX), bytes);
                }
            }
            kind::FINISHED_ROUND | ..kind::FIRST_OF_PERF => {
                return self.order.round(|record| state.ordered(record, collector));
            }
            _ => return Ok(()),
        }
        self.prepare();
        Ok(())
    }

    /// The time of a record, 0 if it has none.
    fn time(&self, kind: u32, body: &[u8]) -> u64 {
        let at = if kind == kind::SAMPLE {
            self.state.events.of(body).and_then(|(_, attr)| offsets(attr.sample_type).0)
        } else if self.time_from_end > 0 {
            body.len().checked_sub(self.time_from_end)
        } else {
            None
        };
        at.and_then(|at| Bytes(body.get(at..)?).u64()).unwrap_or(0)
    }
}

impl Source for PerfData {
    /// Reads a recording from a pipe.
    fn read(&mut self, input: &mut dyn Read, collector: &mut Collector) -> Result<(), Error> {
        let mut head = [0; 16];
        let have = read_up_to(input, &mut head)
            .map_err(|error| Error::usage(format!("cannot read the recording: {error}")))?;
        check_magic(&head[..have])?;
        if Bytes(&head[8..]).u64() != Some(header::PIPE_HEADER) {
            return Err(Error::usage(
                "this recording is a file with its events and names at the end, which a pipe cannot reach.\n\
                 give the file: stackfold perf.data",
            ));
        }
        self.read_records(Stream::new(input, 16, None), collector)
    }
}

impl State {
    /// One record, in the order of time.
    fn ordered(&mut self, record: Ready, collector: &mut Collector) -> Result<(), Error> {
        let Ready { kind, misc, body } = record;
        let understood = match kind {
            kind::SAMPLE => return self.sample(misc, body, collector),
            kind::MMAP => self.machine.mmap_record(misc, body, false, &mut self.symbols),
            kind::MMAP2 => self.machine.mmap_record(misc, body, true, &mut self.symbols),
            kind::COMM => self.machine.comm_record(misc, body),
            kind::FORK => self.machine.fork_record(misc, body),
            kind::KSYMBOL => self.machine.ksymbol_record(body, &mut self.symbols),
            kind::LOST => Bytes(body.get(8..).unwrap_or(&[])).u64().map(|lost| self.lost.add(lost)),
            kind::LOST_SAMPLES => Bytes(body).u64().map(|lost| self.lost_at_end.add(lost)),
            _ => Some(()),
        };
        if understood.is_none() {
            collector.dropped(format!("a record of kind {kind}, {} bytes", body.len()).as_bytes());
        }
        Ok(())
    }

    fn sample(&mut self, misc: u16, body: &[u8], collector: &mut Collector) -> Result<(), Error> {
        let parsed = self.events.of(body).and_then(|(index, attr)| Some((index, Sample::parse(body, attr)?)));
        let Some((index, sample)) = parsed else {
            collector.dropped(format!("a sample of {} bytes", body.len()).as_bytes());
            return Ok(());
        };
        let Some(values) = sample.values else {
            return self.count(misc, index, &sample, body, collector);
        };
        // The leader of a group was sampled: each member weighs what its counter grew by.
        for (id, value) in values.iter() {
            let before = self.counters.insert(id, value).unwrap_or(0);
            let Some(&index) = self.events.ids.get(&id) else { continue };
            let period = value.wrapping_sub(before);
            if period > 0 {
                self.count(misc, index, &Sample { period: Some(period), ..sample }, body, collector)?;
            }
        }
        Ok(())
    }

    fn count(
        &mut self,
        misc: u16,
        event: usize,
        sample: &Sample,
        body: &[u8],
        collector: &mut Collector,
    ) -> Result<(), Error> {
        let Some(attr) = self.events.attrs.get(event) else { return Ok(()) };
        let head = Head {
            comm: self.machine.comm(sample.tid.unwrap_or(-1)),
            pid: sample.pid.map(i64::from),
            tid: sample.tid.map(i64::from),
            event: &attr.name,
            period: sample.period,
            time: sample.time,
        };
        let Some(open) = collector.open(&head)? else { return Ok(()) };
        let space = sample.pid.and_then(|pid| self.machine.space(pid)).unwrap_or(&self.no_space);
        let tables = match self.walked.filter(|_| !sample.user_stack.is_empty()) {
            None => None,
            Some(machine) => Some((machine, tables(space, machine, &mut self.tables, &mut self.symbols))),
        };
        let mapped = chains::Mapped { kernel: &self.machine.kernel, user: space, core: self.symbols.core() };
        let scene = Scene { misc, mapped, tables };
        let large = match &mut self.counting {
            Counting::Here(counter) => {
                counter.count(open, attr, sample, &scene);
                counter.take_large()
            }
            Counting::There(counters) => {
                counters.count(open, &self.events.attrs, event, body, &scene);
                counters.take_large()
            }
        };
        if let Some(chains) = large {
            naming::name(&chains, &mut self.symbols, collector, self.threads);
        }
        Ok(())
    }

    /// Names what was counted.
    fn finish(&mut self, collector: &mut Collector) {
        let lost = if self.lost_at_end.samples > self.lost.samples { self.lost_at_end } else { self.lost };
        collector.lost(lost.records, lost.samples);
        let counting = std::mem::replace(&mut self.counting, Counting::Here(Box::default()));
        let mut chains = match counting {
            Counting::Here(counter) => vec![counter.chains()],
            Counting::There(counters) => counters.finish(),
        };
        let mut all = chains.pop().unwrap_or_else(Chains::default);
        chains.iter().for_each(|chains| all.absorb(chains));
        naming::name(&all, &mut self.symbols, collector, self.threads);
    }
}

/// The unwind tables of a process, made when its maps are new.
fn tables<'t>(
    space: &Space,
    machine: unwind::Machine,
    known: &'t mut IntMap<u64, Arc<Tables>>,
    symbols: &mut Symbols,
) -> &'t Arc<Tables> {
    if known.len() >= SPACES && !known.contains_key(&space.version) {
        known.clear();
    }
    known.entry(space.version).or_insert_with(|| Arc::new(Tables::new(machine, mapped_files(space, symbols))))
}

/// The files of a process, for the unwinder.
fn mapped_files(space: &Space, symbols: &mut Symbols) -> Vec<Mapped> {
    let mapped = |map: &machine::Map| {
        let (sections, bias) = symbols.unwind(map.object, map.start.wrapping_add(map.shift))?;
        // address + shift = offset; offset + bias = the file's own address
        let bias = map.shift.wrapping_add(bias).wrapping_neg();
        Some(Mapped { range: map.start..map.end, bias, sections })
    };
    space.maps().iter().filter_map(mapped).collect()
}

impl Events {
    /// The event a sample belongs to, and its number.
    fn of(&self, body: &[u8]) -> Option<(usize, &Attr)> {
        if let [only] = &self.attrs[..] {
            return Some((0, only));
        }
        // Events recorded together keep their ids in one place, or nobody could tell them apart.
        let at = offsets(self.attrs.first()?.sample_type).1?;
        let id = Bytes(body.get(at..)?).u64()?;
        let index = *self.ids.get(&id)?;
        Some((index, self.attrs.get(index)?))
    }
}

fn check_magic(head: &[u8]) -> Result<(), Error> {
    if head.starts_with(&header::MAGIC_SWAPPED) {
        return Err(Error::usage("the recording comes from a machine of the other byte order"));
    }
    if !head.starts_with(&header::MAGIC) {
        return Err(Error::usage("this is no recording of perf: it does not begin with PERFILE2"));
    }
    if head.len() < 16 {
        return Err(Error::partial(format!("the recording ends after {} bytes", head.len())));
    }
    Ok(())
}

fn read_up_to(input: &mut dyn Read, buffer: &mut [u8]) -> std::io::Result<usize> {
    let mut have = 0;
    while have < buffer.len() {
        match input.read(&mut buffer[have..]) {
            Ok(0) => break,
            Ok(n) => have += n,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(have)
}
