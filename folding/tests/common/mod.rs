//! What the tests share.
#![allow(dead_code, reason = "each test program uses its part")]

pub mod recording;

use stackfold::collector::{Collector, Options};
use stackfold::error::Error;
use stackfold::input::{PerfScript, Source};
use stackfold::output::write_folded;
use stackfold::profile::Profile;
use stackfold::stats::Stats;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

pub fn read(text: &[u8], options: Options) -> Result<(Profile, Stats), Error> {
    let mut collector = Collector::new(options);
    PerfScript::default().read(&mut &text[..], &mut collector)?;
    collector.finish()
}

/// Folded text of the text of perf script.
pub fn fold(text: &[u8], options: Options) -> (Vec<u8>, Stats) {
    let (profile, stats) = read(text, options).unwrap_or_else(|error| panic!("refused: {error}"));
    let mut out = Vec::new();
    write_folded(&profile, &mut out, |tally| tally.weight).expect("writing to memory");
    (out, stats)
}

pub fn data(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(name)
}

/// Compares with the file of that name, or writes it when `BLESS` is set.
pub fn golden(name: &str, actual: &[u8]) {
    let path = data(&format!("{name}.expected"));
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(&path, actual).expect("writing the expected output");
        return;
    }
    let expected = std::fs::read(&path)
        .unwrap_or_else(|error| panic!("{}: {error}; BLESS=1 cargo test writes it", path.display()));
    assert!(
        expected == actual,
        "{} differs; first difference:\n{}",
        path.display(),
        first_difference(&expected, actual)
    );
}

fn first_difference(expected: &[u8], actual: &[u8]) -> String {
    let lines = |bytes: &[u8]| String::from_utf8_lossy(bytes).lines().map(str::to_owned).collect::<Vec<_>>();
    let (expected, actual) = (lines(expected), lines(actual));
    let n = expected.iter().zip(&actual).take_while(|(a, b)| a == b).count();
    let line = |lines: &[String]| lines.get(n).cloned().unwrap_or_else(|| "(end)".to_owned());
    format!("line {}\n  expected: {}\n  actual:   {}", n + 1, line(&expected), line(&actual))
}

/// Runs the program with this standard input.
pub fn stackfold(args: &[&str], input: &[u8]) -> Output {
    let mut child = Command::new(env!("CARGO_BIN_EXE_stackfold"))
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program starts");
    let mut stdin = child.stdin.take().expect("a pipe");
    let input = input.to_vec();
    let feeder = std::thread::spawn(move || {
        let _ = std::io::Write::write_all(&mut stdin, &input);
    });
    let output = child.wait_with_output().expect("the program ends");
    feeder.join().expect("the feeder ends");
    output
}

pub fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

pub fn code(output: &Output) -> i32 {
    output.status.code().expect("an exit code")
}

/// A file of this test run, gone with the value.
pub struct Scratch(pub PathBuf);

impl Scratch {
    pub fn new(name: &str) -> Self {
        let dir = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
        Self(dir.join(format!("{}-{name}", std::process::id())))
    }

    pub fn path(&self) -> &str {
        self.0.to_str().expect("a path of text")
    }

    pub fn read(&self) -> String {
        std::fs::read_to_string(&self.0).expect("the program wrote it")
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}
