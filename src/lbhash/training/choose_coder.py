"""Which method fits rows without labels best, where none is named: four are compared on rows held out of them."""

from __future__ import annotations

import dataclasses
from typing import NamedTuple

import numpy as np

from lbhash.codes.real import Asked
from lbhash.data.split import EmbeddingSplit
from lbhash.evaluation.neighbors import expected_recall, nearest_by_cosine
from lbhash.training.coders.base import MOST_TRAINED
from lbhash.training.fit_coder import fit_coder
from lbhash.training.settings import Settings

COMPARED = ("signs", "lsh", "itq", "sne")
NEAREST = 10
CANDIDATES = 100
TIE = 0.01
"""A share of the ten nearest that nobody would notice: of methods so near to the best, re-ranking decides."""
FEWEST = 100
"""The rows from which on methods are compared; of fewer, too few would be held out to tell them apart."""
MOST_ASKED, MOST_HELD = 500, 100_000
"""The most rows that are held out, and that they are searched in. Neighbors lie closer in more rows."""


class Tried(NamedTuple):
    """What a method finds of the ten nearest of each held-out row, as a share.

    Rows are asked by their real outputs. ``recall`` is that of the codes alone, and ``reranked`` after the nearest 100
    codes are ranked again by cosine.
    """

    method: str
    recall: float
    reranked: float


def compare_methods(settings: Settings, split: EmbeddingSplit) -> list[Tried]:
    """Compare the methods that need no labels, the best first.

    That is the one with the highest recall of the codes alone, or of several within ``TIE`` of it the one with the
    highest recall after re-ranking.

    A tenth of the rows is held out, 500 at most, and searched for in the others, 100,000 at most. Methods are fitted
    to a sample of these. ``signs`` takes part if the embeddings have as many numbers as the codes bits.

    Args:
        settings: of the fits; their method is not looked at.
        split: at least ``FEWEST`` rows.

    Raises:
        TypeError, ValueError: as of ``fit_coder``.
    """
    bits = settings.checked().bits
    asked = np.zeros(len(split), bool)
    chosen = np.random.default_rng(settings.seed).permutation(len(split))
    asked[chosen[: min(MOST_ASKED, len(split) // 10)]] = True
    query, base = split.where(asked), split.where(~asked).subsample(MOST_HELD, settings.seed)
    fitted = dataclasses.replace(base.subsample(MOST_TRAINED, settings.seed), labels=None)
    asked_rows, held_rows = (part.embeddings[part.rows] for part in (query, base))
    nearest = nearest_by_cosine(asked_rows, held_rows, NEAREST)
    tried = []
    for method in COMPARED:
        if method == "signs" and bits > split.dim:
            continue
        model = fit_coder(settings, method, fitted, 0)[0].encoder()
        found: dict[int, list[float]] = {NEAREST: [], CANDIDATES: []}
        for some, distances in Asked(model.outputs(asked_rows)).blocks(model.encode(held_rows)):
            for count, recalls in found.items():
                recalls += expected_recall(distances, nearest[some], min(count, len(base))).tolist()
        tried.append(Tried(method, *map(float, map(np.mean, found.values()))))
    enough = max(one.recall for one in tried) - TIE

    def order(one: Tried) -> tuple[bool, float]:
        return one.recall >= enough, one.reranked if one.recall >= enough else one.recall

    return sorted(tried, key=order, reverse=True)
