"""Do the tests pass run after run, on a quiet host and on a busy one? By hand: some eight hours on two CPUs.

    python -m tests.luck [--test 20] [--long 5] [--busy-test 10] [--busy-long 2]

Runs `make test` and `make test-long` one after the other, the last of each beside busy loops at nice 0, and prints a
row a run: seconds, load before it, and the tests that failed, with the file of what they printed. Exit code 1 where
one did.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

from tests.places import ROOT

LOOPS = {"test": 8, "test-long": 4}
_FAILED = re.compile(r"^(?:FAILED|ERROR) (\S+)", re.MULTILINE)


@contextmanager
def busy_loops(count: int) -> Iterator[None]:
    """So many processes that do nothing but compute."""
    loops = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(count)]
    try:
        yield
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()


def run(target: str, loops: int) -> str:
    """The row of one run; `ok` where it passed."""
    with busy_loops(loops):
        load, began = os.getloadavg()[0], time.monotonic()
        words = ["make", "--keep-going", target]
        done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False)
        seconds = time.monotonic() - began
    failed = sorted(set(_FAILED.findall(done.stdout)))
    if done.returncode and not failed:
        failed = (done.stdout + done.stderr).strip().splitlines()[-3:]
    result = "ok"
    if done.returncode:
        kept = ROOT / "target" / f"luck-{target}-{int(began)}.txt"
        kept.write_text(done.stdout + done.stderr, encoding="utf-8")
        result = f"{', '.join(failed)}   ({kept})"
    return f"{target:<10} {loops:>5} {load:>6.1f} {int(seconds) // 60:>4}:{int(seconds) % 60:02}  {result}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--test", type=int, default=20, help="runs of make test")
    parser.add_argument("--busy-test", type=int, default=10, help=f"of them beside {LOOPS['test']} busy loops")
    parser.add_argument("--long", type=int, default=5, help="runs of make test-long")
    parser.add_argument("--busy-long", type=int, default=2, help=f"of them beside {LOOPS['test-long']} busy loops")
    options = parser.parse_args()
    print(f"{'target':<10} {'loops':>5} {'load':>6} {'m:ss':>7}  result", flush=True)
    rows = []
    for target, runs, busy in (
        ("test", options.test, options.busy_test),
        ("test-long", options.long, options.busy_long),
    ):
        for number in range(runs):
            rows.append(run(target, LOOPS[target] if number >= runs - busy else 0))
            print(rows[-1], flush=True)
    green = sum(row.endswith("  ok") for row in rows)
    print(f"{green} of {len(rows)} passed")
    return 0 if green == len(rows) else 1


if __name__ == "__main__":
    sys.exit(main())
