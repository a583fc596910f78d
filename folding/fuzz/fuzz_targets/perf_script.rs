//! Any bytes as the text of perf script: no panic, what is counted is written, and threads change nothing.
//! The first two bytes choose options and the size of the parts.

#![no_main]

use libfuzzer_sys::fuzz_target;
use stackfold::collector::{Collector, Label, Options, StackDetail, Weight};
use stackfold::error::Error;
use stackfold::input::{PerfScript, Source, parallel};
use stackfold::names::Tidy;
use stackfold::profile::write_folded;

fn told(collector: Result<Collector, Error>) -> Result<(Vec<u8>, String), String> {
    let (profile, stats) = collector.and_then(Collector::finish).map_err(|error| error.to_string())?;
    assert_eq!(profile.total().weight, stats.weight);
    assert_eq!(profile.total().samples, stats.samples);
    assert!(stats.incomplete_weight <= stats.weight && stats.unresolved_weight <= stats.weight);
    let mut out = Vec::new();
    write_folded(&profile, &mut out, |tally| tally.weight).expect("memory");
    Ok((out, serde_json::to_string(&stats).expect("JSON") + &stats.summary()))
}

fuzz_target!(|data: &[u8]| {
    let [flags, block, text @ ..] = data else { return };
    let flag = |bit: u8| flags & (1 << bit) != 0;
    let options = Options {
        weight: if flag(0) { Weight::Count } else { Weight::Period },
        label: if flag(1) { Label::Tid } else { Label::Comm },
        tidy: if flag(2) { Tidy::Templates } else { Tidy::Args },
        from: flag(3).then(|| "main".to_owned()),
        skip_after: if flag(4) { vec!["f".to_owned()] } else { Vec::new() },
        kernel: true,
        addrs: flag(5),
        dso: flag(6),
        detail: if flag(7) { StackDetail::Addresses } else { StackDetail::Names },
        ..Options::default()
    };
    let mut collector = Collector::new(options.clone());
    let whole = PerfScript::default().read(&mut &text[..], &mut collector).map(|()| collector);
    // Parts without a second thread find the same and cost less.
    let threads = if block % 8 == 0 { 2 } else { 1 };
    let parts = parallel::read_in_parts(&mut &text[..], &options, threads, usize::from(*block) + 2);
    // Which of two reasons to refuse an input is found first depends on the order of its parts.
    match (told(whole), told(parts)) {
        (Err(_), Err(_)) => {}
        (whole, parts) => assert_eq!(whole, parts),
    }
});
