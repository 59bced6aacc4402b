"""What is trained: settings, data, runs, their execution, and the store of finished ones."""

from lbhash.reproduce.runs.config import CODES, FINAL, SECONDS, TRAJECTORY, RunConfig
from lbhash.reproduce.runs.grid import BITS, completed, grid, pairs, row_head, seeds_text, single_label, with_setting
from lbhash.reproduce.runs.settings import METHOD_TITLES, METHODS, Settings, command_line
from lbhash.reproduce.runs.sources import Source, UnsuitableData

__all__ = ["BITS", "CODES", "FINAL", "METHODS", "METHOD_TITLES", "SECONDS", "TRAJECTORY", "RunConfig", "Settings"]
__all__ += ["Source", "UnsuitableData", "command_line", "completed", "grid", "pairs", "row_head", "seeds_text"]
__all__ += ["single_label", "with_setting"]
