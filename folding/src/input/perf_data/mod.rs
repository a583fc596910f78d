//! `perf.data`, as `perf record` writes it to a file or to a pipe.
//!
//! ```text
//! Stream (bytes -> records) -> Order (by time) -> Machine (who, what is mapped) -> Chains -> Collector
//! ```

mod attr;
mod bytes;
mod chains;
mod header;
mod machine;
mod order;
mod sample;
mod stream;

use super::Source;
use crate::collector::{Collector, Head};
use crate::error::Error;
use crate::symbols::{Options, Symbols};
use crate::unwind::{self, Mapped, Registers, Stacks};
use attr::{Attr, BRANCH_CALL_STACK, sample_type};
use bytes::Bytes;
use chains::{Address, Chains, Mode, addresses, branch_addresses, user_depth};
use header::Header;
use machine::{Machine, Space};
use order::{Order, Ready};
use sample::{Sample, offsets};
use std::collections::HashMap;
use std::io::{Read, Seek, SeekFrom};
use stream::{Record, Stream, kind};

/// Whether these first bytes of an input are those of a recording.
pub fn is_recording(head: &[u8]) -> bool {
    head.starts_with(&header::MAGIC) || head.starts_with(&header::MAGIC_SWAPPED)
}

/// Reads recordings into a collector.
pub struct PerfData {
    header: Header,
    state: State,
    /// Which event an id belongs to.
    ids: HashMap<u64, usize>,
    /// Where records that are no samples keep their time, from their end.
    time_from_end: usize,
    order: Order,
}

/// What changes from record to record.
struct State {
    machine: Machine,
    symbols: Symbols,
    chains: Chains,
    /// The last value of each counter that is read in a group.
    counters: HashMap<u64, u64>,
    stacks: Stacks,
    no_space: Space,
}

impl PerfData {
    pub fn new(symbols: Options) -> Self {
        Self {
            header: Header::default(),
            state: State {
                machine: Machine::default(),
                symbols: Symbols::new(symbols),
                chains: Chains::default(),
                counters: HashMap::new(),
                stacks: Stacks::default(),
                no_space: Space::default(),
            },
            ids: HashMap::new(),
            time_from_end: 0,
            order: Order::default(),
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
        let (state, attrs, ids) = (&mut self.state, &self.header.attrs, &self.ids);
        self.order.finish(|record| state.ordered(record, attrs, ids, collector))?;
        for note in self.state.symbols.notes() {
            collector.note(note);
        }
        Ok(())
    }

    /// Once the events are known.
    fn prepare(&mut self) {
        self.ids.clear();
        for (index, attr) in self.header.attrs.iter().enumerate() {
            self.ids.extend(attr.ids.iter().map(|&id| (id, index)));
        }
        self.time_from_end = self.header.attrs.first().map_or(0, Attr::time_from_end);
        if !self.header.arch.is_empty() {
            self.state.stacks.set_machine(unwind::Machine::of_name(&self.header.arch));
        }
        self.state.symbols.set_recorded(&self.header.build_ids, &self.header.os_release);
    }

    /// One record, in the order of the file.
    fn record(&mut self, record: Record, collector: &mut Collector) -> Result<(), Error> {
        let Record { kind, misc, body } = record;
        let time = if kind < kind::FIRST_OF_PERF { self.time(kind, body) } else { 0 };
        let (state, attrs, ids) = (&mut self.state, &self.header.attrs, &self.ids);
        if kind < kind::FIRST_OF_PERF {
            if time == 0 || time == u64::MAX {
                return state.ordered(Ready { kind, misc, body }, attrs, ids, collector);
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
                return self.order.round(|record| state.ordered(record, attrs, ids, collector));
            }
            _ => return Ok(()),
        }
        self.prepare();
        Ok(())
    }

    /// The time of a record, 0 if it has none.
    fn time(&self, kind: u32, body: &[u8]) -> u64 {
        let at = if kind == kind::SAMPLE {
            event_of(body, &self.header.attrs, &self.ids).and_then(|attr| offsets(attr.sample_type).0)
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
    fn ordered(
        &mut self,
        record: Ready,
        attrs: &[Attr],
        ids: &HashMap<u64, usize>,
        collector: &mut Collector,
    ) -> Result<(), Error> {
        let Ready { kind, misc, body } = record;
        let understood = match kind {
            kind::SAMPLE => return self.sample(misc, body, attrs, ids, collector),
            kind::MMAP => self.machine.mmap_record(misc, body, false, &mut self.symbols),
            kind::MMAP2 => self.machine.mmap_record(misc, body, true, &mut self.symbols),
            kind::COMM => self.machine.comm_record(misc, body),
            kind::FORK => self.machine.fork_record(misc, body),
            kind::KSYMBOL => self.machine.ksymbol_record(body, &mut self.symbols),
            kind::LOST => Bytes(body.get(8..).unwrap_or(&[])).u64().map(|lost| collector.lost(lost)),
            kind::LOST_SAMPLES => Bytes(body).u64().map(|lost| collector.lost(lost)),
            _ => Some(()),
        };
        if understood.is_none() {
            collector.dropped(format!("a record of kind {kind}, {} bytes", body.len()).as_bytes());
        }
        Ok(())
    }

    fn sample(
        &mut self,
        misc: u16,
        body: &[u8],
        attrs: &[Attr],
        ids: &HashMap<u64, usize>,
        collector: &mut Collector,
    ) -> Result<(), Error> {
        let attr = event_of(body, attrs, ids);
        let Some((attr, sample)) = attr.and_then(|attr| Some((attr, Sample::parse(body, attr)?))) else {
            collector.dropped(format!("a sample of {} bytes", body.len()).as_bytes());
            return Ok(());
        };
        let Some(values) = sample.values else {
            return self.deliver(misc, attr, &sample, collector);
        };
        // The leader of a group was sampled: each member weighs what its counter grew by.
        for (id, value) in values.iter() {
            let before = self.counters.insert(id, value).unwrap_or(0);
            let Some(attr) = ids.get(&id).and_then(|&index| attrs.get(index)) else { continue };
            let period = value.wrapping_sub(before);
            if period > 0 {
                self.deliver(misc, attr, &Sample { period: Some(period), ..sample }, collector)?;
            }
        }
        Ok(())
    }

    fn deliver(
        &mut self,
        misc: u16,
        attr: &Attr,
        sample: &Sample,
        collector: &mut Collector,
    ) -> Result<(), Error> {
        let comm = self.machine.comm(sample.tid.unwrap_or(-1));
        let head = Head {
            comm: &comm,
            pid: sample.pid.map(i64::from),
            tid: sample.tid.map(i64::from),
            event: &attr.name,
            period: sample.period,
            time: sample.time,
        };
        let Some(open) = collector.open(&head)? else { return Ok(()) };
        let State { machine, symbols, chains, stacks, no_space, .. } = self;
        let space = sample.pid.and_then(|pid| machine.space(pid)).unwrap_or(no_space);
        let copied = stacks.machine().and_then(|machine| registers(attr, sample, machine));
        let calls = sample.branches.filter(|_| attr.branch_type & BRANCH_CALL_STACK != 0);
        let frames = match sample.callchain {
            Some(chain) if calls.is_some_and(|calls| !calls.is_empty()) => {
                // The chain itself gives the kernel's side and, after it, the place in user mode.
                let kernel = addresses(chain).filter(|address| address.mode == Mode::Kernel);
                let place = addresses(chain).find(|address| address.mode == Mode::User).map(|user| user.ip);
                let calls = branch_addresses(place, calls.unwrap_or(&[]));
                chains.unfolded(kernel.chain(calls), space, machine, symbols, collector)
            }
            Some(chain) if copied.is_some() && user_depth(chain) == 0 => {
                let Some(registers) = copied else { return Ok(()) };
                let files = || mapped_files(space, symbols);
                let user = stacks.unwind(space.version, files, registers, sample.user_stack);
                let user = user.iter().map(|&(ip, returns)| Address { ip, mode: Mode::User, returns });
                chains.unfolded(addresses(chain).chain(user), space, machine, symbols, collector)
            }
            Some(chain) => chains.recorded(chain, space, machine, symbols, collector),
            None => {
                let leaf = |ip| Address { ip, mode: Mode::of_misc(misc), returns: false };
                let leaf = sample.ip.filter(|_| attr.has(sample_type::IP)).map(leaf);
                chains.unfolded(leaf.into_iter(), space, machine, symbols, collector)
            }
        };
        collector.close(open, frames);
        Ok(())
    }
}

/// The user registers of a sample that has a copy of its stack.
fn registers(attr: &Attr, sample: &Sample, machine: unwind::Machine) -> Option<Registers> {
    if sample.user_stack.is_empty() {
        return None;
    }
    let [ip, sp, fp, lr] = machine.registers().map(|number| sample.register(attr, number));
    Some(Registers { ip: ip?, sp: sp?, fp: fp.unwrap_or(0), lr: lr.unwrap_or(0) })
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

/// The event a sample belongs to.
fn event_of<'a>(body: &[u8], attrs: &'a [Attr], ids: &HashMap<u64, usize>) -> Option<&'a Attr> {
    if let [only] = attrs {
        return Some(only);
    }
    // Events recorded together keep their ids in one place, or nobody could tell them apart.
    let at = offsets(attrs.first()?.sample_type).1?;
    let id = Bytes(body.get(at..)?).u64()?;
    attrs.get(*ids.get(&id)?)
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
