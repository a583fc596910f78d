//! The numbers of the format: the kernel's tools/perf/Documentation/perf.data-file-format.txt and perf_event_open(2).

/// The first bytes of a recording made on a machine of this byte order.
pub const MAGIC: [u8; 8] = *b"PERFILE2";
/// The same, made on a machine of the other byte order.
pub const MAGIC_SWAPPED: [u8; 8] = *b"2ELIFREP";
/// Bytes of a file's header.
pub const HEADER_SIZE: u64 = 104;
/// The size that a recording written to a pipe says its header has.
pub const PIPE_HEADER: u64 = 16;
/// Offset and size of a section.
pub const SECTION_SIZE: u64 = 16;
/// Kind, misc and length of a record.
pub const RECORD_HEADER: usize = 8;

/// The events that the kernel makes up itself: `perf_event_attr.type`.
pub const SOFTWARE: u32 = 1;

/// Marks in a chain: what follows ran in the kernel, in user mode, ... All of them lie from `CONTEXT_FIRST` on.
pub const CONTEXT_FIRST: u64 = (-4095_i64) as u64;
pub const CONTEXT_HV: u64 = (-32_i64) as u64;
pub const CONTEXT_KERNEL: u64 = (-128_i64) as u64;
pub const CONTEXT_USER: u64 = (-512_i64) as u64;
/// The user's side is in a record that follows; the record's number follows the mark.
pub const CONTEXT_USER_DEFERRED: u64 = (-640_i64) as u64;

/// Kinds of records, those of the kernel and those of perf itself (from 64 on).
pub mod kind {
    pub const MMAP: u32 = 1;
    pub const LOST: u32 = 2;
    pub const COMM: u32 = 3;
    pub const EXIT: u32 = 4;
    pub const FORK: u32 = 7;
    pub const SAMPLE: u32 = 9;
    pub const MMAP2: u32 = 10;
    pub const LOST_SAMPLES: u32 = 13;
    pub const NAMESPACES: u32 = 16;
    pub const KSYMBOL: u32 = 17;
    pub const BPF_EVENT: u32 = 18;
    /// The last of Linux 6.19.
    pub const CALLCHAIN_DEFERRED: u32 = 22;
    pub const FIRST_OF_PERF: u32 = 64;
    pub const HEADER_ATTR: u32 = 64;
    pub const TRACING_DATA: u32 = 66;
    pub const BUILD_ID: u32 = 67;
    pub const FINISHED_ROUND: u32 = 68;
    pub const AUXTRACE: u32 = 71;
    pub const EVENT_UPDATE: u32 = 78;
    pub const HEADER_FEATURE: u32 = 80;
    pub const COMPRESSED: u32 = 81;
    pub const COMPRESSED2: u32 = 83;
    /// `SCHEDSTAT_DOMAIN` of perf 6.18, the last before its `HEADER_MAX`.
    pub const LAST_OF_PERF: u32 = 86;

    /// Whether the kernel or perf, as far as they are known here, write such records.
    pub fn is_known(kind: u32) -> bool {
        matches!(kind, MMAP..=CALLCHAIN_DEFERRED | FIRST_OF_PERF..=LAST_OF_PERF)
    }
}

/// What a record's `misc` says; most bits mean something for one kind of record alone.
pub mod misc {
    /// The mode in which a sample was taken, or that a mapping is of.
    pub const CPU_MODE: u16 = 7;
    pub const KERNEL: u16 = 1;
    pub const USER: u16 = 2;
    /// `MMAP`: no code.
    pub const MMAP_DATA: u16 = 1 << 13;
    /// `COMM`: the command changed by an exec.
    pub const COMM_EXEC: u16 = 1 << 13;
    /// `FORK`: it was made up by perf from /proc, its memory follows in records of its own.
    pub const FORK_EXEC: u16 = 1 << 13;
    /// `MMAP2`: the record carries the build id in place of the inode.
    pub const MMAP_BUILD_ID: u16 = 1 << 14;
    /// A build id's record: the id's length follows the id.
    pub const BUILD_ID_SIZE: u16 = 1 << 15;
}

/// Sections behind the records.
pub mod feature {
    pub const BUILD_ID: u32 = 2;
    /// Of the perf that recorded.
    pub const VERSION: u32 = 5;
    pub const OS_RELEASE: u32 = 4;
    pub const ARCH: u32 = 6;
    pub const NRCPUS: u32 = 7;
    pub const EVENT_DESC: u32 = 12;
    pub const GROUP_DESC: u32 = 17;
}

/// Bits of `sample_type`.
pub mod sample_type {
    pub const IP: u64 = 1;
    pub const TID: u64 = 1 << 1;
    pub const TIME: u64 = 1 << 2;
    pub const ADDR: u64 = 1 << 3;
    pub const READ: u64 = 1 << 4;
    pub const CALLCHAIN: u64 = 1 << 5;
    pub const ID: u64 = 1 << 6;
    pub const CPU: u64 = 1 << 7;
    pub const PERIOD: u64 = 1 << 8;
    pub const STREAM_ID: u64 = 1 << 9;
    pub const RAW: u64 = 1 << 10;
    pub const BRANCH_STACK: u64 = 1 << 11;
    pub const REGS_USER: u64 = 1 << 12;
    pub const STACK_USER: u64 = 1 << 13;
    pub const IDENTIFIER: u64 = 1 << 16;
}

/// Bits of `read_format`.
pub mod read_format {
    pub const TIME_ENABLED: u64 = 1;
    pub const TIME_RUNNING: u64 = 1 << 1;
    pub const ID: u64 = 1 << 2;
    pub const GROUP: u64 = 1 << 3;
    pub const LOST: u64 = 1 << 4;
}

/// Bits of `branch_sample_type`.
pub mod branch_type {
    /// The branches are the calls not yet returned from.
    pub const CALL_STACK: u64 = 1 << 11;
    /// A hardware index precedes the branches.
    pub const HW_INDEX: u64 = 1 << 17;
    /// A counter's word for each branch follows them.
    pub const COUNTERS: u64 = 1 << 19;
}

/// Flags of an event.
pub mod flag {
    pub const INHERIT: u64 = 1 << 1;
    pub const MMAP: u64 = 1 << 8;
    pub const COMM: u64 = 1 << 9;
    pub const FREQUENCY: u64 = 1 << 10;
    pub const SAMPLE_ID_ALL: u64 = 1 << 18;
    pub const EXCLUDE_CALLCHAIN_KERNEL: u64 = 1 << 21;
    pub const MMAP2: u64 = 1 << 23;
    pub const USE_CLOCKID: u64 = 1 << 25;
    pub const KSYMBOL: u64 = 1 << 29;
    pub const BUILD_ID: u64 = 1 << 34;
}

/// Whose registers a sample has: those of a program of 32 bits, or of 64.
pub mod abi {
    pub const OF_32_BIT: u64 = 1;
    pub const OF_64_BIT: u64 = 2;
}

/// `PROT_EXEC` of a mapping.
pub const PROTECTION_EXECUTE: u32 = 4;

/// Fields of a `BPF_EVENT`: type, flags, number and tag of the program, in bytes.
pub const BPF_EVENT_LEN: usize = 16;

/// Of a `KSYMBOL`.
pub mod ksymbol {
    /// Where its name begins, after address, length, type and flags.
    pub const NAME_AT: usize = 16;
    /// Its type: code that is no BPF program.
    pub const OUT_OF_LINE: u16 = 2;
    /// A flag: the code goes away.
    pub const UNREGISTER: u16 = 1;
}
