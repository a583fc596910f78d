-- Two versions over the hosts that ran them on the same days: for each part of the CPU and stratum, of each version, the number of hosts, the
-- sum over them of what the part costs, and the sum of its squares. The host is the unit: its profiles are added up first, each weighed by
-- 1/probability (Horvitz and Thompson). Cost: us per query where every run knows its CPU per query, else percent of the host's CPU.
-- All days together (day is NULL); and, where there are several, each day by itself.
WITH asked AS (SELECT ? AS of_base, ? AS of_arm),
candidates AS (
    SELECT run, host, label = of_arm AS is_arm, created::DATE AS day, 1 / coalesce(probability, 1.0) AS times,
        concat_ws(', ', test, facts->>'cpu', facts->>'kernel') AS stratum
    FROM runs CROSS JOIN asked LEFT JOIN (SELECT run, any_value(facts) AS facts FROM hosts GROUP BY run) USING (run)
    WHERE NOT coalesce(twin, false) AND label IN (of_base, of_arm)),
both_days AS (SELECT day FROM candidates GROUP BY day HAVING count(DISTINCT is_arm) = 2),
weighed AS (
    SELECT run, event, sum(weight) AS weight
    FROM samples SEMI JOIN candidates USING (run) WHERE event NOT IN ('off-cpu', 'stopped') GROUP BY ALL),
-- the event of a run that weighs most: of a pprof with numbers of samples and ns, ns
of_event AS (SELECT run, arg_max(event, weight) AS event, max(weight) AS weight FROM weighed GROUP BY run HAVING max(weight) > 0),
known AS (SELECT run, max(value) AS cpu FROM figures WHERE metric = 'cpuPer' GROUP BY run),
worked AS (SELECT run, sum(cpu_ns) / sum(end_ns - start_ns) AS cores FROM windows WHERE kind = 'plain' AND end_ns > start_ns GROUP BY run),
chosen AS MATERIALIZED (
    SELECT run, event, day, times, weight * times AS weight, cpu, cores, stratum, is_arm,
        dense_rank() OVER (ORDER BY host, stratum, is_arm) AS host_no,
        CASE WHEN many THEN dense_rank() OVER (ORDER BY day) ELSE 0 END AS day_no
    FROM candidates SEMI JOIN both_days USING (day) CROSS JOIN (SELECT count(*) > 1 AS many FROM both_days) JOIN of_event USING (run) LEFT JOIN known USING (run) LEFT JOIN worked USING (run)),
facts AS (SELECT bool_and(cpu IS NOT NULL) AS per_query, count(DISTINCT day) AS days FROM chosen),
-- period 0: all days
periods AS (SELECT DISTINCT day_no, 0 AS period, NULL::DATE AS of_day FROM chosen
    UNION ALL SELECT DISTINCT day_no, day_no, day FROM chosen WHERE day_no > 0),
-- a host, of one version in one stratum
units AS MATERIALIZED (
    SELECT host_no, period, of_day, stratum, is_arm, sum(weight) AS whole, avg(cores) AS cores,
        sum(CASE WHEN per_query THEN cpu ELSE 100.0 END * weight) / sum(weight) AS cost
    FROM chosen JOIN periods USING (day_no) CROSS JOIN facts GROUP BY ALL),
names AS MATERIALIZED (
    SELECT canonical AS name, regexp_extract(canonical, '^(.+)::', 1) AS class, row_number() OVER () AS id FROM (SELECT DISTINCT canonical FROM frames)),
leaves AS (
    SELECT stack_hi, stack_lo, id
    FROM (SELECT stack_hi, stack_lo, frames[-1] AS frame FROM stacks) JOIN frames USING (frame) JOIN names ON canonical = names.name),
each_day AS MATERIALIZED (
    SELECT host_no, day_no, id, sum(samples.weight * times) AS weight, sum(samples) AS samples
    FROM samples JOIN chosen USING (run, event) JOIN leaves USING (stack_hi, stack_lo) GROUP BY host_no, day_no, id),
own AS NOT MATERIALIZED (
    SELECT host_no, day_no AS period, id, weight, samples FROM each_day
    UNION ALL SELECT host_no, 0, id, sum(weight), sum(samples) FROM each_day WHERE day_no > 0 GROUP BY host_no, id),
sorted AS MATERIALIZED (
    SELECT host_no, period, category, sum(categories.weight * times) AS weight, sum(samples) AS samples
    FROM categories JOIN chosen USING (run, event) JOIN periods USING (day_no) WHERE "view" = 'owner' GROUP BY host_no, period, category),
parts AS (
    SELECT 'function' AS kind, name, host_no, period, weight / whole AS share, samples
        FROM own JOIN names USING (id) JOIN units USING (host_no, period)
    UNION ALL SELECT 'class', class, host_no, period, sum(weight) / any_value(whole), sum(samples)
        FROM own JOIN names USING (id) JOIN units USING (host_no, period) WHERE class <> '' GROUP BY class, host_no, period
    UNION ALL SELECT 'category', category, host_no, period, weight / sum(weight) OVER (PARTITION BY host_no, period), samples FROM sorted
    UNION ALL SELECT 'total', 'all', host_no, period, 1.0, 0 FROM units),
sums AS (
    SELECT kind, name, period, stratum, is_arm, sum(share * cost) AS total, sum((share * cost) * (share * cost)) AS squares, sum(samples) AS samples
    FROM parts JOIN units USING (host_no, period) GROUP BY ALL),
hosts_of AS (
    SELECT kind, period, of_day, stratum, is_arm, count(DISTINCT host_no) AS hosts, sum(cores) AS cores
    FROM (SELECT DISTINCT kind, host_no, period FROM parts) JOIN units USING (host_no, period) GROUP BY ALL)
SELECT kind, name, strftime(of_day, '%Y-%m-%d') AS day, stratum, is_arm, hosts, coalesce(total, 0.0) AS total, coalesce(squares, 0.0) AS squares,
    coalesce(samples, 0) AS samples, cores, per_query, days
FROM (SELECT DISTINCT kind, name, period FROM sums) JOIN hosts_of USING (kind, period) LEFT JOIN sums USING (kind, name, period, stratum, is_arm)
    CROSS JOIN facts
ORDER BY kind, name, day, stratum, is_arm
