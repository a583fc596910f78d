#!/usr/bin/env python3
"""`ioflame` of the archive (dist_archive.sh): this host's Python with the packages in lib/, which is beside it.

The Pythons that it refuses read it as well: nothing here may be newer than Python 3.5.
"""

import sys
from pathlib import Path

_TOO_OLD = """ioflame: {} is Python {}.{}; ioflame needs 3.10 or newer
  meaning: nothing was started
  fix: install a newer Python beside it, and name it: python3.11 {}
"""

if __name__ == "__main__":
    if sys.version_info < (3, 10):  # noqa: UP036 - the Python of a host, not that of a package
        sys.stderr.write(_TOO_OLD.format(sys.executable, *sys.version_info[:2], sys.argv[0]))
        sys.exit(3)
    sys.path[0] = str(Path(__file__).resolve().parent / "lib")
    from ioflame.cli import main

    sys.exit(main())
