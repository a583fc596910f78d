//! The measured loop allocates nothing: twice as many operations are as many allocations.

use crate::engines;
use crate::flags::Flags;
use crate::job::Job;
use crate::role::Step;
use crate::run::benchmark;
use crate::values::Values;
use observer::control::Control;
use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicU64, Ordering};

struct Counting;

static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);

/// Counts what the threads of a benchmark allocate, which are called `reader 0`, `writer 0` ...: other tests run
/// beside.
fn count() {
    let mut name = [0_u8; 16];
    // SAFETY: a name of at most 16 bytes.
    unsafe { libc::prctl(libc::PR_GET_NAME, name.as_mut_ptr()) };
    if name.starts_with(b"reader ") || name.starts_with(b"writer ") {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
    }
}

// SAFETY: the system's allocator does it all.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: by the caller.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: by the caller.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count();
        // SAFETY: by the caller.
        unsafe { System.realloc(pointer, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Allocations of a benchmark of so many operations, and the operations it counted.
fn allocations(engine: &str, name: &str, law: &str, rate: f64, operations: u64) -> (u64, u64) {
    let folder = std::env::temp_dir().join(format!("ioflame-client-{engine}-{}", std::process::id()));
    let existing = folder.join("CURRENT").exists() || folder.join("data.mdb").exists();
    let mut words: Vec<String> = [
        "key_size=20",
        "value_size=100",
        "num=1000",
        "batch_size=10",
        "seek_nexts=5",
        "streams=3",
        "key_dist_b=0.35",
        "keyrange_num=10",
        "mix_get_ratio=5",
        "mix_seek_ratio=1",
        "mix_put_ratio=2",
        "mix_delete_ratio=1",
        "mix_multiget_ratio=1",
        "mix_max_scan_len=20",
    ]
    .iter()
    .map(|flag| format!("--{flag}"))
    .collect();
    words.extend([
        format!("--engine={engine}"),
        format!("--db={}", folder.display()),
        format!("--use_existing_db={existing}"),
        format!("--benchmarks={name}"),
        format!("--key_distribution={law}"),
        format!("--reads={operations}"),
        format!("--writes={operations}"),
        format!("--benchmark_read_rate_limit={rate}"),
    ]);
    let flags = Flags::parse(words).unwrap();
    let job = Job::read(&flags).unwrap();
    let store = engines::engine(&flags, false, &[]).unwrap()().unwrap();
    let values = Values::new(job.compression_ratio, job.longest_value);
    let mut control = Control::new(None).unwrap();
    let Step::Benchmark { roles, .. } = &job.steps[0] else { panic!("{name} is a benchmark") };
    let before = ALLOCATIONS.load(Ordering::Relaxed);
    let outcome = benchmark(&job, name, roles, store.as_ref(), &values, 7, &mut control).unwrap();
    let counted = ALLOCATIONS.load(Ordering::Relaxed) - before;
    (counted, outcome.roles.values().map(|role| role.operations).sum())
}

#[test]
fn twice_the_operations_are_as_many_allocations() {
    for (engine, _) in engines::NAMES.iter().filter(|(_, built)| *built) {
        for (name, law, rate) in [
            ("overwrite", "uniform", 0.0),
            ("readrandom", "zipfian", 0.0),
            ("readrandom", "power", 0.0),
            ("readrandom", "ranges", 0.0),
            ("readrandom", "in_order", 0.0),
            ("readrandom", "uniform", 1e5),
            ("multireadrandom", "uniform", 0.0),
            ("multireadrandom", "uniform", 1e8),
            ("seekrandom", "uniform", 0.0),
            ("deleterandom", "uniform", 0.0),
            ("mixgraph", "uniform", 0.0),
        ] {
            let (few, done) = allocations(engine, name, law, rate, 503);
            let (many, twice) = allocations(engine, name, law, rate, 1_006);
            assert_eq!((done, twice), (503, 1_006), "{engine} {name}");
            assert_eq!(few, many, "{engine} {name} {law} {rate}: allocations of 503 operations and of 1,006");
        }
        let folder = std::env::temp_dir().join(format!("ioflame-client-{engine}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(folder);
    }
}
