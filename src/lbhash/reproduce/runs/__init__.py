"""The runs behind all tables: settings, data, training and evaluation."""

from lbhash.reproduce.runs.experiment_settings import METHOD_TITLES, METHODS, Settings, command_line
from lbhash.reproduce.runs.sources import Source, UnsuitableData

__all__ = ["METHODS", "METHOD_TITLES", "Settings", "Source", "UnsuitableData", "command_line"]
