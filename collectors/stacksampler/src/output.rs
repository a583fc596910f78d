//! Writes samples: the recording, a line of JSON for each, and totals.

use crate::pending_stop::{Round, ThreadSample, User};
use crate::stats::{Tally, Thread, WaitPoint};
use observer::Failure;
use observer::states::SAMPLED;
use perfdata::format::{CONTEXT_KERNEL, CONTEXT_USER};
use perfdata::writer::{Copied, Recording, Sample};
use recording::Kernel;
use recording::parse::KernelFrame;
use serde::Serialize;
use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::io::{BufWriter, Write};

/// The part of a sample that perf.data cannot hold; `t_ns` and `tid` identify the sample there.
#[derive(Serialize)]
struct Line<'a> {
    t_ns: u64,
    tid: i32,
    state: char,
    wchan: &'a str,
    syscall: i64,
    weight_ns: u64,
    held_ns: u64,
    stop_ns: u64,
}

pub struct Output {
    recording: Recording,
    /// Addresses of the states' frames, in the order of `SAMPLED`.
    states_at: Vec<u64>,
    lines: Option<BufWriter<File>>,
    threads: BTreeMap<i32, (Vec<u8>, Thread)>,
    wait_points: HashMap<(u8, Vec<u8>, i64), Tally>,
    pub states: BTreeMap<char, Tally>,
    pub total: Tally,
    chain: Vec<u64>,
}

impl Output {
    /// time: of the recording's begin, CLOCK_MONOTONIC ns
    pub fn new(mut recording: Recording, lines: Option<File>, time: u64) -> Result<Self, Failure> {
        let named = SAMPLED.iter().map(|(_, name)| recording.named(name.as_bytes(), time));
        let states_at = named.collect::<std::io::Result<_>>().map_err(cannot_write)?;
        Ok(Self {
            recording,
            states_at,
            lines: lines.map(BufWriter::new),
            threads: BTreeMap::new(),
            wait_points: HashMap::new(),
            states: BTreeMap::new(),
            total: Tally::default(),
            chain: Vec::new(),
        })
    }

    pub fn round(&mut self, round: &Round, kernel: &Kernel) -> Result<(), Failure> {
        for (map, build_id) in &round.mappings {
            self.recording.mapping(map, build_id.as_deref(), round.time).map_err(cannot_write)?;
        }
        round.samples.iter().try_for_each(|sample| self.sample(sample, kernel))
    }

    fn sample(&mut self, sample: &ThreadSample, kernel: &Kernel) -> Result<(), Failure> {
        let (tid, weight) = (sample.snapshot.tid.as_raw(), sample.period);
        let comm = &sample.snapshot.stat.comm;
        let (known, thread) = self.threads.entry(tid).or_default();
        if known != comm || thread.samples == 0 {
            known.clone_from(comm);
            (thread.tid, thread.name) = (tid, String::from_utf8_lossy(comm).into_owned());
            self.recording.comm(tid, comm, sample.time).map_err(cannot_write)?;
        }
        thread.samples += 1;
        thread.weight_ns += weight;
        let state = char::from(sample.state);
        thread.states.entry(state).or_default().add(weight);
        self.states.entry(state).or_default().add(weight);
        self.total.add(weight);
        self.wait_points
            .entry((sample.state, sample.snapshot.wchan.clone(), sample.syscall))
            .or_default()
            .add(weight);
        self.fill_chain(sample, kernel);
        let copied = match &*sample.user {
            User::Chain(_) => None,
            User::Copied { registers, stack } => Some(Copied { registers, stack }),
        };
        let recorded =
            Sample { event: 0, time: sample.time, tid, period: weight, chain: &self.chain, copied };
        self.recording.sample(&recorded).map_err(cannot_write)?;
        if let Some(lines) = &mut self.lines {
            let line = Line {
                t_ns: sample.time,
                tid,
                state,
                wchan: &String::from_utf8_lossy(&sample.snapshot.wchan),
                syscall: sample.syscall,
                weight_ns: weight,
                held_ns: sample.held_ns,
                stop_ns: sample.stop_ns,
            };
            serde_json::to_writer(&mut *lines, &line).map_err(std::io::Error::from).map_err(cannot_write)?;
            lines.write_all(b"\n").map_err(cannot_write)?;
        }
        Ok(())
    }

    /// The state, kernel frames that have names, and user frames if they are known already.
    fn fill_chain(&mut self, sample: &ThreadSample, kernel: &Kernel) {
        let state = SAMPLED.iter().position(|&(known, _)| known == sample.state).unwrap_or(SAMPLED.len() - 1);
        self.chain.clear();
        self.chain.extend([CONTEXT_KERNEL, self.states_at[state]]);
        if kernel.known() {
            let address =
                |frame: &KernelFrame| Some(kernel.address_of(&frame.function)?.wrapping_add(frame.offset));
            self.chain.extend(sample.snapshot.kernel.iter().filter_map(address));
        }
        if let User::Chain(user) = &*sample.user
            && !user.is_empty()
        {
            self.chain.push(CONTEXT_USER);
            self.chain.extend(user);
        }
    }

    /// Ends the files. Totals by thread and by wait, the heaviest wait first.
    pub fn finish(mut self, kernel: &Kernel) -> Result<(Vec<Thread>, Vec<WaitPoint>), Failure> {
        self.recording.finish(kernel).map_err(cannot_write)?;
        if let Some(lines) = &mut self.lines {
            lines.flush().map_err(cannot_write)?;
        }
        let point = |((state, wchan, syscall), tally): ((u8, Vec<u8>, i64), Tally)| WaitPoint {
            state: char::from(state),
            wchan: String::from_utf8_lossy(&wchan).into_owned(),
            syscall,
            tally,
        };
        let mut wait_points: Vec<WaitPoint> = self.wait_points.into_iter().map(point).collect();
        wait_points.sort_by(|a, b| {
            let key =
                |point: &WaitPoint| (std::cmp::Reverse(point.tally.weight_ns), point.state, point.syscall);
            key(a).cmp(&key(b)).then_with(|| a.wchan.cmp(&b.wchan))
        });
        Ok((self.threads.into_values().map(|(_, thread)| thread).collect(), wait_points))
    }
}

fn cannot_write(error: std::io::Error) -> Failure {
    Failure::measurement(format!("the samples cannot be written: {error}"))
        .mend("free space there, or -o ELSEWHERE")
}
