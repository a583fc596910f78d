//! A block device, by the numbers and the names the kernel gives it.

use std::fs;
use std::path::PathBuf;

use serde::Serialize;

use crate::kernel_flags::Events;
use observer::Failure;
use observer::diskstats::{DiskCounts, disks};

/// A whole disk or a partition.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Device {
    pub major: u32,
    pub minor: u32,
    pub name: String,
    pub partition: bool,
    /// It has no requests of its own (device mapper, md, zram): bios pass through it or end in it.
    pub bio_based: bool,
}

/// Which events the requests of a device are followed by (`bpf/requests.h`).
#[derive(Clone, Copy, PartialEq)]
pub enum Follow {
    Request,
    /// Before Linux 6.5.
    Getrq,
    /// The bios of a device without requests.
    Bio,
}

impl Follow {
    /// How they are seen on this kernel.
    pub fn of(device: &Device) -> Result<Self, Failure> {
        Ok(match (device.bio_based, Events::of_this_kernel()?.io_start) {
            (true, _) => Self::Bio,
            (false, true) => Self::Request,
            (false, false) => Self::Getrq,
        })
    }

    pub fn programs(self) -> &'static [&'static str] {
        match self {
            Self::Request => &["io_start", "io_done", "rq_issue", "rq_requeue", "rq_merge"],
            Self::Getrq => &["got_request", "rq_complete", "rq_issue", "rq_requeue", "rq_merge"],
            Self::Bio => &["bio_queue", "bio_complete"],
        }
    }

    pub fn events(self) -> &'static str {
        match self {
            Self::Request => "block_io_start, block_rq_issue, block_io_done",
            Self::Getrq => "block_getrq, block_rq_issue, block_rq_complete",
            Self::Bio => "block_bio_queue, block_bio_complete",
        }
    }
}

/// What there is to know of a device without requests.
pub const BIOS_ALONE: &str = "this device has no requests, so queue and device are one, and a bio is counted where diskstats \
                              counts a request";

/// The constants of an open skeleton that say which device is looked at, and how its requests are followed (`bpf/device.h`,
/// `bpf/requests.h`).
macro_rules! look_at {
    ($rodata:expr, $device:expr, $way:expr) => {{
        let flags = $crate::kernel_flags::RequestFlags::of($crate::kernel_flags::kernel_btf()?);
        $rodata.device_major = $device.major;
        $rodata.device_minor = $device.minor;
        $rodata.device_is_partition = u32::from($device.partition);
        $rodata.flush_sequence = flags.flush_sequence;
        $rodata.by_first_bio = u32::from($way == $crate::device::Follow::Getrq);
        $rodata.queue_comes_first =
            u32::from($crate::kernel_flags::Events::of_this_kernel()?.queue_comes_first);
    }};
}
pub(crate) use look_at;

/// The counters on both sides of an edge of the gate: we may be kept from the CPU between two statements.
type Edge = (DiskCounts, DiskCounts);

/// What they said while the gate was opened, and between its edges until now.
#[derive(Default)]
pub struct GateEdges {
    opened: Option<Edge>,
    between: Option<DiskWindow>,
}

impl GateEdges {
    /// Moves the gate, between two looks at the counters.
    pub fn take(&mut self, device: &Device, open: bool, move_gate: impl FnOnce()) {
        let edge = device.edge(move_gate);
        if open {
            self.opened = edge;
        } else if let Some((opened, closed)) = self.opened.take().zip(edge) {
            let before = self.between.take().unwrap_or_default();
            self.between = Some(DiskWindow {
                inner: before.inner.plus(closed.0.since(opened.1)),
                outer: before.outer.plus(closed.1.since(opened.0)),
            });
        }
    }
}

/// What /proc/diskstats counted between the gate's edges: at least `inner`, at most `outer`, which are equal unless
/// something completed while the gate was being moved. Of several turns: the sums.
#[derive(Default, Serialize)]
pub struct DiskWindow {
    inner: DiskCounts,
    outer: DiskCounts,
}

impl DiskWindow {
    /// None where the kernel counts nothing for the device.
    pub fn between(edges: GateEdges) -> Option<Self> {
        edges.between
    }
}

impl Device {
    /// The device `MAJOR:MINOR`.
    pub fn find(text: &str) -> Result<Self, Failure> {
        let numbers: Option<(u32, u32)> =
            text.split_once(':').and_then(|(a, b)| Some((a.parse().ok()?, b.parse().ok()?)));
        let (major, minor) =
            numbers.ok_or_else(|| Failure::usage(format!("--device {text} is not MAJOR:MINOR")))?;
        let folder = PathBuf::from(format!("/sys/dev/block/{major}:{minor}"));
        let path = folder
            .canonicalize()
            .map_err(|_| Failure::usage(format!("--device {text}: the kernel knows no such block device")))?;
        let partition = path.join("partition").exists();
        let disk =
            if partition { path.parent().map(PathBuf::from).unwrap_or_default() } else { path.clone() };
        Ok(Self {
            major,
            minor,
            name: path.file_name().unwrap_or_default().to_string_lossy().into_owned(),
            partition,
            bio_based: !disk.join("mq").exists(),
        })
    }

    /// Whether nothing that was sent to it is under way; false where that is not known.
    pub fn is_idle(&self) -> bool {
        let under_way = format!("/sys/dev/block/{}:{}/inflight", self.major, self.minor);
        let under_way = fs::read_to_string(under_way).unwrap_or_default();
        under_way.split_whitespace().eq(["0", "0"])
    }

    /// What /proc/diskstats says now; None where it has no line for this device.
    fn counts(&self) -> Option<DiskCounts> {
        Some(disks().get(&(self.major, self.minor))?.1)
    }

    /// What it says before and after the gate is moved.
    fn edge(&self, move_gate: impl FnOnce()) -> Option<Edge> {
        let before = self.counts();
        move_gate();
        before.zip(self.counts())
    }
}
