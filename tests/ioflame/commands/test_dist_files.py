"""Shell completion and man pages: what a shell and man make of the files that go into the wheel."""

from __future__ import annotations

import contextlib
import os
import re
import select
import shutil
import subprocess
from pathlib import Path

import pytest

from ioflame.cli import build_parser, main
from ioflame.dist_files import write_files
from tests.places import ROOT

SETUP = ROOT / "ioflame" / "setup.sh"

BASH = """
source "$1"
shift
COMP_WORDS=("$@")
COMP_CWORD=$(($# - 1))
function=$(complete -p ioflame | sed 's/.*-F \\([^ ]*\\).*/\\1/')
"$function" ioflame "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD - 1]}"
printf '%s\\n' "${COMPREPLY[@]}"
"""


@pytest.fixture(scope="module")
def share(tmp_path_factory: pytest.TempPathFactory) -> Path:
    prefix = tmp_path_factory.mktemp("prefix")
    write_files(prefix)
    return prefix / "share"


@pytest.mark.parametrize(
    ("words", "wanted"),
    [
        (["s"], {"show", "store", "sweep"}),
        (["show", "some-run", "w"], {"windows", "waits", "worst", "writepath"}),
        (["show", "some-run", "--"], {"--help", "--json", "--tsv"}),
        (["profile", "--sc"], {"--scale"}),
        (["profile", "--scale", ""], {"smoke", "default", "full"}),
        (["ebpf", ""], {"iolat", "ladder", "offcpu", "runqlat", "tail", "requests", "whose", "writes"}),
        (["explain", "multi"], {"multireadrandom"}),
        (["show", "some"], {"some-run"}),
        (["analyse", "--v"], {"--verbose"}),
    ],
)
def test_bash_completes(share: Path, tmp_path: Path, words: list[str], wanted: set[str]) -> None:
    (tmp_path / "some-run").mkdir()
    script = share / "bash-completion" / "completions" / "ioflame"
    argv = ["bash", "--norc", "-c", BASH, "bash", str(script), "ioflame", *words]
    done = subprocess.run(argv, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert set(done.stdout.split()) == wanted and done.stderr == ""


@pytest.mark.parametrize(
    ("shell", "place"), [("zsh", "zsh/site-functions/_ioflame"), ("fish", "fish/vendor_completions.d/ioflame.fish")]
)
def test_other_shells_name_every_command_and_can_read_it(share: Path, shell: str, place: str) -> None:
    text = (share / place).read_text(encoding="utf-8")
    _, about = build_parser()
    for name, words in about.items():
        assert re.search(rf"\b{name}\b.*{re.escape(words)}", text), name
    if shutil.which(shell):
        subprocess.run([shell, "-n", str(share / place)], check=True)


def typed(argv: list[str], lines: list[str], wanted: str) -> str:
    """What an interactive shell shows once it shows `wanted`, or ends; lines: typed one after the other."""
    terminal, theirs = os.openpty()
    environment = {"PATH": os.environ["PATH"], "HOME": "/nonexistent", "TERM": "dumb"}
    with subprocess.Popen(
        argv, stdin=theirs, stdout=theirs, stderr=theirs, env=environment, start_new_session=True
    ) as shell:
        os.close(theirs)
        os.write(terminal, "".join(lines).encode())
        shown = b""
        try:
            with contextlib.suppress(OSError):  # it ended
                while wanted.encode() not in shown and select.select([terminal], [], [], 60)[0]:
                    shown += os.read(terminal, 4096)
        finally:
            shell.kill()
            os.close(terminal)
    return shown.decode(errors="replace")


@pytest.mark.parametrize(("shell", "options"), [("bash", ["--norc", "--noprofile", "-i"]), ("zsh", ["-f", "-i"])])
def test_an_interactive_shell_completes_the_program_of_a_checkout_as_set_up_says(
    share: Path, shell: str, options: list[str]
) -> None:
    if not shutil.which(shell):
        pytest.skip(f"no {shell} here")
    script = SETUP.read_text(encoding="utf-8")
    (line,) = re.findall(rf"printf '  {shell}: +(.*)\\n'", script)
    place = share / {"bash": "bash-completion/completions/ioflame", "zsh": "zsh/site-functions"}[shell]
    # A directory of that name is not needed: a name with a slash is completed as its last part.
    text = typed(
        [shell, *options], [line.replace("%q", str(place)) + "\n", ".venv/bin/ioflame show x writep\t"], "writepath"
    )
    assert "writepath" in text, text


@pytest.mark.skipif(not shutil.which("fish"), reason="no fish here")
def test_fish_completes_the_program_of_a_checkout(share: Path, tmp_path: Path) -> None:
    script = f"source {share}/fish/vendor_completions.d/ioflame.fish; complete -C '.venv/bin/ioflame show x writep'"
    done = subprocess.run(
        ["fish", "-c", script], env={**os.environ, "HOME": str(tmp_path)}, capture_output=True, text=True, check=True
    )
    assert done.stdout.split()[0] == "writepath"


def pages(share: Path) -> dict[str, str]:
    return {path.stem: path.read_text(encoding="utf-8") for path in (share / "man" / "man1").iterdir()}


def test_every_command_has_a_page_with_all_its_options(share: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = pages(share)
    _, about = build_parser()
    below = {
        "ebpf": ("iolat", "ladder", "offcpu", "runqlat", "tail", "requests", "writes"),
        "rocksdb": ("get", "list", "remove"),
        "rules": ("check",),
        "store": ("add", "check", "compact", "export", "fleet", "ls", "rm", "sql"),
    }
    verbs = {f"ioflame-{name}-{verb}" for name, listed in below.items() for verb in listed}
    assert set(found) == {"ioflame", *verbs, *(f"ioflame-{name}" for name in about)}
    for name, page in found.items():
        with pytest.raises(SystemExit):
            main([*name.split("-")[1:], "--help"])
        text = capsys.readouterr().out
        shown = page.replace("\\-", "-").replace("\\fB", "").replace("\\fR", "")
        options = set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", text.partition("options:")[2]))
        assert options and all(option in shown for option in options), name
        # Nothing but what we write is a request, whatever an example begins with.
        assert set(re.findall(r"^[.'](\S*)", page, re.MULTILINE)) <= {"TH", "SH", "PP", "nf", "fi", "TP"}


@pytest.mark.skipif(not shutil.which("groff"), reason="no groff here")
def test_groff_has_nothing_to_say_of_a_page(share: Path) -> None:
    paths = list((share / "man" / "man1").iterdir())
    argv = ["groff", "-Kutf8", "-man", "-Tutf8", "-ww", *map(str, paths)]
    done = subprocess.run(argv, capture_output=True, text=True, check=True)
    assert done.stderr == ""
    assert re.sub(r"\x1b\[[\d;]*m|.\x08", "", done.stdout).count("SYNOPSIS") >= len(paths)
