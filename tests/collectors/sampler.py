"""A running Rust sampler, for tests."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from pathlib import Path
from typing import Any

from ground.system.binaries import built_binary
from tests.collectors.conftest import thread_states
from tests.folding.recordings import run, stacks
from tests.until import until


class Sampler:
    """A running stacksampler and its files."""

    def __init__(self, pid: int, directory: Path, *options: str, prefix: tuple[str, ...] = ()) -> None:
        self.data, self.stats_file = directory / "pmp.data", directory / "stats.json"
        self.samples_file = directory / "samples.jsonl"
        orders_read, self._orders = os.pipe()
        answers_read, answers_write = os.pipe()
        files = ["-o", str(self.data), "--stats", str(self.stats_file), "--samples", str(self.samples_file)]
        control = ["--control", f"{orders_read},{answers_write}"]
        self.process = subprocess.Popen(
            [*prefix, str(built_binary("stacksampler")), f"--pid={pid}", *files, *options, *control],
            stderr=subprocess.PIPE,
            pass_fds=[orders_read, answers_write],
        )
        os.write(self._orders, b"open\n")
        os.close(orders_read)
        os.close(answers_write)
        self._answers = os.fdopen(answers_read)

    def until_open(self) -> None:
        """Returns when it samples."""
        answers = [self._answers.readline().split()[:1] for _ in range(2)]
        assert answers == [["ready"], ["open"]], (answers, self.end())

    def until_sampled(self, size: int = 1 << 15) -> None:
        """Returns when it has written so many bytes on samples, or has ended."""
        until(lambda: self.process.poll() is not None or self.samples_file.stat().st_size >= size)

    def end(self) -> tuple[int, str]:
        _, errors = self.process.communicate(timeout=60)
        self._answers.close()
        os.close(self._orders)
        return self.process.returncode, errors.decode()

    @property
    def stats(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.stats_file.read_text())
        return found

    def folded(self) -> dict[str, int]:
        done = run("--kernel", "--no-inlines", "-q", self.data)
        assert done.returncode == 0, done.stderr
        return in_text(done.stdout)


def sampled(pid: int, directory: Path, *options: str) -> Sampler:
    """One that has sampled, and was ended by a signal; of 4 threads it has looked at each some 80 times."""
    sampler = Sampler(pid, directory, "--hz=100", *options)
    sampler.until_open()
    sampler.until_sampled()
    sampler.process.send_signal(signal.SIGTERM)
    assert sampler.end() == (0, "")
    return sampler


def in_text(folded: bytes) -> dict[str, int]:
    """The weights of stacks whose names may be no text."""
    return {stack.decode("utf-8", "replace"): weight for stack, weight in stacks(folded).items()}


def with_frame(stacks: dict[str, int], frame: str) -> dict[str, int]:
    return {stack: weight for stack, weight in stacks.items() if frame in stack.split(";")}


def not_stopped(pid: int) -> bool:
    return not set(thread_states(pid).values()) & {"t", "T"}
