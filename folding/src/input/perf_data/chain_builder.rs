//! Samples into counted chains.

use super::address_resolver::addresses;
use super::chains::{ChainKey, Chains, CodeMaps, branch_calls, has_user_part};
use super::sample_batcher::SampleBatcher;
use crate::unwind::{self, Registers, UnwindTables, UnwoundStack, Walker};
use crate::weights::SampleWeight;
use perfdata::format::{CONTEXT_HV, CONTEXT_KERNEL, CONTEXT_USER, branch_type, misc, sample_type};
use perfdata::reader::attr::Attr;
use perfdata::reader::bytes::words;
use perfdata::reader::sample::SampleRecord;

/// A sample, with what it weighs and where it is counted.
#[derive(Clone, Copy)]
pub struct WeighedSample<'a> {
    pub weighed: SampleWeight,
    pub misc: u16,
    pub attr: &'a Attr,
    pub sample: &'a SampleRecord<'a>,
}

impl WeighedSample<'_> {
    /// Whether unwind tables say more of its stack than the recorded chain.
    pub fn is_walked(&self) -> bool {
        !self.sample.user_stack.is_empty() || self.link_register().is_some()
    }

    /// With chains of frame pointers perf records this one register of arm64.
    fn link_register(&self) -> Option<u64> {
        const NUMBER: u32 = 30;
        let alone = self.attr.user_registers == 1 << NUMBER && self.attr.has(sample_type::CALLCHAIN);
        alone.then(|| self.sample.register(self.attr, NUMBER)).flatten()
    }
}

/// Counts chains.
#[derive(Default)]
pub struct ChainBuilder {
    batcher: SampleBatcher,
    walker: Walker,
    key: ChainKey,
}

impl ChainBuilder {
    /// With a thread of its own that looks chains up.
    pub fn with_helper() -> Self {
        Self { batcher: SampleBatcher::with_helper(), ..Self::default() }
    }

    /// The number of a context; and whether all numbers given before are void.
    pub fn context(&mut self, comm: u32, slice: Option<u64>, mapped: CodeMaps) -> (u32, bool) {
        self.batcher.context(comm, slice, mapped)
    }

    /// Command and slice of time of a context.
    pub fn comm_and_slice(&self, context: u32) -> Option<(u32, Option<u64>)> {
        self.batcher.comm_and_slice(context)
    }

    /// Counts a sample. `tables` are those of its process, if its stack was copied and is to be walked.
    pub fn count(
        &mut self,
        context: u32,
        weighed_sample: WeighedSample,
        tables: Option<(unwind::Machine, &UnwindTables)>,
    ) {
        let WeighedSample { weighed, misc, attr, sample } = weighed_sample;
        let calls = sample
            .branches
            .filter(|calls| attr.branch_type & branch_type::CALL_STACK != 0 && !calls.is_empty());
        let copied = tables.and_then(|(machine, tables)| Some((tables, registers(attr, sample, machine)?)));
        let missing = sample.callchain.and_then(|chain| missing_leaf(chain, weighed_sample));
        let limit = attr.chain_limit;
        let frames = |chain: &[u8]| if chain.len() < 8 * limit { 0 } else { addresses(words(chain)).count() };
        self.batcher.truncated += u64::from(sample.callchain.is_some_and(|chain| frames(chain) >= limit));
        let caller = tables.and_then(|(_, tables)| leaf_caller(&mut self.walker, tables, &weighed_sample));
        let key = &mut self.key;
        match (sample.callchain, calls, copied) {
            (Some(chain), None, None) if missing.is_none() => {
                if let Some((at, caller)) = caller {
                    key.begin();
                    key.recorded(&chain[..at]);
                    key.returns(&[caller]);
                    key.recorded(&chain[at..]);
                    return self.batcher.take(context, key.bytes(), weighed);
                }
                return self.batcher.take(context, chain, weighed);
            }
            (Some(chain), Some(calls), _) => {
                key.begin();
                missing.into_iter().for_each(|(mode, ip)| key.executed(mode, ip));
                // The chain itself gives the kernel's side and, after it, the place in user mode.
                let place = key.kernel_part(chain);
                place.into_iter().chain(branch_calls(calls)).for_each(|ip| key.executed(CONTEXT_USER, ip));
            }
            (Some(chain), _, Some((tables, registers))) if !has_user_part(chain) => {
                key.begin();
                // The walk begins with the user's.
                let kernels = missing.filter(|(mode, _)| *mode == CONTEXT_KERNEL);
                kernels.into_iter().for_each(|(mode, ip)| key.executed(mode, ip));
                key.recorded(chain);
                let UnwoundStack { ip, returns, end } =
                    self.walker.walk(tables, registers, sample.user_stack);
                key.executed(CONTEXT_USER, ip);
                key.returns(returns);
                if let Some(end) = end {
                    let filled = sample.user_stack.len();
                    self.batcher.cut.count(weighed.known(), end, filled, sample.user_stack_size);
                }
            }
            (Some(chain), ..) => {
                key.begin();
                missing.into_iter().for_each(|(mode, ip)| key.executed(mode, ip));
                key.recorded(chain);
            }
            (None, ..) => {
                key.begin();
                if let Some(ip) = sample.ip.filter(|_| attr.has(sample_type::IP)) {
                    key.executed(mode(misc), ip);
                }
            }
        }
        self.batcher.take(context, key.bytes(), weighed);
    }

    /// What was counted.
    pub fn chains(self) -> Chains {
        self.batcher.chains()
    }

    /// The chains so far, if they take much memory. Contexts are then numbered anew.
    pub fn take_large(&mut self) -> Option<Chains> {
        self.batcher.take_large()
    }
}

/// The place that was executed, where the chain lacks it and so would give its weight to a caller, or to nobody: chains
/// of one side (`perf record --kernel-callchains`, `--user-callchains`) have nothing of samples of the other.
#[inline]
fn missing_leaf(chain: &[u8], weighed_sample: WeighedSample) -> Option<(u64, u64)> {
    const MARK: usize = 8;
    let WeighedSample { attr, misc, sample, .. } = weighed_sample;
    let kernels_left_out = attr.only_user_chains && mode(misc) == CONTEXT_KERNEL;
    if chain.len() > MARK && !kernels_left_out {
        return None;
    }
    if !kernels_left_out && addresses(words(chain)).next().is_some() {
        return None;
    }
    Some((mode(misc), sample.ip.filter(|&ip| ip != 0)?))
}

/// The caller of the user's leaf, and where in the chain it belongs: a function of arm64 without a frame of its own has
/// it in the link register, and the frame pointer leads to the caller's caller.
fn leaf_caller(walker: &mut Walker, tables: &UnwindTables, recorded: &WeighedSample) -> Option<(usize, u64)> {
    let (chain, lr) = (recorded.sample.callchain?, recorded.link_register()?);
    let leaf = words(chain).position(|ip| ip == CONTEXT_USER)? + 1;
    let ip = words(chain).nth(leaf)?;
    // Without the stack only a return address in the register is found.
    let registers = Registers { ip, sp: 0, fp: 0, lr, general: unwind::General::default() };
    let &caller = walker.walk(tables, registers, &[]).returns.first()?;
    (words(chain).nth(leaf + 1) != Some(caller)).then_some(((leaf + 1) * size_of::<u64>(), caller))
}

/// The mark of the mode in which a sample was taken.
fn mode(misc: u16) -> u64 {
    match misc & misc::CPU_MODE {
        misc::KERNEL => CONTEXT_KERNEL,
        misc::USER => CONTEXT_USER,
        _ => CONTEXT_HV,
    }
}

/// The user registers of a sample that has a copy of its stack.
fn registers(attr: &Attr, sample: &SampleRecord, machine: unwind::Machine) -> Option<Registers> {
    if sample.user_stack.is_empty() {
        return None;
    }
    let [ip, sp, fp, lr] = machine.registers().map(|number| sample.register(attr, number));
    let general = machine.general().map(|numbers| numbers.map(|n| sample.register(attr, n).unwrap_or(0)));
    let general = general.unwrap_or_default();
    Some(Registers { ip: ip?, sp: sp?, fp: fp.unwrap_or(0), lr: lr.unwrap_or(0), general })
}
