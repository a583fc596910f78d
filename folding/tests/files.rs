//! What is done to files, and what is not: none is destroyed, and only regular files are read where others chose the
//! path.

use crate::common::recording::{Event, Records, USER};
use crate::common::{Files, code, program, refused, stackfold, text};
use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::symlink;
use std::process::{Command, Stdio};

const SAMPLE: &str = "t 1/2 [000] 1.000001:   7 cpu-clock: \n\t 401136 f (/bin/t)\n\n";

/// The program, ended if it waits for somebody who never comes.
fn bounded(args: &[&str]) -> Command {
    let mut command = Command::new("timeout");
    command.arg("60").arg(program()).args(args).stdin(Stdio::null());
    command
}

/// Runs the program with files as standard input and output.
fn between(args: &[&str], input: File, output: File) -> (i32, String) {
    let done = bounded(args).stdin(input).stdout(output).stderr(Stdio::piped()).output().expect("it starts");
    (code(&done), text(&done.stderr))
}

#[test]
fn an_output_is_never_written_over_an_input() {
    let files = Files::new();
    let (input, other) =
        (&files.write("kept", "t;main;f 7\n")[..], &files.write("kept2", "t;main;g 5\n")[..]);
    let (link, hard) = (&files.path("link")[..], &files.path("hard")[..]);
    symlink(input, link).expect("a link");
    fs::hard_link(input, hard).expect("a link");
    for args in [
        &[input, "-o", input][..],
        &[input, "-o", link],
        &[hard, "-o", input],
        &["fold", input, "--stats", input],
        &[input, "--format", "pprof", "--pprof", input],
        &["categories", input, "-o", input],
        &["categories", other, "--counts", input, "-o", input],
        &["categories", other, "--rules", input, "-o", input],
        &["check", input, "-o", input],
    ] {
        refused(args, b"", "are the same file");
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
    let files = Files::new();
    let (input, name, link) =
        (&files.write("in", SAMPLE)[..], &files.path("both")[..], &files.path("link")[..]);
    // It leads to a file that is not there yet.
    symlink(name, link).expect("a link");
    for args in [
        &[input, "-o", name, "--stats", name][..],
        &[input, "-o", name, "--counts", link],
        &[input, "-o", "/dev/null", "--pprof", link, "--slices", name],
    ] {
        refused(args, b"", "are the same file");
        assert!(!fs::exists(name).expect("a directory"), "{args:?}");
    }
    // Where nothing is kept nothing is destroyed.
    let nowhere = ["-q", input, "-o", "/dev/null", "--counts", "/dev/null", "--stats", "/dev/null"];
    assert_eq!(code(&stackfold(&nowhere, b"")), 0);
    let written = File::create(name).expect("a file");
    let (code, said) =
        between(&[input, "--counts", "/dev/stdout"], File::open("/dev/null").expect("a device"), written);
    assert!(code == 2 && said.contains("are the same file"), "{said}");
}

/// A pipe of this name, and what is written to it by somebody who then closes it.
fn fed(pipe: &str, bytes: Vec<u8>) -> std::thread::JoinHandle<()> {
    let path = pipe.to_owned();
    std::thread::spawn(move || {
        OpenOptions::new()
            .write(true)
            .open(path)
            .and_then(|mut pipe| pipe.write_all(&bytes))
            .expect("somebody reads");
    })
}

fn named_pipe(files: &Files) -> String {
    let path = files.path("pipe");
    assert!(Command::new("mkfifo").arg(&path).status().expect("coreutils").success());
    path
}

#[test]
fn a_named_pipe_is_read_once() {
    let mut records = Records::default();
    records.comm(0, 10, 10, "t", false).sample(5, 10, 10, 7, &[USER, 0x40_0010]);
    let recording = crate::common::recording::pipe(&[Event::default()], &records);
    for (bytes, expected) in [
        (SAMPLE.repeat(1000).into_bytes(), "t;f 7000\n"),
        (recording, "t;[unknown] 7\n"),
        (b"t;f 9\n".to_vec(), "t;f 9\n"),
    ] {
        for threads in ["1", "3"] {
            let files = Files::new();
            let pipe = named_pipe(&files);
            let writer = fed(&pipe, bytes.clone());
            let output = bounded(&["-q", "--threads", threads, &pipe]).output().expect("it starts");
            writer.join().expect("all was read");
            let said = text(&output.stderr);
            assert_eq!((code(&output), text(&output.stdout)), (0, expected.to_owned()), "{said}");
        }
    }
}

/// The pipe has no writer any more when it is looked at as standard input.
#[test]
fn standard_input_is_not_opened_again() {
    let files = Files::new();
    let pipe = named_pipe(&files);
    let writer = fed(&pipe, SAMPLE.as_bytes().to_vec());
    let (input, out) = (File::open(&pipe).expect("a pipe"), files.path("out"));
    writer.join().expect("it fits into the pipe");
    let (code, said) = between(&["-q", "--threads", "2"], input, File::create(out).expect("a file"));
    assert_eq!((code, said, files.read("out")), (0, String::new(), "t;f 7\n".to_owned()));
}

#[test]
fn check_wants_a_file() {
    let files = Files::new();
    for path in [&named_pipe(&files)[..], "/dev/null", "/no/such/file"] {
        let output = bounded(&["check", path]).output().expect("it starts");
        assert_eq!(code(&output), 2, "{path}");
        assert!(text(&output.stderr).contains("is read twice here"), "{path}: {}", text(&output.stderr));
    }
}
