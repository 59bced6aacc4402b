"""Trials: a way to store rows is fitted, asked questions and measured, in one place for all comparisons.

``questions.py`` has the stored rows, the queries and the figures. ``ways.py`` stores rows, in the form of
``stored.py``. ``trial.py`` fits, asks and measures, and resumes after an interruption.
"""
