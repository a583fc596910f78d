"""The names of the files within a run directory."""

from __future__ import annotations

__all__ = ("Files",)


class Files:
    """Fixed names; `of_view` gives those of the category views. The engine names its client's log and report."""

    RECORD = "run.json"
    COMMAND = "command.json"
    RULES = "rules.toml"
    SALT = "redact.json"
    MAPPED = "mapped"
    PERF_DATA = "perf.data"
    PROFILE = "profile.json"
    FOLDED = "stacks.folded"
    SAMPLE_COUNTS = "stacks.samples.folded"
    PPROF = "stacks.pb.gz"
    SLICES = "stacks.seconds.tsv"
    FOLD_STATS = "stacks.stats.json"
    FOLD_CHECK = "stacks.check.json"
    CATEGORIES = "categories.json"
    EVENT_GROUP = "events.json"
    OPERATIONS = "operations.json"
    FINDINGS = "findings.json"
    SERIES = "series.json"
    IO_LATENCY = "iolat.json"
    LADDER = "ladder.json"
    OFF_CPU = "offcpu.json"
    OFF_CPU_DATA = "offcpu.data"
    OFF_CPU_FOLDED = "offcpu.folded"
    OFF_CPU_COUNTS = "offcpu.counts.folded"
    OFF_CPU_PROFILE = "offcpu.profile.json"
    OFF_CPU_FLAMEGRAPH = "offcpu.svg"
    RUN_QUEUE = "runqlat.json"
    CALL_COUNT = "calls.log"
    WALL_CLOCK = "wallclock.json"
    PMP = "pmp.json"
    PMP_DATA = "pmp.data"
    PMP_PROFILE = "pmp.profile.json"
    PMP_LOG = "pmp.log"
    PMP_RAW = "pmp.sampler.json"
    PMP_SAMPLES = "pmp.samples.jsonl"
    PMP_COUNTS = "pmp.samples.folded"
    PMP_FOLD_STATS = "pmp.stats.json"
    PMP_FOLDED = "pmp.folded"
    PMP_FLAMEGRAPH = "pmp.svg"
    LOCKS = "locks.json"
    SUMMARY = "summary.txt"
    FLAMEGRAPH = "flamegraph.svg"
    REPORT = "report.html"
    EXPERIMENT = "experiment.html"

    @classmethod
    def of_view(cls, view: str) -> str:
        """The file of a category view: `categories.json` for the owner view, `categories.leaf.json` for another."""
        return cls.CATEGORIES if view == "owner" else f"categories.{view}.json"
