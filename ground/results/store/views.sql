-- Ready views over the tables, in the SQL that DuckDB and Spark share; what they call by different names is in dialect.duckdb.sql and
-- dialect.spark.sql. A label is a version: the name of an arm, else the engine's version. Twins are controls and no version.

CREATE VIEW latest AS
    SELECT * FROM runs QUALIFY row_number() OVER (PARTITION BY test, host, label ORDER BY created DESC, run DESC) = 1
    ORDER BY test, host, label;

-- What ran as a version: client and library by their artifact; origin: of a release, where it is from, "" of any other build;
-- library: the file that holds the engine's code, "" where that is the client.
CREATE VIEW builds AS
    SELECT test, host, label, artifact, version, coalesce(fact_of(facts, '$.engine_release'), '') AS origin,
        coalesce(fact_of(facts, '$.engine_library'), '') AS library, build_id, compiler, count(*) AS runs, min(created) AS since
    FROM runs JOIN artifacts USING (run, artifact) WHERE NOT coalesce(twin, false) GROUP BY ALL
    ORDER BY test, host, label, since, artifact;

-- QPS by version over that of the first version of the test on that host; runs: of this version
CREATE VIEW relative_qps AS
    WITH measured AS (
        SELECT test, host, label, exp(avg(ln(value))) AS qps, count(*) AS runs, min(created) AS since
        FROM runs JOIN figures USING (run) WHERE metric = 'qps' AND value > 0 AND NOT twin GROUP BY ALL)
    SELECT test, host, label, qps, qps / first_value(qps) OVER (PARTITION BY test, host ORDER BY since, label) AS ratio, runs
    FROM measured ORDER BY test, host, since, label;

-- the CPU us of a query that the event's samples stand for; events of user or kernel mode alone by their modifier
CREATE VIEW cpu_per_query AS
    SELECT run, event, value AS cpu_us FROM (SELECT DISTINCT run, event FROM categories) JOIN figures USING (run)
    WHERE metric = CASE WHEN event LIKE '%:u' THEN 'usPer' WHEN event LIKE '%:k' THEN 'syPer' ELSE 'cpuPer' END AND event <> 'off-cpu';

-- us per query of a category, the mean over runs; sd: from run to run
CREATE VIEW us_per_query AS
    WITH weighed AS (SELECT run, event, "view", category, sum(weight) AS weight FROM categories GROUP BY ALL),
    each_run AS (
        SELECT run, "view", category, cpu_us * weight / nullif(sum(weight) OVER (PARTITION BY run, event, "view"), 0) AS us
        FROM weighed JOIN cpu_per_query USING (run, event))
    SELECT test, host, label, "view", category, avg(us) AS us, stddev_samp(us) AS sd, count(*) AS runs
    FROM each_run JOIN runs USING (run) WHERE NOT twin GROUP BY ALL ORDER BY ALL;

-- Of each host and day, in percent: how the windows of one run differ in QPS and in CPU per query (standard deviations of the
-- logarithm), and how the twin of the base differs from it block by block: its mean, which is 0 but for chance, and its spread.
CREATE VIEW noise AS
    WITH plain AS (
        SELECT run, campaign, session, block, host, date_trunc('day', created) AS day, twin, arm = base AS is_base,
            ln(queries / (end_ns - start_ns)) AS qps, ln(cpu_ns / queries) AS cpu
        FROM windows JOIN runs USING (run)
        WHERE kind = 'plain' AND queries > 0 AND cpu_ns > 0 AND end_ns > start_ns AND coalesce(dropped, '') = ''),
    spread AS (
        SELECT host, day, run, count(*) AS n, var_samp(qps) AS qps, var_samp(cpu) AS cpu FROM plain GROUP BY ALL HAVING count(*) > 1),
    of_windows AS (
        SELECT host, day, count(*) AS runs, sum(n) AS windows, 100 * sqrt(sum(qps * (n - 1)) / sum(n - 1)) AS qps_sd,
            100 * sqrt(sum(cpu * (n - 1)) / sum(n - 1)) AS cpu_sd
        FROM spread GROUP BY ALL),
    pairs AS (
        SELECT host, day, avg(qps) FILTER (WHERE twin) - avg(qps) FILTER (WHERE is_base AND NOT twin) AS d
        FROM plain WHERE campaign <> '' AND block IS NOT NULL GROUP BY host, day, campaign, session, block),
    of_twins AS (
        SELECT host, day, count(d) AS blocks, 100 * avg(d) AS twin_mean, 100 * stddev_samp(d) AS twin_sd FROM pairs GROUP BY ALL)
    SELECT * FROM of_windows LEFT JOIN of_twins USING (host, day) ORDER BY ALL;

-- CPU of all hosts by test, version and day: a sample stands for 1/probability of its weight, profiles are drawn independently
-- (Horvitz and Thompson 1952). sd: of the estimate. Of events in ns.
CREATE VIEW cpu_hours AS
    WITH profiled AS (
        SELECT run, sum(weight) / 3.6e12 AS hours
        FROM samples WHERE unit IN ('ns', 'nanoseconds') AND event NOT IN ('off-cpu', 'stopped') GROUP BY run)
    SELECT test, label, date_trunc('day', created) AS day, count(DISTINCT host) AS hosts, count(*) AS profiles,
        sum(hours / probability) AS hours, sqrt(sum((1 - probability) * power(hours / probability, 2))) AS sd
    FROM profiled JOIN runs USING (run) WHERE probability > 0 AND NOT coalesce(twin, false) GROUP BY ALL ORDER BY ALL;

-- what a stack of each version costs a query: its share of a run's samples times the run's CPU per query, the mean over runs
CREATE MACRO stack_costs(of_base, of_arm) AS TABLE
    WITH chosen AS (SELECT run, label, event, cpu_us FROM runs JOIN cpu_per_query USING (run) WHERE NOT twin AND label IN (of_base, of_arm)),
    of_label AS (SELECT label, count(DISTINCT run) AS runs FROM chosen GROUP BY label),
    whole AS (SELECT run, event, sum(weight) AS weight FROM samples SEMI JOIN chosen USING (run, event) GROUP BY run, event),
    priced AS (
        SELECT run, event, label, cpu_us / runs / whole.weight AS us_of_one
        FROM whole JOIN chosen USING (run, event) JOIN of_label USING (label) WHERE whole.weight > 0)
    SELECT label, stack_hi, stack_lo, sum(weight * us_of_one) AS us, sum(samples) AS samples
    FROM samples JOIN priced USING (run, event) GROUP BY label, stack_hi, stack_lo;

-- every function's own and total us per query in two versions, by canonical name; the largest change of `own` first.
-- A change has no interval here: `ioflame compare` tells which of them are differences.
CREATE MACRO frames_by_difference(of_base, of_arm) AS TABLE
    WITH sided AS (
        SELECT stack_hi, stack_lo, CASE WHEN label = of_base THEN us ELSE 0 END AS us_base, CASE WHEN label = of_arm THEN us ELSE 0 END AS us_arm, samples
        FROM stack_costs(of_base, of_arm)),
    costs AS (
        SELECT stack_hi, stack_lo, sum(us_base) AS us_base, sum(us_arm) AS us_arm, sum(samples) AS samples FROM sided GROUP BY stack_hi, stack_lo),
    placed AS (SELECT us_base, us_arm, samples, frames FROM costs JOIN stacks USING (stack_hi, stack_lo)),
    called AS (SELECT unnest(array_distinct(frames)) AS frame, us_base, us_arm FROM placed),
    each_frame AS (
        SELECT last_of(frames) AS frame, sum(us_base) AS own_base, sum(us_arm) AS own_arm, sum(samples) AS samples, 0 AS total_base,
            0 AS total_arm
        FROM placed GROUP BY last_of(frames)
        UNION ALL SELECT frame, 0, 0, 0, sum(us_base), sum(us_arm) FROM called GROUP BY frame)
    SELECT canonical AS "function", sum(own_base) AS own_base, sum(own_arm) AS own_arm, sum(own_arm) - sum(own_base) AS own_change,
        sum(total_base) AS total_base, sum(total_arm) AS total_arm, sum(total_arm) - sum(total_base) AS total_change, sum(samples) AS samples
    FROM each_frame JOIN frames USING (frame) GROUP BY canonical ORDER BY abs(own_change) DESC, "function";

-- the stacks of a version that hold a function of that name, the most expensive first
CREATE MACRO stacks_through(version, called) AS TABLE
    WITH wanted AS (SELECT array_agg(frame) AS ids FROM frames WHERE canonical = called),
    held AS (SELECT stack_hi, stack_lo, frames FROM stacks CROSS JOIN wanted WHERE overlap(frames, ids)),
    found AS (SELECT us, samples, frames FROM held JOIN stack_costs(version, version) USING (stack_hi, stack_lo)),
    told AS (SELECT map_of(array_agg(frame), array_agg(name)) AS names FROM frames)
    SELECT us, samples, names_of(frames, names) AS stack FROM found CROSS JOIN told ORDER BY us DESC, stack;
