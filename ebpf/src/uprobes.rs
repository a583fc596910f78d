//! Uprobes on functions of another process: how this kernel lets us attach them, which overload is really called, and
//! what their traps cost.

use std::collections::BTreeSet;
use std::mem::MaybeUninit;
use std::time::{Duration, Instant};
use std::{hint, slice, thread};

use clap::Args;
use libbpf_rs::skel::{Skel, SkelBuilder};
use libbpf_rs::{Link, Object, OpenObject, ProgramAttachType, UprobeMultiOpts, UprobeOpts};
use serde::Serialize;

use crate::histogram::read_all;
use crate::instructions::ToEntry;
use crate::layout::plain;
use crate::needs;
use crate::refusal::OrRefused;
use crate::symbols::{Function, own_function};
use observer::Failure;
/// Of one function during a trial: on their own, and within another function of the trial.
pub use skeleton::types::calls as Calls;

skeleton!("uprobe");
plain!(calls);

#[derive(Args, Clone, Copy)]
pub struct ReturnOptions {
    /// Where a function's code does not say where it is left, see its returns by the kernel's return trampolines: an
    /// exception, or whatever else reads the stack, then ends the process that is observed
    #[arg(long)]
    pub return_trampolines: bool,
}

/// How functions of a process are watched on this kernel.
#[derive(Clone, Copy, Debug)]
pub struct Way {
    /// Return trampolines may be used, for functions whose exits are not known.
    trampolines: bool,
    /// One link for all places (Linux 6.6), in place of one each.
    multi: bool,
}

impl Way {
    /// The one that each kernel has.
    pub const PLAIN: Self = Self { trampolines: false, multi: false };
}

/// What one trap costs the function's caller, in ns: measured with empty programs on a function of ours.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Trap {
    pub entry_ns: f64,
    /// The same where the function's first instruction is single-stepped.
    pub stepped_ns: f64,
    /// Where it is left.
    pub return_ns: f64,
}

impl Trap {
    /// Of these functions: where no exit is single-stepped, it costs what an entry does.
    pub fn of<'a>(self, functions: impl IntoIterator<Item = &'a Function>) -> Self {
        let stepped =
            |one: &Function| one.exits.as_ref().map_or(true, |exits| exits.iter().any(|exit| exit.stepped));
        let any = functions.into_iter().any(stepped);
        Self { return_ns: if any { self.return_ns } else { self.entry_ns }, ..self }
    }
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

/// A function of ours: to be called, and to be probed.
struct Target {
    call: extern "C" fn(),
    function: Function,
}

impl Target {
    fn new(name: &str, call: extern "C" fn()) -> Result<Self, Failure> {
        Ok(Self { call, function: own_function(name)? })
    }
}

/// The constants of an open skeleton that say how its functions are watched (`bpf/uprobe.h`), and its programs of `names`.
/// functions: an iterator of references, whose returns are watched
macro_rules! watch {
    ($open:expr, $way:expr, $functions:expr, $names:expr) => {{
        let way = $way;
        let rodata = $open.maps.rodata_data.as_deref_mut().expect("the program has constants");
        rodata.is_go = i32::from($functions.into_iter().any(|one: &$crate::symbols::Function| one.is_go));
        for name in $names {
            $crate::uprobes::enable(libbpf_rs::skel::OpenSkel::open_object_mut(&mut $open), name, way);
        }
    }};
}
pub(crate) use watch;

/// Lets NAME_entry and NAME_exit, or NAME_entry and NAME_return, be loaded.
pub fn enable(object: &mut OpenObject, name: &str, way: Way) {
    for mut program in object.progs_mut() {
        if way.point(&program.name().to_string_lossy(), name).is_some() {
            program.set_autoload(true);
            if way.multi {
                program.set_attach_type(ProgramAttachType::TraceUprobeMulti);
            }
        }
    }
}

/// Where a program goes.
#[derive(Clone, Copy, PartialEq)]
enum ProbePoint {
    Entry,
    Exit,
    Return,
}

/// A place's offset in its file, and what is passed to the program there.
type Probe = (u64, u64);

/// Of an exit's cookie, as in `bpf/uprobe.h`.
const BY_FRAME: u64 = 1 << 32;
const DISTANCE_SHIFT: u32 = 40;

impl Way {
    fn point(self, program: &str, name: &str) -> Option<ProbePoint> {
        match program.strip_prefix(name)? {
            "_entry" => Some(ProbePoint::Entry),
            "_exit" => Some(ProbePoint::Exit),
            "_return" if self.trampolines => Some(ProbePoint::Return),
            _ => None,
        }
    }

    /// Why a return of one of `functions` cannot be seen; None where all can.
    pub fn unseen(self, functions: &[Function]) -> Option<String> {
        let unseen = |function: &&Function| function.exits.is_err() && (function.is_go || !self.trampolines);
        let function = functions.iter().find(unseen)?;
        let reason = function.exits.as_ref().err()?;
        Some(format!("where {} of {} is left is not known: {reason}", function.name, function.shown))
    }
}

/// How the returns of functions are seen, as results say it.
pub fn returns_by<'a>(mut functions: impl Iterator<Item = &'a Function>) -> &'static str {
    if functions.any(|function| function.exits.is_err()) { "trampolines" } else { "exits" }
}

/// What to do where a return cannot be seen: `why` by `Way::unseen`.
pub fn unseen(why: String) -> Failure {
    Failure::host(why)
        .meaning(
            "its return could be seen by a trampoline in place of its return address: where an exception leaves it, or a \
             runtime reads its stack, that ends the process",
        )
        .mend("--return-trampolines, where neither can be; never for Go. Or another --query-symbol")
}

fn probes(point: ProbePoint, number: usize, function: &Function) -> Vec<Probe> {
    match (point, &function.exits) {
        (ProbePoint::Exit, Ok(exits)) => {
            let cookie = |to: ToEntry| {
                number as u64
                    | (BY_FRAME * u64::from(to.by_frame))
                    | (i64::from(to.distance) << DISTANCE_SHIFT) as u64
            };
            exits.iter().map(|exit| (exit.at, cookie(exit.to))).collect()
        }
        (ProbePoint::Return, Err(_)) | (ProbePoint::Entry, _) => vec![(function.offset, number as u64)],
        (ProbePoint::Exit, Err(_)) | (ProbePoint::Return, Ok(_)) => Vec::new(),
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
        let Some(point) = way.point(&program.name().to_string_lossy(), name) else { continue };
        for file in functions.iter().map(|function| &function.file).collect::<BTreeSet<_>>() {
            let of_file = functions.iter().enumerate().filter(|(_, function)| function.file == *file);
            let probes: Vec<Probe> =
                of_file.flat_map(|(number, function)| probes(point, number, function)).collect();
            if probes.is_empty() {
                continue;
            }
            if way.multi {
                let options = UprobeMultiOpts {
                    offsets: probes.iter().map(|(offset, _)| *offset as usize).collect(),
                    cookies: probes.iter().map(|(_, cookie)| *cookie).collect(),
                    retprobe: point == ProbePoint::Return,
                    ..Default::default()
                };
                let link = program.attach_uprobe_multi_with_opts(pid as i32, file, "", options);
                links.push(link.or_refused()?);
                continue;
            }
            for (offset, cookie) in probes {
                let options =
                    UprobeOpts { retprobe: point == ProbePoint::Return, cookie, ..Default::default() };
                let link = program.attach_uprobe_with_opts(pid as i32, file, offset as usize, options);
                links.push(link.or_refused()?);
            }
        }
    }
    Ok(links)
}

/// The way that this kernel allows, by trying, and what a trap costs.
pub fn way_and_cost(options: ReturnOptions) -> Result<(Way, Trap), Failure> {
    let way = |multi| Way { trampolines: options.return_trampolines, multi };
    let emulated = Target::new("ioflame_ebpf_trap_target", ioflame_ebpf_trap_target)?;
    let stepped = Target::new("ioflame_ebpf_stepped_target", ioflame_ebpf_stepped_target)?;
    // What the kernel says to a refused trial is no error of ours.
    let print = libbpf_rs::set_print(None);
    let one_link = trap_cost(way(true), &emulated, &stepped);
    libbpf_rs::set_print(print);
    match one_link {
        Ok(trap) => Ok((way(true), trap)),
        Err(_) => Ok((way(false), trap_cost(way(false), &emulated, &stepped)?)),
    }
}

/// Watches all `functions` until they were called often enough or `limit` is over; calls by function.
pub fn trial(pid: u32, functions: &[Function], way: Way, limit: Duration) -> Result<Vec<Calls>, Failure> {
    let mut storage = MaybeUninit::uninit();
    let mut open = skeleton::UprobeSkelBuilder::default().open(&mut storage).or_refused()?;
    watch!(open, way, functions, ["call"]);
    let mut skeleton = needs::load("uprobes", open, skeleton::OBJECT)?;
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
fn trap_cost(way: Way, emulated: &Target, stepped: &Target) -> Result<Trap, Failure> {
    let plain = call_ns(emulated);
    let entry = trapped_ns(ProbePoint::Entry, way, emulated)?;
    let both = trapped_ns(ProbePoint::Exit, way, emulated)?;
    let stepped = trapped_ns(ProbePoint::Entry, way, stepped)? - call_ns(stepped);
    Ok(Trap {
        entry_ns: (entry - plain).max(0.0),
        stepped_ns: stepped.max(0.0),
        return_ns: (both - entry).max(0.0),
    })
}

/// last: entries alone, or where it is left as well
fn trapped_ns(last: ProbePoint, way: Way, target: &Target) -> Result<f64, Failure> {
    let mut storage = MaybeUninit::uninit();
    let mut open = skeleton::UprobeSkelBuilder::default().open(&mut storage).or_refused()?;
    let ours = slice::from_ref(&target.function);
    watch!(open, way, ours, ["empty"]);
    let mut skeleton = needs::load("uprobes", open, skeleton::OBJECT)?;
    let mut links = attach(skeleton.object_mut(), "empty", way, std::process::id(), ours)?;
    if last == ProbePoint::Entry {
        // The entry's program comes first.
        links.truncate(1);
    }
    Ok(call_ns(target))
}

fn call_ns(target: &Target) -> f64 {
    let round = || {
        let begun = Instant::now();
        for _ in 0..CALLS_A_ROUND {
            hint::black_box(target.call)();
        }
        begun.elapsed().as_secs_f64() * 1e9 / f64::from(CALLS_A_ROUND)
    };
    (0..ROUNDS).map(|_| round()).fold(f64::INFINITY, f64::min)
}
