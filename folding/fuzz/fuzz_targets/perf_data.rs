//! Any bytes as a recording, file or pipe: no panic, what is counted is written, and threads change nothing.
//! The first byte chooses options. The input is a recording, or what follows the head of one.

#![no_main]

use libfuzzer_sys::fuzz_target;
use stackfold::collector::{Collector, Label, Options, StackDetail, Weight};
use stackfold::error::Error;
use stackfold::input::{PerfData, Source};
use stackfold::profile::write_folded;
use stackfold::pprof::write_pprof;
use stackfold::symbols;
use std::io::Cursor;

fn read(bytes: &[u8], options: &Options, piped: bool, threads: usize) -> Result<Collector, Error> {
    let mut collector = Collector::new(options.clone());
    let mut recording = PerfData::new(
        symbols::SymbolOptions {
            inlines: false,
            cache: None,
            host: false,
            ..symbols::SymbolOptions::default()
        },
        threads,
    );
    if piped {
        recording.read(&mut &bytes[..], &mut collector)?;
    } else {
        recording.read_file(Cursor::new(bytes), &mut collector)?;
    }
    Ok(collector)
}

fn told(collector: Result<Collector, Error>) -> Result<(Vec<u8>, String), String> {
    let (profile, stats) = collector.and_then(Collector::finish).map_err(|error| error.to_string())?;
    assert_eq!(profile.total().weight, stats.weight);
    assert_eq!(profile.total().samples, stats.samples);
    assert!(stats.incomplete_weight <= stats.weight && stats.unresolved_weight <= stats.weight);
    let mut out = Vec::new();
    write_folded(&profile.plain().0, &mut out, |tally| tally.weight).expect("memory");
    // Weights may be more than pprof has numbers for.
    let _ = write_pprof(&profile, &stats, 1, &mut Vec::new());
    Ok((out, serde_json::to_string(&stats).expect("JSON") + &stats.summary()))
}

fuzz_target!(|data: &[u8]| {
    let [flags, bytes @ ..] = data else { return };
    let flag = |bit: u8| flags & (1 << bit) != 0;
    let options = Options {
        weight: if flag(0) { Weight::Count } else { Weight::Period },
        label: if flag(1) { Label::Tid } else { Label::Comm },
        event: flag(2).then(|| "cpu-clock".to_owned()),
        kernel: true,
        addrs: flag(3),
        detail: match (flag(4), flag(3)) {
            (false, _) => StackDetail::Names,
            (true, false) => StackDetail::Addresses,
            (true, true) => StackDetail::Sites,
        },
        ..Options::default()
    };
    let piped = flag(5);
    let one = told(read(bytes, &options, piped, 1));
    if flag(6) && flag(7) {
        assert_eq!(one, told(read(bytes, &options, piped, 3)));
    }
});
