"""The three losses that the paper holds against each other in the same model, each alone."""

from __future__ import annotations

BCE, CAUCHY, GUIDANCE = "BCE", "Cauchy", "guidance"

LOSSES = {BCE: ("csq", "plain"), CAUCHY: ("dch", "plain"), GUIDANCE: ("csq", "replace")}
"""Method and recipe by the loss's name."""

TEXT = """Three losses in the same model, each alone: **BCE**, CSQ's binary cross-entropy to the class's center;
**Cauchy**, DCH's Cauchy cross-entropy of pairs; **guidance**, the surrogate's −log P of the class's center, in the
place of a host's loss. BCE and Cauchy have the small quantization terms of their methods."""
