"""The command line: options in, one call, what comes back printed."""

from lbhash.cli.app import main

__all__ = ["main"]
