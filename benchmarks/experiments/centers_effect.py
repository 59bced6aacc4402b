"""What distance, opposite words and arrangement of class centers each do to the codes. Writes a part of a page.

    python -m benchmarks.experiments.centers_effect --data cifar10=FILE --data tiny-imagenet=FILE --page docs/centers.md

CSQ with the paper's settings, alone and with either pull. A fifth of the training rows is held out, and a figure is the
mAP of these, each a query to all others: no row of a base or a query is read. Each effect is a difference of two kinds
of words with the same seed, of which only "arranged" are not given to the classes in random order. The page has the
means over the pulls, and PAGE's folder gets centers-effect.csv with each.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import product
from unittest import mock

import numpy as np
import pandas as pd
from benchmarks.experiments.shared import fitted, held_out, markdown, options, run, show, write_csv

from lbhash.centers import class_centers
from lbhash.centers.arrange import arrange_centers
from lbhash.centers.choose import opposite_pairs
from lbhash.centers.distance import Centers, minimum_distance
from lbhash.data.split import EmbeddingSplit
from lbhash.hasher import Hasher
from lbhash.training.confusion import confusion
from lbhash.training.settings import grouped
from lbhash.trials.intervals import Interval
from lbhash.trials.trial import Trial
from lbhash.trials.ways import Store, count_classes

PART = "effect"
KINDS = ("in order", "signs", "pairs", "best-ratio", "arranged")
PULLS = {"alone": "none", "pull bits": "bits", "guidance": "surrogate"}
EFFECTS = {
    "no opposites": ("signs", "pairs"),
    "signs": ("signs", "in order"),
    "distance": ("best-ratio", "signs"),
    "arrangement": ("arranged", "best-ratio"),
}
"""Which kind less which other shows an effect."""

KEY = ["data", "bits", "pull", "seed"]


def words_of(kind: str, classes: int, bits: int, seed: int) -> Centers:
    """Return words of a kind but "arranged", in random order.

    "in order" are CSQ's rows of a Hadamard matrix, or, for more classes, of a code with fewer opposites; "signs" are
    these with random signs, as far as that makes no two nearer or opposite; "pairs" are half of these and their
    negatives, which is how lbhash once chose.
    """
    rng = np.random.default_rng(seed)
    if kind == "best-ratio":
        return rng.permutation(class_centers(classes, bits, kind))
    words = min((class_centers(classes, bits, one) for one in ("hadamard", "bch", "best")), key=opposite_pairs)
    if kind != "in order":
        least, pairs = minimum_distance(words), opposite_pairs(words)
        for row in np.flatnonzero(rng.random(classes) < 0.5):
            words[row] *= -1
            if minimum_distance(words) < least or opposite_pairs(words) > pairs:
                words[row] *= -1
    if kind == "pairs":
        words = np.stack([words, -words], axis=1).reshape(-1, bits)[:classes]
    return rng.permutation(words)


def trained(train: EmbeddingSplit, *, kind: str, pull: str, bits: int, seed: int, epochs: int) -> Iterator[Store]:
    """Yield the codes of CSQ with centers of a kind."""
    classes = count_classes(train)
    if kind == "arranged":
        words = arrange_centers(class_centers(classes, bits, "best-ratio"), confusion(train, classes), seed)
    else:
        words = words_of(kind, classes, bits, seed)
    own = {"pull": PULLS[pull], "centers": "best-ratio", "recipe": "paper", "seed": seed, "device": "cpu"}
    hasher = Hasher(**grouped(bits=bits, method="csq", epochs=epochs, **own))
    with mock.patch("lbhash.training.prepare.task_centers", return_value=words):
        yield from fitted(train, hasher=hasher)


def effects(maps: pd.DataFrame, by: list[str]) -> pd.DataFrame:
    """Return each effect in points of mAP, with half of its 95 % interval over the seeds; others are means."""
    less = pd.DataFrame({name: maps[one] - maps[other] for name, (one, other) in EFFECTS.items()})
    means = less.groupby([*by, "seed"], sort=False).mean()
    return means.groupby(by, sort=False).agg(lambda values: Interval.of(values).shown(1)).reset_index()


def main(arguments: list[str] | None = None) -> None:
    """Run what is missing, and write the tables."""
    given = options(__doc__, PART, data=None, bits=(16, 32, 64), epochs=12, seeds=10).parse_args(arguments)
    trials = []
    for source in given.data:
        train, question = held_out(source)
        for bits, pull, seed, kind in product(given.bits, PULLS, range(given.seeds), KINDS):
            fit = partial(trained, kind=kind, pull=pull, bits=bits, seed=seed, epochs=given.epochs)
            columns = {"data": source.name, "bits": bits, "pull": pull, "seed": seed, "kind": kind}
            trials.append((columns | {"epochs": given.epochs}, Trial(fit, train, (question,))))
    maps = 100 * run(trials, given).pivot_table("map", KEY, "kind", sort=False)
    show(markdown(effects(maps, KEY[:2])), PART, given.page)
    if given.page is not None:
        write_csv(effects(maps, KEY[:3]), given.page.with_name("centers-effect.csv"))


if __name__ == "__main__":
    main()
