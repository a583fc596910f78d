"""`make bench`: every benchmark of stackfold, in turn, each on recordings made here."""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from tests.bench import stackfold_recording, stackfold_text
from tests.bench.common import STACKFOLD, database

LEAST_MB = 300


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=["text", "recording"], help="one of the benchmarks")
    parser.add_argument("--megabytes", type=int, default=LEAST_MB, help="least size of the text (default: 300)")
    parser.add_argument("--samples", type=int, default=350_000, help="samples of the recording (default: 350000)")
    parser.add_argument("--runs", type=int, default=5, help="paired runs (default: 5)")
    parser.add_argument("--text", type=Path, help="fold this text of perf script instead of recording one")
    options = parser.parse_args()
    if not STACKFOLD.exists():
        sys.exit(f"{STACKFOLD} is not built: make setup")
    with tempfile.TemporaryDirectory(prefix="stackfold-bench-") as name:
        directory = Path(name)
        given = options.only == "text" and options.text
        db = directory / "db" if given else database(directory)
        if options.only != "recording":
            if options.text:
                text, what = options.text, "given with --text"
            else:
                text, what = stackfold_text.real_text(db, directory, options.megabytes)
            stackfold_text.measure(text, what, directory, options.runs)
            if not options.text:
                text.unlink()
        if options.only != "text":
            stackfold_recording.measure(db, directory, options.samples, options.runs)


if __name__ == "__main__":
    main()
