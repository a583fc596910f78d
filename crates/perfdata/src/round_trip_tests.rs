//! What the writer writes, the reader reads.

use crate::format::{CONTEXT_KERNEL, CONTEXT_USER, kind};
use crate::reader::blocks::Input;
use crate::reader::bytes::words;
use crate::reader::event_ids::EventIds;
use crate::reader::header::Header;
use crate::reader::sample::SampleRecord;
use crate::reader::stream::{NeededBlocks, Stream};
use crate::writer::{Copied, KernelCode, MappedCode, Recording, Registers, Sample};
use std::fs::File;
use std::io::{Seek, SeekFrom};

const KERNEL: KernelCode =
    KernelCode { text: Some((1 << 63, 1 << 63 | 4096)), build_id: Some(&[7; 20]), release: b"6.18.0" };

#[test]
fn what_was_written_is_read() {
    let place = std::env::temp_dir().join(format!("perfdata-{}", std::process::id()));
    let out = File::create_new(&place).unwrap();
    let mut file = File::open(&place).unwrap();
    std::fs::remove_file(&place).unwrap();
    let mut recording = Recording::create(out, 10, &["a", "b"], Some(Registers(0b110)), KERNEL, 1).unwrap();
    recording.comm(11, b"thread", 2).unwrap();
    recording
        .mapping(MappedCode { range: 0x1000..0x2000, offset: 0, path: b"/lib" }, Some(&[9; 20]), 2)
        .unwrap();
    let chain = [CONTEXT_KERNEL, 1 << 63 | 8, CONTEXT_USER, 0x1008];
    let copied = Copied { registers: &[3, 4], stack: &[5; 64] };
    for (event, copied) in [(1, Some(copied)), (0, None)] {
        recording.sample(&Sample { event, time: 3, tid: 11, period: 1234, chain: &chain, copied }).unwrap();
    }
    recording.finish(KERNEL).unwrap();

    let mut header = Header::default();
    let (data, trouble) = header.read_file(&mut file).unwrap().unwrap();
    assert_eq!(trouble, None);
    let names: Vec<&[u8]> = header.attrs.iter().map(|attr| &attr.name[..]).collect();
    assert_eq!((names, &header.os_release[..]), (vec![&b"a"[..], b"b"], &b"6.18.0"[..]));
    assert_eq!(header.build_ids, [(b"[kernel.kallsyms]".to_vec(), vec![7; 20])]);
    let events = EventIds::new(&header);
    file.seek(SeekFrom::Start(data.offset)).unwrap();
    let mut records = Stream::new(Input::Here(file), data.offset, Some(data.offset + data.size));
    let (mut kinds, mut samples) = (Vec::new(), 0);
    while let Some(record) = records.next(NeededBlocks::NOTHING).unwrap() {
        kinds.push(record.kind);
        if record.kind == kind::SAMPLE {
            let body = records.body(record.place).bytes;
            let (event, attr) = events.of(body).unwrap();
            let sample = SampleRecord::parse(body, attr).unwrap();
            assert_eq!((sample.tid, sample.time, sample.period), (Some(11), Some(3), Some(1234)));
            assert!(words(sample.callchain.unwrap()).eq(chain));
            let copied = (sample.register(attr, 1), sample.register(attr, 2), sample.user_stack);
            assert_eq!(copied, [(None, None, &[][..]), (Some(3), Some(4), &[5; 64][..])][event]);
            samples += 1;
        }
    }
    assert_eq!((kinds, samples), (vec![kind::MMAP, kind::COMM, kind::MMAP2, kind::SAMPLE, kind::SAMPLE], 2));
}
