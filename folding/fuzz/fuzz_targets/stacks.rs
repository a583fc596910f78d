//! Any bytes as folded text, as pprof and as callgrind's output: read or refused, and what was read comes back from
//! either format.

#![no_main]

use libfuzzer_sys::fuzz_target;
use stackfold::collector::{Collector, Options, StackDetail};
use stackfold::input::{Callgrind, Folded, Source, Unpacker};
use stackfold::profile::write_folded;
use stackfold::pprof::{Pprof, write_pprof};
use stackfold::profile::Profile;
use stackfold::stats::Stats;

fn read(source: &mut dyn Source, bytes: &[u8], options: &Options) -> Option<(Profile, Stats)> {
    let mut collector = Collector::new(options.clone());
    source.read(&mut &bytes[..], &mut collector).ok()?;
    let (profile, stats) = collector.finish().ok()?;
    assert_eq!(profile.total().weight, stats.weight);
    Some((profile, stats))
}

fn folded(profile: &Profile) -> Vec<u8> {
    let mut out = Vec::new();
    write_folded(&profile.plain().0, &mut out, |tally| tally.weight).expect("memory");
    out
}

fuzz_target!(|data: &[u8]| {
    let [flags, bytes @ ..] = data else { return };
    let flag = |bit: u8| flags & (1 << bit) != 0;
    let options = Options {
        from: flag(1).then(|| "main".to_owned()),
        skip_after: if flag(2) { vec!["f".to_owned()] } else { Vec::new() },
        max_depth: flag(3).then_some(2),
        kernel: flag(4),
        inlines: flag(5),
        detail: if flag(6) { StackDetail::Names } else { StackDetail::Addresses },
        ..Options::default()
    };
    let source: &mut dyn Source = match (flag(0), flag(7)) {
        (true, _) => &mut Folded,
        (false, false) => &mut Pprof,
        (false, true) => &mut Callgrind::default(),
    };
    let Some((profile, stats)) = read(source, bytes, &options) else { return };
    assert_eq!(folded(&profile).is_empty(), profile.stacks() == 0);
    // What is written as pprof is read with its origins. Weights may be more than pprof has numbers for.
    let mut pprof = Vec::new();
    if !options.detail.has_origins() || write_pprof(&profile, &stats, 1, &mut pprof).is_err() {
        return;
    }
    let plain = Options { detail: StackDetail::Addresses, ..Options::default() };
    let again = |pprof: &[u8]| {
        let mut unpacked = Vec::new();
        let mut unpacker = Unpacker::new(pprof.to_vec(), std::io::empty()).expect("gzip");
        std::io::Read::read_to_end(&mut unpacker, &mut unpacked).expect("gzip");
        let (back, _) = read(&mut Pprof, &unpacked, &plain).expect("our own pprof");
        assert_eq!(back.total().weight, profile.total().weight);
        let mut again = Vec::new();
        write_pprof(&back, &stats, 1, &mut again).expect("it was written before");
        again
    };
    // Names that are empty, not UTF-8 or hold control characters come back tidied, and then stay as they are.
    let second = again(&pprof);
    assert_eq!(second, again(&second));
});
