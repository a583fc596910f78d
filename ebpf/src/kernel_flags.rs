//! What moves between kernels, read from their own BTF: names and values of request flags, arguments of events.

use std::cell::OnceCell;
use std::collections::BTreeMap;
use std::sync::OnceLock;

use libbpf_rs::ReferencesType;
use libbpf_rs::btf::types::{Enum, FuncProto, Ptr, Typedef};
use libbpf_rs::btf::{Btf, BtfType};

use crate::device::Device;
use crate::refusal::release;
use observer::Failure;

/// `RQF_FLUSH_SEQ` before it became an enum (Linux 6.12).
const OLD_FLUSH_SEQUENCE: u32 = 1 << 4;

const FAILFAST: [&str; 3] = ["failfast_dev", "failfast_transport", "failfast_driver"];

/// Bit numbers and names of `cmd_flags` (`enum req_flag_bits`), and the mask of `RQF_FLUSH_SEQ`.
pub struct RequestFlags {
    bits: Vec<(u32, String)>,
    pub flush_sequence: u32,
}

thread_local! {
    /// Some megabytes, which are read once and kept until the end.
    static OURS: OnceCell<&'static Btf<'static>> = const { OnceCell::new() };
}

/// The running kernel's.
pub fn kernel_btf() -> Result<&'static Btf<'static>, Failure> {
    if let Some(found) = OURS.with(|ours| ours.get().copied()) {
        return Ok(found);
    }
    let found = Btf::from_vmlinux().map_err(|error| {
        Failure::host(format!("this kernel has no BTF, which CO-RE programs are fitted to it with: {error}"))
    })?;
    Ok(OURS.with(|ours| *ours.get_or_init(|| Box::leak(Box::new(found)))))
}

/// Whether programs can be put on an event of the running kernel.
fn has_event(btf: &Btf, event: &str) -> bool {
    btf.type_by_name::<Typedef>(&format!("btf_trace_{event}")).is_some()
}

/// What the events of the running kernel hand over, and how it runs programs on them.
#[derive(Clone, Copy)]
pub struct Events {
    /// sched_switch has the state in which a thread leaves its CPU (Linux 5.18).
    pub switch_has_state: bool,
    /// There is block_io_start (Linux 6.5).
    pub io_start: bool,
    /// Those of bios begin with the queue (before Linux 5.12), and a bio does not tell its partition.
    pub queue_comes_first: bool,
    /// Programs of process context may be preempted (Linux 7.0).
    pub preemptible: bool,
    /// There is iomap_dio_rw_begin, which tells of direct calls (Linux 6.6).
    pub direct_calls: bool,
}

/// Those whose programs differ most from the newest ones' of today.
#[derive(Clone, Copy, clap::ValueEnum)]
pub enum Kernel {
    #[value(name = "6.1")]
    Of6_1,
    #[value(name = "7.0")]
    Of7_0,
}

static FOUND: OnceLock<Events> = OnceLock::new();

/// From now on programs are loaded as on that kernel, to test them on this one.
pub fn pretend(kernel: Kernel) -> Result<(), Failure> {
    take_for_ours(Events::of_this_kernel()?.on(kernel));
    Ok(())
}

/// From now on programs are chosen as for a kernel with these events.
pub fn take_for_ours(events: Events) {
    let _ = PRETENDED.set(events);
}

static PRETENDED: OnceLock<Events> = OnceLock::new();

impl Events {
    pub fn of_this_kernel() -> Result<Self, Failure> {
        if let Some(found) = PRETENDED.get().or_else(|| FOUND.get()) {
            return Ok(*found);
        }
        let found = Self::of(kernel_btf()?, &release());
        Ok(*FOUND.get_or_init(|| found))
    }

    pub fn of(btf: &Btf, release: &str) -> Self {
        Self {
            switch_has_state: arguments(btf, "sched_switch").is_some_and(|found| found.len() > 3),
            io_start: has_event(btf, "block_io_start"),
            queue_comes_first: arguments(btf, "block_getrq")
                .is_some_and(|found| found.first().is_some_and(|first| first == "request_queue")),
            preemptible: is_7_or_later(release),
            direct_calls: has_event(btf, "iomap_dio_rw_begin"),
        }
    }

    /// As on another kernel, as far as programs can do on this one what they do there.
    fn on(self, kernel: Kernel) -> Self {
        match kernel {
            Kernel::Of6_1 => Self { io_start: false, direct_calls: false, ..self },
            Kernel::Of7_0 => Self { preemptible: true, ..self },
        }
    }

    /// Refuses a partition on a kernel whose bios do not tell it.
    pub fn must_tell_partitions(&self, device: &Device) -> Result<(), Failure> {
        if !(self.queue_comes_first && device.partition) {
            return Ok(());
        }
        Err(Failure::host(format!("this kernel's events do not tell which requests are of {}", device.name))
            .meaning("it is older than Linux 5.12: programs see requests of whole disks alone")
            .mend("--device with the numbers of its disk"))
    }
}

fn is_7_or_later(release: &str) -> bool {
    release.split('.').next().and_then(|major| major.parse().ok()).is_some_and(|major: u32| major >= 7)
}

/// What each argument of an event points to, "" for one that points to no structure; None without the event.
pub fn arguments(btf: &Btf, event: &str) -> Option<Vec<String>> {
    let declared = btf.type_by_name::<Typedef>(&format!("btf_trace_{event}"))?;
    let pointer = Ptr::try_from(declared.referenced_type()).ok()?;
    let function = FuncProto::try_from(pointer.referenced_type()).ok()?;
    let pointed = |index: usize| {
        let argument: BtfType = btf.type_by_id(function.get(index)?.ty)?;
        let pointer = Ptr::try_from(argument.skip_mods_and_typedefs()).ok()?;
        Some(pointer.referenced_type().skip_mods_and_typedefs().name()?.to_str()?.to_owned())
    };
    // Before the event's own there is the tracer's `void *`.
    Some((1..function.len()).map(|index| pointed(index).unwrap_or_default()).collect())
}

impl RequestFlags {
    pub fn of(btf: &Btf) -> Self {
        let found = btf.type_by_name::<Enum>("req_flag_bits");
        let mut bits = found.map_or_else(Vec::new, |found| members(&found, "__REQ_"));
        bits.retain(|(bit, name)| *bit < 32 && name != "nr_bits");
        Self { bits, flush_sequence: flush_sequence(btf).map_or(OLD_FLUSH_SEQUENCE, |bit| 1 << bit) }
    }

    /// The mask of every flag, by its name.
    pub fn masks(&self) -> BTreeMap<&str, u32> {
        self.bits.iter().map(|(bit, name)| (name.as_str(), 1 << bit)).collect()
    }

    /// The names of the flags that are set, in the order of their bits; a bit without a name as `bit N`.
    pub fn names(&self, flags: u32) -> Vec<String> {
        let set = (0..32).filter(|bit| flags >> bit & 1 == 1);
        let mut names: Vec<String> = set
            .map(|bit| {
                let known = self.bits.iter().find(|(number, _)| *number == bit);
                known.map_or_else(|| format!("bit {bit}"), |(_, name)| name.clone())
            })
            .collect();
        // Readahead sets all three: one word for "do not try again".
        if FAILFAST.iter().all(|part| names.iter().any(|name| name == part)) {
            names.retain(|name| !FAILFAST.contains(&name.as_str()));
            names.push("failfast".to_owned());
        }
        names
    }
}

/// Values and names of an enum, without what these begin with, in lower case.
fn members(found: &Enum, prefix: &str) -> Vec<(u32, String)> {
    let named = found.iter().filter_map(|member| {
        let name = member.name?.to_str()?.strip_prefix(prefix)?.to_ascii_lowercase();
        Some((u32::try_from(member.value).ok()?, name))
    });
    named.collect()
}

/// The bit `__RQF_FLUSH_SEQ`, of an enum that has no name in Linux 6.12; None where these flags are no enum.
fn flush_sequence(btf: &Btf) -> Option<u32> {
    let of = |one: &Enum| {
        members(one, "__RQF_").into_iter().find(|(_, name)| name == "flush_seq").map(|(bit, _)| bit)
    };
    let named = btf.type_by_name::<Enum>("rqf_flags").as_ref().and_then(of);
    named.or_else(|| {
        let all = (1..btf.len() as u32).filter_map(|id| btf.type_by_id::<Enum>(id.into()));
        all.filter(|one| one.name().is_none()).find_map(|one| of(&one))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_and_flags_are_those_of_the_kernel() {
        let btf = kernel_btf().unwrap();
        assert!(has_event(btf, "block_rq_issue") && !has_event(btf, "no_such_event"));
        assert!(RequestFlags::of(btf).masks()["meta"].is_power_of_two());
    }

    #[test]
    fn programs_may_be_preempted_from_linux_7_on() {
        let told = ["5.10.0-46-cloud-amd64", "6.18.44-fc", "7.0.13+deb13-cloud-amd64", "10.1", "x"];
        assert_eq!(told.map(is_7_or_later), [false, false, true, true, false]);
    }

    #[test]
    fn arguments_of_an_event_are_counted_without_the_tracer_s() {
        let btf = kernel_btf().unwrap();
        assert_eq!(arguments(btf, "sys_enter").unwrap(), ["pt_regs", ""]);
        let events = Events::of_this_kernel().unwrap();
        assert!(events.switch_has_state && !events.queue_comes_first);
        assert!(!events.on(Kernel::Of6_1).io_start && events.on(Kernel::Of7_0).preemptible);
        assert!(flush_sequence(btf).is_some_and(|bit| bit < 32));
    }
}
