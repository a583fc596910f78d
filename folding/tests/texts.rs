//! Texts as people have them: of other programs, with times that are none, cut at their beginning, packed.

use crate::common::recording::{Event, file, pipe};
use crate::common::{Files, capture, code, fold, printed, refused, stackfold, text, told};
use crate::perf_data::life;
use flate2::{Compression, write::GzEncoder};
use stackfold::collector::Options;
use std::fmt::Write as _;
use std::io::Write as _;
use std::process::{Command, Stdio};

/// What simpleperf's report_sample.py prints: tabs, and addresses of the kernel without any indentation.
#[test]
fn simpleperf() {
    let input = "my app\t4711 [001] 1968.424864:\t\t10 cpu-cycles:\nffffffc010081234\tel0_svc ([kernel.kallsyms])\n\
                 \x20   7f6783cab997\tart::Run(int) (/apex/libart.so)\n\n\
                 my app\t4712 [001] 1968.424865:\t\t5 cpu-cycles:\n    7f6783cab997\tart::Run(int) (/apex/libart.so)\n\n";
    let expected = "my_app;art::Run 5\nmy_app;art::Run;el0_svc_[k] 10\n";
    assert_eq!(printed(&["-q", "--kernel"], input.as_bytes()), expected);
    let many = input.repeat(20_000);
    let (folded, stats) = fold(many.as_bytes(), Options { kernel: true, ..Options::default() });
    assert_eq!((stats.samples, stats.dropped_lines), (40_000, 0));
    assert_eq!(printed(&["-q", "--kernel", "--threads", "3"], many.as_bytes()), text(&folded));
}

fn sample(time: &str, period: u32, leaf: &str) -> String {
    format!(
        "t 17/18 [000] {time}:   {period} cycles: \n\t 401136 {leaf} (/bin/t)\n\t 401200 main (/bin/t)\n\n"
    )
}

/// `--deltatime` and `--reltime`: what needs the trace's clock is refused, the rest is folded.
#[test]
fn times_that_are_no_clock() {
    let files = Files::new();
    let intervals = &files.write("intervals", "18 0 9000000000 1\n");
    let many = |times: &[&str]| times.iter().map(|time| sample(time, 1, "f")).collect::<String>().repeat(400);
    let differences = many(&["0.000000", "0.005029", "0.005011", "0.005030", "0.004998"]);
    let of_clock = ["--slices=/dev/null", "--time=0,1", "--skip-time=0,1"];
    for option in of_clock.iter().copied().chain([&*format!("--intervals={intervals}")]) {
        for threads in ["--threads=1", "--threads=3"] {
            refused(&["-q", option, threads], differences.as_bytes(), "perf script --deltatime");
        }
    }
    assert_eq!(printed(&["-q"], differences.as_bytes()), "t;main;f 2000\n");
    // From 0 on is a clock but for what is told in times of the trace.
    let relative = sample("0.000000", 1, "f") + &sample("0.900000", 1, "f") + &sample("1.100000", 1, "g");
    assert_eq!(printed(&["-q", "--time", "1,2"], relative.as_bytes()), "t;main;g 1\n");
    refused(&["-q", "--intervals", intervals], relative.as_bytes(), "perf script --reltime");
    // Two texts, one behind the other.
    let two = many(&["1.000000"]).repeat(2) + &sample("0.500000", 1, "f") + &sample("0.600000", 1, "f");
    assert_eq!(printed(&["-q", "--time", "0.55,"], two.as_bytes()), "t;main;f 801\n");
}

/// Whatever is cut off at the beginning, no sample is made of what is left of one.
#[test]
fn a_text_that_begins_within_a_sample() {
    let whole =
        sample("1968.424864", 70, "f") + &sample("1968.424865", 5, "g") + &sample("1968.424866", 5, "g");
    let header = whole.find("\n").expect("a line");
    let second = whole.find("\n\n").expect("a sample") + 2;
    // A part of a command is one as well.
    for at in 2..second - 2 {
        let (folded, stats) = fold(&whole.as_bytes()[at..], Options::default());
        assert_eq!((text(&folded), stats.samples), ("t;main;g 10\n".to_owned(), 2), "{at}");
        let said = stats.truncated_input.as_deref();
        assert!(
            said.is_some() || at > whole.find("main").expect("a frame") - 8,
            "{at}: {:?}",
            &whole[at..second]
        );
        assert!(stats.dropped_lines > 0, "{at}");
    }
    let (code, said) = told(&["--weight", "count"], &whole.as_bytes()[header + 1..]);
    assert!(
        code == 1 && said.contains("2 samples") && said.contains("(it begins within a sample)"),
        "{said}"
    );
    // Without times and events the first line of words is a header as before.
    let plain = "t \n\t 401136 f (/bin/t)\n\n".repeat(2);
    let count = ["-q", "--weight", "count"];
    assert_eq!(printed(&count, plain.as_bytes()), "t;f 2\n");
    assert_eq!(text(&stackfold(&count, &plain.as_bytes()[3..]).stdout), "t;f 1\n");
}

/// `--show-namespace-events`: a record of several lines, before the first sample and between two.
#[test]
fn records_of_several_lines_are_no_samples() {
    let record = "t 17/18  0.000000: PERF_RECORD_NAMESPACES 17/18 - nr_namespaces: 7\n\t\t[0/net: 4/0xf0000000, \
                  1/uts: 4/0xeffffffe, 2/ipc: 4/0xefffffff, 3/pid: 4/0xeffffffc, \n\t\t 4/user: 4/0xeffffffd, \
                  5/mnt: 4/0xf0000001, 6/cgroup: 4/0xeffffffb]\n";
    let input = [record, record, &sample("1.000001", 5, "f"), record, &sample("1.000002", 5, "f")].concat();
    for args in [&["--stats", "/dev/stdout", "-o", "/dev/null", "-q"][..], &["-q", "--weight", "count"]] {
        let output = printed(args, input.as_bytes());
        assert!(output == "t;main;f 2\n" || output.contains("\"dropped_lines\": 0"), "{output}");
    }
}

#[test]
fn a_difference_is_refused_by_its_name() {
    let files = Files::new();
    let difference = b"t;main;pread64 12 15\nt;main;f 3 0\n";
    let path = &files.write("difference", difference);
    for args in [&["fold"][..], &["categories"], &["categories", "--counts", path, path]] {
        refused(args, difference, "a difference of two profiles");
    }
    // A name may end in a number.
    assert_eq!(printed(&["-q"], b"t;f 12 15\nt;g 3\n"), "t;f 12 15\nt;g 3\n");
}

#[test]
fn comments_of_folded_text_are_passed_over_and_counted() {
    let input = b"# austin: 4.0.0\n# duration: 12\n\nP7;T7:1;/x.py:f:3 100\n#kworker;f 5\n#\n# end\n";
    let output = stackfold(&[], input);
    assert_eq!(
        (code(&output), text(&output.stdout)),
        (0, "#kworker;f 5\nP7;T7:1;/x.py:f:3 100\n".to_owned())
    );
    assert!(
        text(&output.stderr).contains("note: 4 lines that begin with # are comments"),
        "{}",
        text(&output.stderr)
    );
    for args in [&[][..], &["categories"]] {
        refused(args, b"a;b 2.0\na;c 1.5\n", "line 2: the weight is not a whole number");
    }
}

fn packed_by(command: &str, bytes: &[u8]) -> Vec<u8> {
    let mut child = Command::new(command)
        .arg("-c")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap_or_else(|error| panic!("{command}: {error}"));
    let (mut stdin, bytes) = (child.stdin.take().expect("a pipe"), bytes.to_vec());
    let feeder = std::thread::spawn(move || stdin.write_all(&bytes).expect("it reads"));
    let output = child.wait_with_output().expect("it ends");
    feeder.join().expect("the feeder ends");
    output.stdout
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut packer = GzEncoder::new(Vec::new(), Compression::fast());
    packer.write_all(bytes).expect("memory");
    packer.finish().expect("memory")
}

/// Each packing of the bytes, by its name; gzip and xz of two pieces as well.
fn packed(bytes: &[u8]) -> [(&'static str, Vec<u8>); 4] {
    let (a, b) = bytes.split_at(bytes.len() / 2);
    [
        ("gz", gzip(bytes)),
        ("gz of two", [gzip(a), gzip(b)].concat()),
        ("xz of two", [packed_by("xz", a), packed_by("xz", b)].concat()),
        ("zst", zstd::encode_all(bytes, 1).expect("memory")),
    ]
}

#[test]
fn packed_inputs_are_those_that_they_hold() {
    let files = Files::new();
    let pprof = files.path("x.pb");
    let script = capture("readrandom_fp.txt");
    printed(&["-q", "-o", &pprof], &script);
    let records = life();
    let folded = printed(&["-q"], &script).into_bytes();
    for (what, bytes) in [
        ("perf script", script),
        ("folded", folded.clone()),
        ("pprof", packed_input(&std::fs::read(&pprof).expect("it was written"))),
        ("recording", file(&[Event::default()], &records)),
        ("recording of a pipe", pipe(&[Event::default()], &records)),
    ] {
        let plain = files.write("plain", &bytes);
        let expected = printed(&["-q", &plain], b"");
        assert!(!expected.is_empty(), "{what}");
        for (how, bytes) in packed(&bytes) {
            let path = files.write("packed", &bytes);
            assert_eq!(printed(&["-q", &path], b""), expected, "{what}, {how}");
            assert_eq!(printed(&["-q", "--threads", "3"], &bytes), expected, "{what}, {how}, piped");
        }
    }
    let counts = files.write("counts.gz", gzip(b"t;g 2\n"));
    let args = ["categories", "--format", "stacks", "--counts", &counts];
    assert_eq!(printed(&args, &gzip(b"t;g 10\n")), "other\t-1\t2\t10\tt;g\n");
    let recording = files.write("perf.data.gz", gzip(&file(&[Event::default()], &records)));
    refused(&["check", &recording], b"", "is packed");
}

fn packed_input(gzipped: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    std::io::Read::read_to_end(&mut flate2::read::GzDecoder::new(gzipped), &mut bytes).expect("gzip");
    bytes
}

/// What came before the end is folded; what unpacks without end is not read to it.
#[test]
fn packed_inputs_that_are_cut_or_endless() {
    let mut long = String::new();
    for n in 0..3000 {
        let _ =
            write!(long, "{}", sample(&format!("{n}.{:06}", n * 7919 % 1_000_000), 1 + n * 31 % 977, "f"));
    }
    let recording = file(&[Event::default()], &life());
    for (how, bytes) in packed(long.as_bytes()) {
        let (code, said) = told(&[], &bytes[..bytes.len() - 40]);
        assert!(code == 1 && said.contains("cut short"), "{how}: {said}");
    }
    for (how, bytes) in packed(&recording) {
        let (code, said) = told(&[], &bytes[..bytes.len() - 12]);
        assert!(matches!(code, 1 | 2) && !said.contains("panicked"), "{how}: {said}");
    }
    let endless = zstd::encode_all(&vec![b'x'; 64 << 20][..], 1).expect("memory").repeat(48);
    let (code, said) = told(&[], &endless);
    assert!(code == 1 && said.contains("unpacks to more than any profile does"), "{said}");
}
