//! Off-CPU time of a process: by state, by thread, and by stack as a recording that stackfold and perf read.

mod account;
pub mod chains;
pub mod futex;
mod raw;
pub mod tasks;

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::mem::MaybeUninit;
use std::path::{Path, PathBuf};
use std::sync::atomic::{Ordering, fence};
use std::time::Duration;

use clap::Args;
use libbpf_rs::skel::{Skel, SkelBuilder};
use perfdata::writer::{Recording, Sample};
use recording::{Kernel, Mapping};
use serde::Serialize;

use crate::layout::{entries, names};
use crate::mapped_code::MappedCode;
use crate::needs::{self, Trial};
use crate::refusal::OrRefused;
use crate::session::{Counting, WindowOptions, constants, run_window, write_result, write_whole};
use account::{Life, Row, Window};
use chains::Chain;
use futex::{Callers, know_callers};
use observer::clock::now_ns;
use observer::states::{self, OffCpu as State};
use observer::{Failure, Process};
use raw::{Key, NOT_KEPT};
use skeleton::types::{gate_state, sum as Sum};
use tasks::Task;

skeleton!("offcpu");

/// Events of the recording: ns off the CPU, and how often a thread left it so.
const EVENTS: [&str; 2] = ["off-cpu", "off-cpu-count"];
const LOSSES: [&str; 7] =
    names!(loss[0..LOSSES]: LOST_THREAD LOST_SUM LOST_STACK NO_STACK LOST_END NEGATIVE MISSED_IN);

#[derive(Args)]
pub struct OffcpuOptions {
    /// The process
    #[arg(long)]
    pid: u32,
    /// Take the stack of whoever wakes a thread, too
    #[arg(long)]
    waker: bool,
    /// Where the stacks go, as perf.data
    #[arg(long, value_name = "FILE")]
    recording: Option<PathBuf>,
    /// Entries of every map, to see what happens when they are full
    #[arg(long, hide = true, value_name = "N")]
    map_entries: Option<u32>,
    #[command(flatten)]
    window: WindowOptions,
}

#[derive(Default, Serialize)]
struct Total {
    ns: u64,
    count: u64,
}

/// What became of the stacks.
#[derive(Serialize)]
struct Stacks {
    different: usize,
    /// Those that the kernel cut at its limit.
    cut: usize,
    /// Time whose stack or sum was not kept: it is in the totals, under `[lost stack]`.
    lost_ns: u64,
    /// Time of threads that were blocked before they were looked at: their stacks are those of /proc.
    before_ns: u64,
}

#[derive(Serialize)]
struct OffCpu {
    schema: u32,
    backend: &'static str,
    pid: u32,
    start_ns: u64,
    end_ns: u64,
    /// When the last thread ended, where none was left.
    process_ended_ns: Option<u64>,
    waker: bool,
    states: BTreeMap<&'static str, Total>,
    threads: Vec<Life>,
    stacks: Stacks,
    losses: BTreeMap<&'static str, u64>,
    /// Whether kernel functions have names: by these the tracer's own frames are left out.
    kernel_symbols: bool,
    recording: Option<PathBuf>,
}

/// The skeleton behind its gate, and what /proc says at the gate's edges.
struct OffcpuCounter<'a, 'obj> {
    skeleton: &'a mut skeleton::OffcpuSkel<'obj>,
    process: &'a Process,
    opened: u64,
    closed: u64,
    at_open: BTreeMap<u32, Task>,
    at_close: BTreeMap<u32, Task>,
    code: MappedCode<'a>,
}

impl Counting for OffcpuCounter<'_, '_> {
    fn set_gate(&mut self, open: bool) {
        if open {
            self.at_open = tasks::tasks(self.process);
            self.opened = now_ns();
        }
        if let Some(bss) = self.skeleton.maps.bss_data.as_deref_mut() {
            if open {
                bss.opened_at = self.opened;
                fence(Ordering::SeqCst);
            }
            bss.gate = if open { gate_state::OPEN } else { gate_state::FROZEN }.0 as i32;
        }
        if !open {
            self.closed = now_ns();
            self.at_close = tasks::tasks(self.process);
        }
    }

    fn slice(&mut self) -> Result<(), Failure> {
        self.code.update();
        Ok(())
    }
}

/// All programs, with the stacks of who wakes.
pub fn trial(trial: &mut Trial) {
    let mut storage = MaybeUninit::uninit();
    let opened = open_for_trial(&mut storage);
    trial.way("offcpu", "", opened, skeleton::OBJECT);
}

fn open_for_trial(
    storage: &mut MaybeUninit<libbpf_rs::OpenObject>,
) -> Result<skeleton::OpenOffcpuSkel<'_>, Failure> {
    let mut open = skeleton::OffcpuSkelBuilder::default().open(storage).or_refused()?;
    constants!(open, 0).with_waker = 1;
    Ok(open)
}

/// Counts for the window and writes the JSON, and the recording where one is wanted.
pub fn run(options: &OffcpuOptions) -> Result<(), Failure> {
    let process = Process::open(options.pid)?;
    let mut storage = MaybeUninit::uninit();
    let mut open = skeleton::OffcpuSkelBuilder::default().open(&mut storage).or_refused()?;
    let rodata = constants!(open, process.pid());
    rodata.with_waker = i32::from(options.waker);
    let callers = Callers::of(&process);
    know_callers!(rodata, callers);
    if let Some(entries) = options.map_entries {
        open.maps.threads.set_max_entries(entries).or_refused()?;
        open.maps.ends.set_max_entries(entries).or_refused()?;
        open.maps.sums.set_max_entries(entries).or_refused()?;
        open.maps.stacks.set_max_entries(entries).or_refused()?;
    }
    let kernel = Kernel::running();
    let mut skeleton = needs::load("offcpu", open, skeleton::OBJECT)?;
    skeleton.attach().or_refused()?;
    process.must_be_alive()?;
    let attached = tasks::tasks(&process).into_iter();
    let attached =
        attached.map(|(tid, task)| (tid, (task, tasks::blocked(&process, tid, &kernel, &callers)))).collect();
    let mut counter = OffcpuCounter {
        skeleton: &mut skeleton,
        process: &process,
        opened: 0,
        closed: 0,
        at_open: BTreeMap::new(),
        at_close: BTreeMap::new(),
        code: MappedCode::of(&process),
    };
    run_window(&options.window, Duration::from_secs(1), &mut counter)?;
    let OffcpuCounter { opened, closed, at_open, at_close, code: MappedCode { seen: mappings, .. }, .. } =
        counter;
    let maps = &skeleton.maps;
    let window = Window {
        pid: options.pid,
        opened,
        closed,
        attached,
        callers,
        at_open,
        at_close,
        threads: entries::<u32, _>(&maps.threads)?.into_iter().map(|(_, thread)| thread).collect(),
        ends: entries::<u64, _>(&maps.ends)?.into_iter().map(|(_, end)| end).collect(),
        stacks: entries(&maps.stacks)?.into_iter().collect(),
    };
    let bss = maps.bss_data.as_deref().expect("the program has variables");
    let mut sums: BTreeMap<Key, Sum> = BTreeMap::new();
    for (key, sum) in entries(&maps.sums)? {
        sums.insert(Key::new(&key), sum);
    }
    for (state, (ns, count)) in State::ALL.into_iter().zip(bss.lost_ns.into_iter().zip(bss.lost_count)) {
        if count > 0 {
            // Where time goes whose sum could not be kept.
            let state = Some(state);
            let lost = Key { tid: options.pid, state, kernel: NOT_KEPT, user: NOT_KEPT, ..Key::default() };
            sums.insert(lost, Sum { ns, count });
        }
    }
    window.flush(&mut sums);
    let rows = window.rows(sums, &kernel);
    let lives = window.lives(&rows);
    if let Some(path) = &options.recording {
        write_whole(path, |partial| write_recording(partial, &window, &rows, &lives, &mappings, &kernel))?;
    }
    let mut states: BTreeMap<&'static str, Total> =
        State::ALL.into_iter().map(|state| (state.name(), Total::default())).collect();
    for row in &rows {
        let total = states.entry(row.state.name()).or_default();
        total.ns += row.sum.ns;
        total.count += row.sum.count;
    }
    let time_of =
        |wanted: &dyn Fn(&Row) -> bool| rows.iter().filter(|row| wanted(row)).map(|row| row.sum.ns).sum();
    let result = OffCpu {
        schema: crate::SCHEMA,
        backend: "co-re",
        pid: options.pid,
        start_ns: opened,
        end_ns: closed,
        process_ended_ns: window.at_close.is_empty().then(|| lives.iter().map(|l| l.end_ns).max()).flatten(),
        waker: options.waker,
        states,
        stacks: Stacks {
            different: window.stacks.len(),
            cut: window.stacks.values().filter(|stack| stack.depth as usize >= stack.addresses.len()).count(),
            lost_ns: time_of(&|row| row.key.kernel == NOT_KEPT || row.key.user == NOT_KEPT),
            before_ns: time_of(&|row| row.before),
        },
        threads: lives,
        losses: LOSSES.into_iter().zip(bss.losses).collect(),
        kernel_symbols: kernel.known(),
        recording: options.recording.clone(),
    };
    write_result(&options.window, &result)
}

/// Marks among the frames, each made when it is first needed.
struct Marks {
    known: HashMap<Vec<u8>, u64>,
    out: Recording,
    time: u64,
}

impl Marks {
    fn address(&mut self, name: impl AsRef<[u8]>) -> std::io::Result<u64> {
        let name = name.as_ref();
        if let Some(&address) = self.known.get(name) {
            return Ok(address);
        }
        let address = self.out.named(name, self.time)?;
        self.known.insert(name.to_vec(), address);
        Ok(address)
    }
}

fn write_recording(
    path: &Path,
    window: &Window,
    rows: &[Row],
    lives: &[Life],
    mappings: &[(Mapping, Option<Vec<u8>>)],
    kernel: &Kernel,
) -> std::io::Result<()> {
    let (start, end) = (window.opened, window.closed);
    let mut out =
        Recording::create(fs::File::create(path)?, window.pid as i32, &EVENTS, None, kernel, start)?;
    for life in lives {
        out.comm(life.tid as i32, &life.comm, start)?;
    }
    for (mapping, build_id) in mappings {
        out.mapping(mapping, build_id.as_deref(), start)?;
    }
    let mut marks = Marks { known: HashMap::new(), out, time: start };
    for row in rows {
        let chain = chain(row, window, kernel, &mut marks)?;
        for (event, period) in [row.sum.ns, row.sum.count].into_iter().enumerate() {
            let tid = row.key.tid as i32;
            marks.out.sample(&Sample { event, time: end, tid, period, chain: &chain.0, copied: None })?;
        }
    }
    marks.out.finish(kernel)
}

/// Leaf first: the waker from its root down, `[woken by]`, the state, the thread from its leaf up.
fn chain(row: &Row, window: &Window, kernel: &Kernel, marks: &mut Marks) -> std::io::Result<Chain> {
    let mut chain = Chain::default();
    let stack = |id: u64| window.stack(id);
    let key = &row.key;
    if key.waker_kernel != 0 {
        let frames = chains::without_tracer(stack(key.waker_kernel), kernel);
        let frames = match chains::interrupt(frames, kernel) {
            Some(part) => {
                chain.kernel(&[marks.address(states::INTERRUPT)?]);
                part
            }
            None => {
                chain.kernel(&[marks.address([states::WAKER.as_bytes(), &key.waker, b"]"].concat())?]);
                chain.user_reversed(stack(key.waker_user));
                frames
            }
        };
        chain.kernel(&frames.iter().rev().copied().collect::<Vec<_>>());
        chain.kernel(&[marks.address(states::WOKEN_BY)?]);
    }
    chain.kernel(&[marks.address(format!("[{}]", row.state.name()))?]);
    if row.before {
        if let Some((_, blocked)) = window.attached.get(&key.tid) {
            chain.kernel(&blocked.kernel);
            chain.user(&blocked.user);
        }
        chain.kernel(&[marks.address(states::BLOCKED_BEFORE)?]);
        return Ok(chain);
    }
    if key.kernel == 0 && key.user == 0 {
        let name =
            if window.attached.contains_key(&key.tid) { states::BLOCKED_BEFORE } else { states::NEW_THREAD };
        chain.kernel(&[marks.address(name)?]);
    }
    chain.kernel(chains::without_tracer(stack(key.kernel), kernel));
    chain.user(stack(key.user));
    if key.kernel == NOT_KEPT || key.user == NOT_KEPT {
        chain.kernel(&[marks.address(states::LOST_STACK)?]);
    }
    Ok(chain)
}
