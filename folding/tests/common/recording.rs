//! Recordings made in code, byte by byte as perf lays them out.

pub const IP: u64 = 1;
pub const TID: u64 = 1 << 1;
pub const TIME: u64 = 1 << 2;
pub const READ: u64 = 1 << 4;
pub const CALLCHAIN: u64 = 1 << 5;
pub const PERIOD: u64 = 1 << 8;
pub const RAW: u64 = 1 << 10;
pub const BRANCH_STACK: u64 = 1 << 11;
pub const REGS_USER: u64 = 1 << 12;
pub const STACK_USER: u64 = 1 << 13;
pub const IDENTIFIER: u64 = 1 << 16;

pub const KERNEL: u64 = (-128_i64) as u64;
pub const USER: u64 = (-512_i64) as u64;
pub const USER_DEFERRED: u64 = (-640_i64) as u64;

const ATTR: usize = 128;

pub struct Event {
    /// Of the kernel's software (1), or of the processor (0).
    pub kind: u32,
    pub config: u64,
    pub sample_type: u64,
    pub read_format: u64,
    pub branch_type: u64,
    /// Registers of the user side, as bits.
    pub registers: u64,
    pub max_stack: u16,
    /// Bits of the event's flags, besides those that all have here.
    pub flags: u64,
    pub id: u64,
    /// Its name where it is not the one of its number.
    pub name: &'static str,
}

impl Default for Event {
    fn default() -> Self {
        let sample_type = IP | TID | TIME | CALLCHAIN | PERIOD;
        Self {
            kind: 1,
            config: 0,
            sample_type,
            read_format: 0,
            branch_type: 0,
            registers: 0,
            max_stack: 0,
            flags: 0,
            id: 1,
            name: "",
        }
    }
}

impl Event {
    fn attr(&self) -> Vec<u8> {
        const SAMPLE_ID_ALL: u64 = 1 << 18;
        const FREQUENCY: u64 = 1 << 10;
        let mut bytes = Vec::new();
        bytes.extend(self.kind.to_le_bytes());
        bytes.extend((ATTR as u32).to_le_bytes());
        for word in [
            self.config,
            999,
            self.sample_type,
            self.read_format,
            self.flags | FREQUENCY | SAMPLE_ID_ALL,
            0,
            0,
            0,
            self.branch_type,
            self.registers,
            1 << 16,
            0,
            0,
        ] {
            bytes.extend(word.to_le_bytes());
        }
        bytes.truncate(108);
        bytes.extend(self.max_stack.to_le_bytes());
        bytes.resize(ATTR, 0);
        bytes
    }
}

/// Records in the order of the file, and the id that those end with that are no samples, where events have ids in them.
#[derive(Default, Clone)]
pub struct Records(pub Vec<u8>, pub Option<u64>);

pub fn words(words: &[u64]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

pub fn pair(a: i32, b: i32) -> Vec<u8> {
    [a.to_le_bytes(), b.to_le_bytes()].concat()
}

fn text(text: &str) -> Vec<u8> {
    let mut bytes = text.as_bytes().to_vec();
    bytes.push(0);
    bytes.resize(bytes.len().next_multiple_of(8), 0);
    bytes
}

impl Records {
    pub fn record(&mut self, kind: u32, misc: u16, body: &[u8]) -> &mut Self {
        self.0.extend(kind.to_le_bytes());
        self.0.extend(misc.to_le_bytes());
        self.0.extend((body.len() as u16 + 8).to_le_bytes());
        self.0.extend(body);
        self
    }

    /// A record that ends with thread and time, as all but samples do.
    fn timed(&mut self, kind: u32, misc: u16, body: Vec<u8>, time: u64) -> &mut Self {
        let id: Vec<u8> = self.1.map_or(Vec::new(), |id| words(&[id]));
        self.record(kind, misc, &[body, pair(1, 1), words(&[time]), id].concat())
    }

    pub fn comm(&mut self, time: u64, pid: i32, tid: i32, name: &str, exec: bool) -> &mut Self {
        self.timed(3, if exec { 1 << 13 } else { 2 }, [pair(pid, tid), text(name)].concat(), time)
    }

    pub fn fork(&mut self, time: u64, pid: i32, tid: i32, parent: i32) -> &mut Self {
        self.timed(7, 0, [pair(pid, parent), pair(tid, parent), words(&[time])].concat(), time)
    }

    pub fn mmap(&mut self, time: u64, pid: i32, start: u64, len: u64, offset: u64, path: &str) -> &mut Self {
        let misc = if pid == -1 { 1 } else { 2 };
        let body = [pair(pid, 0), words(&[start, len, offset]), text(path)].concat();
        self.timed(1, misc, body, time)
    }

    /// Code of the kernel with its build id; perf leaves the protection empty.
    pub fn mmap2(
        &mut self,
        time: u64,
        start: u64,
        len: u64,
        offset: u64,
        id: [u8; 20],
        path: &str,
    ) -> &mut Self {
        const KERNEL: u16 = 1;
        const BUILD_ID: u16 = 1 << 14;
        let identity = [&[20, 0, 0, 0][..], &id].concat();
        let body = [pair(-1, 0), words(&[start, len, offset]), identity, pair(0, 0), text(path)].concat();
        self.timed(10, KERNEL | BUILD_ID, body, time)
    }

    /// Code of a file, with the device and inode of it.
    pub fn file_map(
        &mut self,
        pid: i32,
        range: (u64, u64),
        offset: u64,
        file: (u32, u32, u64),
        path: &str,
    ) -> &mut Self {
        const READ_EXECUTE: i32 = 5;
        let (start, len) = range;
        let (major, minor, inode) = file;
        let identity = [pair(major as i32, minor as i32), words(&[inode, 0])].concat();
        let map = [pair(pid, pid), words(&[start, len, offset]), identity, pair(READ_EXECUTE, 2)].concat();
        self.timed(10, 2, [map, text(path)].concat(), 0)
    }

    pub fn exit(&mut self, time: u64, pid: i32, tid: i32) -> &mut Self {
        self.timed(4, 0, [pair(pid, 1), pair(tid, 1), words(&[time])].concat(), time)
    }

    /// The user's side of a thread's chains that wait for this number.
    pub fn deferred_chain(&mut self, time: u64, tid: i32, cookie: u64, chain: &[u64]) -> &mut Self {
        let chain = [words(&[cookie, chain.len() as u64]), words(chain)].concat();
        self.record(22, 2, &[chain, pair(10, tid), words(&[time])].concat())
    }

    pub fn lost(&mut self, time: u64, lost: u64) -> &mut Self {
        self.timed(2, 0, words(&[1, lost]), time)
    }

    /// What a buffer lost, as it is told at the end.
    pub fn lost_samples(&mut self, time: u64, lost: u64) -> &mut Self {
        self.timed(13, 0, words(&[lost]), time)
    }

    /// A sample of the default event.
    pub fn sample(&mut self, time: u64, pid: i32, tid: i32, period: u64, chain: &[u64]) -> &mut Self {
        let ip = chain.get(1).copied().unwrap_or(0);
        let body = [words(&[ip]), pair(pid, tid), words(&[time, period, chain.len() as u64]), words(chain)];
        self.record(9, 2, &body.concat())
    }

    pub fn round(&mut self) -> &mut Self {
        self.record(68, 0, &[])
    }
}

/// The feature that names the events.
pub fn names(events: &[Event]) -> (u32, Vec<u8>) {
    let mut bytes = pair(events.len() as i32, ATTR as i32);
    for event in events {
        let name = text(event.name);
        bytes.extend(event.attr());
        bytes.extend(pair(1, name.len() as i32));
        bytes.extend([name, words(&[event.id])].concat());
    }
    (12, bytes)
}

/// The feature that says how many processors there are.
pub fn processors(count: i32) -> (u32, Vec<u8>) {
    (7, pair(count, count))
}

/// A feature that is a text: the version of perf (5), the machine (6).
pub fn text_feature(number: u32, what: &str) -> (u32, Vec<u8>) {
    let what = text(what);
    (number, [&(what.len() as u32).to_le_bytes()[..], &what].concat())
}

/// The feature that says that the first events are a group.
pub fn one_group(members: i32) -> (u32, Vec<u8>) {
    let name = text("{a,b}");
    let groups = [1_i32.to_le_bytes(), (name.len() as i32).to_le_bytes()].concat();
    (17, [groups, name, pair(0, members)].concat())
}

/// A recording as `perf record -o FILE` writes it, without features.
pub fn file(events: &[Event], records: &Records) -> Vec<u8> {
    file_with(events, records, &[])
}

/// The same with features, in the order of their numbers.
pub fn file_with(events: &[Event], records: &Records, features: &[(u32, Vec<u8>)]) -> Vec<u8> {
    let bits = features.iter().fold(0, |bits, (number, _)| bits | 1 << number);
    let ids_at = 104;
    let attrs_at = ids_at + 8 * events.len();
    let data_at = attrs_at + (ATTR + 16) * events.len();
    let mut bytes = b"PERFILE2".to_vec();
    let attrs_size = (ATTR + 16) * events.len();
    let head = [104, ATTR + 16, attrs_at, attrs_size, data_at, records.0.len(), 0, 0, bits, 0, 0, 0];
    bytes.extend(head.iter().flat_map(|&word| (word as u64).to_le_bytes()));
    bytes.extend(events.iter().flat_map(|event| event.id.to_le_bytes()));
    for (index, event) in events.iter().enumerate() {
        bytes.extend(event.attr());
        bytes.extend(words(&[(ids_at + 8 * index) as u64, 8]));
    }
    bytes.extend(&records.0);
    let mut at = bytes.len() + 16 * features.len();
    for (_, feature) in features {
        bytes.extend(words(&[at as u64, feature.len() as u64]));
        at += feature.len();
    }
    features.iter().for_each(|(_, feature)| bytes.extend(feature));
    bytes
}

/// A recording as `perf record -o -` writes it.
pub fn pipe(events: &[Event], records: &Records) -> Vec<u8> {
    let mut bytes = b"PERFILE2".to_vec();
    bytes.extend(16_u64.to_le_bytes());
    let mut head = Records::default();
    for event in events {
        head.record(64, 0, &[event.attr(), event.id.to_le_bytes().to_vec()].concat());
    }
    bytes.extend(head.0);
    bytes.extend(&records.0);
    bytes
}
