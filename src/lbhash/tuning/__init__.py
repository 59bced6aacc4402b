"""Hyper-parameters by the lower bound: the ratio of held-out rows' codes in the place of their mAP.

``tune`` searches and fits; ``search`` only searches. Optuna, the extra ``tune``, is loaded when a search begins.
"""

from lbhash.data import hold_out
from lbhash.evaluation.diagnostics import Caution
from lbhash.evaluation.held_out import INTER_PERCENTILE, PERCENTILE, Score, score_codes
from lbhash.tuning.space import Choice, Range, Space, default_space, read_space
from lbhash.tuning.trials import Trial, Tuning
from lbhash.tuning.tuner import search, tune

__all__ = ["INTER_PERCENTILE", "PERCENTILE", "Caution", "Choice", "Range", "Score", "Space", "Trial", "Tuning"]
__all__ += ["default_space", "hold_out", "read_space", "score_codes", "search", "tune"]
