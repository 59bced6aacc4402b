"""What is shown: tables, figures, intervals and regressions, and how they are written."""

from lbhash.reproduce.results.result import Cell, Record, Regression, Result, lift_counts

__all__ = ["Cell", "Record", "Regression", "Result", "lift_counts"]
