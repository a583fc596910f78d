-- The tables of the store, version 1: STORE/v1/<table>/day=YYYY-MM-DD/<run>.parquet. Types are those that every engine reads.
-- `run` is the first column of all but the two dictionaries, whose ids are made of what they stand for, anywhere.

-- what was run: factor, arm and session of a comparison, label: what a version is called (the arm, else the engine's version);
-- created: UTC
CREATE TABLE runs (run VARCHAR, campaign VARCHAR, session INTEGER, arm VARCHAR, base VARCHAR, twin BOOLEAN, created TIMESTAMP, engine VARCHAR,
    workload VARCHAR, test VARCHAR, threads INTEGER, factor VARCHAR, label VARCHAR, host VARCHAR, artifact VARCHAR, tree VARCHAR,
    probability DOUBLE, schedule VARCHAR, seed BIGINT, ioflame VARCHAR, source VARCHAR, raw_path VARCHAR, raw_sha256 VARCHAR,
    settings VARCHAR);
CREATE TABLE hosts (run VARCHAR, host VARCHAR, boot VARCHAR, facts VARCHAR);
CREATE TABLE artifacts (run VARCHAR, artifact VARCHAR, build_id VARCHAR, version VARCHAR, compiler VARCHAR, flags VARCHAR, lto VARCHAR,
    allocator VARCHAR, facts VARCHAR);
-- figures of a run by their names in run.json, over its plain windows
CREATE TABLE figures (run VARCHAR, metric VARCHAR, value DOUBLE, low DOUBLE, high DOUBLE, n BIGINT);
CREATE TABLE windows (run VARCHAR, "window" INTEGER, block INTEGER, position INTEGER, kind VARCHAR, start_ns BIGINT, end_ns BIGINT,
    dropped VARCHAR, queries DOUBLE, cpu_ns BIGINT, user_ns BIGINT, system_ns BIGINT, reads BIGINT, read_bytes BIGINT, read_ms BIGINT,
    runq_ns BIGINT, voluntary BIGINT, involuntary BIGINT, steal_ns BIGINT);
CREATE TABLE seconds (run VARCHAR, "window" INTEGER, second INTEGER, kind VARCHAR, start_ns BIGINT, end_ns BIGINT, queries DOUBLE,
    cpu_ns BIGINT, user_ns BIGINT, system_ns BIGINT, reads BIGINT, read_bytes BIGINT, read_ms BIGINT, runq_ns BIGINT, voluntary BIGINT,
    involuntary BIGINT, steal_ns BIGINT);
-- rules: hash of the names of the view's rows; event: as in `samples`
CREATE TABLE categories (run VARCHAR, event VARCHAR, second INTEGER, "view" VARCHAR, category VARCHAR, weight BIGINT, samples BIGINT,
    rules VARCHAR);
-- window: NULL where they are of several turns; weight: a sum of periods in `unit`; second: from the window's begin, or the first
-- turn's, NULL where it is not known; labels: JSON, sorted
CREATE TABLE samples (run VARCHAR, "window" INTEGER, second INTEGER, event VARCHAR, unit VARCHAR, pool VARCHAR, state VARCHAR,
    labels VARCHAR, stack_hi BIGINT, stack_lo BIGINT, weight BIGINT, samples BIGINT);
-- frames of a stack: the root first
CREATE TABLE stacks (stack_hi BIGINT, stack_lo BIGINT, frames BIGINT[]);
CREATE TABLE frames (frame BIGINT, name VARCHAR, canonical VARCHAR, object VARCHAR, kernel BOOLEAN, inlined BOOLEAN, file VARCHAR,
    line INTEGER);
CREATE TABLE waits (run VARCHAR, state VARCHAR, category VARCHAR, ns BIGINT, us_per_query DOUBLE);
CREATE TABLE results (run VARCHAR, metric VARCHAR, base VARCHAR, arm VARCHAR, twin BOOLEAN, ratio DOUBLE, low DOUBLE, high DOUBLE,
    same_low DOUBLE, same_high DOUBLE, units INTEGER, p DOUBLE, verdict VARCHAR, "rule" VARCHAR);
CREATE TABLE checks (run VARCHAR, name VARCHAR, verdict VARCHAR, value VARCHAR);
-- the run's result files, whole, so that every page and table can be made without its directory; no recording is among them
CREATE TABLE files (run VARCHAR, name VARCHAR, data BLOB);
