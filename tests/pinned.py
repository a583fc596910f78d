"""Whether another checkout makes the same files of recorded runs: what a change of the house must not change.

    python -m tests.pinned CHECKOUT RUN...

Each run is copied twice, analysed and shown (every table of `show all --tsv`) by CHECKOUT, which is built, and by this
one, and file by file compared: JSON by its values, all else byte by byte. Exit code 1 where a file differs.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from shutil import copytree
from typing import Any

from tests.places import ROOT

# Which ioflame it was, and the processes that an analysis starts, with their times.
_OWN = ("ioflame", "commands")


def _made(checkout: Path, run: Path, copy: Path) -> dict[str, Any]:
    """The files of a copy of the run after `ioflame analyse`, and what `show` prints, by name."""
    copytree(run, copy)
    python = checkout / ".venv" / "bin" / "python"
    for words in (["analyse"], ["show"]):
        more = ["all", "--tsv"] if words == ["show"] else []
        argv = [str(python), "-m", "ioflame.cli", *words, str(copy), *more]
        done = subprocess.run(argv, cwd=checkout, capture_output=True, text=True, check=False)
        if done.returncode not in (0, 1):
            raise SystemExit(f"{checkout}: {words[0]} {run} ended with {done.returncode}: {done.stderr}")
    found: dict[str, Any] = {"show all --tsv": done.stdout.replace(str(copy), "RUN")}
    for path in (path for path in sorted(copy.rglob("*")) if path.is_file()):
        name = str(path.relative_to(copy))
        found[name] = path.read_bytes().replace(str(copy).encode(), b"RUN")
        if path.suffix == ".json":
            found[name] = json.loads(found[name])
            if name == "run.json":
                found[name] = {key: value for key, value in found[name].items() if key not in _OWN}
    return found


def main() -> int:
    other, *runs = (Path(word).resolve() for word in sys.argv[1:])
    differing = 0
    for run in runs:
        with tempfile.TemporaryDirectory() as scratch:
            # Of one length, since a path may be folded into a line; each is gone before the next is made.
            theirs, ours = (_made(of, run, Path(scratch, side, run.name)) for side, of in (("a", other), ("b", ROOT)))
        names = theirs.keys() | ours.keys()
        wrong = sorted(name for name in names if theirs.get(name) != ours.get(name))
        differing += len(wrong)
        print(f"{run.name}: {len(names)} files, {len(wrong)} differ{': ' if wrong else ''}{', '.join(wrong)}")
    return 1 if differing or not runs else 0


if __name__ == "__main__":
    sys.exit(main())
