//! What moves between kernels, read from their own BTF: names and values of request flags, arguments of events.

use std::collections::BTreeMap;

use libbpf_rs::btf::Btf;
use libbpf_rs::btf::types::{Enum, Typedef};

use observer::Failure;

/// `RQF_FLUSH_SEQ` before it became an enum (Linux 6.12).
const OLD_FLUSH_SEQUENCE: u32 = 1 << 4;

const FAILFAST: [&str; 3] = ["failfast_dev", "failfast_transport", "failfast_driver"];

/// Bit numbers and names of `cmd_flags` (`enum req_flag_bits`), and the mask of `RQF_FLUSH_SEQ`.
pub struct RequestFlags {
    bits: Vec<(u32, String)>,
    pub flush_sequence: u32,
}

/// The running kernel's.
pub fn kernel_btf() -> Result<Btf<'static>, Failure> {
    Btf::from_vmlinux().map_err(|error| {
        Failure::host(format!("this kernel has no BTF, which CO-RE programs are fitted to it with: {error}"))
    })
}

/// Whether programs can be put on an event of the running kernel.
pub fn has_event(btf: &Btf, event: &str) -> bool {
    btf.type_by_name::<Typedef>(&format!("btf_trace_{event}")).is_some()
}

impl RequestFlags {
    pub fn of(btf: &Btf) -> Self {
        let members = |name: &str, prefix: &str| -> Vec<(u32, String)> {
            let Some(found) = btf.type_by_name::<Enum>(name) else { return Vec::new() };
            let named = found.iter().filter_map(|member| {
                let name = member.name?.to_str()?.strip_prefix(prefix)?.to_ascii_lowercase();
                Some((u32::try_from(member.value).ok()?, name))
            });
            named.collect()
        };
        let mut bits = members("req_flag_bits", "__REQ_");
        bits.retain(|(bit, name)| *bit < 32 && name != "nr_bits");
        let sequence = members("rqf_flags", "__RQF_").into_iter().find(|(_, name)| name == "flush_seq");
        Self { bits, flush_sequence: sequence.map_or(OLD_FLUSH_SEQUENCE, |(bit, _)| 1 << bit) }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_and_flags_are_those_of_the_kernel() {
        let btf = kernel_btf().unwrap();
        assert!(has_event(&btf, "block_rq_issue") && !has_event(&btf, "no_such_event"));
        assert!(RequestFlags::of(&btf).masks()["meta"].is_power_of_two());
    }
}
