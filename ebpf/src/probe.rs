//! Which kinds of program this kernel loads and attaches: each tried with a program of one line that must then count.

use std::ffi::CStr;
use std::io::Write as _;
use std::mem::MaybeUninit;
use std::path::Path;
use std::thread;
use std::time::Duration;

use libbpf_rs::skel::{OpenSkel, SkelBuilder};
use serde::Serialize;

use crate::refusal::OrRefused;
use observer::Failure;

skeleton!("probe");

/// The kinds, in the order in which we prefer them for kernel events; uprobe is for user space.
const KINDS: [&str; 5] = ["tp_btf", "tracepoint", "fentry", "kprobe", "uprobe"];

/// Those that find their event by a number in tracefs.
const TRACEFS_KINDS: [&str; 2] = ["tracepoint", "kprobe"];
const TRACEFS: [&str; 2] = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"];

#[derive(Serialize)]
struct Tried {
    kind: &'static str,
    works: bool,
    words: String,
}

/// A function of ours for the uprobe to sit on.
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn ioflame_ebpf_probe_target(value: u32) -> u32 {
    std::hint::black_box(value)
}

/// Prints one JSON array: kind, works, and the kernel's words where it does not.
pub fn run() -> Result<(), Failure> {
    let tracefs = make_tracefs_visible();
    let tried: Vec<Tried> = KINDS
        .iter()
        .map(|kind| {
            let words = if TRACEFS_KINDS.contains(kind) { tracefs.clone() } else { String::new() };
            match attempt(kind) {
                Ok(()) => Tried { kind, works: true, words },
                Err(failure) => Tried { kind, works: false, words: explain(&failure, &words) },
            }
        })
        .collect();
    let text = serde_json::to_string(&tried).map_err(|error| Failure::measurement(error.to_string()))?;
    Ok(writeln!(std::io::stdout(), "{text}")?)
}

/// Mounts tracefs in a mount namespace of this process alone, where the host has not mounted it; the words for that.
fn make_tracefs_visible() -> String {
    if TRACEFS.iter().any(|path| Path::new(path).join("events/sched").exists()) {
        return String::new();
    }
    let mounted = [
        // SAFETY: system calls on constant strings; the process has one thread here, and ends after its trials.
        unsafe { libc::unshare(libc::CLONE_NEWNS) },
        mount(c"none", c"/", c"", libc::MS_REC | libc::MS_PRIVATE),
        mount(c"tracefs", c"/sys/kernel/tracing", c"tracefs", 0),
    ];
    if mounted.contains(&-1) {
        let error = std::io::Error::last_os_error();
        return format!("tracefs is not mounted at {}, and mounting it failed: {error}", TRACEFS[0]);
    }
    "tracefs is not mounted on this host; it was mounted for the trial alone".to_owned()
}

fn mount(source: &CStr, target: &CStr, kind: &CStr, flags: libc::c_ulong) -> i32 {
    // SAFETY: the strings outlive the call.
    unsafe { libc::mount(source.as_ptr(), target.as_ptr(), kind.as_ptr(), flags, std::ptr::null()) }
}

fn explain(failure: &Failure, words: &str) -> String {
    if words.is_empty() { failure.to_string() } else { format!("{failure}; {words}") }
}

fn attempt(kind: &str) -> Result<(), Failure> {
    let mut storage = MaybeUninit::uninit();
    let mut open = skeleton::ProbeSkelBuilder::default().open(&mut storage).or_refused()?;
    let name = format!("try_{kind}");
    for mut program in open.open_object_mut().progs_mut() {
        let wanted = program.name().to_string_lossy() == name;
        program.set_autoload(wanted);
    }
    let skeleton = open.load().or_refused()?;
    let progs = &skeleton.progs;
    let program = match kind {
        "tp_btf" => &progs.try_tp_btf,
        "tracepoint" => &progs.try_tracepoint,
        "fentry" => &progs.try_fentry,
        "kprobe" => &progs.try_kprobe,
        _ => &progs.try_uprobe,
    };
    let _link = if kind == "uprobe" {
        let options = libbpf_rs::UprobeOpts {
            func_name: Some("ioflame_ebpf_probe_target".into()),
            ..Default::default()
        };
        program.attach_uprobe_with_opts(-1, "/proc/self/exe", 0, options).or_refused()?
    } else {
        program.attach().or_refused()?
    };
    // What each of them sits on: a switch, a read, our own function.
    thread::sleep(Duration::from_millis(1));
    std::fs::read("/proc/self/comm")?;
    ioflame_ebpf_probe_target(1);
    let hits = skeleton.maps.bss_data.as_deref().map_or(0, |bss| bss.hits);
    if hits == 0 { Err(Failure::host("it attached, and never fired")) } else { Ok(()) }
}
