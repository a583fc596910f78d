//! `ioflame-ebpf`: loads one CO-RE program, opens its gate for a window, and writes what it counted as JSON.

use std::io::Write as _;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// What build.rs made of `bpf/NAME.bpf.c`, as the module `skeleton`.
macro_rules! skeleton {
    ($name:literal) => {
        #[allow(clippy::all, clippy::pedantic, dead_code, non_camel_case_types, unused_imports)]
        mod skeleton {
            include!(concat!(env!("OUT_DIR"), "/", $name, ".skel.rs"));

            /// The object's bytes.
            pub const OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/", $name, ".bpf.o"));
        }
    };
}

mod calls;
mod cost;
mod device;
mod exits;
mod histogram;
mod instructions;
mod io_group;
mod iolat;
mod kernel_flags;
mod ladder;
mod layout;
mod life;
mod mapped_code;
mod needs;
mod offcpu;
mod queries;
mod records;
mod refusal;
mod requests;
mod runqlat;
mod session;
mod symbols;
mod targets;
mod uprobes;
mod writes;

/// Of the results; `ground.system.atomic_files.read_json` compares it with what it knows.
const SCHEMA: u32 = 1;

#[derive(Parser)]
#[command(version, about)]
struct Arguments {
    #[command(subcommand)]
    program: Program,
    /// Load the programs that this kernel would need, to test them on another one
    #[arg(long, global = true, hide = true)]
    as_on: Option<kernel_flags::Kernel>,
}

#[derive(Subcommand)]
enum Program {
    /// Says which instruments a kernel can run, each by loading its programs
    Needs(needs::NeedsOptions),
    /// Calls of a function by some processes: its entries alone
    Calls(calls::CallsOptions),
    /// IO latency of one block device: queue and device, the process and everybody else
    Iolat(iolat::IolatOptions),
    /// The latency ladder: a query through engine, system call, block layer, device, wake-up and back
    Ladder(ladder::LadderOptions),
    /// Off-CPU time of a process: stacks by blocked time and state
    Offcpu(offcpu::OffcpuOptions),
    /// Records of single queries: what each slow one waited for, and some others beside them
    Records(records::RecordsOptions),
    /// What the requests of a block device belong to: each with its file, offset, thread and reason
    #[command(alias = "whose")]
    Requests(requests::RequestsOptions),
    /// Run-queue latency and context switches of a process
    Runqlat(runqlat::RunqlatOptions),
    /// The write path: each write stage by stage, and its wait in the queue by what its leaders did
    Writes(writes::WritesOptions),
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    refusal::keep_libbpf_words();
    let pretended = arguments.as_on.map_or(Ok(()), kernel_flags::pretend);
    let done = pretended.and_then(|()| match arguments.program {
        Program::Needs(options) => needs::run(&options),
        Program::Calls(options) => calls::run(&options),
        Program::Iolat(options) => iolat::run(&options),
        Program::Ladder(options) => ladder::run(&options),
        Program::Offcpu(options) => offcpu::run(&options),
        Program::Records(options) => records::run(&options),
        Program::Requests(options) => requests::run(&options),
        Program::Runqlat(options) => runqlat::run(&options),
        Program::Writes(options) => writes::run(&options),
    });
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            // On a full disk nobody can be told.
            let _ = writeln!(std::io::stderr(), "{failure}");
            ExitCode::from(failure.exit_code)
        }
    }
}
