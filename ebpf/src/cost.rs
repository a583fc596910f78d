//! What the programs themselves cost: runs and time by the kernel's own account, and runs it had to leave out.

use std::fs::File;
use std::mem::size_of;
use std::os::fd::FromRawFd;

use libbpf_rs::{AsRawLibbpf, libbpf_sys};
use serde::Serialize;

use observer::Failure;

/// The kernel counts time and runs of programs while this lives; no sysctl is changed.
pub struct Accounting {
    #[allow(dead_code)] // held open: closing it ends the counting
    file: Option<File>,
    before: Vec<ProgramCost>,
}

impl Accounting {
    /// Begins, where the kernel lets us (`CAP_SYS_ADMIN`); without it runs and times stay 0.
    pub fn begin(object: &libbpf_rs::Object) -> Result<Self, Failure> {
        // SAFETY: a system call without pointers; a descriptor it returns is ours.
        let fd = unsafe { libbpf_sys::bpf_enable_stats(libbpf_sys::BPF_STATS_RUN_TIME) };
        let file = (fd >= 0).then(|| unsafe { File::from_raw_fd(fd) });
        Ok(Self { file, before: program_costs(object)? })
    }

    /// What each program has cost since.
    pub fn costs(&self, object: &libbpf_rs::Object) -> Result<Vec<ProgramCost>, Failure> {
        let mut costs = program_costs(object)?;
        for (cost, before) in costs.iter_mut().zip(&self.before) {
            cost.runs -= before.runs;
            cost.ns -= before.ns;
            cost.missed -= before.missed;
        }
        Ok(costs)
    }
}

/// One program's account since `Accounting::begin`.
#[derive(Clone, Debug, Serialize)]
pub struct ProgramCost {
    pub name: String,
    pub runs: u64,
    pub ns: u64,
    /// Runs left out because the program was already running on that CPU: events that it has not seen.
    pub missed: u64,
}

/// The account of every loaded program of an object.
fn program_costs(object: &libbpf_rs::Object) -> Result<Vec<ProgramCost>, Failure> {
    let mut costs = Vec::new();
    for program in object.progs() {
        // SAFETY: the program lives as long as its object.
        let fd = unsafe { libbpf_sys::bpf_program__fd(program.as_libbpf_object().as_ptr()) };
        if fd < 0 {
            continue; // not loaded
        }
        let mut info = libbpf_sys::bpf_prog_info::default();
        let mut size = size_of::<libbpf_sys::bpf_prog_info>() as u32;
        // SAFETY: info and size outlive the call, and size is that of info.
        let code = unsafe { libbpf_sys::bpf_prog_get_info_by_fd(fd, &raw mut info, &raw mut size) };
        if code != 0 {
            return Err(Failure::measurement(format!(
                "the kernel keeps no account of a program: {}",
                std::io::Error::last_os_error()
            )));
        }
        costs.push(ProgramCost {
            name: program.name().to_string_lossy().into_owned(),
            runs: info.run_cnt,
            ns: info.run_time_ns,
            missed: info.recursion_misses,
        });
    }
    Ok(costs)
}
