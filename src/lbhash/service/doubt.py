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
        self._outputs = model.outputs(embeddings[rows])
        self._small = np.median(np.abs(self._outputs)) / 4
        exact = self._outputs.astype(np.float64)
        norms = (exact**2).sum(axis=1)
        squares = norms[:, None] + norms - 2 * exact @ exact.T
        np.fill_diagonal(squares, np.inf)
        self._gaps = np.sort(squares.min(axis=1).clip(0))

    def judge(self, outputs: npt.NDArray) -> dict[str, Any]:
        """Return the fields ``doubt`` and ``unsure`` of ``lbhash.service.schemas.Query`` for outputs ``[bits]``.

        Small outputs alone do not tell noise from data: far from the data, a network's outputs are large.
        """
        squares = ((self._outputs - outputs) ** 2).sum(axis=1)
        itself = squares.min() < 1e-9 * squares.mean()  # the query may be a row of the sample
        gap = np.partition(squares, 1)[int(itself)]
        return {
            "doubt": float(np.searchsorted(self._gaps, gap) / len(self._gaps)),
            "unsure": np.flatnonzero(np.abs(outputs) < self._small).tolist(),
        }
