//! Frames, by what the profiler says of them.

use super::{ChainSamples, Collector};
use crate::dso;
use crate::frame::{Frame, Origin};
use crate::locations::LocatedChain;
use crate::names;
use crate::roots;
use crate::runs::Runs;

/// One frame as the profiler wrote it.
#[derive(Clone, Copy, Debug, Default)]
pub struct RawFrame<'a> {
    pub symbol: &'a [u8],
    pub dso: Option<&'a [u8]>,
    pub address: Option<u64>,
    pub inlined: bool,
    /// It is known to be no frame of the kernel's, whatever its address: of a function without a frame pointer the
    /// kernel takes any number for where it returns to.
    pub user: bool,
}

const KERNEL: u8 = 1;
const UNKNOWN: u8 = 2;
const USER_ROOT: u8 = 4;
const KERNEL_ROOT: u8 = 8;
pub(super) const FROM: u8 = 16;
pub(super) const SKIP_AFTER: u8 = 32;
const INLINED: u8 = 64;
/// What it called it cannot have called: there is no code, or no call.
const NO_CALLER: u8 = 128;

/// Above this address lies the kernel, on every 64-bit machine perf knows.
const KERNEL_SPACE: u64 = 0xffff_8000_0000_0000;

/// A frame of the profile; what an input keeps for each line or address it has seen.
#[derive(Clone, Copy, Debug)]
pub struct FrameRef {
    pub(super) number: u32,
    pub(super) flags: u8,
}

impl FrameRef {
    /// The same, where more than its name shows whether user threads begin there.
    pub fn where_threads_begin(self, begin: bool) -> Self {
        let flags = self.flags & !USER_ROOT | if begin { USER_ROOT } else { 0 };
        Self { flags, ..self }
    }

    /// The same, where its code shows that it called nothing.
    pub fn no_caller(self) -> Self {
        Self { flags: self.flags | NO_CALLER, ..self }
    }

    /// Whether its symbol is not known.
    pub(super) fn is_unknown(&self) -> bool {
        self.flags & UNKNOWN != 0
    }

    pub(super) fn is_inlined(&self) -> bool {
        self.flags & INLINED != 0
    }
}

impl Collector {
    /// Takes a frame.
    pub fn frame(&mut self, raw: &RawFrame) -> FrameRef {
        self.frame_with(raw, self.options.detail.has_origins())
    }

    /// The same without its origin, which its site will tell.
    pub fn plain_frame(&mut self, raw: &RawFrame) -> FrameRef {
        self.frame_with(raw, false)
    }

    fn frame_with(&mut self, raw: &RawFrame, with_origin: bool) -> FrameRef {
        let dso = raw.dso.unwrap_or(b"");
        let dso_known = !dso.is_empty() && dso != b"[unknown]";
        let kernel = if dso_known {
            dso::is_kernel(dso)
        } else {
            !raw.user && raw.address.is_some_and(|address| address >= KERNEL_SPACE && address != u64::MAX)
        };
        let unknown = raw.symbol.is_empty() || raw.symbol == b"[unknown]";
        let mut name = if unknown {
            let mut name = dso::bracketed(dso).unwrap_or_else(|| b"[unknown]".to_vec());
            if let (true, Some(address)) = (self.options.addrs, raw.address) {
                name.pop();
                name.extend_from_slice(format!(" {address:#x}]").as_bytes());
            }
            names::escape(&mut name);
            name
        } else {
            names::tidy(raw.symbol, self.options.tidy)
        };
        let named = self.named(&name);
        if let (true, false, Some(mut object)) = (self.options.dso, unknown, dso::plain(dso)) {
            names::escape(&mut object);
            object.push(b'`');
            name.splice(..0, object);
        }
        if kernel && self.options.kernel {
            name.extend_from_slice(b"_[k]");
        } else if raw.inlined && self.options.inlines {
            name.extend_from_slice(b"_[i]");
        } else if self.options.jit && dso::is_jit(dso) {
            name.extend_from_slice(b"_[j]");
        }
        let origin = with_origin.then_some(Origin::Code { address: None, object: dso, inlined: raw.inlined });
        let root = if unknown { roots::Root::default() } else { roots::root(raw.symbol) };
        let flag = |set, bit| if set { bit } else { 0 };
        FrameRef {
            number: self.profile.intern(Frame { name: &name, origin }),
            flags: flag(kernel, KERNEL)
                | flag(unknown, UNKNOWN)
                | flag(unknown && !kernel && (!dso_known || dso::is_data(dso)), NO_CALLER)
                | flag(raw.inlined, INLINED)
                | flag(root.user, USER_ROOT)
                | flag(root.kernel, KERNEL_ROOT)
                | named,
        }
    }

    /// The same frame at one address of its object, which is a place of its own in pprof.
    pub fn at_address(&mut self, frame: FrameRef, at: u64) -> FrameRef {
        let number = self.profile.changed(frame.number, |frame| {
            if let Some(Origin::Code { address, .. }) = &mut frame.origin {
                *address = Some(at);
            }
        });
        FrameRef { number, ..frame }
    }
}

impl Collector {
    /// The number of an object, for [`Self::site`].
    pub fn object(&mut self, name: &[u8]) -> u32 {
        self.profile.located.object(name)
    }

    /// The number of a place in an object (0: not known), and of what runs there: plain frames, innermost first.
    pub fn site(&mut self, object: u32, address: u64, frames: &[FrameRef]) -> u32 {
        self.profile.located.site(object, address, frames.iter().map(|frame| frame.number))
    }

    /// Takes the frames that samples of several commands have in common, leaf first. Commands of one name are one.
    pub fn close_plain(&mut self, samples: &[ChainSamples], leaf_first: &[FrameRef]) {
        let mut by_name = std::mem::take(&mut self.by_name);
        by_name.extend(samples.iter().map(|samples| {
            let comm = *self
                .plain_comms
                .entry(samples.comm.into())
                .or_insert_with(|| self.profile.changed(samples.comm, |frame| frame.origin = None));
            ChainSamples { comm, ..*samples }
        }));
        by_name.sort_unstable_by_key(|samples| (samples.comm, samples.slice));
        by_name.dedup_by(|next, first| {
            let same = (next.comm, next.slice) == (first.comm, first.slice);
            if same {
                first.totals.absorb(&next.totals);
            }
            same
        });
        by_name.drain(..).for_each(|samples| self.close_all(&samples, leaf_first));
        self.by_name = by_name;
    }

    /// Takes the same samples by their sites: the sites of each chain, leaf first, and what was counted of each.
    pub fn locate(&mut self, chains: Runs<u32>, counted: Vec<LocatedChain>) {
        if !self.is_full() {
            self.profile.located.add(chains, counted);
        }
    }
}

/// How many of the outermost frames lie beyond the function that starts the thread. They were read from what it keeps in
/// the register of the frame pointer: `__libc_start_main` of glibc 2.43 has argv there, and argv and the environment look
/// like two callers.
pub fn beyond_start(leaf_first: &[FrameRef]) -> usize {
    if leaf_first.last().is_none_or(starts_thread) {
        return 0;
    }
    // Nearly always; without branches.
    if leaf_first.iter().fold(0, |any, frame| any | frame.flags) & NO_CALLER == 0 {
        return 0;
    }
    let starts =
        leaf_first.windows(2).rposition(|pair| starts_thread(&pair[0]) && pair[1].flags & NO_CALLER != 0);
    starts.map_or(0, |start| leaf_first.len() - 1 - start)
}

fn starts_thread(frame: &FrameRef) -> bool {
    frame.flags & (USER_ROOT | KERNEL) == USER_ROOT
}

/// The rule of [`roots`].
pub(super) fn is_complete(leaf_first: &[FrameRef]) -> bool {
    leaf_first.last().is_some_and(|outermost| {
        let kernel_only = || leaf_first.iter().all(|frame| frame.flags & KERNEL != 0);
        starts_thread(outermost) || outermost.flags & KERNEL_ROOT != 0 && kernel_only()
    })
}
