//! db_bench's flags as RocksDB's own options.

use super::super::c::c_text;
use crate::flags::Flags;
use observer::Failure;
use std::ffi::{CString, c_int};
use std::path::PathBuf;

/// What db_bench sets by default, where RocksDB's own default is another.
const OF_DB_BENCH: &str = "enable_pipelined_write=true;table_cache_numshardbits=4;delayed_write_rate=8388608;\
                           hard_pending_compaction_bytes_limit=137438953472;";
const TABLES_OF_DB_BENCH: &str = "index_shortening=kShortenSeparatorsAndSuccessor;";
/// RocksDbOptions of db_bench by RocksDB's names.
const RENAMED: [(&str, &str); 2] =
    [("open_files", "max_open_files"), ("subcompactions", "max_subcompactions")];
const OF_TABLES: [&str; 7] = [
    "block_size",
    "block_align",
    "format_version",
    "checksum",
    "cache_index_and_filter_blocks",
    "pin_l0_filter_and_index_blocks_in_cache",
    "pin_top_level_index_and_filter",
];
const COMPRESSIONS: [(&str, &str); 6] = [
    ("none", "kNoCompression"),
    ("snappy", "kSnappyCompression"),
    ("zlib", "kZlibCompression"),
    ("lz4", "kLZ4Compression"),
    ("lz4hc", "kLZ4HCCompression"),
    ("zstd", "kZSTD"),
];

/// The options of a database.
pub struct RocksDbOptions {
    pub path: PathBuf,
    /// RocksDB's shared library; None for the one that the loader finds.
    pub library: Option<PathBuf>,
    pub wal_dir: PathBuf,
    /// RocksDB's own options, in its syntax.
    pub text: CString,
    pub statistics: bool,
    /// RocksDB's PerfLevel: 1 counts nothing, 2 counts (RocksDB's default), higher ones take times.
    pub perf_level: c_int,
    pub verify_checksum: bool,
    pub sync: bool,
    pub disable_wal: bool,
    /// `level0_file_num_compaction_trigger`, which is put back after `compact0`.
    pub level0_trigger: String,
}

impl RocksDbOptions {
    /// Usage error for a value out of range. Flags that were not read by then are options of RocksDB's.
    pub fn read(flags: &Flags, path: PathBuf) -> Result<Self, Failure> {
        // How often db_bench prints, and whether it measures latencies, which this client always does.
        for printing in
            ["histogram", "stats_per_interval", "stats_interval_seconds", "report_interval_seconds"]
        {
            flags.text(printing);
        }
        // RocksDB would take it in place of all table settings: block size, filter and cache would be its defaults.
        if let Some(tables) = flags.text("block_based_table_factory") {
            return Err(Failure::usage(format!(
                "--block_based_table_factory={tables} would replace every other setting of the tables"
            ))
            .meaning("block size, filter and block cache would silently be RocksDB's defaults; nothing was started")
            .mend(format!("each setting as a flag of its own: --{}", OF_TABLES.join(", --"))));
        }
        let level0_trigger = flags.text("level0_file_num_compaction_trigger").unwrap_or("4").to_owned();
        Ok(Self {
            wal_dir: flags.text("wal_dir").map_or_else(|| path.clone(), PathBuf::from),
            path,
            library: flags.text("library").map(PathBuf::from),
            statistics: flags.boolean("statistics", false)?,
            perf_level: flags.number("perf_level", 1)?,
            verify_checksum: flags.boolean("verify_checksum", true)?,
            sync: flags.boolean("sync", false)?,
            disable_wal: flags.boolean("disable_wal", false)?,
            text: c_text(&format!(
                "{OF_DB_BENCH}{}level0_file_num_compaction_trigger={level0_trigger};{}",
                translated(flags)?,
                flags.unread().iter().map(|(name, value)| format!("{name}={value};")).collect::<String>()
            ))?,
            level0_trigger,
        })
    }
}

/// The flags that RocksDB knows by another name or in another form.
fn translated(flags: &Flags) -> Result<String, Failure> {
    let mut text = String::new();
    for (name, own) in RENAMED {
        text += &flags.text(name).map_or_else(String::new, |value| format!("{own}={value};"));
    }
    let names = COMPRESSIONS.map(|(name, _)| name);
    let compression = COMPRESSIONS[flags.choice("compression_type", &names)?].1;
    let plain_levels: i64 = flags.number("min_level_to_compress", -1)?;
    let levels: i64 = flags.number("num_levels", 7)?;
    text += &format!("num_levels={levels};compression={compression};");
    if plain_levels >= 0 {
        let of_level = |level| if level < plain_levels { "kNoCompression" } else { compression };
        let each: Vec<&str> = (0..levels).map(of_level).collect();
        text += &format!("compression_per_level={};", each.join(":"));
    }
    text += &format!(
        "compression_opts={{max_dict_bytes={}}};",
        flags.number("compression_max_dict_bytes", 0_u32)?
    );
    let styles = ["kCompactionStyleLevel", "kCompactionStyleUniversal", "kCompactionStyleFIFO"];
    text += &format!("compaction_style={};", styles[flags.choice("compaction_style", &["0", "1", "2"])?]);
    let tables = ["skip_list", "vector"];
    text += &format!("memtable_factory={};", tables[flags.choice("memtablerep", &tables)?]);
    flags.choice("cache_type", &["lru_cache"])?;
    let mut table = TABLES_OF_DB_BENCH.to_owned();
    for name in OF_TABLES {
        table += &flags.text(name).map_or_else(String::new, |value| format!("{name}={value};"));
    }
    let metadata_block_size: u64 = flags.number("metadata_block_size", 4096)?;
    if flags.boolean("partition_index_and_filters", false)? {
        table += "partition_filters=true;index_type=kTwoLevelIndexSearch;";
        table += &format!("metadata_block_size={metadata_block_size};");
    }
    let bloom_bits: f64 = flags.number("bloom_bits", 0.0)?;
    if bloom_bits > 0.0 {
        table += &format!("filter_policy=bloomfilter:{bloom_bits}:false;");
    }
    let low_priority: f64 = flags.number("cache_low_pri_pool_ratio", 0.0)?;
    let prepopulated = flags.choice("prepopulate_block_cache", &["0", "1"])?;
    if prepopulated > 0 {
        table += "prepopulate_block_cache=kFlushOnly;";
    }
    let mut cache = vec![
        ("capacity", flags.number("cache_size", 32_u64 << 20)?.to_string()),
        ("num_shard_bits", flags.number("cache_numshardbits", -1_i32)?.to_string()),
        ("high_pri_pool_ratio", flags.number("cache_high_pri_pool_ratio", 0.0_f64)?.to_string()),
    ];
    // Before 7.6 there is no such pool, and its name is refused.
    if low_priority > 0.0 {
        cache.push(("low_pri_pool_ratio", low_priority.to_string()));
    }
    let cache: String = cache.iter().map(|(name, value)| format!("{name}={value};")).collect();
    text += &format!("block_based_table_factory={{block_cache={{{cache}}};{table}}};");
    Ok(text)
}
