//! pprof out and in.

use crate::common::{Files, capture, code, printed, read, refused, stackfold, text, told, written};
use proptest::prelude::*;
use stackfold::collector::{Collector, Options, StackDetail};
use stackfold::input::Source;
use stackfold::pprof::{Pprof, write_pprof};
use std::sync::LazyLock;

const CAPTURES: [&str; 2] = ["readrandom_fp.txt", "multireadrandom_fp.txt"];

#[test]
fn folded_to_pprof_and_back_is_the_same() {
    for name in CAPTURES {
        let input = capture(name);
        for options in [&["-q"][..], &["-q", "--all-annotations", "--tidy", "none"]] {
            let folded = stackfold(options, &input);
            let pprof = stackfold(&[options, &["--format", "pprof"]].concat(), &input);
            assert_eq!((code(&folded), code(&pprof)), (0, 0), "{}", text(&pprof.stderr));
            let back = stackfold(&[options, &["--input-format", "pprof"]].concat(), &pprof.stdout);
            assert_eq!(text(&back.stdout), text(&folded.stdout), "{name} {options:?}");
            let threads = stackfold(&[options, &["--format", "pprof", "--threads", "3"]].concat(), &input);
            assert!(threads.stdout == pprof.stdout, "{name} {options:?}");
            let again = stackfold(&[options, &["--format", "pprof"]].concat(), &pprof.stdout);
            assert!(again.stdout == pprof.stdout, "{name} {options:?}");
        }
    }
}

#[test]
fn threads_and_inlined_frames_are_kept() {
    let input = "my app 10/11 [000] 1.000001:   7 cpu-clock: \n\t 401136 in1 (inlined)\n\t 401136 in2 (inlined)\n\
                 \t 401136 f (/bin/a b)\n\t 401200 main (/bin/a b)\n\nmy app 10/12 [000] 1.000002:   5 cpu-clock: \n\n";
    let pprof = stackfold(&["-q", "--format", "pprof"], input.as_bytes()).stdout;
    let out = |args: &[&str]| text(&stackfold(&[&["-q"], args].concat(), &pprof).stdout);
    assert_eq!(out(&[]), "my_app 5\nmy_app;main;f;in2;in1 7\n");
    assert_eq!(out(&["--tid", "--inlines"]), "my_app-10/11;main;f;in2_[i];in1_[i] 7\nmy_app-10/12 5\n");
    assert_eq!(out(&["--from", "f"]), "my_app;f;in2;in1 7\n");
    assert_eq!(out(&["--comm", "my app", "--event", "samples"]), "my_app 1\nmy_app;main;f;in2;in1 1\n");
    assert!(told(&["--comm", "other"], &pprof).1.contains("none of the 2 samples passed --comm"));
    let (_, told) = told(&[], &pprof);
    assert!(told.starts_with("stackfold: cpu-clock: 2 samples, weight 12 ns, 2 stacks\n"), "{told}");
}

#[test]
fn categories_take_pprof() {
    let input = capture("readrandom_fp.txt");
    let folded = stackfold(&["-q", "--kernel"], &input).stdout;
    for marks in [&[][..], &["--kernel"]] {
        let pprof = stackfold(&[&["-q", "--format", "pprof"], marks].concat(), &input).stdout;
        let args = ["categories", "--view", "leaf", "--format", "tsv"];
        let columns = |bytes: &[u8]| {
            let rows = printed(&args, bytes);
            let row = |line: &str| line.split('\t').take(3).map(str::to_owned).collect::<Vec<_>>();
            rows.lines().map(row).collect::<Vec<_>>()
        };
        assert_eq!(columns(&pprof), columns(&folded));
        let table = printed(&["categories"], &pprof);
        assert!(table.contains(" ns, event cpu-clock\n") && table.contains("  n  "), "{table}");
    }
}

#[test]
fn a_nul_in_folded_text_is_a_part_of_the_name() {
    let pprof = stackfold(&["-q", "--format", "pprof"], b"t;x\0y\0F 3\nt;x 4\n");
    assert_eq!(text(&stackfold(&["-q"], &pprof.stdout).stdout), "t;x 4\nt;x\0y\0F 3\n");
}

/// `go tool pprof` refuses two values of one name.
#[test]
fn an_event_called_samples_is_not_their_number() {
    let input = b"app 1 [000] 1.000001:   7 samples: \n\t 401136 f (/bin/a)\n\n";
    let pprof = stackfold(&["-q", "--format", "pprof"], input).stdout;
    assert_eq!(printed(&["-q"], &pprof), "app;f 7\n");
    let (_, told) = told(&["--event", "none"], &pprof);
    assert!(told.contains("  samples (count)\n  weight (events)"), "{told}");
}

/// A heap of Go's: four values, and no default among them.
#[test]
fn the_last_value_is_folded_where_the_profile_prefers_none() {
    let field = |number: u8, body: &[u8]| [&[number << 3 | 2, body.len() as u8], body].concat();
    let types = [[1, 2], [3, 4], [5, 2], [6, 4]].map(|[name, unit]| field(1, &[8, name, 16, unit])).concat();
    let sample = field(2, &[field(1, &[1]), field(2, &[9, 90, 3, 30])].concat());
    let place = [field(4, &[&[8, 1][..], &field(4, &[8, 1])].concat()), field(5, &[8, 1, 16, 7])].concat();
    let strings =
        ["", "alloc_objects", "count", "alloc_space", "bytes", "inuse_objects", "inuse_space", "main.f"];
    let strings = strings.map(|text| field(6, text.as_bytes())).concat();
    let heap = [types, sample, place, strings].concat();
    assert_eq!(printed(&["-q"], &heap), "main.f 30\n");
    let (_, said) = told(&[], &heap);
    assert!(said.starts_with("stackfold: inuse_space: ") && said.contains(" 30 bytes"), "{said}");
    assert_eq!(printed(&["-q", "--event", "alloc_space"], &heap), "main.f 90\n");
    let preferred = [&heap[..], &[14 << 3, 1]].concat();
    assert_eq!(printed(&["-q"], &preferred), "main.f 9\n");
}

#[test]
fn the_name_of_the_output_tells_its_format() {
    let files = Files::new();
    assert_eq!(printed(&["-q", "-o", &files.path("out.pb.gz")], b"t;main;f 7\n"), "");
    let bytes = std::fs::read(files.path("out.pb.gz")).expect("it was written");
    assert_eq!(bytes[..2], [0x1f, 0x8b]);
    assert_eq!(printed(&["-q"], &bytes), "t;main;f 7\n");
}

#[test]
fn what_is_no_pprof_is_refused() {
    let good = stackfold(&["-q", "--format", "pprof"], b"t;main;f 7\n").stdout;
    for bytes in [&good[..good.len() / 2], b"\x1f\x8b", b"\x0a\x04\x08\x01\x10\x02\x12", b"nothing"] {
        let output = stackfold(&["--input-format", "pprof"], bytes);
        assert_eq!(code(&output), 2, "{bytes:?}: {}", text(&output.stderr));
    }
    assert_eq!(code(&stackfold(&["--weight", "count"], &good)), 2);
    let heavy = stackfold(&["-q", "--format", "pprof"], format!("t;f {}\n", u64::MAX).as_bytes());
    assert_eq!(code(&heavy), 1);
    assert!(text(&heavy.stderr).contains("pprof has no number as large as the weight 18446744073709551615"));
}

/// A pprof, unpacked.
static PPROF: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let options =
        Options { event: Some("cpu-clock".to_owned()), detail: StackDetail::Addresses, ..Options::default() };
    let (profile, stats) = read(&capture("two_events.txt"), options).expect("folded");
    let (mut packed, mut bytes) = (Vec::new(), Vec::new());
    write_pprof(&profile, &stats, 1, &mut packed).expect("memory");
    std::io::Read::read_to_end(&mut flate2::read::GzDecoder::new(&packed[..]), &mut bytes).expect("gzip");
    bytes
});

proptest! {
    #[test]
    fn damaged_pprof_is_read_or_refused(at in any::<prop::sample::Index>(), byte in any::<u8>()) {
        let options = Options { event: Some("cpu-clock".to_owned()), detail: StackDetail::Addresses, ..Options::default() };
        let mut bytes = PPROF.clone();
        let at = at.index(bytes.len());
        bytes[at] = byte;
        let mut collector = Collector::new(options);
        if Pprof.read(&mut &bytes[..], &mut collector).is_ok() {
            let (profile, stats) = collector.finish().expect("one event");
            prop_assert_eq!(profile.total().weight, stats.weight);
            written(&profile.plain().0);
        }
    }
}

/// An empty list of choices helps nobody.
#[test]
fn a_pprof_without_sample_types_is_refused_with_its_reason() {
    // A sample of one location, no sample type, and the empty string that every table begins with.
    for (bytes, samples) in [(&[0x12, 2, 0x08, 1, 0x32, 0][..], 1), (&[0x32, 0], 0)] {
        for args in [&["--input-format", "pprof"][..], &["--input-format", "pprof", "--event", "cpu"]] {
            let said = refused(args, bytes, &format!("none of its {samples} samples what it weighs"));
            assert!(!said.contains("choose the values"), "{said}");
        }
    }
}
