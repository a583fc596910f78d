"""`null`: attaches nothing. Its window shows how far two windows differ by themselves."""

from __future__ import annotations

from ground.system.observer import NullObserver
from ioflame.instruments.instrument import Instrument

INSTRUMENT = Instrument("null", order=8, observer=lambda _: NullObserver(), takes_turns=True)
