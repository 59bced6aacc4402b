"""The three losses that the paper compares in the same model, each alone."""

from __future__ import annotations

BCE, CAUCHY, GUIDANCE = "BCE", "Cauchy", "guidance"

LOSSES = {BCE: ("csq", "plain"), CAUCHY: ("dch", "plain"), GUIDANCE: ("csq", "replace")}
"""Method and recipe by the loss's name."""
NAMES = {recipe: name for name, recipe in LOSSES.items()}
