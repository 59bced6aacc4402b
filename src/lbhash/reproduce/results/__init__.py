"""What is shown: tables, figures, intervals and regressions, and how they are written."""

from lbhash.reproduce.results.interval import Interval, lift_counts
from lbhash.reproduce.results.regression import Regression
from lbhash.reproduce.results.result import Cell, Record, Result

__all__ = ["Cell", "Interval", "Record", "Regression", "Result", "lift_counts"]
