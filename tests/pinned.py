"""Whether another checkout makes the same files of recorded runs: what a change of the house must not change.

    python -m tests.pinned CHECKOUT [--experiment 'NAME FLAGS'] RUN...

Each run or study is copied twice; CHECKOUT, which is built, and this one make its pages again and print it, and file by
file they are compared: JSON by its values, all else byte by byte. Likewise what lies within, as the counts of a bisect.
The page of an experiment needs its name or file, with the flags that it was run with. Exit code 1 where a file differs.
"""

from __future__ import annotations

import argparse
import json
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from shutil import copytree
from typing import Any

from tests.places import ROOT

# Which ioflame it was, and the processes that an analysis starts, with their times.
_OWN = ("ioflame", "commands")
# No command shows a finished count again.
_COUNT = """
import sys; from pathlib import Path; from ground.results.counted import CountRecord
from ground.system.atomic_files import read_json; from ioflame.present.counted import write_pages
shown = write_pages(Path(sys.argv[1]), read_json(Path(sys.argv[1], "counted.json"), CountRecord), 100)
print(shown.text, shown.markdown, shown.sentence, sep="\\n")
"""
# What makes its pages again and prints it, by the file of its record.
_AGAIN = {
    "run.json": ("analyse RUN", "show RUN all --tsv"),
    "comparison.json": ("compare RUN", "compare RUN --json", "compare RUN --table=tsv"),
    "sweep.json": ("sweep RUN",),
    "counted.json": ("count RUN",),
    "cells.json": ("experiment --resume=RUN",),
}


def _printed(checkout: Path, run: Path, experiment: Sequence[str]) -> Iterator[tuple[str, str]]:
    """What is printed of the run or study, by the command."""
    for record, commands in _AGAIN.items():
        for command in commands if (run / record).is_file() else ():
            words = [word.replace("RUN", str(run)) for word in command.split(" ")]
            argv = ["-c", _COUNT, str(run)] if words[0] == "count" else ["-m", "ioflame.cli", *words]
            argv += experiment if words[0] == "experiment" else []
            python = str(checkout / ".venv" / "bin" / "python")
            done = subprocess.run([python, *argv], cwd=checkout, capture_output=True, text=True, check=False)
            if done.returncode not in (0, 1):
                raise SystemExit(f"{checkout}: {command} of {run} ended with {done.returncode}: {done.stderr}")
            yield command, f"{done.stdout}exit code {done.returncode}"


def _made(checkout: Path, run: Path, copy: Path, experiment: Sequence[str]) -> dict[str, Any]:
    """The files of a copy of the run once its pages are made again, and what is printed, by name."""
    copytree(run, copy, symlinks=True)
    found: dict[str, Any] = {}
    for inner in sorted({path.parent for path in copy.rglob("*.json")}):
        for command, text in _printed(checkout, inner, experiment):
            found[f"{inner.relative_to(copy)}: {command}"] = text.replace(str(copy), "RUN")
    for path in (path for path in sorted(copy.rglob("*")) if path.is_file()):
        name = str(path.relative_to(copy))
        found[name] = path.read_bytes().replace(str(copy).encode(), b"RUN")
        if path.suffix == ".json":
            found[name] = json.loads(found[name] or b"null")
            if path.name == "run.json":
                found[name] = {key: value for key, value in found[name].items() if key not in _OWN}
    return found


def main() -> int:
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("checkout", type=Path)
    parser.add_argument("--experiment", type=shlex.split, default=[])
    parser.add_argument("runs", type=Path, nargs="+")
    arguments = parser.parse_args()
    differing = 0
    for run in (run.resolve() for run in arguments.runs):
        with tempfile.TemporaryDirectory() as scratch:
            # Of one length, since a path may be folded into a line; each is gone before the next is made.
            theirs, ours = (
                _made(of, run, Path(scratch, side, run.name), arguments.experiment)
                for side, of in (("a", arguments.checkout.resolve()), ("b", ROOT))
            )
        names = theirs.keys() | ours.keys()
        wrong = sorted(name for name in names if theirs.get(name) != ours.get(name))
        differing += len(wrong)
        print(f"{run.name}: {len(names)} files, {len(wrong)} differ{': ' if wrong else ''}{', '.join(wrong)}")
    return 1 if differing else 0


if __name__ == "__main__":
    sys.exit(main())
