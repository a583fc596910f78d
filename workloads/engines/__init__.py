"""The engines, a folder each. More may be given with IOFLAME_ENGINES: directories that hold such folders."""

import os

__path__ += filter(None, os.environ.get("IOFLAME_ENGINES", "").split(os.pathsep))
