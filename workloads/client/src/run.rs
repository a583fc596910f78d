//! One benchmark: its threads wait at a barrier, begin together, and are counted until all have ended.

use crate::clock::{now_ns, thread_cpu_ns};
use crate::engines::{NothingSession, Store};
use crate::exit_at_once;
use crate::job::Job;
use crate::pace::Schedule;
use crate::report::Report;
use crate::role::{Arrivals, Limit, Role};
use crate::tally::{Finished, Latency, Tally};
use crate::values::Values;
use crate::worker::{Done, Shared, Worker};
use observer::Failure;
use observer::control::{Control, End};
use serde::Serialize;
use std::collections::BTreeMap;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::ScopedJoinHandle;
use std::time::{Duration, Instant};

/// Operations for measuring the client's own time.
const OWN_OPERATIONS: u64 = 50_000;
const SECOND: f64 = 1e9;
/// Share of the operations due that may still wait at the end of a run that kept up with its rate.
const MOST_WAITING: f64 = 0.01;
/// Lateness of the client that is allowed, as a share of the latency's 99th percentile.
const MOST_LATE: f64 = 0.01;
/// A failure in an engine's own threads usually fails the next operation at once.
const UNREPORTED: Duration = Duration::from_secs(5);

/// The result of a role.
#[derive(Serialize, Debug)]
pub struct RoleResult {
    pub threads: u64,
    pub operations: u64,
    pub ops_per_second: f64,
    pub by_kind: BTreeMap<&'static str, u64>,
    pub reads: u64,
    pub found: u64,
    pub scanned: u64,
    /// Of values that were read, of keys and values that were scanned or written.
    pub bytes: u64,
    /// From the call to its end: what the engine took.
    pub latency_from_call_us: BTreeMap<&'static str, Latency>,
    /// Of a rate.
    #[serde(flatten)]
    pub open_loop: Option<OpenLoop>,
    /// CPU of the client in each operation, measured without an engine. It is subtracted nowhere.
    pub client_ns_per_operation: f64,
}

/// How well a rate was kept.
#[derive(Serialize, Debug)]
pub struct OpenLoop {
    pub arrivals: Arrivals,
    pub offered_ops_per_second: f64,
    /// Operations that were due by the end.
    pub operations_due: u64,
    /// More than 1 % of them were still waiting at the end.
    pub overloaded: bool,
    /// Whether the latency from the schedule is that of the engine at this rate.
    pub usable: bool,
    /// Why it is not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// From the moment that the operation was due: what its sender waited, the queue behind slow ones included. None
    /// where the queue grew until the end, so that percentiles are those of the run's length.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub latency_from_schedule_us: Option<BTreeMap<&'static str, Latency>>,
    /// By how much threads of the client that waited for an operation began it late.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub late_us: Option<Latency>,
    /// How long threads of the client took from one call to the next where an operation was waiting.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub between_calls_us: Option<Latency>,
}

/// The closing line.
#[derive(Serialize, Debug)]
pub struct Outcome {
    pub benchmark: String,
    /// From the gate's opening to the last thread's end.
    pub seconds: f64,
    /// What closed the gate: `time`, `operations`, `signal` or `order`.
    pub ended_by: &'static str,
    pub roles: BTreeMap<&'static str, RoleResult>,
}

/// Runs the roles' threads. Measurement error with the engine's words where an operation fails; all threads end then.
pub fn benchmark(
    job: &Job,
    name: &str,
    roles: &[Role],
    store: &dyn Store,
    values: &Values,
    first_seed: u64,
    control: &mut Control,
) -> Result<Outcome, Failure> {
    let shared = Shared::new(job, values);
    let threads: u64 = roles.iter().map(|role| role.threads).sum();
    let (ready, gate) = (Barrier::new(threads as usize + 1), Barrier::new(threads as usize + 1));
    let finished: Vec<Vec<Finished>> =
        roles.iter().map(|role| (0..role.threads).map(|_| Finished::default()).collect()).collect();
    // Running threads with a number of operations to do: the run ends with the last of them.
    let counted = AtomicUsize::new(0);
    let mut report = job.report.as_deref().map(Report::create).transpose()?;
    let mut seed = first_seed;
    // Seeds of threads count up from the first, those of schedules down from the other end.
    let schedules: Vec<Option<Schedule>> =
        roles.iter().zip(0..).map(|(role, number)| Schedule::of(role, !(first_seed + number))).collect();
    let (ended, tallies) = std::thread::scope(|scope| {
        let mut running = Vec::new();
        for ((role, finished), schedule) in roles.iter().zip(&finished).zip(&schedules) {
            for (thread, finished) in finished.iter().enumerate() {
                let number = thread as u64;
                let worker =
                    Worker::new(&shared, role, number, seed, finished).with_schedule(schedule.as_ref());
                seed += 1;
                let (ready, gate, counted) = (&ready, &gate, &counted);
                let bounded = role.operations != Limit::Time;
                counted.fetch_add(usize::from(bounded), Ordering::Relaxed);
                let body = move || {
                    let session = store.session();
                    ready.wait();
                    gate.wait();
                    let done = session.and_then(|mut session| worker.run(session.as_mut()));
                    if done.is_err() || bounded && counted.fetch_sub(1, Ordering::Relaxed) == 1 {
                        worker.shared.end();
                    }
                    done
                };
                let named = std::thread::Builder::new()
                    .name(format!("{} {number}", &role.name[..role.name.len() - 1]));
                running.push(named.spawn_scoped(scope, body).unwrap_or_else(|error| no_thread(&error)));
            }
        }
        ready.wait();
        let opened = control.ready();
        let begun = now_ns();
        shared.begun_ns.store(begun, Ordering::Relaxed);
        if opened.is_err() {
            shared.end();
        }
        let follow = report.as_mut().map(|report| {
            let none: &[Finished] = &[];
            let counters_of =
                |name| roles.iter().position(|role| role.name == name).map_or(none, |at| &finished[at][..]);
            let (readers, writers, over) = (counters_of("readers"), counters_of("writers"), &shared.over);
            let begun = report.begin(begun);
            let follow = move || begun.and_then(|()| report.follow(readers, writers, over));
            let named = std::thread::Builder::new().name("report".to_owned());
            named.spawn_scoped(scope, follow).unwrap_or_else(|error| no_thread(&error))
        });
        gate.wait();
        control.opened(begun);
        let mut stalls = StallWatch::new(store);
        let ended = wait(job.duration, &shared.over, control, &mut stalls);
        shared.end();
        wait_for_threads(&running, control, &mut stalls);
        let tallies: Vec<_> = running
            .into_iter()
            .map(|thread| thread.join().map_err(|_| std::io::Error::other("a thread of the client panicked")))
            .collect::<std::io::Result<_>>()?;
        control.closed(now_ns());
        if let Some(follow) = follow {
            follow.join().map_err(|_| Failure::measurement("the report's thread panicked"))??;
        }
        opened.map(|()| (ended, tallies))
    })?;
    let done: Vec<Done> = tallies.into_iter().collect::<Result<_, _>>()?;
    let last = done.iter().map(|done| done.ended_ns).max().unwrap_or(0);
    let begun = shared.begun_ns.load(Ordering::Relaxed);
    let seconds = last.saturating_sub(begun) as f64 / SECOND;
    let over = shared.over_ns.load(Ordering::Relaxed);
    let mut done = done.into_iter();
    let mut results = BTreeMap::new();
    for (role, schedule) in roles.iter().zip(&schedules) {
        let mut tally = Tally::new(schedule.is_some());
        let mut stopped = 0;
        for done in done.by_ref().take(role.threads as usize) {
            tally.add(&done.tally);
            stopped = stopped.max(done.stopped_ns);
        }
        // Operations that became due later were not to be taken.
        let until = stopped.min(over).saturating_sub(begun);
        let open_loop = schedule.as_ref().map(|schedule| OpenLoop::of(schedule, role, &tally, until));
        results.insert(role.name, result(role, &tally, open_loop, seconds, client_cpu_ns(&shared, role)?));
    }
    Ok(Outcome { benchmark: name.to_owned(), seconds, ended_by: ended, roles: results })
}

/// Ends the program: the threads that were started wait at the gate for one that never comes.
fn no_thread(error: &std::io::Error) -> ! {
    exit_at_once(
        &Failure::host(format!("a thread cannot be started: {error}")).mend("fewer --threads, or ulimit -u"),
    )
}

/// Waits until the time is over, the operations are done, or the gate is closed.
fn wait(duration: f64, over: &AtomicBool, control: &mut Control, stalls: &mut StallWatch) -> &'static str {
    let begun = Instant::now();
    let deadline = (duration > 0.0).then(|| begun + Duration::from_secs_f64(duration));
    while !over.load(Ordering::Relaxed) {
        let slice = Instant::now() + Duration::from_millis(50);
        if deadline.is_some_and(|deadline| deadline <= Instant::now()) {
            return "time";
        }
        match control.end_until(deadline.map_or(slice, |deadline| deadline.min(slice))) {
            Some(End::Signal) => return "signal",
            Some(End::Closed) => return "order",
            None => stalls.check(),
        }
    }
    "operations"
}

/// Watches for an engine whose operations never return, for example on a full disk.
struct StallWatch<'a> {
    store: &'a dyn Store,
    next_check: Instant,
    since: Option<Instant>,
}

impl<'a> StallWatch<'a> {
    fn new(store: &'a dyn Store) -> Self {
        Self { store, next_check: Instant::now(), since: None }
    }

    /// Ends the program when background errors persist that no operation has returned.
    fn check(&mut self) {
        let now = Instant::now();
        if now < self.next_check {
            return;
        }
        self.next_check = now + Duration::from_secs(1);
        let errors = self.store.background_errors();
        if errors > 0 && now - *self.since.get_or_insert(now) > UNREPORTED {
            exit_at_once(
                &Failure::measurement(format!(
                    "{errors} flushes or compactions of the engine failed, and no operation said why for {} s",
                    UNREPORTED.as_secs()
                ))
                .meaning("what was measured since is not the workload; an operation may be waiting without end")
                .mend("the LOG of the database names the cause, mostly a full disk: df -h"),
            );
        }
    }
}

/// Waits until all threads have ended; a signal meanwhile ends the program at once.
fn wait_for_threads<T>(running: &[ScopedJoinHandle<'_, T>], control: &mut Control, stalls: &mut StallWatch) {
    while running.iter().any(|thread| !thread.is_finished()) {
        if control.signal_until(Instant::now() + Duration::from_millis(1)) {
            exit_at_once(&Failure::measurement(
                "ended by a second signal, with operations that had not returned",
            ));
        }
        stalls.check();
    }
}

impl OpenLoop {
    /// until: ns from begin to end; operations due by then that no thread began are waiting
    fn of(schedule: &Schedule, role: &Role, tally: &Tally, until: u64) -> Self {
        let waiting = schedule.waiting(until);
        let (operations_due, late) = (tally.total() + waiting, tally.late());
        let overloaded = waiting as f64 > MOST_WAITING * operations_due as f64;
        let p99 = tally.p99_from_schedule_us();
        let reason = match &late {
            _ if overloaded => Some(format!(
                "overloaded: {waiting} of {operations_due} operations that were due were still waiting at the end"
            )),
            Some(late) if role.on_time && late.p99 > MOST_LATE * p99 => Some(format!(
                "threads of the client that waited for an operation began it late: by {:.1} us at the 99th \
                 percentile, more than 1 % of the latency's, {p99:.1} us",
                late.p99
            )),
            _ => None,
        };
        Self {
            arrivals: role.arrivals,
            offered_ops_per_second: schedule.offered(until),
            operations_due,
            overloaded,
            usable: reason.is_none(),
            reason,
            latency_from_schedule_us: tally.latency_from_schedule().filter(|_| !overloaded),
            late_us: late,
            between_calls_us: tally.between_calls(),
        }
    }
}

fn result(role: &Role, tally: &Tally, open_loop: Option<OpenLoop>, seconds: f64, own_ns: f64) -> RoleResult {
    RoleResult {
        threads: role.threads,
        operations: tally.total(),
        ops_per_second: if seconds > 0.0 { tally.total() as f64 / seconds } else { 0.0 },
        by_kind: tally.by_kind(),
        reads: tally.reads(),
        found: tally.found,
        scanned: tally.steps,
        bytes: tally.bytes,
        latency_from_call_us: tally.latency(),
        open_loop,
        client_ns_per_operation: own_ns,
    }
}

/// ns of CPU of the same loop for one operation, where the engine does nothing and no rate is held.
fn client_cpu_ns(shared: &Shared<'_>, role: &Role) -> Result<f64, Failure> {
    let role = Role { threads: 1, rate: 0.0, operations: Limit::EachThread(OWN_OPERATIONS), ..role.clone() };
    let alone = Shared::new(shared.job, shared.values);
    let finished = Finished::default();
    let worker = Worker::new(&alone, &role, 0, 1, &finished);
    let before = thread_cpu_ns();
    let done = worker.run(&mut NothingSession::at_once())?;
    Ok((thread_cpu_ns() - before) as f64 / done.tally.total().max(1) as f64)
}
