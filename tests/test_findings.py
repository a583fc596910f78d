"""The scripts of findings/ are outside CI: here only that each can start and is listed."""

import os
import subprocess
from pathlib import Path

_FINDINGS = Path(__file__).parents[1] / "findings"


def test_each_script_can_start_and_is_listed() -> None:
    scripts = sorted(_FINDINGS.glob("*.sh"))
    listed = [
        line.split("|")[1].strip()
        for line in (_FINDINGS / "README.md").read_text().splitlines()
        if line.startswith("| ")
    ]
    assert listed == ["script", *(script.stem for script in scripts)]
    for script in scripts:
        assert os.access(script, os.X_OK), script
        assert script.read_text().startswith("#!/bin/bash\n"), script
        subprocess.run(["bash", "-n", script], check=True)
