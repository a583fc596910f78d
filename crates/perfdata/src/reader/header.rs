//! What a recording says about itself: its events and the features behind its records.

use super::attr::Attr;
use super::bytes::{ByteReader, until_zero};
use crate::format::{HEADER_SIZE, RECORD_HEADER, SECTION_SIZE, branch_type, feature, misc};
use std::collections::HashMap;
use std::io::{self, Read, Seek, SeekFrom};
use std::sync::Arc;

/// Larger sections are damage: no recording has so many build ids or event names.
const SECTION_LIMIT: u64 = 64 << 20;
/// More events are damage: a kernel has some thousands of tracepoints.
const EVENTS: usize = 1 << 16;
/// Ids of all events together: each has one for every thread and processor.
const IDS: usize = 4 << 20;
/// Features that are read.
const WANTED: [u32; 7] = [
    feature::BUILD_ID,
    feature::VERSION,
    feature::OS_RELEASE,
    feature::ARCH,
    feature::NRCPUS,
    feature::EVENT_DESC,
    feature::GROUP_DESC,
];

/// What the records mean: filled from the header of a file, or from the first records of a pipe.
#[derive(Default)]
pub struct Header {
    pub attrs: Vec<Attr>,
    /// The number of the event that each id belongs to.
    pub ids: Arc<HashMap<u64, usize>>,
    /// The groups of events were taken.
    grouped: bool,
    /// Of the perf that recorded; empty if that is not known.
    pub perf_version: Vec<u8>,
    pub os_release: Vec<u8>,
    pub arch: Vec<u8>,
    /// Processors that the machine has or may get; 0 if that is not known.
    pub cpus: u32,
    /// Paths of files that samples hit, as they were mapped, and the build id of each; a path may come again with
    /// another.
    pub build_ids: Vec<(Vec<u8>, Vec<u8>)>,
}

/// Where the records of a file lie.
#[derive(Clone, Copy, Debug)]
pub struct Data {
    pub offset: u64,
    /// Bytes of records; 0 if the recording was not finished.
    pub size: u64,
}

impl Header {
    /// Reads the header of a file and what follows its records. The second value says what could not be read.
    pub fn read_file<F: Read + Seek>(
        &mut self,
        file: &mut F,
    ) -> io::Result<Result<(Data, Option<String>), String>> {
        let length = file.seek(SeekFrom::End(0))?;
        let Some(head) = read_at(file, 0, HEADER_SIZE, length)? else {
            return Ok(Err("the file ends within its header".to_owned()));
        };
        let mut at = ByteReader(&head[16..]);
        let mut number = || at.u64().unwrap_or(0);
        let attr_size = number();
        let (attrs_offset, attrs_size) = (number(), number());
        let data = Data { offset: number(), size: number() };
        let _event_types = (number(), number());
        let features = [number(), number(), number(), number()];

        let Some(attrs) = read_at(file, attrs_offset, attrs_size, length)? else {
            return Ok(Err("the file ends within the description of its events".to_owned()));
        };
        let entry = usize::try_from(attr_size).unwrap_or(0);
        if entry < 16 + 64 {
            return Ok(Err(format!("its events are described in {attr_size} bytes each")));
        }
        // An id belongs to one event, so all of them fit into the file.
        let mut room = length;
        for bytes in attrs.chunks_exact(entry) {
            let Some(attr) = Attr::parse(&bytes[..entry - 16]) else { continue };
            let mut section = ByteReader(&bytes[entry - 16..]);
            let (offset, size) = (section.u64().unwrap_or(0), section.u64().unwrap_or(0));
            let ids = read_at(file, offset, size, length)?.unwrap_or_default();
            let Some(left) = room.checked_sub(ids.len() as u64) else {
                return Ok(Err(format!("its events have more ids than its {length} bytes have room for")));
            };
            room = left;
            if let Err(why) = self.add(attr, &ids) {
                return Ok(Err(why));
            }
        }
        if self.attrs.is_empty() {
            return Ok(Err("it describes no event".to_owned()));
        }
        let trouble = if data.size == 0 {
            None
        } else {
            self.read_features(file, data.offset.saturating_add(data.size), features, length)?
        };
        Ok(Ok((data, trouble)))
    }

    fn read_features<F: Read + Seek>(
        &mut self,
        file: &mut F,
        table: u64,
        bits: [u64; 4],
        length: u64,
    ) -> io::Result<Option<String>> {
        let present: Vec<u32> = (0..256).filter(|n| bits[*n as usize / 64] >> (n % 64) & 1 == 1).collect();
        let Some(sections) = read_at(file, table, SECTION_SIZE * present.len() as u64, length)? else {
            return Ok(Some(format!("byte {length}: the file ends before the table of its features")));
        };
        let mut trouble = None;
        for (number, section) in present.iter().zip(sections.chunks_exact(SECTION_SIZE as usize)) {
            let mut section = ByteReader(section);
            let (offset, size) = (section.u64().unwrap_or(0), section.u64().unwrap_or(0));
            if !WANTED.contains(number) {
                if offset.checked_add(size).is_none_or(|end| end > length) {
                    trouble = Some(format!("byte {length}: the file ends before feature {number}"));
                }
                continue;
            }
            match read_at(file, offset, size, length)? {
                Some(bytes) => self.feature(*number, &bytes),
                None => trouble = Some(format!("byte {length}: the file ends before feature {number}")),
            }
        }
        Ok(trouble)
    }

    /// Takes one feature, wherever it was.
    pub fn feature(&mut self, number: u32, bytes: &[u8]) {
        match number {
            feature::BUILD_ID => self.build_id_list(bytes),
            feature::VERSION => self.perf_version = ByteReader(bytes).string().unwrap_or(b"").to_vec(),
            feature::OS_RELEASE => self.os_release = ByteReader(bytes).string().unwrap_or(b"").to_vec(),
            feature::ARCH => self.arch = ByteReader(bytes).string().unwrap_or(b"").to_vec(),
            feature::NRCPUS => {
                let mut at = ByteReader(bytes);
                self.cpus = at.u32().max(at.u32()).unwrap_or(0);
            }
            feature::EVENT_DESC => {
                self.event_names(bytes);
            }
            feature::GROUP_DESC => {
                self.groups(bytes);
            }
            _ => {}
        }
    }

    /// Adds an event and its ids, or says why that cannot be.
    fn add(&mut self, attr: Attr, ids: &[u8]) -> Result<(), String> {
        let index = self.attrs.len();
        if index >= EVENTS || self.ids.len() + ids.len() / 8 > IDS {
            return Err(format!("it describes more than {EVENTS} events, or {IDS} ids of them"));
        }
        Arc::make_mut(&mut self.ids).extend(super::bytes::words(ids).map(|id| (id, index)));
        self.attrs.push(attr);
        Ok(())
    }

    /// If one event of a group asks for counters of branches, the processor gives them to samples of all.
    fn groups(&mut self, bytes: &[u8]) -> Option<()> {
        let mut at = ByteReader(bytes);
        // There is one list, and an event is in one group.
        let mut left = if std::mem::replace(&mut self.grouped, true) { 0 } else { self.attrs.len() };
        for _ in 0..at.u32()? {
            let (_name, leader, members) = (at.string()?, at.u32()? as usize, at.u32()? as usize);
            left = left.checked_sub(members)?;
            let group = self.attrs.get_mut(leader..leader.checked_add(members)?)?;
            let counters = group.iter().fold(0, |bits, attr| bits | attr.branch_type) & branch_type::COUNTERS;
            group.iter_mut().for_each(|attr| attr.branch_type |= counters);
        }
        Some(())
    }

    fn event_names(&mut self, bytes: &[u8]) -> Option<()> {
        let mut at = ByteReader(bytes);
        let count = at.u32()?;
        let attr_size = at.u32()?;
        for index in 0..count {
            at.take(attr_size.into())?;
            let ids = at.u32()?;
            let name = at.string()?;
            let ids = at.words(ids.into())?;
            let first = super::bytes::words(ids).next();
            // The events are in the same order; a pipe may have dropped one, so the id decides.
            let by_id = first.and_then(|id| self.ids.get(&id).copied());
            if let Some(attr) = self.attrs.get_mut(by_id.unwrap_or(index as usize)) {
                attr.name = name.to_vec();
            }
        }
        Some(())
    }

    fn build_id_list(&mut self, bytes: &[u8]) {
        let mut rest = bytes;
        while let Some((head, _)) = rest.split_first_chunk::<RECORD_HEADER>() {
            let size = usize::from(u16::from_le_bytes([head[6], head[7]]));
            let misc = u16::from_le_bytes([head[4], head[5]]);
            let Some((record, behind)) = rest.split_at_checked(size).filter(|_| size > RECORD_HEADER) else {
                return;
            };
            self.build_id(misc, &record[RECORD_HEADER..]);
            rest = behind;
        }
    }

    /// One record of a build id: process, 24 bytes of id, path.
    pub fn build_id(&mut self, misc: u16, body: &[u8]) {
        let mut at = ByteReader(body);
        let (Some(_pid), Some(id)) = (at.i32(), at.take(24)) else { return };
        let len = if misc & misc::BUILD_ID_SIZE != 0 { usize::from(id[20]).min(20) } else { 20 };
        let path = until_zero(at.0);
        if !path.is_empty() && id[..len].iter().any(|&byte| byte != 0) {
            self.build_ids.push((path.to_vec(), id[..len].to_vec()));
        }
    }

    /// `PERF_RECORD_HEADER_ATTR`: an event of a pipe, and its ids; or why there cannot be another.
    pub fn attr_record(&mut self, body: &[u8]) -> Result<(), String> {
        let Some(size) = body.get(4..8).and_then(|size| size.try_into().ok()).map(u32::from_le_bytes) else {
            return Ok(());
        };
        let Some((attr, ids)) = body.split_at_checked(size as usize) else { return Ok(()) };
        Attr::parse(attr).map_or(Ok(()), |attr| self.add(attr, ids))
    }

    /// `PERF_RECORD_EVENT_UPDATE`: the name of an event of a pipe.
    pub fn event_update(&mut self, body: &[u8]) {
        const NAME: u64 = 2;
        let mut at = ByteReader(body);
        if let (Some(NAME), Some(id)) = (at.u64(), at.u64()) {
            if let Some(attr) = self.ids.get(&id).and_then(|&index| self.attrs.get_mut(index)) {
                attr.name = at.text().to_vec();
            }
        }
    }
}

/// That many bytes from there; `None` if the file is shorter, or the number absurd.
fn read_at<F: Read + Seek>(file: &mut F, offset: u64, size: u64, length: u64) -> io::Result<Option<Vec<u8>>> {
    if size > SECTION_LIMIT || offset.checked_add(size).is_none_or(|end| end > length) {
        return Ok(None);
    }
    file.seek(SeekFrom::Start(offset))?;
    let mut bytes = vec![0; size as usize];
    file.read_exact(&mut bytes)?;
    Ok(Some(bytes))
}
