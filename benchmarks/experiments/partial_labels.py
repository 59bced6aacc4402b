"""Rows of which some have no label: train on the others alone, or guess their labels? Writes a part of a page.

    python -m benchmarks.experiments.partial_labels --data clinc=FILE --data cifar10=FILE --data tiny-imagenet=FILE \
        --page docs/training.md

The default with 32 bits. A fifth of the training rows is held out, and labels of the others are taken away at random.
The figure is the mAP of the rows that are held out, each a query to all others.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import product
from unittest import mock

import numpy as np
from benchmarks.experiments.shared import fitted, held_out, markdown, options, run, show

from lbhash.data.split import EmbeddingSplit
from lbhash.hasher import Hasher
from lbhash.trials.trial import Trial
from lbhash.trials.ways import Store
from lbhash.utils.labels import UNLABELED

PART = "partial-labels"
SHARES = (0.05, 0.1, 0.2, 0.3, 0.5, 0.9)
"""Of rows that keep their label."""
WAYS = {"guessed": 2.0, "left out": 0.0}
"""The share of labels from which on the other rows are left out."""


def trained(train: EmbeddingSplit, *, way: str, seed: int) -> Iterator[Store]:
    """Yield the codes of a network that treats missing labels in one way."""
    with mock.patch("lbhash.training.partial.ENOUGH", WAYS[way]):
        yield from fitted(train, hasher=Hasher(32, seed=seed))


def without_labels(rows: EmbeddingSplit, share: float, seed: int) -> EmbeddingSplit:
    """Return the rows, of which a share keeps the label, and one row of each class at least."""
    labels = np.array(rows.labels)
    first = np.unique(labels, return_index=True)[1]
    order = np.random.default_rng(seed).permutation(len(labels))
    labels[np.setdiff1d(order[round(share * len(labels)) :], first)] = UNLABELED
    return rows.with_rows(rows.rows, labels)


def main(arguments: list[str] | None = None) -> None:
    """Run what is missing, and write the table."""
    given = options(__doc__, PART, data=None, seeds=2).parse_args(arguments)
    trials = []
    for source, seed, share, way in product(given.data, range(given.seeds), SHARES, WAYS):
        train, question = held_out(source)
        columns = {"data": source.name, "share": share, "missing": way, "seed": seed}
        fit = partial(trained, way=way, seed=seed)
        trials.append((columns | {"bits": 32}, Trial(fit, without_labels(train, share, seed), (question,))))
    maps = 100 * run(trials, given).pivot_table("map", ["share", "data"], "missing", sort=False)
    cells = maps.apply(lambda means: ", ".join(f"{means[way]:.1f}" for way in WAYS), axis=1).unstack()
    show(markdown(cells.reset_index().astype(str)), PART, given.page)


if __name__ == "__main__":
    main()
