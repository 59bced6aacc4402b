"""How far a query's outputs are from those that the model is sure of."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from lbhash.models.hash_model import HashModel

SAMPLE = 1000  # rows


class Usual:
    """What the outputs of a model usually are, by a sample of ``embeddings`` ``[n, dim]``, two rows or more."""

    def __init__(self, model: HashModel, embeddings: npt.NDArray) -> None:
        rows = np.arange(len(embeddings))
        if len(rows) > SAMPLE:
            rows = np.sort(np.random.default_rng(0).choice(rows, SAMPLE, replace=False))
        self._outputs = model.outputs(embeddings[rows]).astype(np.float64)
        self._small = np.median(np.abs(self._outputs)) / 4
        self._gaps = np.sort([self._gap(one) for one in self._outputs])

    def judge(self, outputs: npt.NDArray) -> dict[str, Any]:
        """Return the fields ``doubt`` and ``unsure`` of ``lbhash.service.schemas.Query`` for outputs ``[bits]``.

        Small outputs alone do not tell noise from data: far from the data, a network's outputs are large.
        """
        nearer = np.searchsorted(self._gaps, self._gap(outputs.astype(np.float64)))
        return {
            "doubt": float(nearer / len(self._gaps)),
            "unsure": np.flatnonzero(np.abs(outputs) < self._small).tolist(),
        }

    def _gap(self, outputs: npt.NDArray) -> float:
        """Return the distance to the nearest outputs of the sample, which may hold this row itself."""
        squares = ((self._outputs - outputs) ** 2).sum(axis=1)
        return float(np.sqrt(np.partition(squares, 1)[1 if squares.min() < 1e-9 * (1 + squares.mean()) else 0]))
