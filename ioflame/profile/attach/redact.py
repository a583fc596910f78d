"""What of a run is hashed, beside the profiles that stackfold folds, and what of it is removed."""

from __future__ import annotations

import json
import shutil

from ioflame.profile.attach.job import AttachJob
from ioflame.results.files import Files
from ioflame.results.redaction import Redaction
from ioflame.results.run import Run
from ioflame.system.atomic_files import write_whole

__all__ = ("forget_recordings", "hide_in_record", "hide_waits")

# Addresses, copies of stacks, paths, libraries with their names, and what our own programs said.
_RECORDINGS = (Files.PERF_DATA, Files.OFF_CPU_DATA, Files.CALL_COUNT)


def hide_in_record(job: AttachJob, run: Run, redaction: Redaction) -> None:
    """Words of the target's and of the user's; the number of a process, and the group that was asked for, stay."""
    record, target = run.record, run.record.target
    assert target is not None
    record.commands = []
    target.count = redaction.hidden(target.count) if target.count else ""
    target.count_failed = "it went down, or did not answer" if target.count_failed else ""
    for pid, programs in job.target.became.items():
        hidden = (redaction.file(program) for program in programs)
        target.notes = [note for note in target.notes if not note.startswith(f"process {pid} executed")]
        target.notes.append(f"process {pid} executed another program meanwhile: {' became '.join(hidden)}")
    target.names = []
    target.redacted = True


def hide_waits(run: Run, redaction: Redaction) -> None:
    """Names of threads, as the eBPF program wrote them."""
    path = run.path(Files.OFF_CPU)
    if path.exists():
        content = json.loads(path.read_bytes())
        for thread in content["threads"]:
            thread["comm"] = redaction.thread(thread["comm"])
        write_whole(path, json.dumps(content).encode())


def forget_recordings(run: Run, own_rules: bool) -> None:
    """All that a name could be got back from. own_rules: they name functions of the target"""
    for name in (*_RECORDINGS, *([Files.RULES] if own_rules else [])):
        run.path(name).unlink(missing_ok=True)
    for log in run.directory.glob("*.log"):
        log.unlink()
    shutil.rmtree(run.path(Files.MAPPED), ignore_errors=True)
