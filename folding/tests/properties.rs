//! What must hold for every input.

use crate::common::{fold, pieces, read, text, written};
use proptest::prelude::*;
use stackfold::collector::{Collector, Options, StackDetail, Weight};
use stackfold::error::Error;
use stackfold::input::{folded, parallel};
use stackfold::profile::Profile;
use stackfold::stats::Stats;
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// A sample as a profiler would have it, leaf first.
#[derive(Clone, Debug)]
struct Sample {
    comm: String,
    tid: u32,
    period: u64,
    frames: Vec<(u64, String, String)>,
}

fn sample() -> impl Strategy<Value = Sample> {
    let comm =
        prop::sample::select(vec!["t", "V8 Worker", "pool 12", "a: b 3 c:", "semi;colon", "7", "(sd-pam)"]);
    let symbols = "f|main|start_thread|[unknown]|(anonymous namespace)::g|X::operator->|X::operator()|\
        std::function<void ()>::operator()|operator new|a;b|schedule";
    let symbol = prop::sample::select(symbols.split('|').collect::<Vec<_>>());
    let dso =
        prop::sample::select(vec!["/bin/t", "[kernel.kallsyms]", "/opt/a b/c (deleted)", "[JIT] tid 1"]);
    let frame = (0_u64..1 << 40, symbol.prop_map(str::to_owned), dso.prop_map(str::to_owned));
    let period = prop_oneof![0_u64..10, any::<u64>()];
    (comm, 1_u32..5_000_000, period, prop::collection::vec(frame, 0..6))
        .prop_map(|(comm, tid, period, frames)| Sample { comm: comm.to_owned(), tid, period, frames })
}

/// What perf prints, with or without what varies between its versions.
fn print(samples: &[Sample], cpu: bool, crlf: bool) -> String {
    let mut out = String::new();
    for (n, sample) in samples.iter().enumerate() {
        let cpu = if cpu { "[000] " } else { "" };
        let _ = writeln!(
            out,
            "{} {:5} {cpu}{:5}.{n:06}: {:10} cycles: ",
            sample.comm, sample.tid, n, sample.period
        );
        for (address, symbol, dso) in &sample.frames {
            let _ = writeln!(out, "\t{address:16x} {symbol}+0x1f ({dso})");
        }
        out.push('\n');
    }
    if crlf { out.replace('\n', "\r\n") } else { out }
}

/// The fold, written down as plainly as it can be.
fn model(samples: &[Sample]) -> BTreeMap<String, u128> {
    let mut stacks = BTreeMap::new();
    for sample in samples {
        let mut stack = sample.comm.replace(' ', "_").replace(';', ":");
        for (_, symbol, dso) in sample.frames.iter().rev() {
            let name = match (symbol.as_str(), dso.as_str()) {
                ("[unknown]", "/opt/a b/c (deleted)") => "[c]".to_owned(),
                ("[unknown]", "/bin/t") => "[t]".to_owned(),
                ("[unknown]", "[JIT] tid 1") => "[JIT]".to_owned(),
                ("[unknown]", dso) => dso.to_owned(),
                (symbol, _) => symbol.replace(';', ":"),
            };
            stack = format!("{stack};{name}");
        }
        *stacks.entry(stack).or_default() += u128::from(sample.period);
    }
    stacks
}

fn parsed(out: &[u8]) -> BTreeMap<String, u128> {
    let line = |line: &[u8]| {
        let (stack, weight) = folded::parse(line).expect("our own output");
        (text(stack), weight)
    };
    out.split(|&b| b == b'\n').filter(|l| !l.is_empty()).map(line).collect()
}

/// Pieces that the reader distinguishes, in any order.
pub fn soup() -> impl Strategy<Value = Vec<u8>> {
    let pieces = "t 1 1.000001: 5 cycles: |t 1 [000] 1.000001:|  |\t|\n|\n\n|\r\n|401136 f| (/bin/t)|(|)|<|>|operator|->|\
        [unknown]|PERF_RECORD_LOST lost 3|+0x1f|@@|::|:|;|-1|VM: 1 | (inlined)|.isra.0| [clone .cold]|\
        ffffffffffffffff |99999999999999999999|\0|#|t 1 ";
    let piece = prop::sample::select(pieces.split('|').collect::<Vec<_>>());
    let bytes = prop_oneof![
        8 => piece.prop_map(|piece| piece.as_bytes().to_vec()),
        1 => prop::collection::vec(any::<u8>(), 0..5),
    ];
    prop::collection::vec(bytes, 0..60).prop_map(|pieces| pieces.concat())
}

/// Every option that changes what is kept or how it is written, in any combination.
fn options() -> impl Strategy<Value = Options> {
    use stackfold::collector::{Label, Window};
    use stackfold::names::Tidy;
    let frame =
        || prop::sample::select(vec!["f", "main", "[t]", "X::operator()", "nowhere"]).prop_map(str::to_owned);
    let filters = (
        prop::option::of(prop::sample::select(vec!["t", "V8 Worker"]).prop_map(str::to_owned)),
        (prop::option::of((0_u64..8, 0_u64..20)), prop::collection::vec((0_u64..8, 0_u64..3), 0..3)),
        prop::option::of(frame()),
        prop::collection::vec(frame(), 0..3),
        prop::option::of(0_usize..4),
    );
    let tidy = prop::sample::select(vec![Tidy::None, Tidy::Args, Tidy::Templates]);
    (filters, any::<[bool; 7]>(), tidy).prop_map(
        |((comm, (time, skip_time), from, skip_after, max_depth), flags, tidy)| {
            let [kernel, inlines, jit, addrs, dso, origins, count] = flags;
            let window =
                |(from, len)| Window { from: from * 1_000_000_000, to: (from + len) * 1_000_000_000 };
            let time = time.map(window);
            let skip_time = skip_time.into_iter().map(window).collect();
            let weight = if count { Weight::Count } else { Weight::Period };
            Options {
                weight,
                comm,
                time,
                skip_time,
                from,
                skip_after,
                max_depth,
                tidy,
                kernel,
                inlines,
                jit,
                symfs: None,
                addrs,
                dso,
                detail: if origins { StackDetail::Objects } else { StackDetail::Names },
                no_inlines: false,
                event: None,
                label: Label::Comm,
                only_pids: Default::default(),
                slice: None,
                intervals: None,
            }
        },
    )
}

proptest! {
    #[test]
    fn with_any_options_weight_in_is_weight_out_and_what_was_filtered(
        samples in prop::collection::vec(sample(), 1..30), options in options(), threads in 1_usize..4
    ) {
        let input = print(&samples, true, false);
        let whole = match options.weight {
            Weight::Count => samples.len() as u128,
            Weight::Period => samples.iter().map(|sample| u128::from(sample.period)).sum(),
        };
        let collector = parallel::read_in_parts(&mut input.as_bytes(), &options, threads, 200).expect("a sample");
        let (profile, stats) = collector.finish().expect("one event");
        prop_assert_eq!(profile.total().weight + stats.filtered_weight, whole);
        prop_assert_eq!(profile.total().samples + stats.filtered_samples, samples.len() as u64);
        prop_assert_eq!(stats.weight, profile.total().weight);
        prop_assert!(stats.incomplete_weight <= stats.weight && stats.unresolved_weight <= stats.weight);
    }

    #[test]
    fn with_any_options_threads_and_parts_change_nothing(
        bytes in soup(), samples in prop::collection::vec(sample(), 1..20), at in any::<prop::sample::Index>(),
        options in options(), threads in 1_usize..4, block in 2_usize..600
    ) {
        let mut input = print(&samples, true, false).into_bytes();
        let at = at.index(input.len() + 1);
        input.splice(at..at, bytes);
        // Which of two reasons to refuse an input is found first depends on the order of its parts.
        let told = |result: Result<(Profile, Stats), Error>| {
            let (profile, stats) = result.ok()?;
            let mut pprof = Vec::new();
            let fits = stackfold::pprof::write_pprof(&profile, &stats, 1, &mut pprof).is_ok();
            Some((text(&written(&profile)), fits.then_some(pprof), serde_json::to_string(&stats).expect("JSON")))
        };
        let whole = told(read(&input, options.clone()));
        let parts = told(parallel::read_in_parts(&mut &input[..], &options, threads, block).and_then(Collector::finish));
        prop_assert_eq!(whole, parts);
    }

    #[test]
    fn threads_and_parts_change_nothing(bytes in soup(), samples in prop::collection::vec(sample(), 0..20), at in any::<prop::sample::Index>(), threads in 1_usize..4, block in 2_usize..600, crlf in any::<bool>()) {
        let mut input = print(&samples, true, crlf).into_bytes();
        let at = at.index(input.len() + 1);
        input.splice(at..at, bytes);
        let told = |result: Result<(Profile, Stats), Error>| match result {
            Ok((profile, stats)) => {
                (text(&written(&profile)), stats.summary(), serde_json::to_string(&stats).expect("JSON"))
            }
            Err(error) => (error.to_string(), String::new(), String::new()),
        };
        let options = Options { kernel: true, ..Options::default() };
        let whole = told(read(&input, options.clone()));
        let parts = told(parallel::read_in_parts(&mut &input[..], &options, threads, block).and_then(Collector::finish));
        prop_assert_eq!(whole, parts);
    }

    #[test]
    fn the_fold_is_the_plain_one(samples in prop::collection::vec(sample(), 1..20), cpu in any::<bool>(), crlf in any::<bool>()) {
        let (out, stats) = fold(print(&samples, cpu, crlf).as_bytes(), Options::default());
        prop_assert_eq!(parsed(&out), model(&samples));
        prop_assert_eq!(stats.dropped_lines, 0);
        prop_assert_eq!(stats.samples, samples.len() as u64);
    }

    #[test]
    fn a_small_line_cache_changes_nothing(samples in prop::collection::vec(sample(), 1..20), cache in 0_usize..300) {
        use stackfold::input::{PerfScript, Source};
        let input = print(&samples, true, false);
        let mut collector = Collector::default();
        PerfScript::with_line_cache(cache).read(&mut input.as_bytes(), &mut collector).expect("well-formed");
        let (profile, _) = collector.finish().expect("unambiguous");
        prop_assert_eq!(parsed(&written(&profile)), model(&samples));
    }

    #[test]
    fn weight_in_is_weight_out_plus_what_is_reported(
        samples in prop::collection::vec(sample(), 2..20), damaged in any::<prop::sample::Index>(), garbage in pieces("a|b|z", 1..10)
    ) {
        // Not the first: a header without time and event counts where no better one was seen before.
        let damaged = 1 + damaged.index(samples.len() - 1);
        let mut input = print(&samples[..damaged], false, false);
        let _ = writeln!(input, "{garbage}");
        for _ in &samples[damaged].frames {
            input.push_str("\t 401136 f (/bin/t)\n");
        }
        input.push('\n');
        input.push_str(&print(&samples[damaged + 1..], false, false));
        let (out, stats) = fold(input.as_bytes(), Options::default());
        let whole: u128 = samples.iter().map(|sample| u128::from(sample.period)).sum();
        let lost = u128::from(samples[damaged].period);
        prop_assert_eq!(parsed(&out).values().sum::<u128>(), whole - lost);
        prop_assert_eq!(stats.dropped_lines, 1 + samples[damaged].frames.len() as u64);
    }

    #[test]
    fn names_are_tidied_without_panic_and_hold_no_separator(name in prop::collection::vec(prop::sample::select(b"aZ_0<>(){}[]:;,.-+=&*~@ \"operatorconst".to_vec()), 0..40)) {
        use stackfold::names::{Tidy, bare, tidy};
        for how in [Tidy::None, Tidy::Args, Tidy::Templates] {
            prop_assert!(!tidy(&name, how).contains(&b';'));
        }
        let _ = bare(&name);
    }

    #[test]
    fn folded_text_comes_back_as_it_was(stacks in prop::collection::btree_map(pieces("a|b |<|>|(|)|a;b|c::d|e", 1..9), any::<u64>(), 1..20)) {
        use stackfold::input::{Folded, Source};
        let stacks: BTreeMap<_, _> = stacks.into_iter().map(|(stack, weight)| (format!("t{stack}z"), weight)).collect();
        let input: String = stacks.iter().map(|(stack, weight)| format!("{stack} {weight}\n")).collect();
        let mut collector = Collector::default();
        Folded.read(&mut input.as_bytes(), &mut collector).expect("well-formed");
        let (profile, _) = collector.finish().expect("unambiguous");
        let expected: BTreeMap<String, u128> = stacks.into_iter().map(|(stack, weight)| (stack, weight.into())).collect();
        prop_assert_eq!(parsed(&written(&profile)), expected);
    }
}
