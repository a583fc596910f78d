//! `ioflame-ebpf`: loads one CO-RE program, opens its gate for a window, and writes what it counted as JSON.

use std::process::ExitCode;

use clap::{Parser, Subcommand};

mod error;
mod histogram;
mod iolat;
mod probe;
mod session;

use error::Failure;

#[derive(Parser)]
#[command(version, about)]
struct Arguments {
    #[command(subcommand)]
    program: Program,
}

#[derive(Subcommand)]
enum Program {
    /// Says which kinds of program this kernel lets us load and attach, each by trying
    Probe,
    /// IO latency of one block device: queue and device, the process and everybody else
    Iolat(iolat::Options),
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let done = match arguments.program {
        Program::Probe => probe::run(),
        Program::Iolat(options) => iolat::run(&options),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("{failure}");
            ExitCode::from(failure.exit_code)
        }
    }
}

impl From<libbpf_rs::Error> for Failure {
    fn from(error: libbpf_rs::Error) -> Self {
        Failure::host(format!("the kernel refused a program: {error:#}"))
    }
}
