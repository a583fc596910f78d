"""Tests of what ioflame does. Messages are worded as for `make profile`, whoever starts pytest."""

import os

os.environ["IOFLAME_BY"] = "make"
