//! How often functions of some processes run: probes on their entries, which those processes alone have.
//!
//! A probe without a process is written into the memory of all that map the file: each of their calls then takes a trap, and
//! what reads its own code (valgrind, an emulator) meets an instruction that is not the file's.

use std::collections::BTreeSet;
use std::mem::MaybeUninit;
use std::thread;
use std::time::Duration;

use clap::Args;
use libbpf_rs::skel::{OpenSkel, SkelBuilder};
use libbpf_rs::{Link, OpenObject, ProgramAttachType, UprobeMultiOpts, UprobeOpts};
use observer::{Failure, Process};
use serde::Serialize;

use crate::refusal::OrRefused;
use crate::session::{Counting, WindowOptions, run_window, write_result};
use crate::symbols::{self, Entries};

skeleton!("calls");

/// Behind the name of what the compiler split off, which is reached by a jump or called by the rest, and of a second name.
const NO_CALL: [&str; 3] = ["cold", "part", "localalias"];

/// That are removed one after the other.
const LINKS_A_THREAD: usize = 4;

#[derive(Args)]
pub struct CallsOptions {
    /// A process; what it starts later is not counted
    #[arg(long = "pid", required = true)]
    pids: Vec<u32>,
    /// A name as the linker knows it, or a qualified one of C++, of which all overloads are counted
    #[arg(long, value_name = "NAME")]
    function: String,
    /// Only look for it
    #[arg(long)]
    list: bool,
    #[command(flatten)]
    window: WindowOptions,
}

#[derive(Serialize)]
struct Calls {
    schema: u32,
    /// FILE:NAME, of each file the names in it.
    functions: BTreeSet<String>,
    /// That the processes have mapped, as far as they were looked through.
    files: usize,
    calls: u64,
}

struct CallsCounter<'a, 'obj> {
    skeleton: &'a skeleton::CallsSkel<'obj>,
    calls: u64,
}

impl Counting for CallsCounter<'_, '_> {
    fn set_gate(&mut self, open: bool) {
        let bss = self.skeleton.maps.bss_data.as_deref().expect("the program has variables");
        // SAFETY: a mapping of the kernel's, which its programs write into.
        let hits = unsafe { std::ptr::read_volatile(&raw const bss.hits) };
        self.calls = if open { hits } else { hits.wrapping_sub(self.calls) };
    }
}

/// Counts for the window and writes the JSON.
pub fn run(options: &CallsOptions) -> Result<(), Failure> {
    let mut found = Calls { schema: crate::SCHEMA, functions: BTreeSet::new(), files: 0, calls: 0 };
    let mut places = Vec::new();
    for &pid in &options.pids {
        // One that has ended meanwhile calls nothing.
        let Ok(process) = Process::open(pid) else { continue };
        let (named, files) = match symbols::entries(pid, |name| is_called(name, &options.function)) {
            Err(_) if process.has_ended() => continue,
            entries => entries?,
        };
        found.files += files;
        if let Some(entries) = named {
            found.functions.extend(entries.offsets.keys().map(|name| format!("{}:{name}", entries.shown)));
            places.push(entries);
        }
    }
    if !options.list {
        found.calls = count(options, &places)?;
    }
    write_result(&options.window, &found)
}

fn count(options: &CallsOptions, places: &[Entries]) -> Result<u64, Failure> {
    let (mut one, mut other) = (MaybeUninit::uninit(), MaybeUninit::uninit());
    // What the kernel says to a refused trial is no error of ours.
    let print = libbpf_rs::set_print(None);
    let many = attached(&mut one, places, true);
    libbpf_rs::set_print(print);
    // Many probes in one link came with Linux 6.6. Others are removed one after the other, a tenth of a second each.
    let (skeleton, mut links) = match many {
        Ok(found) => found,
        Err(_) => attached(&mut other, places, false)?,
    };
    let mut counter = CallsCounter { skeleton: &skeleton, calls: 0 };
    let done = run_window(&options.window, Duration::from_secs(1), &mut counter);
    // A removal waits until no CPU is in a probe: those that wait together wait once.
    thread::scope(|scope| {
        while !links.is_empty() {
            let some = links.split_off(links.len().saturating_sub(LINKS_A_THREAD));
            scope.spawn(move || drop(some));
        }
    });
    done.map(|_| counter.calls)
}

/// multi: many probes in one link
fn attached<'obj>(
    storage: &'obj mut MaybeUninit<OpenObject>,
    places: &[Entries],
    multi: bool,
) -> Result<(skeleton::CallsSkel<'obj>, Vec<Link>), Failure> {
    let mut open = skeleton::CallsSkelBuilder::default().open(storage).or_refused()?;
    if multi {
        open.progs.entry.set_attach_type(ProgramAttachType::TraceUprobeMulti);
    }
    let skeleton = open.load().or_refused()?;
    let program = &skeleton.progs.entry;
    let mut links = Vec::new();
    for Entries { pid, file, offsets, .. } in places {
        // Two names of one function are one place.
        let offsets: BTreeSet<usize> = offsets.values().map(|&offset| offset as usize).collect();
        let pid_given = *pid as i32;
        let made: libbpf_rs::Result<Vec<Link>> = if multi {
            let given = UprobeMultiOpts { offsets: offsets.into_iter().collect(), ..Default::default() };
            program.attach_uprobe_multi_with_opts(pid_given, file, "", given).map(|link| vec![link])
        } else {
            let attach =
                |offset| program.attach_uprobe_with_opts(pid_given, file, offset, UprobeOpts::default());
            offsets.into_iter().map(attach).collect()
        };
        match made {
            // It has ended.
            Err(_) if Process::open(*pid).is_err() => {}
            made => links.extend(made.or_refused()?),
        }
    }
    Ok((skeleton, links))
}

/// Whether a linker's name is that of a function: itself, a clone of it, or an overload of a qualified one (Itanium C++ ABI,
/// 5.1.6), const or with GNU's tag for strings.
fn is_called(linked: &str, function: &str) -> bool {
    let mut parts = linked.split('.');
    let plain = parts.next().unwrap_or_default();
    if parts.any(|part| NO_CALL.contains(&part)) {
        return false;
    }
    if !function.contains("::") {
        return plain == function;
    }
    let spelt: String = function.split("::").map(|part| format!("{}{part}", part.len())).collect();
    let Some(mut rest) = plain.strip_prefix("_ZN") else { return false };
    for qualifier in [&["V"][..], &["K"], &["R", "O"]] {
        rest = qualifier.iter().find_map(|one| rest.strip_prefix(one)).unwrap_or(rest);
    }
    rest.strip_prefix(&spelt)
        .map(|rest| rest.strip_prefix("B5cxx11").unwrap_or(rest))
        .is_some_and(|rest| rest.starts_with('E'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_of_all_overloads_and_clones_and_of_no_part() {
        let get = "space::Class::get";
        for linked in [
            "_ZN5space5Class3getEl",
            "_ZNK5space5Class3getEi",
            "_ZNKO5space5Class3getEv",
            "_ZN5space5Class3getB5cxx11Ev",
            "_ZN5space5Class3getEl.constprop.0",
        ] {
            assert!(is_called(linked, get), "{linked}");
        }
        for linked in [
            "_ZNK5space5Class3getEi.cold",
            "_ZN5space5Class3getEi.part.0",
            "_ZN5space5Class8get_moreEi",
            "_ZN5outer5space5Class3getEi",
            "get",
            "",
        ] {
            assert!(!is_called(linked, get), "{linked}");
        }
        assert!(is_called("serve.isra.0", "serve") && !is_called("serve.cold", "serve"));
        assert!(is_called("_ZN5space5Class3getEl", "_ZN5space5Class3getEl"));
    }
}
