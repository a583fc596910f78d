-- Every figure of every version: one row a run, or a session of a comparison, which is a round that its arms share.
-- Commits of a search are no versions. The parameter: names of accounts, whose rows are figures as well, as compaction.all.
SELECT test, host, label, metric, exp(avg(ln(value))) AS value, min(created) AS created,
    CASE WHEN campaign <> '' THEN campaign || '/' || session ELSE '' END AS round,
    coalesce(max(CASE WHEN source = 'count' AND low > 0 THEN ln(high / low) END), 0) AS width
FROM figures JOIN runs USING (run)
WHERE (metric IN ('qps', 'qps.relative', 'cpuPer', 'rx.lat', 'p99', 'readsPerQuery', 'instructions', 'mispredictions') OR list_contains(?, split_part(metric, '.', 1)))
    AND value > 0 AND NOT twin AND label <> '' AND source <> 'bisect'
GROUP BY test, host, label, metric, CASE WHEN campaign <> '' THEN campaign || '/' || session ELSE run END, round
ORDER BY test, host, metric, created, round;
