//! The parts view: every frame of weight has a home, in profiles of three releases.

use crate::common::{capture, placed, printed};
use serde_json::Value;
use std::collections::BTreeMap;

/// By frame pointers of Debian's build, as published (names cut at the first parenthesis), and of a release build.
const PROFILES: [&str; 3] =
    ["readrandom-7.8.3.folded", "readrandom-1u-profile13.folded", "readrandom-11.9.folded"];

/// What every Get from disk goes through.
const NEVER_EMPTY: &str = "client, get, version, find file, table cache, table, filter, index, index seek, data seek, \
    cache lookup, cache insert, cache release, cache lock, block, copy, checksum, file, return, statistics";

/// Weights by row, and of all.
fn rows(view: &str, profile: &str) -> (BTreeMap<String, u64>, u64) {
    let report = printed(&["categories", "--view", view, "--format", "json"], &capture(profile));
    let report: Value = serde_json::from_str(&report).expect("JSON");
    let rows = report["rows"].as_array().expect("rows").iter();
    let row = |row: &Value| Some((row["name"].as_str()?.to_owned(), row["weight"].as_u64()?));
    (rows.map(|one| row(one).expect("a row")).collect(), report["total_weight"].as_u64().expect("a total"))
}

#[test]
fn next_to_nothing_is_other_and_no_part_of_a_get_is_empty() {
    for profile in PROFILES {
        let (parts, total) = rows("parts", profile);
        assert!(parts["other"] * 20 <= total, "{profile}: other has {} of {total}", parts["other"]);
        for name in NEVER_EMPTY.split(", ") {
            assert!(parts[name] > 0, "{profile}: {name} is empty");
        }
        // A row that takes what other rows should have would be as bad.
        let largest = parts.iter().filter(|row| row.0 != "read call").map(|row| row.1).max();
        assert!(largest.expect("rows") * 10 < total, "{profile}: {largest:?} of {total}");
    }
}

#[test]
fn the_views_share_out_the_same_weight() {
    for profile in PROFILES {
        let ((parts, total), (owner, whole)) = (rows("parts", profile), rows("owner", profile));
        assert_eq!(total, whole, "{profile}");
        assert_eq!(parts.values().sum::<u64>(), owner.values().sum::<u64>(), "{profile}");
        assert_eq!(parts["read call"], owner["libc+k"], "{profile}");
    }
}

#[test]
fn what_is_called_belongs_to_the_nearest_part_and_the_allocator_to_its_caller() {
    let get = "db_bench;start_thread;[db_bench];rocksdb::DBImpl::GetImpl;rocksdb::Version::Get";
    let table = "rocksdb::TableCache::Get;rocksdb::BlockBasedTable::Get";
    let shard = "rocksdb::lru_cache::LRUCacheShard";
    let stacks = [
        (
            format!("{get};{table};rocksdb::BlockFetcher::ReadBlockContents;__memmove_avx_unaligned_erms"),
            "copy",
        ),
        (
            format!("{get};{table};rocksdb::BlockFetcher::ReadBlockContents;operator new[];malloc"),
            "malloc: blocks",
        ),
        (format!("{get};{table};{shard}::Insert;{shard}::EvictFromLRU;cfree;_int_free"), "malloc: cache"),
        ("db_bench;[unknown];_int_free".to_owned(), "malloc: ?"),
        (
            format!("{get};{table};{shard}::Lookup;pthread_mutex_lock;entry_SYSCALL_64_[k];futex_wait_[k]"),
            "cache lock",
        ),
        (
            format!("{get};rocksdb::TableCache::Get;rocksdb::TableCache::FindTable;{shard}::Lookup"),
            "table cache",
        ),
        (format!("{get};rocksdb::TableCache::Get;rocksdb::PinnedTableReader::GetCacheHandle"), "table cache"),
        (format!("{get};{table};rocksdb::IndexBlockIter::IndexBlockIter"), "index"),
        (format!("{get};{table};{shard}::Lookup"), "cache lookup"),
        // The file picker has no name in Debian's library; other functions without one are of the part above them.
        (format!("{get};[librocksdb.so.7.8.3];[librocksdb.so.7.8.3];__memcmp_evex_movbe"), "find file"),
        (format!("{get};{table};rocksdb::FullFilterBlockReader::MayMatch;[librocksdb.so.7.8.3]"), "filter"),
        (format!("{get};asm_sysvec_reschedule_ipi_[k];schedule_[k]"), "interrupt"),
        (format!("{get};__libc_pread;entry_SYSCALL_64_[k];asm_sysvec_apic_timer_interrupt_[k]"), "read call"),
        (format!("{get};asm_exc_page_fault_[k];do_user_addr_fault_[k]"), "page fault"),
        ("rocksdb:low;rocksdb::CompactionJob::Run;rocksdb::VerifyBlockChecksum".to_owned(), "background"),
    ];
    let input: String =
        stacks.iter().zip(1..).map(|((stack, _), weight)| format!("{stack} {weight}\n")).collect();
    for ((row, _), (stack, part)) in placed("parts", &input).iter().zip(&stacks) {
        assert_eq!(row, part, "{stack}");
    }
}
