//! A `perf.data` file: what `perf record` would have written of events of our own.
//!
//! Records carry the time of CLOCK_MONOTONIC. A file that was not finished has a data size of 0; its records are there.

use crate::format::{
    CONTEXT_USER, HEADER_SIZE, MAGIC, PROTECTION_EXECUTE, RECORD_HEADER, SECTION_SIZE, SOFTWARE, abi,
    feature, flag, kind, ksymbol, misc, sample_type,
};
use std::fs::File;
use std::io::{self, BufWriter, Seek, SeekFrom, Write};
use std::ops::Range;

const ATTR_SIZE: u64 = 128;
/// A record says its size in 16 bits.
pub const LARGEST_STACK: usize = 60 << 10;

/// Frames that are no code get addresses where no kernel has any.
const NAMED_AT: u64 = 0xffff_8f00_0000_0000;
const NAMED_SIZE: u64 = 4096;

/// The kernel that was recorded.
pub struct KernelCode<'a> {
    /// From `_text` to `_etext`, where addresses are not hidden.
    pub text: Option<(u64, u64)>,
    pub build_id: Option<&'a [u8]>,
    pub release: &'a [u8],
}

/// Code that is mapped in the process: its addresses, and the path and the place in the file of the first one.
pub struct MappedCode<'a> {
    pub range: Range<u64>,
    pub offset: u64,
    pub path: &'a [u8],
}

/// Which registers samples carry: perf's `PERF_REG_*`, as bits.
#[derive(Clone, Copy, Debug)]
pub struct Registers(pub u64);

/// The user side of a thread, to be unwound later: registers of the mask in order, the stack from its pointer on.
pub struct Copied<'a> {
    pub registers: &'a [u64],
    pub stack: &'a [u8],
}

pub struct Sample<'a> {
    /// The number of its event.
    pub event: usize,
    pub time: u64,
    pub tid: i32,
    pub period: u64,
    /// Addresses, leaf first, with `CONTEXT_KERNEL` and `CONTEXT_USER` before those they are true of.
    pub chain: &'a [u64],
    pub copied: Option<Copied<'a>>,
}

pub struct Recording {
    out: BufWriter<File>,
    pid: i32,
    events: Vec<String>,
    registers: Option<Registers>,
    named: u64,
    body: Vec<u8>,
    written: u64,
}

impl Recording {
    /// A recording of one process. Each event's name implies the unit of its weights.
    pub fn create<'a>(
        out: File,
        pid: i32,
        events: &[&str],
        registers: Option<Registers>,
        kernel: impl Into<KernelCode<'a>>,
        time: u64,
    ) -> io::Result<Self> {
        let mut recording = Self {
            out: BufWriter::with_capacity(1 << 18, out),
            pid,
            events: events.iter().map(|&name| name.to_owned()).collect(),
            registers,
            named: 0,
            body: Vec::new(),
            written: 0,
        };
        recording.write_head(0, [0; 4])?;
        recording.kernel_map(kernel.into(), time)?;
        Ok(recording)
    }

    fn attrs_at(&self) -> u64 {
        HEADER_SIZE + 8 * self.events.len() as u64
    }

    fn data_at(&self) -> u64 {
        self.attrs_at() + (ATTR_SIZE + SECTION_SIZE) * self.events.len() as u64
    }

    fn write_head(&mut self, data_size: u64, features: [u64; 4]) -> io::Result<()> {
        let count = self.events.len() as u64;
        let mut head = MAGIC.to_vec();
        let sections = [self.attrs_at(), (ATTR_SIZE + SECTION_SIZE) * count, self.data_at(), data_size, 0, 0];
        let ids = (0..count).map(id_of);
        for number in
            [HEADER_SIZE, ATTR_SIZE + SECTION_SIZE].into_iter().chain(sections).chain(features).chain(ids)
        {
            head.extend(number.to_le_bytes());
        }
        for event in 0..count {
            head.extend(self.attr());
            head.extend((HEADER_SIZE + 8 * event).to_le_bytes());
            head.extend(8_u64.to_le_bytes());
        }
        self.out.seek(SeekFrom::Start(0))?;
        self.out.write_all(&head)
    }

    /// `struct perf_event_attr`, in the length of its seventh version.
    fn attr(&self) -> Vec<u8> {
        // No number of the kernel's own events: perf hides those of a `dummy`, and a clock's would be another clock.
        const OURS: u64 = 1000;
        const CLOCK_MONOTONIC: i32 = 1;
        const PLAIN: u64 = {
            use sample_type::{CALLCHAIN, IDENTIFIER, IP, PERIOD, TID, TIME};
            IP | TID | TIME | CALLCHAIN | PERIOD | IDENTIFIER
        };
        const REGS_AND_STACK: u64 = sample_type::REGS_USER | sample_type::STACK_USER;
        const FLAGS: u64 = {
            use flag::{BUILD_ID, COMM, FREQUENCY, KSYMBOL, MMAP, MMAP2, SAMPLE_ID_ALL, USE_CLOCKID};
            MMAP | COMM | FREQUENCY | SAMPLE_ID_ALL | MMAP2 | USE_CLOCKID | KSYMBOL | BUILD_ID
        };
        let (sample_type, mask, stack) = match self.registers {
            Some(Registers(mask)) => (PLAIN | REGS_AND_STACK, mask, LARGEST_STACK as u32),
            None => (PLAIN, 0, 0),
        };
        let mut attr = Vec::with_capacity(ATTR_SIZE as usize);
        attr.extend(SOFTWARE.to_le_bytes());
        attr.extend((ATTR_SIZE as u32).to_le_bytes());
        for number in [OURS, 1, sample_type, 0, FLAGS] {
            attr.extend(number.to_le_bytes());
        }
        // wakeup, breakpoint, config1, config2, branches
        attr.extend([0; 32]);
        attr.extend(mask.to_le_bytes());
        attr.extend(stack.to_le_bytes());
        attr.extend(CLOCK_MONOTONIC.to_le_bytes());
        attr.resize(ATTR_SIZE as usize, 0);
        attr
    }

    fn kernel_map(&mut self, kernel: KernelCode, time: u64) -> io::Result<()> {
        let Some((start, end)) = kernel.text else { return Ok(()) };
        self.begin();
        self.ids(-1, 0);
        self.numbers(&[start, end - start, start]);
        self.text(b"[kernel.kallsyms]_text");
        self.end(kind::MMAP, misc::KERNEL, -1, 0, time)
    }

    /// The address of a frame that is no code but a name: a state, a mark. It is among the kernel's.
    pub fn named(&mut self, name: &[u8], time: u64) -> io::Result<u64> {
        let start = NAMED_AT + self.named * NAMED_SIZE;
        self.named += 1;
        self.begin();
        self.numbers(&[start]);
        self.body.extend((NAMED_SIZE as u32).to_le_bytes());
        self.body.extend(ksymbol::OUT_OF_LINE.to_le_bytes());
        self.body.extend(0_u16.to_le_bytes());
        self.text(name);
        self.end(kind::KSYMBOL, misc::KERNEL, 0, 0, time)?;
        Ok(start + 8)
    }

    /// A thread's name, from this time on.
    pub fn comm(&mut self, tid: i32, comm: &[u8], time: u64) -> io::Result<()> {
        self.begin();
        self.ids(self.pid, tid);
        self.text(comm);
        self.end(kind::COMM, 0, self.pid, tid, time)
    }

    /// A mapping of code, from this time on.
    pub fn mapping<'a>(
        &mut self,
        map: impl Into<MappedCode<'a>>,
        build_id: Option<&[u8]>,
        time: u64,
    ) -> io::Result<()> {
        const READ: u32 = 1;
        const PRIVATE: u32 = 2;
        let MappedCode { range, offset, path } = map.into();
        self.begin();
        self.ids(self.pid, self.pid);
        self.numbers(&[range.start, range.end - range.start, offset]);
        let mut identity = [0; 24];
        if let Some(id) = build_id {
            identity[0] = id.len() as u8;
            identity[4..4 + id.len()].copy_from_slice(id);
        }
        self.body.extend(identity);
        self.body.extend((READ | PROTECTION_EXECUTE).to_le_bytes());
        self.body.extend(PRIVATE.to_le_bytes());
        // What has no path is memory that perf calls so, and looks up in /tmp/perf-PID.map.
        self.text(if path.is_empty() { b"//anon" } else { path });
        let misc = misc::USER | if build_id.is_some() { misc::MMAP_BUILD_ID } else { 0 };
        self.end(kind::MMAP2, misc, self.pid, self.pid, time)
    }

    pub fn sample(&mut self, sample: &Sample) -> io::Result<()> {
        let mode = match sample.chain.first() {
            Some(&CONTEXT_USER) => misc::USER,
            _ => misc::KERNEL,
        };
        self.begin();
        self.numbers(&[id_of(sample.event as u64), sample.chain.get(1).copied().unwrap_or(0)]);
        self.ids(self.pid, sample.tid);
        self.numbers(&[sample.time, sample.period, sample.chain.len() as u64]);
        self.numbers(sample.chain);
        if self.registers.is_some() {
            match &sample.copied {
                None => self.numbers(&[0, 0]),
                Some(Copied { registers, stack }) => {
                    self.numbers(&[abi::OF_64_BIT]);
                    self.numbers(registers);
                    let size = stack.len().min(LARGEST_STACK) / 8 * 8;
                    self.numbers(&[size as u64]);
                    self.body.extend(&stack[..size]);
                    if size > 0 {
                        self.numbers(&[size as u64]);
                    }
                }
            }
        }
        self.write(kind::SAMPLE, mode)
    }

    /// Ends the file: what was recorded where, and how much of it.
    pub fn finish<'a>(mut self, kernel: impl Into<KernelCode<'a>>) -> io::Result<()> {
        let kernel = kernel.into();
        let sections = [
            (feature::BUILD_ID, kernel_build_id(kernel.build_id)),
            (feature::OS_RELEASE, string(kernel.release)),
            (feature::ARCH, string(std::env::consts::ARCH.as_bytes())),
            (feature::EVENT_DESC, self.event_description()),
        ];
        let mut at = self.data_at() + self.written + SECTION_SIZE * sections.len() as u64;
        let (mut table, mut bits) = (Vec::new(), [0; 4]);
        for (number, bytes) in &sections {
            table.extend(at.to_le_bytes());
            table.extend((bytes.len() as u64).to_le_bytes());
            at += bytes.len() as u64;
            bits[*number as usize / 64] |= 1 << (number % 64);
        }
        self.out.write_all(&table)?;
        for (_, bytes) in &sections {
            self.out.write_all(bytes)?;
        }
        self.write_head(self.written, bits)?;
        self.out.flush()
    }

    fn event_description(&self) -> Vec<u8> {
        let mut out = (self.events.len() as u32).to_le_bytes().to_vec();
        out.extend((ATTR_SIZE as u32).to_le_bytes());
        for (event, name) in self.events.iter().enumerate() {
            out.extend(self.attr());
            out.extend(1_u32.to_le_bytes());
            out.extend(string(name.as_bytes()));
            out.extend(id_of(event as u64).to_le_bytes());
        }
        out
    }

    fn begin(&mut self) {
        self.body.clear();
    }

    fn ids(&mut self, pid: i32, tid: i32) {
        self.body.extend(pid.to_le_bytes());
        self.body.extend(tid.to_le_bytes());
    }

    fn numbers(&mut self, numbers: &[u64]) {
        self.body.extend(numbers.iter().flat_map(|number| number.to_le_bytes()));
    }

    /// A text as records hold it: ended by a zero, filled up to a multiple of 8. It cannot hold a zero itself.
    fn text(&mut self, text: &[u8]) {
        // A path may be of any length; a record may not.
        let text = &text[..text.len().min(4096)];
        self.body.extend(text);
        self.body.push(0);
        self.body.resize(self.body.len().next_multiple_of(8), 0);
    }

    /// Ends a record that is no sample: it says at its end whose it is and when it was.
    fn end(&mut self, kind: u32, misc: u16, pid: i32, tid: i32, time: u64) -> io::Result<()> {
        self.ids(pid, tid);
        self.numbers(&[time, id_of(0)]);
        self.write(kind, misc)
    }

    fn write(&mut self, kind: u32, misc: u16) -> io::Result<()> {
        let size = RECORD_HEADER + self.body.len();
        let short = u16::try_from(size).map_err(|_| io::Error::other(format!("a record of {size} bytes")))?;
        self.out.write_all(&kind.to_le_bytes())?;
        self.out.write_all(&misc.to_le_bytes())?;
        self.out.write_all(&short.to_le_bytes())?;
        self.out.write_all(&self.body)?;
        self.written += size as u64;
        Ok(())
    }
}

fn id_of(event: u64) -> u64 {
    event + 1
}

fn kernel_build_id(id: Option<&[u8]>) -> Vec<u8> {
    let Some(id) = id else { return Vec::new() };
    let mut name = b"[kernel.kallsyms]\0".to_vec();
    name.resize(name.len().next_multiple_of(64), 0);
    let mut field = [0; 24];
    field[..id.len()].copy_from_slice(id);
    field[20] = id.len() as u8;
    let size = (RECORD_HEADER + 4 + 24 + name.len()) as u16;
    let mut out = 0_u32.to_le_bytes().to_vec();
    out.extend((misc::KERNEL | misc::BUILD_ID_SIZE).to_le_bytes());
    out.extend(size.to_le_bytes());
    out.extend((-1_i32).to_le_bytes());
    out.extend(field);
    out.extend(name);
    out
}

/// A text in a feature section: its length, then the text, ended by a zero and filled up.
fn string(text: &[u8]) -> Vec<u8> {
    let len = (text.len() + 1).next_multiple_of(64);
    let mut out = (len as u32).to_le_bytes().to_vec();
    out.extend(text);
    out.resize(4 + len, 0);
    out
}
