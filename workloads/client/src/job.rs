//! The benchmarks to run, by db_bench's names, and their flags.

use crate::distributions::{Keys, Power, Ranges, Ranks, Sizes, TwoTermExponential, Zipf};
use crate::flags::Flags;
use crate::keys::{Key, Order, Permutation};
use crate::rate_steps::RateSteps;
use crate::role::{Arrivals, KeyLaw, Limit, Role, Step};
use crate::tally::Kind;
use observer::Failure;
use observer::control::Pipes;
use std::path::PathBuf;
use std::sync::Arc;

const MOST_THREADS: u64 = 4096;
/// A second, in operations or bytes: more than any engine does.
const MOST_RATE: f64 = 1e12;
const LAWS: [&str; 5] = ["uniform", "zipfian", "power", "ranges", "in_order"];

/// Everything but the engine's own flags.
#[derive(Clone, Debug)]
pub struct Job {
    pub steps: Vec<Step>,
    pub keys: u64,
    pub key: Key,
    pub compression_ratio: f64,
    /// Bytes of the longest value.
    pub longest_value: usize,
    pub back: bool,
    pub batch: usize,
    pub seed: u64,
    /// Number of counted phases; 0 where the benchmark is timed.
    pub counted: u64,
    /// Events that the processor counts; None where callgrind counts.
    pub counted_events: Option<String>,
    /// Seconds; 0 where the operations are counted.
    pub duration: f64,
    pub report: Option<PathBuf>,
    pub control: Option<Pipes>,
}

impl std::fmt::Debug for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Key({:?})", self.bytes())
    }
}

impl Job {
    /// Usage error for a flag that makes no sense.
    pub fn read(flags: &Flags) -> Result<Self, Failure> {
        let keys: u64 = flags.number("num", 1_000_000)?;
        if keys == 0 {
            return Err(wrong("--num=0: there are no keys"));
        }
        let key_size = flags.number("key_size", 16)?;
        let value_size: usize = flags.number("value_size", 100)?;
        let duration: f64 = flags.number("duration", 0.0)?;
        let batch: usize = flags.number("batch_size", 1)?;
        for (flag, value, most) in [
            ("duration", duration, 1e9),
            ("batch_size", batch as f64, 1e6),
            ("value_size", value_size as f64, f64::from(1 << 30)),
        ] {
            if !(0.0..=most).contains(&value) {
                return Err(wrong(&format!("--{flag}={value} is not within 0 to {most}")));
            }
        }
        let job = Self {
            steps: Vec::new(),
            keys,
            key: Key::of_size(key_size)?,
            compression_ratio: flags.number("compression_ratio", 0.5)?,
            longest_value: value_size,
            back: flags.boolean("reverse_iterator", false)?,
            batch: batch.max(1),
            seed: flags.number("seed", 1)?,
            counted: flags.number("counted", 0)?,
            counted_events: flags.text("counted_events").map(str::to_owned),
            duration,
            report: flags.text("report_file").filter(|path| !path.is_empty()).map(PathBuf::from),
            control: flags
                .text("control")
                .map(str::parse)
                .transpose()
                .map_err(|why| wrong(&format!("--control is {why}")))?,
        };
        if job.counted == 0 && job.counted_events.is_some() {
            return Err(wrong("--counted_events is given without --counted").mend("--counted=3"));
        }
        // Batches are the only way in which this client asks for several keys.
        if !flags.boolean("multiread_batched", true)? {
            return Err(wrong("--multiread_batched=false: MultiGet is always the batched one"));
        }
        let roles = Roles::read(flags, &job, key_size, value_size)?;
        let names = flags.required("benchmarks")?;
        let steps: Vec<Step> = names.split(',').map(|name| roles.step(name)).collect();
        if roles.arrivals_given && !steps.iter().any(Step::has_a_rate) {
            return Err(wrong(&format!("--arrivals is given, and --benchmarks={names} has no rate")).mend(
                "--benchmark_read_rate_limit=1000 for readers, --benchmark_write_rate_limit for writers",
            ));
        }
        Ok(Self { steps, longest_value: value_size.max(roles.mixed.values.most()), ..job })
    }

    /// The keys of a thread. first: its first position where they come in order
    pub fn keys_of(&self, law: &KeyLaw, first: u64) -> Keys {
        let keys = self.keys;
        let permutation = || Permutation::new(keys, self.keys);
        match law {
            KeyLaw::Uniform => Keys::Uniform { keys },
            KeyLaw::InOrder(order) => Keys::InOrder { order: order.clone(), keys, next: first % keys },
            KeyLaw::Zipf(exponent) => {
                Keys::Ranked { ranks: Ranks::Zipf(Zipf::new(keys, *exponent)), key_of_rank: permutation() }
            }
            KeyLaw::Power { a, b } => {
                Keys::Ranked { ranks: Ranks::Power(Power::new(keys, *a, *b)), key_of_rank: permutation() }
            }
            KeyLaw::Ranges { ranges, weights, power } => {
                Keys::Ranges(Ranges::new(keys, *ranges, *weights, *power, keys))
            }
        }
    }

    /// Names that are no benchmarks but commands of the engine.
    pub fn commands(&self) -> Vec<&str> {
        let named = self.steps.iter().map(|step| if let Step::Command(name) = step { name } else { "" });
        named.filter(|name| !name.is_empty()).collect()
    }

    /// Whether any of its benchmarks has operations of this kind.
    pub fn has_kind(&self, kind: Kind) -> bool {
        self.steps.iter().any(|step| match step {
            Step::Benchmark { roles, .. } => roles.iter().any(|role| role.has(kind)),
            Step::Command(_) => false,
        })
    }

    /// A buffer for the keys of one call. Usage error where keys that are missing would be too long.
    pub fn batch_of_keys(&self, missing: bool) -> Result<Vec<Key>, Failure> {
        Ok(vec![if missing { self.key.missing()? } else { self.key }; self.batch])
    }
}

fn wrong(what: &str) -> Failure {
    Failure::usage(what).meaning("nothing was started")
}

/// Threads, rates and counts by the flags, for any benchmark.
struct Roles {
    threads: u64,
    writers: u64,
    law: KeyLaw,
    order: Order,
    read_rate: f64,
    write_rate: f64,
    arrivals: Arrivals,
    arrivals_given: bool,
    rate_steps: Option<Arc<RateSteps>>,
    reads: Limit,
    writes: Limit,
    all: u64,
    sizes: SizeLaws,
    mix: [f64; 5],
    mixed: SizeLaws,
}

/// Sizes that are drawn beside a key.
#[derive(Clone, Copy)]
struct SizeLaws {
    values: Sizes,
    scans: Sizes,
}

impl Roles {
    fn read(flags: &Flags, job: &Job, key_size: usize, value_size: usize) -> Result<Self, Failure> {
        let threads: u64 = flags.number("threads", 1)?;
        let writers: u64 = flags.number("writers", 1)?;
        if ![threads, writers].iter().all(|count| (1..=MOST_THREADS).contains(count)) {
            return Err(wrong(&format!("--threads and --writers are at least 1 and at most {MOST_THREADS}")));
        }
        let limit =
            |count: i64| match (u64::try_from(count).ok().filter(|count| *count > 0), job.duration > 0.0) {
                (Some(count), _) => Limit::EachThread(count),
                (None, true) => Limit::Time,
                (None, false) => Limit::EachThread(job.keys),
            };
        let order = flags.choice("order", &Order::NAMES)?;
        let read_rate = rate(flags, "benchmark_read_rate_limit")?;
        // In bytes a second, as db_bench's writers count them.
        let write_bytes = rate(flags, "benchmark_write_rate_limit")?;
        let arrivals = arrivals(flags, job, read_rate > 0.0 || write_bytes > 0.0)?;
        let steps = flags.text("arrival_steps");
        if steps.is_some() && arrivals.is_none() {
            return Err(wrong("--arrival_steps is given without --arrivals").mend("--arrivals=poisson"));
        }
        let order = Order::named(order, flags.number("streams", 1)?, job.keys, job.seed)?;
        Ok(Self {
            threads,
            writers,
            law: key_law(flags, &order, job.keys)?,
            order,
            read_rate,
            write_rate: write_bytes / (key_size + value_size) as f64,
            arrivals: arrivals.unwrap_or(Arrivals::Fixed),
            arrivals_given: arrivals.is_some(),
            rate_steps: steps.map(RateSteps::read).transpose()?.map(Arc::new),
            reads: limit(flags.number("reads", -1)?),
            writes: limit(flags.number("writes", -1)?),
            all: job.keys,
            sizes: SizeLaws {
                values: Sizes::Fixed(value_size),
                scans: Sizes::Fixed(flags.number("seek_nexts", 0)?),
            },
            mixed: mixgraph_sizes(flags)?,
            mix: mix_of(flags)?,
        })
    }

    fn step(&self, name: &str) -> Step {
        let role = |name, threads, mix, keys: &KeyLaw, SizeLaws { values, scans }, rate, operations| Role {
            name,
            threads,
            mix,
            keys: keys.clone(),
            missing: false,
            values,
            scans,
            rate,
            arrivals: self.arrivals,
            rate_steps: self.rate_steps.clone(),
            on_time: self.arrivals_given,
            operations,
        };
        let readers = |mix, sizes| {
            let role = role("readers", self.threads, mix, &self.law, sizes, self.read_rate, self.reads);
            Some(Role { missing: name == "readmissing", ..role })
        };
        let writers = |kind, threads, keys: &KeyLaw, operations| {
            Some(role("writers", threads, only(kind), keys, self.sizes, self.write_rate, operations))
        };
        let reads_of = |kind| readers(only(kind), self.sizes);
        let beside = || writers(Kind::Put, self.writers, &self.law, Limit::Time);
        let ordered = KeyLaw::InOrder(self.order.clone());
        let (every, threads) = (Limit::AllThreads(self.all), self.threads);
        let (readers, writers) = match name {
            "fillseq" => (None, writers(Kind::Put, threads, &ordered, every)),
            "fillrandom" => (None, writers(Kind::Put, threads, &KeyLaw::Uniform, every)),
            "overwrite" => (None, writers(Kind::Put, threads, &self.law, self.writes)),
            "deleteseq" => (None, writers(Kind::Delete, threads, &ordered, every)),
            "deleterandom" => (None, writers(Kind::Delete, threads, &self.law, self.writes)),
            "readrandom" | "readmissing" => (reads_of(Kind::Get), None),
            "multireadrandom" => (reads_of(Kind::MultiGet), None),
            "seekrandom" => (reads_of(Kind::Seek), None),
            "mixgraph" => (readers(sums(self.mix), self.mixed), None),
            "readwhilewriting" => (reads_of(Kind::Get), beside()),
            "multireadwhilewriting" => (reads_of(Kind::MultiGet), beside()),
            "seekrandomwhilewriting" => (reads_of(Kind::Seek), beside()),
            _ => return Step::Command(name.to_owned()),
        };
        Step::Benchmark { name: name.to_owned(), roles: readers.into_iter().chain(writers).collect() }
    }
}

/// A rate; 0 for none. Usage error for one that cannot be held.
fn rate(flags: &Flags, name: &str) -> Result<f64, Failure> {
    let rate: f64 = flags.number(name, 0.0)?;
    if (0.0..=MOST_RATE).contains(&rate) {
        return Ok(rate);
    }
    Err(wrong(&format!("--{name}={rate} is not within 0 to {MOST_RATE}"))
        .mend(format!("--{name}=1000, or leave it out for no rate")))
}

/// The arrivals at a rate; None where none are given. Usage error where the flags contradict each other.
fn arrivals(flags: &Flags, job: &Job, has_rate: bool) -> Result<Option<Arrivals>, Failure> {
    let Some(given) = flags.text("arrivals") else { return Ok(None) };
    let arrivals = match flags.choice("arrivals", &["closed", "fixed", "poisson"])? {
        1 => Arrivals::Fixed,
        2 => Arrivals::Poisson,
        _ if has_rate => {
            return Err(Failure::usage("--arrivals=closed is given, and a rate as well")
                .meaning(
                    "in a closed loop an operation begins when the one before has ended; nothing was started",
                )
                .mend("--arrivals=fixed, or leave out the rate"));
        }
        _ => return Ok(None),
    };
    if job.counted > 0 {
        return Err(Failure::usage(format!("--arrivals={given} is given, and --counted as well"))
            .meaning(
                "operations that are counted wait for nothing, so none is early or late; nothing was started",
            )
            .mend("leave out one of them"));
    }
    if !has_rate {
        return Err(Failure::usage(format!("--arrivals={given} is given without a rate, or with one of 0"))
            .meaning("how many operations arrive in a second is not known; nothing was started")
            .mend("--benchmark_read_rate_limit=1000 for readers, --benchmark_write_rate_limit for writers"));
    }
    Ok(Some(arrivals))
}

/// How often each kind comes in a mix.
fn mix_of(flags: &Flags) -> Result<[f64; 5], Failure> {
    let mix = [
        flags.number("mix_get_ratio", 1.0)?,
        flags.number("mix_multiget_ratio", 0.0)?,
        flags.number("mix_seek_ratio", 0.0)?,
        flags.number("mix_put_ratio", 0.0)?,
        flags.number("mix_delete_ratio", 0.0)?,
    ];
    let sum: f64 = mix.iter().sum();
    if mix.iter().any(|ratio| *ratio < 0.0) || !sum.is_normal() {
        return Err(wrong(
            "the mix_..._ratio flags are no shares: none is below 0, and one at least is above",
        ));
    }
    Ok(mix)
}

fn only(kind: Kind) -> [f64; 5] {
    let mut mix = [0.0; 5];
    mix[kind as usize] = 1.0;
    sums(mix)
}

/// Sums of the shares up to each kind.
fn sums(ratios: [f64; 5]) -> [f64; 5] {
    let whole: f64 = ratios.iter().sum();
    let mut sum = 0.0;
    ratios.map(|ratio| {
        sum += ratio / whole;
        sum
    })
}

fn key_law(flags: &Flags, order: &Order, keys: u64) -> Result<KeyLaw, Failure> {
    let law = flags.choice("key_distribution", &LAWS)?;
    let exponent: f64 = flags.number("zipf_exponent", 0.99)?;
    let (a, b): (f64, f64) = (flags.number("key_dist_a", 0.0)?, flags.number("key_dist_b", 0.0)?);
    let ranges: u64 = flags.number("keyrange_num", 1)?;
    let weights = TwoTermExponential {
        a: flags.number("keyrange_dist_a", 0.0)?,
        b: flags.number("keyrange_dist_b", 0.0)?,
        c: flags.number("keyrange_dist_c", 0.0)?,
        d: flags.number("keyrange_dist_d", 0.0)?,
    };
    Ok(match law {
        1 if exponent <= 0.0 => return Err(wrong(&format!("--zipf_exponent={exponent} is not above 0"))),
        2 if b <= 0.0 => return Err(wrong(&format!("--key_dist_b={b} is not above 0"))),
        3 if !(1..=keys).contains(&ranges) => {
            return Err(wrong(&format!("--keyrange_num={ranges} is not within 1 to --num={keys}")));
        }
        0 => KeyLaw::Uniform,
        1 => KeyLaw::Zipf(exponent),
        2 => KeyLaw::Power { a, b },
        3 => KeyLaw::Ranges { ranges, weights, power: (b > 0.0).then_some((a, b)) },
        _ => KeyLaw::InOrder(order.clone()),
    })
}

/// mixgraph's sizes of values and lengths of scans, by db_bench's names and defaults.
fn mixgraph_sizes(flags: &Flags) -> Result<SizeLaws, Failure> {
    let values = Sizes::Pareto {
        theta: flags.number("value_theta", 0.0)?,
        k: flags.number("value_k", 0.2615)?,
        sigma: flags.number("value_sigma", 25.45)?,
        least: 10,
        most: flags.number("mix_max_value_size", 1024_usize)?.max(10),
    };
    let scans = Sizes::Pareto {
        theta: flags.number("iter_theta", 0.0)?,
        k: flags.number("iter_k", 2.517)?,
        sigma: flags.number("iter_sigma", 14.236)?,
        least: 1,
        most: flags.number("mix_max_scan_len", 10_000_usize)?.max(1),
    };
    Ok(SizeLaws { values, scans })
}
