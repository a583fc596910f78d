//! What the tests share.

pub mod recording;

use proptest::collection::SizeRange;
use proptest::strategy::Strategy;
use stackfold::collector::{Collector, Options};
use stackfold::error::Error;
use stackfold::input::{PerfData, PerfScript, Source};
use stackfold::profile::Profile;
use stackfold::profile::write_folded;
use stackfold::stats::Stats;
use stackfold::symbols::SymbolOptions;
use std::io::Cursor;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::SystemTime;

pub fn read(text: &[u8], options: Options) -> Result<(Profile, Stats), Error> {
    let mut collector = Collector::new(options);
    PerfScript::default().read(&mut &text[..], &mut collector)?;
    collector.finish()
}

/// Folded text of the text of perf script.
pub fn fold(text: &[u8], options: Options) -> (Vec<u8>, Stats) {
    let (profile, stats) = read(text, options).unwrap_or_else(|error| panic!("refused: {error}"));
    (written(&profile), stats)
}

/// Folded text of a recording. `cache`: that of perf's, with symbols.
pub fn fold_recording(
    bytes: &[u8],
    options: Options,
    cache: Option<PathBuf>,
) -> Result<(String, Stats), Error> {
    let mut collector = Collector::new(options);
    no_symbols(cache).read_file(Cursor::new(bytes), &mut collector)?;
    let (profile, stats) = collector.finish()?;
    Ok((text(&written(&profile)), stats))
}

pub fn no_symbols(cache: Option<PathBuf>) -> PerfData {
    PerfData::new(SymbolOptions { inlines: false, cache, ..SymbolOptions::default() }, 1)
}

pub fn written(profile: &Profile) -> Vec<u8> {
    let mut out = Vec::new();
    write_folded(profile, &mut out, |tally| tally.weight).expect("writing to memory");
    out
}

pub fn data(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("data").join(name)
}

pub fn capture(name: &str) -> Vec<u8> {
    std::fs::read(data(name)).expect("a capture")
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

/// The program as set-up built it, and of these sources.
pub fn program() -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("../release/stackfold");
    let built = path.metadata().and_then(|file| file.modified()).ok();
    let sources = newest(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../src"));
    assert!(built > Some(sources), "cargo build --release --package stackfold first: it is older than src/");
    path
}

/// When something below this was last changed.
fn newest(path: &Path) -> SystemTime {
    let inside = std::fs::read_dir(path).into_iter().flatten();
    let changed = |path: &Path| path.metadata().and_then(|file| file.modified()).expect("a file");
    let paths = inside.map(|entry| entry.expect("an entry").path());
    let built = paths.filter(|path| !path.to_string_lossy().ends_with("_tests.rs"));
    built.map(|path| newest(&path)).max().unwrap_or_else(|| changed(path))
}

/// Runs the program with this standard input.
pub fn stackfold(args: &[&str], input: &[u8]) -> Output {
    let mut child = Command::new(program())
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

/// What it prints, where it must not fail.
pub fn printed(args: &[&str], input: &[u8]) -> String {
    let output = stackfold(args, input);
    assert_eq!(code(&output), 0, "{args:?}: {}", text(&output.stderr));
    text(&output.stdout)
}

/// A refusal: exit code 2, nothing on standard output, and this among what it says.
pub fn refused(args: &[&str], input: &[u8], why: &str) -> String {
    let output = stackfold(args, input);
    let said = text(&output.stderr);
    assert_eq!((code(&output), text(&output.stdout)), (2, String::new()), "{args:?}: {said}");
    assert!(said.contains(why), "{args:?}: {said}");
    said
}

/// Its exit code and what it says.
pub fn told(args: &[&str], input: &[u8]) -> (i32, String) {
    let output = stackfold(args, input);
    (code(&output), text(&output.stderr))
}

/// Of stacks whose weights are 1, 2, 3 ..., by RocksDB's rules: the row of each, and the depth of its anchor.
pub fn placed(view: &str, input: &str) -> Vec<(String, i64)> {
    let text = printed(&["categories", "--view", view, "--format", "stacks"], input.as_bytes());
    let line = |line: &str| {
        let fields: Vec<_> = line.split('\t').collect();
        let number = |field: &str| field.parse::<i64>().expect("a number");
        (number(fields[3]), fields[0].to_owned(), number(fields[1]))
    };
    let mut found: Vec<_> = text.lines().map(line).collect();
    found.sort_unstable();
    assert!(found.iter().map(|one| one.0).eq(1..=input.lines().count() as i64), "{found:?}");
    found.into_iter().map(|(_, row, depth)| (row, depth)).collect()
}

/// Texts of some of these pieces, which bars part.
pub fn pieces(of: &'static str, count: impl Into<SizeRange>) -> impl Strategy<Value = String> {
    let piece = proptest::sample::select(of.split('|').collect::<Vec<_>>());
    proptest::collection::vec(piece, count).prop_map(|pieces| pieces.concat())
}

pub fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

pub fn code(output: &Output) -> i32 {
    output.status.code().expect("an exit code")
}

/// Files of one test, gone with the value.
pub struct Files(PathBuf);

impl Files {
    pub fn new() -> Self {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let name = format!("{}-{}", std::process::id(), NUMBER.fetch_add(1, Ordering::Relaxed));
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        std::fs::create_dir(&path).expect("a directory");
        Self(path)
    }

    pub fn path(&self, name: &str) -> String {
        self.0.join(name).to_str().expect("a path of text").to_owned()
    }

    pub fn write(&self, name: &str, bytes: impl AsRef<[u8]>) -> String {
        std::fs::write(self.path(name), bytes).expect("writing");
        self.path(name)
    }

    pub fn read(&self, name: &str) -> String {
        text(&std::fs::read(self.path(name)).expect("the program wrote it"))
    }
}

impl Drop for Files {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
