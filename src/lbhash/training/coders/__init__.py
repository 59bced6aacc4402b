"""Coders: methods that fit a small model to embeddings with their own settings, most of them without labels."""

from __future__ import annotations

from typing import Any

from lbhash.training.coders.base import Coder
from lbhash.training.coders.cibhash import CIBHash
from lbhash.training.coders.itq import ITQ
from lbhash.training.coders.logistic import Logistic
from lbhash.training.coders.lsh import LSH
from lbhash.training.coders.ridge import Ridge
from lbhash.training.coders.sdc import SDC
from lbhash.training.coders.signs import Signs
from lbhash.training.coders.sne import SNE
from lbhash.training.coders.wccn_itq import WCCNITQ

CODERS: dict[str, type[Coder]] = {
    "signs": Signs,
    "lsh": LSH,
    "itq": ITQ,
    "sne": SNE,
    "sdc": SDC,
    "cibhash": CIBHash,
    "ridge": Ridge,
    "wccn-itq": WCCNITQ,
    "logistic": Logistic,
}
"""The coders by their name for ``method``; those that need no labels come first."""


def coder_of(method: Any) -> type[Coder] | None:
    """Return the coder with this name; None if the method is a loss (a name or a custom one)."""
    return CODERS.get(method.lower()) if isinstance(method, str) else None


def learns_classes(method: Any) -> bool:
    """Return whether a method learns classes: true for all methods except coders that need no labels."""
    coder = coder_of(method)
    return coder is None or coder.needs_labels


__all__ = ["CODERS", "Coder", "coder_of", "learns_classes"]
