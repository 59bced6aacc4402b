"""Coders: methods without a network, which fit a linear model in closed form or in a few rounds of linear algebra."""

from __future__ import annotations

from typing import Any

from lbhash.training.coders.base import Coder, LinearMap
from lbhash.training.coders.cca_itq import CCAITQ
from lbhash.training.coders.itq import ITQ
from lbhash.training.coders.logistic import Logistic
from lbhash.training.coders.lsh import LSH
from lbhash.training.coders.pca import PCA
from lbhash.training.coders.ridge import Ridge
from lbhash.training.coders.sdh import SDH
from lbhash.training.coders.wccn_itq import WCCNITQ

CODERS: dict[str, type[Coder]] = {
    "lsh": LSH,
    "pca": PCA,
    "itq": ITQ,
    "ridge": Ridge,
    "cca-itq": CCAITQ,
    "wccn-itq": WCCNITQ,
    "sdh": SDH,
    "logistic": Logistic,
}
"""The coders by the name that ``method`` takes, those that need no labels first."""

LABEL_FREE = "itq"
"""The coder of rows without labels, where no method is chosen."""


def coder_of(method: Any) -> type[Coder] | None:
    """Return the coder of that name; None if the method is a loss, by name or a custom one."""
    return CODERS.get(method) if isinstance(method, str) else None


__all__ = ["CCAITQ", "CODERS", "ITQ", "LABEL_FREE", "LSH", "PCA", "SDH", "Coder", "LinearMap", "Logistic"]
__all__ += ["WCCNITQ", "Ridge", "coder_of"]
