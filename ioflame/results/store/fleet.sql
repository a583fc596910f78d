-- Two versions over the hosts that ran them on the same days: for each part of the CPU and stratum, of each version, the number of hosts, the
-- sum over them of what the part costs, and the sum of its squares. The host is the unit: its profiles are added up first, each weighed by
-- 1/probability (Horvitz and Thompson). Cost: us per query where every run knows its CPU per query, else percent of the host's CPU.
WITH asked AS (SELECT ? AS of_base, ? AS of_arm),
candidates AS (
    SELECT run, host, label = of_arm AS is_arm, created::DATE AS day, 1 / coalesce(probability, 1.0) AS times,
        concat_ws(', ', test, facts->>'cpu', facts->>'kernel') AS stratum
    FROM runs CROSS JOIN asked LEFT JOIN (SELECT run, any_value(facts) AS facts FROM hosts GROUP BY run) USING (run)
    WHERE NOT coalesce(twin, false) AND label IN (of_base, of_arm)),
both_days AS (SELECT day FROM candidates GROUP BY day HAVING count(DISTINCT is_arm) = 2),
summed AS MATERIALIZED (
    SELECT run, event, stack_hi, stack_lo, sum(weight) AS weight, sum(samples) AS samples
    FROM samples SEMI JOIN candidates USING (run) WHERE event NOT IN ('off-cpu', 'stopped') GROUP BY ALL),
-- the event of a run that weighs most: of a pprof with numbers of samples and ns, ns
of_event AS (SELECT run, arg_max(event, weight) AS event FROM (SELECT run, event, sum(weight) AS weight FROM summed GROUP BY ALL) GROUP BY run),
known AS (SELECT run, max(value) AS cpu FROM figures WHERE metric = 'cpuPer' GROUP BY run),
worked AS (SELECT run, sum(cpu_ns) / sum(end_ns - start_ns) AS cores FROM windows WHERE kind = 'plain' AND end_ns > start_ns GROUP BY run),
chosen AS MATERIALIZED (
    SELECT run, host, is_arm, day, stratum, times, event, cores, cpu IS NOT NULL AS has_cost, coalesce(cpu, 100.0) AS cpu
    FROM candidates SEMI JOIN both_days USING (day) JOIN of_event USING (run) LEFT JOIN known USING (run) LEFT JOIN worked USING (run)),
unit AS (SELECT bool_and(has_cost) AS per_query, count(DISTINCT day) AS days FROM chosen),
leaves AS (
    SELECT stack_hi, stack_lo, canonical AS name, regexp_extract(canonical, '^(.+)::', 1) AS class
    FROM (SELECT stack_hi, stack_lo, frames[-1] AS frame FROM stacks) JOIN frames USING (frame)),
own AS MATERIALIZED (
    SELECT run, name, class, sum(weight) AS weight, sum(samples) AS samples
    FROM summed SEMI JOIN chosen USING (run, event) JOIN leaves USING (stack_hi, stack_lo) GROUP BY ALL),
parts AS (
    SELECT 'function' AS kind, run, name, weight, samples FROM own
    UNION ALL SELECT 'class', run, class, sum(weight), sum(samples) FROM own WHERE class <> '' GROUP BY ALL
    UNION ALL SELECT 'category', run, category, sum(weight), sum(samples)
        FROM categories SEMI JOIN chosen USING (run, event) WHERE "view" = 'owner' GROUP BY ALL
    UNION ALL SELECT 'total', run, 'all', sum(weight), sum(samples) FROM own GROUP BY ALL),
wholes AS (
    SELECT CASE WHEN kind = 'class' THEN 'total' ELSE kind END AS of_kind, run, sum(weight) AS whole
    FROM parts WHERE kind <> 'function' AND kind <> 'class' GROUP BY ALL),
-- a function's whole is the host's, as that of `all`
kinds AS (FROM (VALUES ('function', 'total'), ('class', 'total'), ('category', 'category'), ('total', 'total')) AS t(kind, of_kind)),
of_host AS (
    SELECT kind, host, stratum, is_arm, sum(whole * times) AS whole,
        sum(CASE WHEN per_query THEN cpu ELSE 100.0 END * whole * times) / sum(whole * times) AS cost, avg(cores) AS cores
    FROM chosen JOIN wholes USING (run) JOIN kinds USING (of_kind) CROSS JOIN unit WHERE whole > 0 GROUP BY ALL),
hosts_of AS (SELECT kind, stratum, is_arm, count(*) AS hosts, sum(cores) AS cores FROM of_host GROUP BY ALL),
priced AS (
    SELECT kind, name, stratum, is_arm, cost * sum(weight * times) / whole AS x, sum(samples) AS samples
    FROM parts JOIN chosen USING (run) JOIN of_host USING (kind, host, stratum, is_arm) GROUP BY kind, name, host, stratum, is_arm, cost, whole),
sums AS (
    SELECT kind, name, stratum, is_arm, sum(x) AS total, sum(x * x) AS squares, sum(samples) AS samples FROM priced GROUP BY ALL)
SELECT kind, name, stratum, is_arm, hosts, coalesce(total, 0.0) AS total, coalesce(squares, 0.0) AS squares, coalesce(samples, 0) AS samples,
    cores, per_query, days
FROM (SELECT DISTINCT kind, name FROM sums) JOIN hosts_of USING (kind) LEFT JOIN sums USING (kind, name, stratum, is_arm) CROSS JOIN unit
ORDER BY kind, name, stratum, is_arm
