"""Choose a method for rows without labels, if none is named: compare four on held-out rows."""

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
"""A negligible difference in recall@10: among methods this close to the best, recall after re-ranking decides."""
FEWEST = 100
"""The fewest rows for comparing methods; with fewer, the held-out rows could not tell them apart."""
MOST_ASKED, MOST_HELD = 500, 100_000
"""The most held-out rows, and the most rows they search. (With more rows, neighbors are closer.)"""


class Tried(NamedTuple):
    """A method's recall@10 on held-out rows.

    The held-out rows are real-valued queries. ``recall`` is that of the codes alone; ``reranked`` is the recall after
    the nearest 100 codes are re-ranked by cosine.
    """

    method: str
    recall: float
    reranked: float


def compare_methods(settings: Settings, split: EmbeddingSplit) -> list[Tried]:
    """Compare the methods that need no labels; return the best first.

    The best has the highest recall of the codes alone; among methods within ``TIE`` of it, the highest recall after
    re-ranking.

    A tenth of the rows (at most 500) is held out; they search the other rows (at most 100,000). Methods are fitted to a
    sample of these other rows. ``signs`` takes part only if the embeddings have at least as many numbers as the codes
    have bits.

    Args:
        settings: the settings of the fits; their method is ignored.
        split: at least ``FEWEST`` rows.

    Raises:
        TypeError, ValueError: as for ``fit_coder``.
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
