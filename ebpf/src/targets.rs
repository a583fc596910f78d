//! The processes a program looks at: by pid, and where asked the children they have and will have.

use std::collections::BTreeSet;
use std::fs;

use clap::Args;
use libbpf_rs::{ErrorKind, MapCore, MapFlags, OpenObject};

use crate::cost::AGAIN;
use crate::io_group::io_group;
use crate::kernel_flags::Events;
use crate::refusal::OrRefused;
use observer::{Failure, Process};
use recording::parse::{self, Stat};

#[derive(Args)]
pub struct TargetOptions {
    /// A process to tell apart from everybody else; several times for several of them
    #[arg(long = "pid", required = true, value_name = "PID")]
    pub pids: Vec<u32>,
    /// Its children too, those it has and those it will have
    #[arg(long)]
    pub children: bool,
}

impl TargetOptions {
    /// Every process there is to look at now. Usage error when one that was named does not run.
    pub fn processes(&self) -> Result<Vec<u32>, Failure> {
        for pid in &self.pids {
            Process::open(*pid)?;
        }
        let mut found: BTreeSet<u32> = self.pids.iter().copied().collect();
        self.add_children(&mut found);
        Ok(found.into_iter().collect())
    }

    /// Of `started` those that still run, and their children by now.
    pub fn still_running(&self, started: &[(u32, u64)]) -> Vec<(u32, u64)> {
        let running = started.iter().filter(|(pid, time)| start_time(*pid) == Some(*time));
        let mut found: BTreeSet<u32> = running.map(|(pid, _)| *pid).collect();
        self.add_children(&mut found);
        with_start_times(&found.into_iter().collect::<Vec<_>>())
    }

    fn add_children(&self, found: &mut BTreeSet<u32>) {
        let parents = if self.children { parents() } else { Vec::new() };
        loop {
            let more: Vec<u32> = parents
                .iter()
                .filter(|(child, parent)| found.contains(parent) && !found.contains(child))
                .map(|(child, _)| *child)
                .collect();
            if more.is_empty() {
                return;
            }
            found.extend(more);
        }
    }

    /// Puts the processes into the programs' set. The programs are attached already, so that none that ends is missed;
    /// one whose number was given to another process since `processes` is refused.
    pub fn enter(
        &self,
        map: &impl MapCore,
        groups: &impl MapCore,
        started: &[(u32, u64)],
    ) -> Result<(), Failure> {
        // One that is there already is the process that was seen, whatever has its number now.
        let enter = |pid: u32| match map.update(&pid.to_ne_bytes(), &0u64.to_ne_bytes(), MapFlags::NO_EXIST) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(false),
            done => done.or_refused().map(|()| true),
        };
        for (pid, time) in started {
            if let Some(group) = io_group(*pid) {
                groups.update(&group.to_ne_bytes(), &1u32.to_ne_bytes(), MapFlags::ANY).or_refused()?;
            }
            if enter(*pid)? && start_time(*pid) != Some(*time) {
                map.delete(&pid.to_ne_bytes()).ok();
                if self.pids.contains(pid) {
                    return Err(Failure::measurement(format!("process {pid} ended before it was measured")));
                }
            }
        }
        Ok(())
    }
}

/// Loads, of an object's programs, those that keep the set of processes, and those by whose name `wanted` says so, with their
/// second ones where the kernel may preempt them.
pub fn choose_programs(
    object: &mut OpenObject,
    children: bool,
    wanted: impl Fn(&str) -> bool,
) -> Result<(), Failure> {
    let preemptible = Events::of_this_kernel()?.preemptible;
    for mut program in object.progs_mut() {
        let name = program.name().to_string_lossy().into_owned();
        program.set_autoload(match name.as_str() {
            "target_exits" => true,
            "target_forks" => children,
            name => name.strip_suffix(AGAIN).map_or_else(|| wanted(name), |name| preemptible && wanted(name)),
        });
    }
    Ok(())
}

/// Each process with the tick it started at, which distinguishes it from a later one with the same number.
pub fn with_start_times(pids: &[u32]) -> Vec<(u32, u64)> {
    pids.iter().filter_map(|pid| Some((*pid, start_time(*pid)?))).collect()
}

fn stat(pid: u32) -> Option<Stat> {
    parse::stat(&fs::read(format!("/proc/{pid}/stat")).ok()?)
}

/// Ticks after boot; None for a process that has ended, a zombie too.
fn start_time(pid: u32) -> Option<u64> {
    stat(pid).filter(|stat| !matches!(stat.state, b'Z' | b'X')).map(|stat| stat.start_ticks)
}

/// Every process with its parent.
fn parents() -> Vec<(u32, u32)> {
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    let pids = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<u32>().ok());
    pids.filter_map(|pid| Some((pid, stat(pid)?.parent))).collect()
}
