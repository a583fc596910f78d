//! What each program needs of a kernel, held against the kernel's BTF before anything is loaded.
//!
//! What can be read from the compiled programs is: fields with their sizes, helpers, kinds of maps. `needs.toml` has the
//! arguments of events, which programs take on trust, and words.

mod object;
mod types;

use std::cell::OnceCell;
use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use clap::Args;
use libbpf_rs::OpenObject;
use libbpf_rs::btf::Btf;
use libbpf_rs::skel::OpenSkel;
use serde::{Deserialize, Serialize};

use crate::kernel_flags::{self, Events, arguments, kernel_btf};
use crate::refusal::{OrRefused, release};
use crate::uprobes;
use object::ObjectNeeds;
use observer::Failure;
use types::Types;

static TABLE: LazyLock<Table> =
    LazyLock::new(|| toml::from_str(include_str!("../needs.toml")).expect("it is part of the program"));

#[derive(Deserialize)]
struct Table {
    instruments: BTreeMap<String, Instrument>,
    /// Alternatives, between which programs choose by `Events`.
    events: BTreeMap<String, Vec<Vec<String>>>,
    helpers: BTreeMap<String, String>,
    maps: BTreeMap<String, String>,
    since: BTreeMap<String, String>,
}

#[derive(Deserialize)]
struct Instrument {
    booted: String,
    instead: String,
    /// What `instead` is a command of, where a kernel may lack that as well: its own is used then.
    instead_of: Option<String>,
}

impl Table {
    /// What to use on a kernel that lacks what an instrument needs. runs: whether it can run another one
    fn instead(&self, instrument: &str, runs: impl Fn(&str) -> bool) -> &str {
        let table = &self.instruments[instrument];
        match &table.instead_of {
            Some(other) if !runs(other) => &self.instruments[other].instead,
            _ => &table.instead,
        }
    }
}

/// A kernel that programs are to run on.
pub struct Kernel<'a> {
    types: Types<'a>,
    release: String,
}

/// What one way of an instrument finds in a kernel.
#[derive(Debug, Default, PartialEq, Eq, Serialize)]
pub struct Found {
    /// Without any of these it cannot run.
    pub unmet: Vec<String>,
    /// What it can do without.
    pub without: Vec<String>,
}

impl<'a> Kernel<'a> {
    /// release: for messages
    pub fn new(btf: &'a Btf<'a>, release: String) -> Self {
        Self { types: Types::of(btf), release }
    }

    /// Holds the programs of an opened object that are to be loaded against it. elf: the object's bytes
    fn find(&self, open: &OpenObject, elf: &[u8]) -> Found {
        let mut found = Found::default();
        let Some(object) = ObjectNeeds::of(elf) else { return found };
        for program in open.progs().filter(libbpf_rs::OpenProgram::autoload) {
            let section = program.section().to_string_lossy();
            if let Some(event) = section.trim_start_matches('?').strip_prefix("tp_btf/") {
                found.unmet.extend(self.event(event));
            }
            let program = program.name().to_string_lossy();
            for (path, reading) in object.fields(&program) {
                match (self.types.field(&path), reading) {
                    (None, reading) if reading.optional => found.without.push(format!("field {path}")),
                    (None, _) => found.unmet.push(since(format!("field {path}"))),
                    (Some(here), object::Reading { bytes: Some(ours), .. }) => {
                        if let Some(bytes) = here.bytes.filter(|bytes| *bytes != ours) {
                            found.unmet.push(format!("field {path} of {ours} bytes: here it has {bytes}"));
                        }
                    }
                    _ => {}
                }
            }
            let helpers = object.helpers(&program).into_iter();
            let missing = helpers.filter(|helper| !self.types.has_number("bpf_func_id", *helper));
            found
                .unmet
                .extend(missing.map(|number| since(format!("helper {}", name(&TABLE.helpers, number)))));
        }
        let kinds = open.maps().filter(libbpf_rs::OpenMap::autocreate).map(|map| map.map_type() as u32);
        let missing = kinds.filter(|kind| !self.types.has_number("bpf_map_type", *kind));
        found.unmet.extend(missing.map(|number| since(format!("map type {}", name(&TABLE.maps, number)))));
        for list in [&mut found.unmet, &mut found.without] {
            list.sort_unstable();
            list.dedup();
        }
        found
    }

    /// Whether an instrument has a way on it.
    fn has_all_of(&self, instrument: &str) -> bool {
        let kernel = Kernel::new(self.types.btf, self.release.clone());
        let mut trial = Trial { kernel, loads: false, tried: Vec::new() };
        INSTRUMENTS.iter().filter(|(name, _)| *name == instrument).for_each(|(_, ways)| ways(&mut trial));
        trial.tried.iter().any(|one| one.works)
    }

    fn event(&self, event: &str) -> Option<String> {
        let wanted = TABLE.events.get(event).map(Vec::as_slice).unwrap_or_default();
        let Some(here) = arguments(self.types.btf, event) else {
            return Some(since(format!("event {event}")));
        };
        let fits = |wanted: &Vec<String>| {
            let same = wanted.iter().zip(&here).all(|(wanted, here)| wanted.is_empty() || wanted == here);
            same && here.len() >= wanted.len()
        };
        if wanted.iter().any(fits) {
            return None;
        }
        let wanted: Vec<String> = wanted.iter().map(|one| format!("({})", listed(one))).collect();
        Some(format!("event {event}{}: here it has ({})", wanted.join(" or "), listed(&here)))
    }

    /// A host error with what an instrument needs and this kernel has not; None where it has all.
    fn lacks(&self, instrument: &str, found: &Found) -> Option<Failure> {
        let table = &TABLE.instruments[instrument];
        let what = format!(
            "this kernel ({}) lacks what {instrument} needs: {}",
            self.release,
            found.unmet.join("; ")
        );
        let tried = format!("{instrument} was tried from Linux {} on", table.booted);
        let instead = || TABLE.instead(instrument, |other| self.has_all_of(other));
        (!found.unmet.is_empty()).then(|| Failure::host(what).meaning(tried).mend(instead()))
    }
}

fn listed(arguments: &[String]) -> String {
    let words: Vec<&str> =
        arguments.iter().map(|one| if one.is_empty() { "a number" } else { one }).collect();
    words.join(", ")
}

fn name(names: &BTreeMap<String, String>, number: u32) -> String {
    names.get(&number.to_string()).cloned().unwrap_or_else(|| format!("number {number}"))
}

/// With the release that brought it, where that is known.
fn since(what: String) -> String {
    match TABLE.since.get(&what) {
        Some(release) => format!("{what} (Linux {release})"),
        None => what,
    }
}

thread_local! {
    static OURS: OnceCell<Kernel<'static>> = const { OnceCell::new() };
}

/// Loads an object whose programs were chosen, once the running kernel has all that they need. elf: its bytes
pub fn load<'obj, S: OpenSkel<'obj>>(instrument: &str, open: S, elf: &[u8]) -> Result<S::Output, Failure> {
    let btf = kernel_btf()?;
    let lacking = OURS.with(|ours| {
        let kernel = ours.get_or_init(|| Kernel::new(btf, release()));
        kernel.lacks(instrument, &kernel.find(open.open_object(), elf))
    });
    lacking.map_or(Ok(()), Err)?;
    open.load().or_refused()
}

#[derive(Args)]
pub struct NeedsOptions {
    /// Of these instruments alone
    instruments: Vec<String>,
    /// Only hold them against the types of another kernel, by its BTF (`/sys/kernel/btf/vmlinux` there)
    #[arg(long, value_name = "FILE")]
    btf: Option<PathBuf>,
}

/// One way of an instrument, tried.
#[derive(Serialize)]
struct Tried {
    instrument: &'static str,
    /// Which events it stands on; "" where there is one way alone.
    way: &'static str,
    works: bool,
    words: String,
    #[serde(flatten)]
    found: Found,
    booted: &'static str,
    instead: &'static str,
}

/// Tries ways of instruments: held against a kernel's types, and loaded where that is the running one.
pub struct Trial<'a> {
    kernel: Kernel<'a>,
    loads: bool,
    tried: Vec<Tried>,
}

impl Trial<'_> {
    /// open: with the programs of this way chosen; elf: the object's bytes
    pub fn way<'obj, S: OpenSkel<'obj>>(
        &mut self,
        instrument: &'static str,
        way: &'static str,
        open: Result<S, Failure>,
        elf: &[u8],
    ) {
        let found = open.as_ref().map(|open| self.kernel.find(open.open_object(), elf)).unwrap_or_default();
        let done = open.and_then(|open| {
            self.kernel.lacks(instrument, &found).map_or(Ok(()), Err)?;
            if self.loads { open.load().or_refused().map(drop) } else { Ok(()) }
        });
        self.tell(instrument, way, found, done);
    }

    /// Functions of a process of ours, really watched: on the running kernel alone.
    fn watch_own(&mut self) {
        if self.loads {
            let done = uprobes::way_and_cost(uprobes::ReturnOptions { return_trampolines: false });
            self.tell("uprobes", "", Found::default(), done.map(drop));
        }
    }

    fn tell(&mut self, instrument: &'static str, way: &'static str, found: Found, done: Result<(), Failure>) {
        let runs = |other: &str| self.tried.iter().any(|one| one.instrument == other && one.works);
        let instead = TABLE.instead(instrument, runs);
        self.tried.push(Tried {
            instrument,
            way,
            works: done.is_ok(),
            words: done.err().map(|failure| failure.what().to_owned()).unwrap_or_default(),
            found,
            booted: &TABLE.instruments[instrument].booted,
            instead,
        });
    }
}

/// Prints a JSON array: each way of each instrument, whether it runs on the kernel, and what it lacks where it does not.
pub fn run(options: &NeedsOptions) -> Result<(), Failure> {
    let other;
    let btf = match &options.btf {
        None => kernel_btf()?,
        Some(path) => {
            other = read_btf(path)?;
            &other
        }
    };
    let named =
        options.btf.as_deref().and_then(Path::file_stem).map(|name| name.to_string_lossy().into_owned());
    let release = named.unwrap_or_else(release);
    let loads = options.btf.is_none();
    if !loads {
        kernel_flags::take_for_ours(Events::of(btf, &release));
    }
    let mut trial = Trial { kernel: Kernel::new(btf, release), loads, tried: Vec::new() };
    for (name, instrument) in INSTRUMENTS {
        if options.instruments.is_empty() || options.instruments.iter().any(|one| one == name) {
            instrument(&mut trial);
        }
    }
    let text =
        serde_json::to_string(&trial.tried).map_err(|error| Failure::measurement(error.to_string()))?;
    Ok(writeln!(std::io::stdout(), "{text}")?)
}

fn read_btf(path: &Path) -> Result<Btf<'static>, Failure> {
    Btf::from_path(path).map_err(|error| Failure::usage(format!("--btf {}: {error:#}", path.display())))
}

type TryWays = fn(&mut Trial);
const INSTRUMENTS: [(&str, TryWays); 8] = [
    ("iolat", crate::iolat::trial),
    ("ladder", crate::ladder::trial),
    ("offcpu", crate::offcpu::trial),
    ("records", crate::records::trial),
    ("requests", crate::requests::trial),
    ("runqlat", crate::runqlat::trial),
    ("uprobes", |trial| trial.watch_own()),
    ("writes", crate::writes::trial),
];
