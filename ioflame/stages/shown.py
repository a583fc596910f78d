"""What follows from an observer's result: text for the terminal, and the checks that say what it is worth."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ebpf.iolat import io_latency_checks
from ebpf.ladder import ladder_checks
from ground.results.checks import Check
from ground.results.files import Files
from ground.results.io_latency import read_io_latency
from ground.results.ladder import read_ladder
from ground.results.metrics import metrics_of
from ground.results.off_cpu import read_run_queue
from ground.results.run import Run
from viz.terminal.io_latency import io_latency_text
from viz.terminal.ladder import ladder_text
from viz.terminal.off_cpu import run_queue_table

__all__ = ("Shown", "ladder_of_run", "show_io_latency", "show_ladder", "show_run_queue")


@dataclass(frozen=True)
class Shown:
    """A result as text, and the checks that say what it is worth."""

    text: str
    checks: list[Check]


def show_io_latency(path: Path) -> Shown:
    latency = read_io_latency(path)
    return Shown(io_latency_text(latency), io_latency_checks(latency))


def show_ladder(path: Path, rx_lat_us: float | None = None) -> Shown:
    """rx_lat_us: a query in the ladder's window as the client sees it, us; None where it is not known"""
    ladder = read_ladder(path)
    return Shown(ladder_text(ladder, rx_lat_us), ladder_checks(ladder, rx_lat_us))


def ladder_of_run(run: Run) -> Shown:
    """That of a run directory, beside the latency of its window as the client saw it."""
    windows = [window for window in run.record.windows if window.kind == "ladder"]
    return show_ladder(run.path(Files.LADDER), metrics_of(run.record, windows).get("rx.lat"))


def show_run_queue(path: Path) -> Shown:
    queue = read_run_queue(path)
    return Shown(run_queue_table(queue), list(queue.checks()))
