"""Files for other people's tools: speedscope, the Firefox Profiler, scripts that read benchmark.sh's report.tsv."""
