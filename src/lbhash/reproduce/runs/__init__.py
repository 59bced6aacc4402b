"""What is trained: settings, data, and the one runner that trains and evaluates for every table."""

from lbhash.reproduce.runs.settings import METHOD_TITLES, METHODS, Settings, command_line
from lbhash.reproduce.runs.sources import Source, UnsuitableData

__all__ = ["METHODS", "METHOD_TITLES", "Settings", "Source", "UnsuitableData", "command_line"]
