"""Hyper-parameter search by the lower bound: the ratio of validation rows' codes replaces their mAP.

``tune`` searches and fits; ``search`` only searches. Optuna, the extra ``tune``, is loaded when a search begins.
"""

from lbhash.data import hold_out
from lbhash.evaluation.diagnostics import Diagnostic
from lbhash.evaluation.held_out import INTER_PERCENTILE, PERCENTILE, Score, score_codes
from lbhash.tuning.space import Space, default_space, read_space
from lbhash.tuning.trials import Trial, Tuning
from lbhash.tuning.tuner import search, tune

__all__ = ["INTER_PERCENTILE", "PERCENTILE", "Diagnostic", "Score", "Space", "Trial", "Tuning"]
__all__ += ["default_space", "hold_out", "read_space", "score_codes", "search", "tune"]
