"""The command line: read options, make one call, print its result."""

from lbhash.cli.app import main

__all__ = ["main"]
