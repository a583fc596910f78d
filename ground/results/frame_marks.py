"""What stands behind the name of a frame in a folded stack."""

from __future__ import annotations

import re

# `_[k]` is the kernel's, `_[i]` inlined; `_[j]`, `_[0]` and `_[1]` are async-profiler's: how a function of Java was
# compiled.
MARK = re.compile(r"_\[[kij01]\]$")
