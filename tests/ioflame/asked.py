"""What is asked for by words of a command line, as commands get it."""

from __future__ import annotations

import argparse

from ioflame.commands.arguments import add_profile_arguments, profile_options
from ioflame.measure.options import ProfileOptions

__all__ = ("options",)


def options(*words: str) -> ProfileOptions:
    """Those of a profile; without words the defaults."""
    parser = argparse.ArgumentParser()
    add_profile_arguments(parser)
    return profile_options(parser.parse_args(words))
