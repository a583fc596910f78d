"""What of a run is hashed, beside the profiles that stackfold folds, and what of it is removed."""

from __future__ import annotations

import contextlib
import json
import shutil
from collections.abc import Iterator
from pathlib import Path

from ground.errors import IoflameError, MeasurementError
from ground.results.files import Files
from ground.results.redaction import Redaction, end_redaction, is_abandoned
from ground.results.run import Run, read_record
from ground.system.atomic_files import write_whole
from ioflame.measure.attach.job import AttachJob

# Addresses, copies of stacks, paths, libraries with their names, and what our own programs said.
_RECORDINGS = (Files.PERF_DATA, Files.OFF_CPU_DATA, Files.CALL_COUNT)


# Numbers alone, and names that were hashed before they were written.
_HASHED = (Files.RECORD, Files.SERIES)
_MISSING = "profile, tables and pages: what was recorded held names (--redact), and was removed"


@contextlib.contextmanager
def redacted(job: AttachJob, run: Run) -> Iterator[None]:
    """Within, all that is made of the recordings is hashed, where that was asked for; after it they are gone.

    Where it is left by an exception, so is what was made of them so far: nobody knows how much of that was hashed.
    """
    if job.redaction is None:
        yield
        return
    with job.redaction.within(run.directory):
        try:
            yield
        except BaseException:
            _forget_all(run)
            raise
        _forget_recordings(run, own_rules=job.options.rules is not None)
        end_redaction(run.directory)


def forget_abandoned(out: Path) -> list[str]:
    """The run directories in which somebody was killed before names were hashed: what held any is removed."""
    found: list[str] = []
    try:
        directories = sorted(out.iterdir())
    except OSError:  # there is none yet, or it is said elsewhere that it is nobody's to write to
        return found
    for directory in directories:
        # Another user's, or one that ends now, is none of ours.
        with contextlib.suppress(OSError, IoflameError):
            if not directory.is_symlink() and is_abandoned(directory):
                _forget_all(Run(directory, read_record(directory / Files.RECORD)))
                found.append(str(directory))
    return found


def _forget_all(run: Run) -> None:
    for path in run.directory.iterdir():
        if path.is_dir():
            shutil.rmtree(path)
        elif path.name not in (*_HASHED, Files.SALT):
            path.unlink()
    run.record.commands, run.record.unobserved = [], []
    run.record.missing = [_MISSING]
    assert run.record.target is not None
    run.record.target.redacted = True
    run.save()
    end_redaction(run.directory)


def hide_in_record(job: AttachJob, run: Run, redaction: Redaction) -> None:
    """Words of the target's and of the user's; the number of a process, and the group that was asked for, stay."""
    record, target = run.record, run.record.target
    assert target is not None
    record.commands = []
    if job.options.symbol is not None:
        target.count = redaction.hidden(target.count)
    target.count_failed = "it went down, or did not answer" if target.count_failed else ""
    for pid, programs in job.target.became.items():
        hidden = (redaction.file(program) for program in programs)
        target.notes = [note for note in target.notes if not note.startswith(f"process {pid} executed")]
        target.notes.append(f"process {pid} executed another program meanwhile: {' became '.join(hidden)}")
    target.names = []
    target.redacted = True


def without_words(observer: str, error: IoflameError, redaction: Redaction) -> IoflameError:
    """The error of an observer without what its program said, which may hold commands and paths."""
    return MeasurementError(
        f"{observer} failed; its words are hashed, for they may hold names: {redaction.hidden(error.what)}",
        mend="without --redact, to read them",
    )


def hide_waits(run: Run, redaction: Redaction) -> None:
    """Names of threads, as the eBPF program wrote them."""
    path = run.path(Files.OFF_CPU)
    if path.exists():
        content = json.loads(path.read_bytes())
        for thread in content["threads"]:
            thread["comm"] = redaction.thread(thread["comm"])
        write_whole(path, json.dumps(content).encode())


def _forget_recordings(run: Run, own_rules: bool) -> None:
    """All that a name could be got back from. own_rules: they name functions of the target"""
    for name in (*_RECORDINGS, *([Files.RULES] if own_rules else [])):
        run.path(name).unlink(missing_ok=True)
    for log in run.directory.glob("*.log"):
        log.unlink()
    shutil.rmtree(run.path(Files.MAPPED), ignore_errors=True)
