//! Uprobes on functions of another process: how this kernel lets us attach them, which overload is really called, and
//! what their traps cost.

use std::collections::BTreeSet;
use std::mem::MaybeUninit;
use std::time::{Duration, Instant};
use std::{hint, thread};

use libbpf_rs::skel::{OpenSkel, Skel, SkelBuilder};
use libbpf_rs::{Link, Object, OpenObject, UprobeMultiOpts, UprobeOpts};
use serde::Serialize;

use crate::histogram::read_all;
use crate::layout::plain;
use crate::refusal::OrRefused;
use crate::symbols::Function;
use observer::Failure;
/// Of one function during a trial: on their own, and within another function of the trial.
pub use skeleton::types::calls as Calls;

skeleton!("uprobe");
plain!(calls);

/// How an entry and its return are watched; see `bpf/uprobe.h`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Way {
    /// One program for both, and a return is trapped only where its entry asked for it.
    Session,
    /// A uprobe and a uretprobe: each return is trapped.
    Pair,
}

/// What one trap costs the function's caller, in ns: measured with empty programs on a function of ours.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Trap {
    pub entry_ns: f64,
    /// The same where the function's first instruction is single-stepped.
    pub stepped_ns: f64,
    pub return_ns: f64,
}

impl Calls {
    fn since(self, begun: Calls) -> Calls {
        Calls { outer: self.outer - begun.outer, inner: self.inner - begun.inner }
    }

    /// A call within one that was under way when the trial began looks like one on its own: where next to all calls
    /// are within others, so are these.
    fn without_those_under_way(self) -> Calls {
        if self.outer * OUTER_OF < self.inner {
            return Calls { outer: 0, inner: self.outer + self.inner };
        }
        self
    }
}

/// As many as `bpf/uprobe.bpf.c` counts apart.
pub const MOST_FUNCTIONS: usize = 64;
const ENOUGH_CALLS: u64 = 200;
/// At least one call in so many is on its own, of a function that is called so at all.
const OUTER_OF: u64 = 50;
const TRIAL_STEP: Duration = Duration::from_millis(20);
const ROUNDS: usize = 7;
const CALLS_A_ROUND: u32 = 1000;

/// A function that begins as the engine's do where they keep frame pointers: the kernel emulates this first
/// instruction, so that a trap is as dear here as there.
#[cfg(target_arch = "x86_64")]
#[unsafe(no_mangle)]
#[unsafe(naked)]
extern "C" fn ioflame_ebpf_trap_target() {
    core::arch::naked_asm!("push rbp", "mov rbp, rsp", "nop", "pop rbp", "ret");
}

/// One that begins as small functions do without frame pointers.
#[cfg(target_arch = "x86_64")]
#[unsafe(no_mangle)]
#[unsafe(naked)]
extern "C" fn ioflame_ebpf_stepped_target() {
    core::arch::naked_asm!("sub rsp, 8", "nop", "add rsp, 8", "ret");
}

#[cfg(target_arch = "aarch64")]
#[unsafe(no_mangle)]
#[unsafe(naked)]
extern "C" fn ioflame_ebpf_trap_target() {
    core::arch::naked_asm!("stp x29, x30, [sp, #-16]!", "mov x29, sp", "ldp x29, x30, [sp], #16", "ret");
}

#[cfg(target_arch = "aarch64")]
#[unsafe(no_mangle)]
#[unsafe(naked)]
extern "C" fn ioflame_ebpf_stepped_target() {
    core::arch::naked_asm!("sub sp, sp, #16", "nop", "add sp, sp, #16", "ret");
}

type Target = (&'static str, extern "C" fn());
const EMULATED: Target = ("ioflame_ebpf_trap_target", ioflame_ebpf_trap_target);
const STEPPED: Target = ("ioflame_ebpf_stepped_target", ioflame_ebpf_stepped_target);

/// Lets `NAME_session`, or `NAME_entry` and `NAME_return`, be loaded; the other way of `name` is left out.
pub fn enable(object: &mut OpenObject, name: &str, way: Way) {
    for mut program in object.progs_mut() {
        let wanted =
            suffixes(way).iter().any(|suffix| program.name().to_string_lossy() == format!("{name}_{suffix}"));
        if wanted {
            program.set_autoload(true);
        }
    }
}

/// Attaches the programs of `name` to all of `functions` of process `pid`; a function's place is its cookie.
pub fn attach(
    object: &mut Object,
    name: &str,
    way: Way,
    pid: u32,
    functions: &[Function],
) -> Result<Vec<Link>, Failure> {
    let mut links = Vec::new();
    for program in object.progs_mut() {
        let own = program.name().to_string_lossy().into_owned();
        let Some(suffix) = suffixes(way).iter().find(|suffix| own == format!("{name}_{suffix}")) else {
            continue;
        };
        for file in functions.iter().map(|function| &function.file).collect::<BTreeSet<_>>() {
            let places: Vec<(usize, &Function)> =
                functions.iter().enumerate().filter(|(_, function)| function.file == *file).collect();
            match way {
                Way::Session => {
                    let options = UprobeMultiOpts {
                        offsets: places.iter().map(|(_, function)| function.offset as usize).collect(),
                        cookies: places.iter().map(|(place, _)| *place as u64).collect(),
                        session: true,
                        ..Default::default()
                    };
                    links.push(
                        program.attach_uprobe_multi_with_opts(pid as i32, file, "", options).or_refused()?,
                    );
                }
                Way::Pair => {
                    for (place, function) in places {
                        let options = UprobeOpts {
                            retprobe: *suffix == "return",
                            cookie: place as u64,
                            ..Default::default()
                        };
                        let offset = function.offset as usize;
                        links.push(
                            program
                                .attach_uprobe_with_opts(pid as i32, file, offset, options)
                                .or_refused()?,
                        );
                    }
                }
            }
        }
    }
    Ok(links)
}

/// The way this kernel allows, by trying, and what a trap costs.
pub fn way_and_cost(asked: Option<Way>) -> Result<(Way, Trap), Failure> {
    match asked {
        Some(way) => Ok((way, trap_cost(way)?)),
        None => {
            // What the kernel says to a refused trial is no error of ours.
            let print = libbpf_rs::set_print(None);
            let session = trap_cost(Way::Session);
            libbpf_rs::set_print(print);
            match session {
                Ok(trap) => Ok((Way::Session, trap)),
                Err(_) => Ok((Way::Pair, trap_cost(Way::Pair)?)),
            }
        }
    }
}

/// Watches all `functions` until they were called often enough or `limit` is over; calls by function.
pub fn trial(pid: u32, functions: &[Function], way: Way, limit: Duration) -> Result<Vec<Calls>, Failure> {
    let mut storage = MaybeUninit::uninit();
    let mut open = skeleton::UprobeSkelBuilder::default().open(&mut storage).or_refused()?;
    enable(open.open_object_mut(), "call", way);
    let mut skeleton = open.load().or_refused()?;
    let _links = attach(skeleton.object_mut(), "call", way, pid, functions)?;
    skeleton.maps.bss_data.as_deref_mut().expect("the program has variables").gate = 1;
    // Of calls that are under way now only the inner ones would be seen: nearly all of them end within a step.
    thread::sleep(TRIAL_STEP);
    let before = read_calls(&skeleton, functions.len())?;
    let begun = Instant::now();
    loop {
        thread::sleep(TRIAL_STEP);
        let now = read_calls(&skeleton, functions.len())?;
        let calls = now.into_iter().zip(&before).map(|(calls, before)| calls.since(*before));
        let calls: Vec<Calls> = calls.map(Calls::without_those_under_way).collect();
        let all: u64 = calls.iter().map(|calls| calls.outer).sum();
        if all >= ENOUGH_CALLS || begun.elapsed() >= limit {
            return Ok(calls);
        }
    }
}

fn read_calls(skeleton: &skeleton::UprobeSkel, functions: usize) -> Result<Vec<Calls>, Failure> {
    let counted: Vec<Vec<Calls>> = read_all(&skeleton.maps.calls, 0, functions)?;
    let sum = |cpus: Vec<Calls>| Calls {
        outer: cpus.iter().map(|cpu| cpu.outer).sum(),
        inner: cpus.iter().map(|cpu| cpu.inner).sum(),
    };
    Ok(counted.into_iter().map(sum).collect())
}

/// The shortest of some rounds: anything longer had something else in it.
fn trap_cost(way: Way) -> Result<Trap, Failure> {
    let plain = call_ns(EMULATED);
    let entry = trapped_ns("entry_only", way, EMULATED)?;
    let both = trapped_ns("both", way, EMULATED)?;
    let stepped = trapped_ns("entry_only", way, STEPPED)? - call_ns(STEPPED);
    Ok(Trap {
        entry_ns: (entry - plain).max(0.0),
        stepped_ns: stepped.max(0.0),
        return_ns: (both - entry).max(0.0),
    })
}

fn trapped_ns(name: &str, way: Way, target: Target) -> Result<f64, Failure> {
    let mut storage = MaybeUninit::uninit();
    let mut open = skeleton::UprobeSkelBuilder::default().open(&mut storage).or_refused()?;
    enable(open.open_object_mut(), name, way);
    let mut skeleton = open.load().or_refused()?;
    let ours = crate::symbols::own_function(target.0)?;
    let mut links =
        attach(skeleton.object_mut(), name, way, std::process::id(), std::slice::from_ref(&ours))?;
    if name == "entry_only" && way == Way::Pair {
        // The entry's program comes first, the return's second.
        links.truncate(1);
    }
    Ok(call_ns(target))
}

fn call_ns((_, function): Target) -> f64 {
    let round = || {
        let begun = Instant::now();
        for _ in 0..CALLS_A_ROUND {
            hint::black_box(function)();
        }
        begun.elapsed().as_secs_f64() * 1e9 / f64::from(CALLS_A_ROUND)
    };
    (0..ROUNDS).map(|_| round()).fold(f64::INFINITY, f64::min)
}

fn suffixes(way: Way) -> &'static [&'static str] {
    match way {
        Way::Session => &["session"],
        Way::Pair => &["entry", "return"],
    }
}
