//! Which functions of the write path a process has, and what is read out of their code.

use std::fs;
use std::os::unix::fs::FileExt;

use libbpf_rs::Link;
use libbpf_rs::skel::Skel;
use serde::Serialize;

use super::WritesOptions;
use super::skeleton::{self, WritesSkel};
use crate::layout::names;
use crate::symbols::{self, Function};
use crate::uprobes::{self, Way};
use observer::Failure;

/// As results call them; the last is a clock's alone.
pub const STAGES: [&str; 22] = names!(
    stage[0..STAGES]:
    ENTER JOIN PREPROCESS STALL DELAY STOP WAL WAL_WRITE SYNC SYNC_CALL SYNC_DEVICE SYNC_META SYNC_FLUSH SYNC_JOURNAL SYNC_WAKE LAUNCH
    MEMTABLE GROUP_WAIT EXIT MEMTABLE_WAIT REST HAND_OVER
);
/// Functions that are no stage.
const WRITE: &str = "write";
const JOIN: &str = "join";
const STATE: &str = "state";
const PREPROCESS: &str = "preprocess";
/// Begins only where the engine holds writes back.
const STALL: &str = "stall";
/// Bytes of a function's code that its first reads are looked for in.
const LOOKED_THROUGH: usize = 64;

/// A watched function, and what it is watched for.
#[derive(Clone, Serialize)]
pub struct Watched {
    pub stage: String,
    #[serde(flatten)]
    pub function: Function,
}

/// What the uprobes go to.
#[derive(Default)]
pub struct WritePlan {
    pub watched: Vec<Watched>,
    /// Stages of the rules whose functions no mapped file has.
    pub missing: Vec<String>,
    /// Of the state within a writer; 0: not known.
    pub state_offset: u32,
    /// The queue is no function of the engine's: a write is in it until it prepares, or returns.
    pub queue_within: bool,
    /// Asked for.
    pub exact_wake_ups: bool,
}

impl WritePlan {
    fn of(&self, what: &str) -> Vec<Function> {
        self.watched.iter().filter(|one| one.stage == what).map(|one| one.function.clone()).collect()
    }

    /// The functions whose returns are watched: of one that sets a state the call is enough.
    pub fn left(&self) -> impl Iterator<Item = &Function> {
        self.watched.iter().filter(|one| one.stage != STATE).map(|one| &one.function)
    }

    /// Whether whoever ends a wait is watched. Not where each call of it would be single-stepped; and as that is so in some
    /// releases and not in others, only where it was asked for, or where states cannot be read: what watching costs
    /// should be the same in two releases that are compared.
    pub fn state_seen(&self) -> bool {
        let setters = self.of(STATE);
        let cheap = !setters.is_empty() && setters.iter().all(|function| !function.stepped);
        cheap && (self.exact_wake_ups || self.state_offset == 0)
    }

    /// The functions that begin stages, and the number of each one's stage: all of them, or those that are rarely called.
    pub fn stages(&self, full: bool) -> (Vec<Function>, Vec<u32>) {
        let number =
            |name: &str| STAGES.iter().position(|one| *one == name && name != JOIN).map(|place| place as u32);
        let always = |stage: &str| stage == STALL || (self.queue_within && stage == PREPROCESS);
        let wanted = self.watched.iter().filter(|one| full || always(&one.stage));
        let found = wanted.filter_map(|one| Some((one.function.clone(), number(&one.stage)?)));
        found.take(uprobes::MOST_FUNCTIONS).unzip()
    }

    pub fn attach_writes(&self, skeleton: &mut WritesSkel, way: Way, pid: u32) -> Result<Vec<Link>, Failure> {
        uprobes::attach(skeleton.object_mut(), WRITE, way, pid, &self.of(WRITE))
    }

    /// The queue, and what begins a stage.
    pub fn attach_rest(
        &self,
        skeleton: &mut WritesSkel,
        way: Way,
        pid: u32,
        full: bool,
    ) -> Result<Vec<Link>, Failure> {
        let object = skeleton.object_mut();
        let mut links = uprobes::attach(object, JOIN, way, pid, &self.of(JOIN))?;
        if self.state_seen() {
            links.extend(uprobes::attach(object, STATE, way, pid, &self.of(STATE))?);
        }
        links.extend(uprobes::attach(object, "stage", way, pid, &self.stages(full).0)?);
        Ok(links)
    }
}

/// Finds them in what the process has mapped. Errors: rules without a write path, a process without its functions, returns
/// of a write or of the queue that cannot be seen.
pub fn find(options: &WritesOptions, way: Way) -> Result<WritePlan, Failure> {
    let (pid, exact_wake_ups) = (options.pid, options.exact_wake_ups);
    let rules = symbols::load_rules(&options.symbols)?;
    let ruled = |what: &str| rules.write.iter().any(|rule| rule.name == what);
    let queue_within = !ruled(JOIN);
    if queue_within && !ruled(PREPROCESS) {
        return Err(Failure::usage(format!("the write path of {} is not known", rules.engine))
            .meaning("its symbol rules name no queue of writers")
            .mend("ioflame ebpf tail --kind write: where the time of slow writes goes"));
    }
    let (found, searched) = symbols::find(pid, &rules.write)?;
    let mut watched: Vec<Watched> = found
        .into_iter()
        .map(|(rule, function)| Watched { stage: rules.write[rule].name.clone(), function })
        .collect();
    let queue = if queue_within { PREPROCESS } else { JOIN };
    let needed = |one: &Watched| one.stage == WRITE || one.stage == queue;
    let of_needed: Vec<Function> =
        watched.iter().filter(|one| needed(one)).map(|one| one.function.clone()).collect();
    if let Some(why) = way.unseen(&of_needed) {
        return Err(uprobes::unseen(why));
    }
    // Without one of the others, its stage is part of what it is within.
    let seen =
        |one: &Watched| one.stage == STATE || way.unseen(std::slice::from_ref(&one.function)).is_none();
    watched.retain(seen);
    let there = |what: &str| watched.iter().any(|one| one.stage == what);
    if !there(WRITE) || !there(queue) {
        let names: Vec<&str> = rules.write.iter().take(2).map(|rule| rule.prefix.as_str()).collect();
        return Err(Failure::measurement(format!(
            "none of the {} files that {} has mapped names {}...)",
            searched.files,
            symbols::executable(pid),
            names.join("...) and "),
        ))
        .meaning("there is no write that could be followed: another engine, or stripped of its names"));
    }
    let mut missing: Vec<String> =
        rules.write.iter().filter(|rule| !there(&rule.name)).map(|rule| rule.name.clone()).collect();
    missing.dedup();
    let mut offsets: Vec<u32> =
        watched.iter().filter(|one| one.stage == STATE).map(|one| state_offset(&one.function)).collect();
    offsets.dedup();
    let state_offset = if let [one] = offsets[..] { one } else { 0 };
    Ok(WritePlan { watched, missing, state_offset, queue_within, exact_wake_ups })
}

fn state_offset(function: &Function) -> u32 {
    let mut code = [0; LOOKED_THROUGH];
    let read = fs::File::open(&function.file).and_then(|file| file.read_at(&mut code, function.offset));
    read.ok().and_then(|bytes| first_byte_of_second_argument(&code[..bytes])).unwrap_or(0)
}

/// N of the first `movzbl N(%rsi), ...`: whoever sets a writer's state reads it first.
fn first_byte_of_second_argument(code: &[u8]) -> Option<u32> {
    if !cfg!(target_arch = "x86_64") {
        return None;
    }
    let found = code.windows(4).find(|bytes| bytes[..2] == [0x0f, 0xb6] && bytes[2] & 0xc7 == 0x46);
    found.map(|bytes| u32::from(bytes[3]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(target_arch = "x86_64")]
    fn the_place_of_a_state_is_read_out_of_the_code_that_sets_it() {
        // push %rbp; mov %rsp,%rbp; movzbl 0x51(%rsi),%eax; and without frame pointers.
        let framed = [0x55, 0x48, 0x89, 0xe5, 0x0f, 0xb6, 0x46, 0x51, 0x3c, 0x20];
        assert_eq!(first_byte_of_second_argument(&framed), Some(0x51));
        assert_eq!(first_byte_of_second_argument(&[0x0f, 0xb6, 0x46, 0x41]), Some(0x41));
        // movzbl %dl,%edi
        assert_eq!(first_byte_of_second_argument(&[0x0f, 0xb6, 0xfa, 0x90]), None);
    }
}
