//! The owner view against a published table: RocksDB 10.2, readrandom, one user.

use crate::common::{capture, placed, printed};
use serde_json::Value;

#[test]
fn the_published_column_comes_out() {
    let args = ["categories", "--format", "json", "--rules", "rocksdb", "--view", "owner"];
    let report = printed(&args, &capture("readrandom-1u-profile13.folded"));
    let report: Value = serde_json::from_str(&report).expect("JSON");
    let rows = report["rows"].as_array().expect("rows").iter();
    let row = |row: &Value| Some((row["name"].as_str()?.to_owned(), row["share"].as_f64()?));
    let rows: Vec<(String, f64)> = rows.map(|one| row(one).expect("a row")).collect();
    let share = |name: &str| rows.iter().find(|row| row.0 == name).map_or(-1.0, |row| row.1);
    for (name, published) in [
        ("libc+k", 37.30),
        ("checksm", 3.76),
        ("IBI:Sk", 7.07),
        ("DBI:Sk", 3.05),
        ("bloom", 18.35),
        ("BSI", 2.28),
        ("File", 3.74),
    ] {
        assert!((share(name) - published).abs() <= 0.0101, "{name}: {} is not {published}", share(name));
    }
    // Names were cut there, so that LRU and other cannot be separated by name; the memtable's search was no row.
    let both = share("LRU") + share("memtable") + share("other");
    assert!((both - 24.45).abs() <= 0.0101, "LRU and other: {both}");
    let names: Vec<&str> = rows.iter().map(|row| row.0.as_str()).collect();
    assert_eq!(
        names,
        [
            "libc+k", "checksm", "IBI:Sk", "DBI:Sk", "LRU", "bloom", "BSI", "File", "memtable", "fault",
            "other"
        ]
    );
    assert!((rows.iter().map(|row| row.1).sum::<f64>() - 100.0).abs() < 1e-9);
}

/// What a fold without that cut gives for the same code: the LRU row by its real names.
#[test]
fn lru_by_its_real_names() {
    let get = "db_bench;clone3;start_thread;rocksdb::DBImpl::Get;rocksdb::BlockBasedTable::Get";
    let data_block =
        "rocksdb::DataBlockIter* rocksdb::BlockBasedTable::NewDataBlockIterator<rocksdb::DataBlockIter>";
    let returns = "std::enable_if<((rocksdb::Block_kData::kCacheEntryRole)==((rocksdb::CacheEntryRole)13))||true, rocksdb::Status>::type";
    let put = format!("{returns} rocksdb::BlockBasedTable::PutDataBlockToCache<rocksdb::Block_kData>");
    let filter = "rocksdb::BlockBasedTable::FullFilterKeyMayMatch";
    let input = format!(
        "{get};{data_block};{put};malloc 1\n\
         {get};{data_block};rocksdb::BlockBasedTable::RetrieveBlock<rocksdb::Block>;rocksdb::BlockBasedTable::GetDataBlockFromCache<rocksdb::Block> 2\n\
         {get};{filter};rocksdb::BlockBasedTable::RetrieveBlock<rocksdb::ParsedFullFilterBlock>;{put} 3\n\
         {get};{data_block};rocksdb::CachableEntry<rocksdb::Block>::ReleaseResource 4\n"
    );
    let wanted = [("LRU", 6), ("LRU", 7), ("bloom", 5), ("other", -1)];
    assert_eq!(placed("owner", &input), wanted.map(|(row, depth)| (row.to_owned(), depth)));
}

/// A data block goes back to its cache with no frame above that tells, or below the reader; a table's reader is no
/// block.
#[test]
fn what_the_cache_does_when_a_block_is_released_is_its_own() {
    let root = "db_bench;clone3;start_thread";
    let shard = "rocksdb::lru_cache::LRUCacheShard";
    let input = format!(
        "{root};{shard}::Release;operator delete 1\n\
         {root};rocksdb::DBImpl::Get;rocksdb::BlockBasedTable::Get;{shard}::MaintainPoolSize 2\n\
         {root};rocksdb::DBImpl::Get;rocksdb::BlockBasedTable::Get;{shard}::LRU_Insert 3\n\
         {root};rocksdb::DBImpl::Get;rocksdb::TableCache::Get;{shard}::Release 4\n"
    );
    assert_eq!(owners(&input), ["LRU", "LRU", "LRU", "other"]);
}

fn owners(input: &str) -> Vec<String> {
    rows_of("owner", input)
}

fn rows_of(view: &str, input: &str) -> Vec<String> {
    placed(view, input).into_iter().map(|(row, _)| row).collect()
}

/// By frame pointers a leaf loses its caller: the search that it is part of.
#[test]
fn leaves_of_11_belong_to_the_search_that_calls_them() {
    let get = "db_bench;rocksdb::DBImpl::Get";
    let (index, data) = ("rocksdb::BlockIter<rocksdb::IndexValue>", "rocksdb::BlockIter<rocksdb::Slice>");
    let list = "rocksdb::InlineSkipList<rocksdb::MemTableRep::KeyComparator const&>";
    let input = format!(
        "{get};rocksdb::BlockBasedTable::Get;{index}::CompareKey 1\n\
         {get};rocksdb::BlockBasedTable::Get;{index}::GetRestartKey<rocksdb::DecodeKeyV4> 2\n\
         {get};rocksdb::BlockBasedTable::Get;{index}::InterpolationSeekRestartPointIndex<rocksdb::DecodeKey> 3\n\
         {get};rocksdb::BlockBasedTable::Get;{data}::CompareKey 4\n\
         {get};rocksdb::MemTableRep::MultiGet 5\n\
         {get};{list}::MultiGet 6\n\
         {get};{list}::FindGreaterOrEqualWithFinger 7\n"
    );
    let found = owners(&input);
    assert_eq!(found, ["IBI:Sk", "IBI:Sk", "IBI:Sk", "DBI:Sk", "memtable", "memtable", "memtable"]);
    let fetch = "rocksdb:low;rocksdb::CompactionJob::Run;rocksdb::BlockFetcher::ReadBlockContents";
    let input = format!(
        "{fetch};rocksdb::DecompressSerializedBlock;rocksdb::DecompressBlockData 1\n\
         {fetch};rocksdb::(anonymous namespace)::BuiltinDecompressorV2::DecompressBlock 2\n\
         c;ioflame_client::worker::Worker::run 3\n\
         c;ioflame_client::worker::Worker::run;rocksdb::DBImpl::Write 4\n"
    );
    assert_eq!(rows_of("writes", &input), ["compression", "compression", "client", "write path"]);
}

/// Of a Get, and not of a write, whose list it is too.
#[test]
fn a_search_in_the_memtable_is_a_row_of_its_own() {
    let root = "db_bench;clone3;start_thread;rocksdb::DBImpl";
    let list = "rocksdb::InlineSkipList<rocksdb::MemTableRep::KeyComparator const&>";
    let input = format!(
        "{root}::Get;rocksdb::DBImpl::GetImpl;{list}::FindGreaterOrEqual 1\n\
         {root}::Get;rocksdb::DBImpl::GetImpl;rocksdb::MemTable::Get;rocksdb::MemTable::KeyComparator::operator() 2\n\
         {root}::Get;rocksdb::MemTableListVersion::GetFromList;malloc 3\n\
         {root}::Write;rocksdb::WriteBatchInternal::InsertInto;rocksdb::MemTable::Add;{list}::FindGreaterOrEqual 4\n\
         {root}::Get;rocksdb::DBImpl::GetImpl;memcpy 5\n"
    );
    assert_eq!(owners(&input), ["memtable", "memtable", "memtable", "other", "other"]);
}
