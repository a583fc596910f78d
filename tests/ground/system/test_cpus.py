from __future__ import annotations

import os
import subprocess
import sys

import pytest

from ground.system.cpus import check_cpus, held_on

SAY = "import os; print(os.getpid(), sorted(os.sched_getaffinity(0)))"


def test_a_program_runs_where_it_is_held_with_the_pid_that_was_started() -> None:
    cpu = max(os.sched_getaffinity(0))
    argv = held_on(check_cpus(str(cpu)), [sys.executable, "-c", SAY])
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as child:
        out, _ = child.communicate()
    assert out == f"{child.pid} [{cpu}]\n"


def test_without_a_list_the_command_line_stays() -> None:
    assert held_on(None, ["db_bench", "--threads=1"]) == ["db_bench", "--threads=1"]


@pytest.mark.parametrize("form", ["{0}", "{0}-{0}", "{0},{0}"])
def test_lists_are_taken_as_taskset_takes_them(form: str) -> None:
    text = form.format(min(os.sched_getaffinity(0)))
    assert check_cpus(text) == text
    subprocess.run(held_on(text, ["true"]), check=True)
