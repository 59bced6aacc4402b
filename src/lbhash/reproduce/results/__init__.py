"""Results: tables, figures and regressions, and how they are written."""

from lbhash.reproduce.results.experiment_result import Cell, Record, Result, lift_counts
from lbhash.reproduce.results.regression import Regression

__all__ = ["Cell", "Record", "Regression", "Result", "lift_counts"]
