//! What is done to files, and what is not: none is destroyed, and only regular files are read where others chose the
//! path.

mod common;

use common::recording::{Event, Records, USER};
use common::{Scratch, code, stackfold, text};
use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::symlink;
use std::process::{Command, Stdio};

const SAMPLE: &str = "t 1/2 [000] 1.000001:   7 cpu-clock: \n\t 401136 f (/bin/t)\n\n";

/// The program, ended if it waits for somebody who never comes.
fn bounded(args: &[&str]) -> Command {
    let mut command = Command::new("timeout");
    command.args(["60", env!("CARGO_BIN_EXE_stackfold")]).args(args).stdin(Stdio::null());
    command
}

/// Runs the program with files as standard input and output.
fn between(args: &[&str], input: File, output: File) -> (i32, String) {
    let done = bounded(args).stdin(input).stdout(output).stderr(Stdio::piped()).output().expect("it starts");
    (code(&done), text(&done.stderr))
}

#[test]
fn an_output_is_never_written_over_an_input() {
    let (input, other, link, hard) =
        (Scratch::new("kept"), Scratch::new("kept2"), Scratch::new("kept.link"), Scratch::new("kept.hard"));
    fs::write(&input.0, "t;main;f 7\n").expect("writing");
    fs::write(&other.0, "t;main;g 5\n").expect("writing");
    symlink(&input.0, &link.0).expect("a link");
    fs::hard_link(&input.0, &hard.0).expect("a link");
    let (input, other, link, hard) = (input.path(), other.path(), link.path(), hard.path());
    for args in [
        &[input, "-o", input][..],
        &[input, "-o", link],
        &[hard, "-o", input],
        &["fold", input, "--stats", input],
        &[input, "--format", "pprof", "--pprof", input],
        &["merge", other, input, "-o", input],
        &["merge", other, input, "--stats", link],
        &["diff", other, input, "-o", other],
        &["diff", other, input, "-o", input],
        &["stats", input, "-o", input],
        &["categories", input, "-o", input],
        &["categories", other, "--counts", input, "-o", input],
        &["categories", other, "--rules", input, "-o", input],
        &["check", input, "-o", input],
    ] {
        let output = stackfold(args, b"");
        let said = text(&output.stderr);
        assert_eq!((code(&output), text(&output.stdout)), (2, String::new()), "{args:?}: {said}");
        assert!(said.contains("are the same file"), "{args:?}: {said}");
        assert_eq!(fs::read_to_string(input).expect("it is there"), "t;main;f 7\n", "{args:?}");
        assert_eq!(fs::read_to_string(other).expect("it is there"), "t;main;g 5\n", "{args:?}");
    }
    let opened = || File::open(input).expect("it is there");
    let appended = OpenOptions::new().append(true).open(input).expect("it is there");
    for (args, output) in
        [(&["-", "-o", input][..], File::create("/dev/null").expect("a device")), (&["-"], appended)]
    {
        let (code, said) = between(args, opened(), output);
        assert!(code == 2 && said.contains("are the same file"), "{args:?}: {said}");
        assert_eq!(fs::read_to_string(input).expect("it is there"), "t;main;f 7\n", "{args:?}");
    }
}

#[test]
fn two_outputs_of_one_name_are_refused() {
    let (input, out, link) = (Scratch::new("in"), Scratch::new("both"), Scratch::new("both.link"));
    fs::write(&input.0, SAMPLE).expect("writing");
    // It leads to a file that is not there yet.
    symlink(&out.0, &link.0).expect("a link");
    let (input, link, name) = (input.path(), link.path(), out.path());
    for args in [
        &[input, "-o", name, "--stats", name][..],
        &[input, "-o", name, "--counts", link],
        &[input, "-o", "/dev/null", "--pprof", link, "--slices", name],
        &["merge", input, "-o", link, "--stats", name],
    ] {
        let output = stackfold(args, b"");
        assert_eq!(code(&output), 2, "{args:?}");
        assert!(text(&output.stderr).contains("are the same file"), "{args:?}: {}", text(&output.stderr));
        assert!(!out.0.exists(), "{args:?}");
    }
    // Where nothing is kept nothing is destroyed.
    let nowhere = ["-q", input, "-o", "/dev/null", "--counts", "/dev/null", "--stats", "/dev/null"];
    assert_eq!(code(&stackfold(&nowhere, b"")), 0);
    let written = File::create(&out.0).expect("a file");
    let (code, said) =
        between(&[input, "--counts", "/dev/stdout"], File::open("/dev/null").expect("a device"), written);
    assert!(code == 2 && said.contains("are the same file"), "{said}");
}

/// A pipe of this name, and what is written to it by somebody who then closes it.
fn fed(pipe: &Scratch, bytes: Vec<u8>) -> std::thread::JoinHandle<()> {
    let path = pipe.0.clone();
    std::thread::spawn(move || {
        OpenOptions::new()
            .write(true)
            .open(path)
            .and_then(|mut pipe| pipe.write_all(&bytes))
            .expect("somebody reads");
    })
}

fn named_pipe(name: &str) -> Scratch {
    let pipe = Scratch::new(name);
    assert!(Command::new("mkfifo").arg(&pipe.0).status().expect("coreutils").success());
    pipe
}

#[test]
fn a_named_pipe_is_read_once() {
    let mut records = Records::default();
    records.comm(0, 10, 10, "t", false).sample(5, 10, 10, 7, &[USER, 0x40_0010]);
    let recording = common::recording::pipe(&[Event::default()], &records);
    for (bytes, expected) in [
        (SAMPLE.repeat(1000).into_bytes(), "t;f 7000\n"),
        (recording, "t;[unknown] 7\n"),
        (b"t;f 9\n".to_vec(), "t;f 9\n"),
    ] {
        for threads in ["1", "3"] {
            let pipe = named_pipe("pipe");
            let writer = fed(&pipe, bytes.clone());
            let output = bounded(&["-q", "--threads", threads, pipe.path()]).output().expect("it starts");
            writer.join().expect("all was read");
            assert_eq!(
                (code(&output), text(&output.stdout)),
                (0, expected.to_owned()),
                "{}",
                text(&output.stderr)
            );
        }
    }
}

/// The pipe has no writer any more when it is looked at as standard input.
#[test]
fn standard_input_is_not_opened_again() {
    let pipe = named_pipe("stdin");
    let writer = fed(&pipe, SAMPLE.as_bytes().to_vec());
    let (input, out) = (File::open(&pipe.0).expect("a pipe"), Scratch::new("stdin.out"));
    writer.join().expect("it fits into the pipe");
    let (code, said) = between(&["-q", "--threads", "2"], input, File::create(&out.0).expect("a file"));
    assert_eq!((code, said, out.read()), (0, String::new(), "t;f 7\n".to_owned()));
}

#[test]
fn check_wants_a_file() {
    let pipe = named_pipe("checked");
    for path in [pipe.path(), "/dev/null", "/no/such/file"] {
        let output = bounded(&["check", path]).output().expect("it starts");
        assert_eq!(code(&output), 2, "{path}");
        assert!(text(&output.stderr).contains("is read twice here"), "{path}: {}", text(&output.stderr));
    }
}
