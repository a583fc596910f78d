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
use std::rc::Rc;
use std::sync::atomic::{Ordering, fence};
use std::time::Duration;

use clap::Args;
use libbpf_rs::Link;
use libbpf_rs::skel::{Skel, SkelBuilder};
use perfdata::writer::{Recording, Sample};
use recording::{Kernel, Mapping};
use serde::Serialize;

use crate::layout::{clear, entries, names};
use crate::mapped_code::MappedCode;
use crate::needs::{self, Trial};
use crate::refusal::OrRefused;
use crate::session::{
    Counting, MeasuredWindow, TurnOptions, WindowOptions, constants, link_tracepoints, run_turns,
    write_result, write_whole,
};
use account::{Life, Row, Window, of_all};
use chains::Chain;
use futex::{Callers, know_callers};
use observer::clock::now_ns;
use observer::states::{self, OffCpu as State};
use observer::{Failure, Process};
use raw::{Key, NOT_KEPT};
use skeleton::types::{gate_state, sum as Sum};
use tasks::{Blocked, Task};

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
    turns: TurnOptions,
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
    #[serde(flatten)]
    window: MeasuredWindow,
    pid: u32,
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
    kernel: &'a Kernel,
    callers: &'a Callers,
    links: Vec<Link>,
    opened: u64,
    closed: u64,
    attached: BTreeMap<u32, (Task, Blocked)>,
    at_open: BTreeMap<u32, Task>,
    at_close: BTreeMap<u32, Task>,
    turns: Vec<(Window, BTreeMap<Key, Sum>)>,
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

    fn link(&mut self) -> Result<(), Failure> {
        for map in [&self.skeleton.maps.threads, &self.skeleton.maps.ends] {
            clear(map);
        }
        if let Some(bss) = self.skeleton.maps.bss_data.as_deref_mut() {
            bss.gate = gate_state::TRACKING.0 as i32;
        }
        self.links = link_tracepoints(self.skeleton.object())?;
        if self.turns.is_empty() {
            self.process.must_be_alive()?;
        }
        let blocked = |tid| tasks::blocked(self.process, tid, self.kernel, self.callers);
        let attached = tasks::tasks(self.process).into_iter();
        self.attached = attached.map(|(tid, task)| (tid, (task, blocked(tid)))).collect();
        Ok(())
    }

    /// What was counted is of this turn alone, but for the stacks.
    fn unlink(&mut self) -> Result<(), Failure> {
        self.links.clear();
        let maps = &mut self.skeleton.maps;
        let window = Window {
            pid: self.process.pid(),
            opened: self.opened,
            closed: self.closed,
            attached: std::mem::take(&mut self.attached),
            callers: self.callers.clone(),
            at_open: std::mem::take(&mut self.at_open),
            at_close: std::mem::take(&mut self.at_close),
            threads: entries::<u32, _>(&maps.threads)?.into_iter().map(|(_, thread)| thread).collect(),
            ends: entries::<u64, _>(&maps.ends)?.into_iter().map(|(_, end)| end).collect(),
            stacks: Rc::default(),
        };
        let mut sums: BTreeMap<Key, Sum> = BTreeMap::new();
        for (key, sum) in entries(&maps.sums)? {
            sums.insert(Key::new(&key), sum);
        }
        clear(&maps.sums);
        let bss = maps.bss_data.as_deref_mut().expect("the program has variables");
        let lost_ns = std::mem::take(&mut bss.lost_ns);
        let lost_count = std::mem::take(&mut bss.lost_count);
        for (state, (ns, count)) in State::ALL.into_iter().zip(lost_ns.into_iter().zip(lost_count)) {
            if count > 0 {
                // Where time goes whose sum could not be kept.
                let (tid, state) = (self.process.pid(), Some(state));
                let lost = Key { tid, state, kernel: NOT_KEPT, user: NOT_KEPT, ..Key::default() };
                sums.insert(lost, Sum { ns, count });
            }
        }
        window.flush(&mut sums);
        self.turns.push((window, sums));
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
    let mut counter = OffcpuCounter {
        skeleton: &mut skeleton,
        process: &process,
        kernel: &kernel,
        callers: &callers,
        links: Vec::new(),
        opened: 0,
        closed: 0,
        attached: BTreeMap::new(),
        at_open: BTreeMap::new(),
        at_close: BTreeMap::new(),
        turns: Vec::new(),
        code: MappedCode::of(&process),
    };
    let measured = run_turns(&options.window, &options.turns, Duration::from_secs(1), &mut counter)?;
    let OffcpuCounter { turns, code: MappedCode { seen: mappings, .. }, .. } = counter;
    let stacks: Rc<BTreeMap<_, _>> = Rc::new(entries(&skeleton.maps.stacks)?.into_iter().collect());
    let (mut rows, mut lives) = (Vec::new(), Vec::new());
    for (mut window, sums) in turns {
        window.stacks = Rc::clone(&stacks);
        let of_turn = window.rows(sums, &kernel);
        let lives_of_turn = window.lives(&of_turn);
        lives.push((window, lives_of_turn));
        rows.push(of_turn);
    }
    let turns = lives;
    let measured =
        measured.of_accounts(turns.iter().map(|(window, _)| (window.opened, window.closed)).collect());
    let lives = of_all(&turns);
    if let Some(path) = &options.recording {
        write_whole(path, |partial| write_recording(partial, &turns, &rows, &lives, &mappings, &kernel))?;
    }
    let mut states: BTreeMap<&'static str, Total> =
        State::ALL.into_iter().map(|state| (state.name(), Total::default())).collect();
    for row in rows.iter().flatten() {
        let total = states.entry(row.state.name()).or_default();
        total.ns += row.sum.ns;
        total.count += row.sum.count;
    }
    let time_of = |wanted: &dyn Fn(&Row) -> bool| {
        rows.iter().flatten().filter(|row| wanted(row)).map(|row| row.sum.ns).sum()
    };
    let is_gone = turns.last().is_some_and(|(window, _)| window.at_close.is_empty());
    let bss = skeleton.maps.bss_data.as_deref().expect("the program has variables");
    let result = OffCpu {
        window: measured,
        pid: options.pid,
        process_ended_ns: is_gone.then(|| lives.iter().map(|l| l.end_ns).max()).flatten(),
        waker: options.waker,
        states,
        stacks: Stacks {
            different: stacks.len(),
            cut: stacks.values().filter(|stack| stack.depth as usize >= stack.addresses.len()).count(),
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
    turns: &[(Window, Vec<Life>)],
    rows: &[Vec<Row>],
    lives: &[Life],
    mappings: &[(Mapping, Option<Vec<u8>>)],
    kernel: &Kernel,
) -> std::io::Result<()> {
    let (pid, start) = turns.first().map_or((0, 0), |(window, _)| (window.pid, window.opened));
    let mut out = Recording::create(fs::File::create(path)?, pid as i32, &EVENTS, None, kernel, start)?;
    for life in lives {
        out.comm(life.tid as i32, &life.comm, start)?;
    }
    for (mapping, build_id) in mappings {
        out.mapping(mapping, build_id.as_deref(), start)?;
    }
    let mut marks = Marks { known: HashMap::new(), out, time: start };
    for (window, row) in
        turns.iter().zip(rows).flat_map(|((window, _), rows)| rows.iter().map(move |row| (window, row)))
    {
        let chain = chain(row, window, kernel, &mut marks)?;
        for (event, period) in [row.sum.ns, row.sum.count].into_iter().enumerate() {
            let (time, tid) = (window.closed, row.key.tid as i32);
            marks.out.sample(&Sample { event, time, tid, period, chain: &chain.0, copied: None })?;
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
