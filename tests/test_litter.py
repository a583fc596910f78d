"""A session of tests that leaves something fails, and says what."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.places import ROOT

pytestmark = [pytest.mark.long, pytest.mark.needs("unshare", "loop")]

_LITTER = """
import os, subprocess, tempfile
from pathlib import Path

def test_litter(tmp_path):
    Path("/tmp/made").write_text("")
    Path("/dev/shm/made").write_text("")
    Path("/tmp/existed").write_text("changed")
    Path("/tmp/removed").unlink()
    Path(tempfile.mkdtemp(prefix="left-"))
    image = tmp_path / "image"
    image.write_bytes(bytes(1 << 20))
    subprocess.run(["losetup", "--find", str(image)], check=True)
    (tmp_path / "mount").mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "tmpfs", str(tmp_path / "mount")], check=True)
    process = subprocess.Popen(["sleep", "600"])
    Path(os.environ["LITTER"]).write_text(str(process.pid))

def test_clean():
    pass
"""


def session(directory: Path, test: str, workers: int, *prefix: str, root: Path = ROOT) -> tuple[int, str]:
    """Exit code and output of a session of its own that runs one test, in so many processes of pytest-xdist.

    root: where it sees the checkout, when the prefix has hidden that
    """
    (directory / "test_one.py").write_text(test)
    python = Path(sys.executable)
    seen = root / python.relative_to(ROOT) if python.is_relative_to(ROOT) else python
    argv = [*prefix, str(seen), "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "tests.conftest"]
    argv += ["-n", str(workers), "--rootdir", str(directory), "--confcutdir", str(directory)]
    argv.append(str(directory / "test_one.py"))
    done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr


@pytest.mark.parametrize("workers", [0, 1])
def test_what_is_left_is_named_and_fails_the_session(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, workers: int
) -> None:
    pid = tmp_path / "pid"
    monkeypatch.setenv("LITTER", str(pid))
    # In a namespace where /tmp has what others made: the session sees it, and only what it does itself is its doing.
    # A checkout below /tmp would be hidden, so it is seen at another place; what our session has mounted there would
    # keep the other one from watching.
    checkout = tmp_path / "checkout"
    checkout.mkdir()
    made = f"mount --bind {ROOT} {checkout} && cd {checkout} && "
    made += "{ findmnt -rno TARGET | grep ^/tmp/ | sort -r | xargs -r umount --lazy; } && "
    made += "mount -t tmpfs tmpfs /tmp && touch /tmp/existed /tmp/removed /tmp/others && "
    # The session's own view is gone with it; what it did to /tmp is to be gone, too.
    after = "; code=$?; ls /tmp; cat /tmp/existed; exit $code"
    try:
        code, output = session(
            tmp_path, _LITTER, workers, "unshare", "--mount", "sh", "-c", f'{made} "$@"{after}', "sh", root=checkout
        )
    finally:
        subprocess.run(["kill", pid.read_text()], check=False)
        for line in subprocess.run(["losetup"], capture_output=True, text=True, check=True).stdout.splitlines():
            if "test_litter0/image" in line:
                subprocess.run(["losetup", "--detach", line.split()[0]], check=True)
    assert code == 1, output
    left = output.partition("left behind by these tests")[2].splitlines()[1:]
    of = "(test_one.py::test_litter"
    for words in ("/tmp/made", "/dev/shm/made", "/tmp/existed", "/tmp/removed"):
        assert f"{words} {of})" in left, output
    assert not any("others" in line for line in left if line.startswith("/"))
    assert [line for line in left if "/tmp/left-" in line and line.endswith(f" {of})")]
    assert [line for line in left if line.startswith("process ") and line.endswith(f": sleep 600 {of} (call))")]
    assert [line for line in left if line.startswith("mount ") and "/mount (tmpfs" in line and of in line]
    assert [line for line in left if line.startswith("loop device ") and line.endswith(f"/image {of})")]
    assert output.splitlines()[-3:] == ["existed", "others", "removed"]


@pytest.mark.parametrize("workers", [0, 1])
def test_a_session_that_leaves_nothing_passes(tmp_path: Path, workers: int) -> None:
    clean = "def test_clean(tmp_path):\n    (tmp_path / 'own').write_text('')\n"
    code, output = session(tmp_path, clean, workers)
    assert code == 0, output
    assert "left behind by" not in output
