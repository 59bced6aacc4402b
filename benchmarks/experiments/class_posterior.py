"""Codes beside a classifier's answer, on rows that are held out of the training: may a code learn from the posterior?

    python -m benchmarks.experiments.class_posterior --data clinc=FILE --data cifar10=FILE --data tiny-imagenet=FILE \
        --out FOLDER --page docs/default.md

A quarter of the training rows is held out; a quarter of it is asked for the others. The mAP is that of the default by
distance and by the outputs of the query, of the stored bits turned back into a class posterior (softmax of minus half
of the distances to the centers) and ranked by the query's, and of the posterior itself, of which 1, 2, 3 or all classes
of a row are stored.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import product

import numpy as np
import pandas as pd
from benchmarks.experiments.shared import markdown, options, run, show

from lbhash.codes.real import signs_of
from lbhash.data.holdout import hold_out
from lbhash.data.split import EmbeddingSplit
from lbhash.hasher import Hasher, fit_split
from lbhash.trials.classifier import posterior, probabilities
from lbhash.trials.questions import Question
from lbhash.trials.stored import Rows, Scores, Stored
from lbhash.trials.trial import Trial
from lbhash.trials.ways import Fit, Store, codes, count_classes

PART = "class-posterior"
SHARPNESS = 0.5
"""Of the softmax over distances: of 0.25, 0.5, 1 and 2 the best on the mean over held-out rows of the three sets."""


def default(train: EmbeddingSplit, *, bits: int, seed: int) -> Iterator[Store]:
    """Yield the default's codes by distance and by outputs, and ranked by way of their centers."""
    classes = count_classes(train)
    hasher = fit_split(Hasher(bits, seed=seed), train, classes)
    model = fit_split(Hasher(8, method="logistic", seed=seed), train, classes).model_
    yield codes("default", bits, "", hasher.model_, 0.0, by=("itself", "outputs"))

    def through_centers(question: Question) -> Iterator[Stored]:
        asked = probabilities(model, question.query)
        base = np.concatenate([signs_of(hasher.encode(chunk))[:, :bits] for chunk in question.base.chunks()])
        apart = (bits - base @ hasher.centers_.T.astype(np.float32)) / 2
        known = np.exp(SHARPNESS * (apart.min(axis=1, keepdims=True) - apart))
        known /= known.sum(axis=1, keepdims=True)

        def scores(some: Rows) -> Scores:
            return -(asked[some] @ known.T)

        yield Stored("through centers", bits, bits // 8, True, "", 0.0, 0.0, scores, _nothing)

    yield through_centers


def _nothing(_: Rows, count: int) -> np.ndarray:
    return np.empty((0, count), np.int64)


def trials(data: list, bits: list[int], seeds: int) -> Iterator[tuple[dict, Trial]]:
    """Yield a trial for each length, and one of the classifier."""
    for source, seed in product(data, range(seeds)):
        train, held = hold_out(source.training()[0], 0.25, seed)
        base, query = hold_out(held, 0.25, seed)
        question = Question("held-out rows", base, query, ("map",))
        every = count_classes(train) - 1
        fits: dict[int, Fit] = {0: partial(posterior, seed=seed, counts=(1, 2, 3, every))}
        fits |= {length: partial(default, bits=length, seed=seed) for length in bits}
        for length, fit in fits.items():
            yield {"data": source.name, "length": length, "seed": seed}, Trial(fit, train, (question,))


def table(found: pd.DataFrame) -> str:
    """Return a line for each way, a column for each data set, means over seeds in percent."""
    ways = {"default": {"itself": "by distance", "outputs": "by outputs"}}
    found["stored"] = [
        f"{length} bits, {ways.get(way, {}).get(by, way)}" if length else way
        for length, way, by in zip(found["length"], found["way"], found["by"], strict=True)
    ]
    found["stored"] = found["stored"].str.replace(r"answer, (?!1 |2 |3 ).*", "answer, all classes", regex=True)
    order = found.sort_values("length", kind="stable")["stored"].drop_duplicates()
    cells = (100 * found.pivot_table("map", "stored", "data", sort=False)).loc[order].round(1)
    return markdown(cells.reset_index().astype(str))


def main(arguments: list[str] | None = None) -> None:
    """Run what is missing, and print the table."""
    given = options(__doc__, PART, data=None, bits=(16, 32, 64), seeds=1).parse_args(arguments)
    show(table(run(trials(given.data, given.bits, given.seeds), given)), PART, given.page)


if __name__ == "__main__":
    main()
