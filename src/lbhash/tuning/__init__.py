"""Hyper-parameter search by the lower bound: the ratio of held-out rows' codes replaces their mAP.

``tune`` searches and fits; ``search`` only searches. Optuna, the extra ``tune``, is loaded when a search begins.
"""

from lbhash.tuning.tuner import SearchOptions, tune

__all__ = ["SearchOptions", "tune"]
