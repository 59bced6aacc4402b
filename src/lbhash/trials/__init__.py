"""Trials: a way to store rows is fitted, asked questions and measured, once for all that compares.

``questions.py`` says which rows are stored and asked, and with which figures; ``ways.py`` how rows are stored, which
``stored.py`` describes; ``trial.py`` fits, asks and measures, and goes on after an interruption.
"""
