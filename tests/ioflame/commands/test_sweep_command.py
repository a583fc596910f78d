"""`ioflame sweep`: what is refused before anything starts."""

from __future__ import annotations

from pathlib import Path

import pytest

from ioflame import cli


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--limit=p98=1ms"], "--limit p98=1ms is no percentile with a time"),
        (["--limit=p99=0ms"], "--limit p99=0ms is no percentile"),
        (["--limit=2ms"], "--limit 2ms is no percentile"),
        (["--runs=0"], "--runs=0 is out of range"),
        (["--duration=0"], "=0 is out of range"),
        (["--client=db_bench"], "=db_bench offers no rate to all threads together"),
        (["/no/such/sweep"], "/no/such/sweep holds no sweep.json"),
    ],
)
def test_what_makes_no_sense_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], words: list[str], says: str
) -> None:
    assert cli.main(["sweep", "-q", f"--out={tmp_path / 'out'}", *words]) == 2
    out, err = capsys.readouterr()
    assert out == "" and says in err
    assert not (tmp_path / "out").exists()
