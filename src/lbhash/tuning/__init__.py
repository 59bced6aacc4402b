"""Hyper-parameter search by the lower bound: the ratio of validation rows' codes replaces their mAP.

``tune`` searches and fits; ``search`` only searches. Optuna, the extra ``tune``, is loaded when a search begins.
"""

from lbhash.tuning.found import Tuning
from lbhash.tuning.space import Space, default_space, read_space
from lbhash.tuning.tuner import SearchOptions, search, tune

__all__ = ["SearchOptions", "Space", "Tuning", "default_space", "read_space", "search", "tune"]
