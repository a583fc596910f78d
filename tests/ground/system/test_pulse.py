"""What works shows a pulse, and what hangs does not."""

from __future__ import annotations

import signal
import subprocess

from ground.system.pulse import Pulse
from tests.until import until


def test_a_process_that_is_stopped_has_no_pulse_until_it_goes_on(burner: subprocess.Popen[str]) -> None:
    pulse = Pulse(burner.pid)
    assert pulse.quiet_seconds() == 0
    until(lambda: pulse.quiet_seconds() == 0, burner)
    burner.send_signal(signal.SIGSTOP)
    until(lambda: pulse.quiet_seconds() > 0.1, burner)
    burner.send_signal(signal.SIGCONT)
    until(lambda: pulse.quiet_seconds() == 0, burner)
