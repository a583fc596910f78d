//! Real captures against blessed output. A test's name is the capture and the options; see
//! `tests/data/README.md` for where the captures come from.

#![allow(non_snake_case, reason = "two underscores part the capture from the options")]

use crate::common::{capture, golden, printed};

/// `capture__options`: runs `stackfold CAPTURE OPTIONS` with one thread and with three, and compares all it writes to standard output.
macro_rules! fold_golden {
    ($($name:ident: $input:literal $($arg:literal)*;)*) => {$(
        #[test]
        fn $name() {
            for threads in ["1", "3"] {
                let out = printed(&["-q", "--threads", threads, $($arg),*], &capture($input));
                golden(stringify!($name), out.as_bytes());
            }
        }
    )*};
}

fold_golden! {
    readrandom_fp__default: "readrandom_fp.txt";
    readrandom_fp__kernel: "readrandom_fp.txt" "--kernel";
    readrandom_fp__all_annotations_tidy_templates: "readrandom_fp.txt" "--all-annotations" "--tidy" "templates";
    readrandom_fp__weight_count: "readrandom_fp.txt" "--weight" "count";
    readrandom_fp__max_depth_4: "readrandom_fp.txt" "--max-depth" "4";
    readrandom_fp__from_get_impl: "readrandom_fp.txt" "--from" "rocksdb::DBImpl::GetImpl";
    readrandom_fp__skip_after_pread_kernel: "readrandom_fp.txt" "--kernel" "--skip-after" "__libc_pread";
    readrandom_fp__time_446_449: "readrandom_fp.txt" "--time" "446.133270,449";
    readrandom_fp__addrs_dso_kernel: "readrandom_fp.txt" "--addrs" "--dso" "--kernel";
    multireadrandom_fp__default: "multireadrandom_fp.txt";
    two_events__event_cpu_clock: "two_events.txt" "--event" "cpu-clock";
    two_events__event_page_faults_tid: "two_events.txt" "--event" "page-faults" "--tid";
}

/// The same with `stackfold categories`; a capture is folded with `--kernel` first.
macro_rules! categories_golden {
    ($($name:ident: $input:literal $($arg:literal)*;)*) => {$(
        #[test]
        fn $name() {
            let mut input = capture($input);
            if $input.ends_with(".txt") {
                input = printed(&["-q", "--kernel"], &input).into();
            }
            golden(stringify!($name), printed(&["categories", $($arg),*], &input).as_bytes());
        }
    )*};
}

categories_golden! {
    profile13__owner_table_us_per_query: "readrandom-1u-profile13.folded" "--us-per-query" "19.246" "--unit" "cycles" "--event" "cycles";
    profile13__owner_tsv: "readrandom-1u-profile13.folded" "--format" "tsv";
    profile13__leaf_table: "readrandom-1u-profile13.folded" "--view" "leaf";
    readrandom_fp__owner_stacks: "readrandom_fp.txt" "--format" "stacks";
    readrandom_fp__leaf_stacks: "readrandom_fp.txt" "--view" "leaf" "--format" "stacks";
    multireadrandom_fp__owner_json: "multireadrandom_fp.txt" "--format" "json" "--queries" "1000" "--reads" "900";
}
