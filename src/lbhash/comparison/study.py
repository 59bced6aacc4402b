"""``compare``: what the rows of one's own data could be stored as, and what each way answers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import fields
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from lbhash.codes.packing import MAX_BITS
from lbhash.comparison.result import Comparison, Line
from lbhash.data import Dataset
from lbhash.data.holdout import hold_out
from lbhash.data.protocols import trained_classes
from lbhash.data.readers import check_embeddings
from lbhash.data.split import EmbeddingSplit
from lbhash.data.table import EmbeddingTable
from lbhash.hasher import Hasher
from lbhash.training.settings import grouped
from lbhash.trials import ways
from lbhash.trials.questions import NEAREST, Question
from lbhash.trials.stored import Way
from lbhash.trials.trial import Measured, Trial, kept_folder, run_trials
from lbhash.trials.ways import Fit
from lbhash.utils.arrays import as_matrix
from lbhash.utils.labels import read_labels
from lbhash.utils.system import TRAINING, check_packages
from lbhash.utils.validation import check_int, check_ints
from lbhash.utils.version import __version__

BITS = (16, 32, 64, 128)
MOST_TRAIN, MOST_BASE, MOST_QUERIES = 20_000, 20_000, 1_000
"""The most rows of each split that take part; of more, as many are drawn."""
FEWEST_LATER = 8
"""The classes from which on half of them are left out of training, to ask for classes that come later."""
_FIGURES = {"known": {"map": "known", "recall": "nearest"}, "later": {"map": "later"}}
"""What the figures of either trial answer, of the questions of a comparison."""


def compare(
    X: npt.ArrayLike,
    y: npt.ArrayLike | None = None,
    bits: Sequence[int] = BITS,
    out: str | Path | None = None,
    **settings: Any,
) -> Comparison:
    """Compare ways to store rows of embeddings. A tenth of the rows are queries, and a tenth is stored.

    Args:
        X: embeddings ``[n, dim]``.
        y: labels ``[n]``, or multi-hot ``[n, C]``; None if there are none.
        bits: lengths of the codes.
        out: a folder for the results.
        settings: those of ``compare_dataset``, which says what is measured and what is refused.

    >>> from sklearn.datasets import load_digits
    >>> found = compare(load_digits().data[:200], bits=[8])
    >>> print(found)  # doctest: +ELLIPSIS
    For the nearest items take ... recall@10 ...; the embeddings have 256 bytes and 1.000.
    """
    rows = np.asarray(as_matrix(X, "X"))
    check_embeddings(rows, "X")
    table = EmbeddingTable(rows, None, "X")
    if y is not None:
        labels = read_labels(y, "y")
        if len(labels) != len(rows):
            raise ValueError(f"y has {len(labels)} labels and X {len(rows)} rows; give a label for each row")
        table = EmbeddingTable(rows, labels.numbers, "X", class_names=labels.classes)
    return compare_dataset(table.dataset(seed=settings.get("seed", 0)), bits, out, **settings)


def compare_dataset(
    dataset: Dataset[EmbeddingSplit],
    bits: Sequence[int] = BITS,
    out: str | Path | None = None,
    *,
    seed: int = 0,
    epochs: int = 30,
    workers: int = 1,
    progress: bool = False,
) -> Comparison:
    """Store the base of a data set in many ways, and measure the quality, the bytes and the time of each.

    Three questions are asked of each way. Does it find rows of the query's class, if the class was trained on (mAP)?
    Does it find them if the class was not trained on (mAP, after a second fit on half of the classes)? Does it find the
    ten rows whose embeddings are nearest (recall)? Queries were not trained on; with labels, nor was the base. Half of
    the queries choose the recommendation, and the figures are those of the other half.

    Args:
        dataset: embeddings, with labels or without. Of more than 20,000 rows to train or 20,000 of the base, or 1,000
            queries, as many are drawn.
        bits: lengths of the codes.
        out: a folder for the results: each is written as it comes, and a comparison that was interrupted goes on.
        seed: of everything.
        epochs: of the networks.
        workers: processes that fit at the same time, with a thread each. A script that asks for more than one must
            guard its main program (``if __name__ == "__main__"``).
        progress: show a progress bar.

    Raises:
        TypeError, ValueError: a number is not as above, there are too few rows or one class, or ``out`` holds another
            comparison.
    """
    check_packages("compare", "train", *TRAINING)
    import lbhash.training.fit  # noqa: F401  # or the seconds that it takes to load would count as the first way's

    lengths = sorted(set(check_ints(bits, "bits", 1, MAX_BITS)))
    if not lengths:
        raise ValueError("bits is empty; it must hold a length at least, such as 32")
    check_int(seed, "seed", 0)
    check_int(epochs, "epochs", 1)
    check_int(workers, "workers", 1)
    dataset.check_several_classes()
    train, base, query = _rows(dataset, seed)
    known, later = Question("known", base, query), _later(train, base, query, seed)
    parts = {"known": (train, known)} | ({} if later is None else {"later": later})
    splits = {"train": train, "base": base, "query": query}
    classes = ways.count_classes(train)
    about = {
        "data": dataset.name,
        "lbhash": __version__,
        "bits": lengths,
        "seed": seed,
        "epochs": epochs,
        "dim": train.dim,
        "classes": classes,
        "rows": {name: len(split) for name, split in splits.items()},
        "fingerprint": [split.fingerprint() for split in splits.values()],
    }
    folder = None if out is None else kept_folder(Path(out), about, "comparison")
    trials = {
        f"{name}-{part}": Trial(fit, fitted, (question,))
        for part, (fitted, question) in parts.items()
        for name, fit in _ways(classes > 0, lengths, seed, epochs)
    }
    found = run_trials(trials, folder, workers, progress=progress)
    comparison = Comparison(tuple(_lines([one for some in found.values() for one in some], seed)), about)
    if out is not None:
        comparison.save(out)
    return comparison


def _ways(labels: bool, bits: Sequence[int], seed: int, epochs: int) -> Iterator[tuple[str, Fit]]:
    """Yield what is fitted, by name."""
    yield "any-bits", ways.of_any_bits
    for length in bits:
        settings: dict[str, Any] = {"bits": length, "seed": seed}
        if labels:
            yield f"network-{length}", partial(ways.network, **settings, epochs=epochs)
        for method in ("itq", "sne"):
            yield f"{method}-{length}", partial(ways.hashed, hasher=Hasher(**grouped(method=method, **settings)))
        yield f"opq-{length}", partial(ways.product_quantization, **settings)
        if labels:
            hasher = Hasher(**grouped(method="logistic", **settings))
            yield f"logistic-{length}", partial(ways.logistic, hasher=hasher, class_number=length == bits[0])


def _lines(found: Sequence[Measured], seed: int) -> Iterator[Line]:
    """Yield the line of each way: its figures by either half of the queries."""
    lines: dict[tuple[Any, ...], Line] = {}
    for one in found:
        way = {part.name: getattr(one, part.name) for part in fields(Way)}
        times = {name: round(getattr(one, name), 4) for name in ("fit", "encode", "search")}
        line = lines.setdefault((one.name, one.bits, one.rerank), Line(**{**way, **times}, chosen={}, shown={}))
        for name, question in _FIGURES[one.question].items():
            if name in one.figures:
                values = np.random.default_rng(seed).permutation(one.figures[name])
                line.chosen[question] = _mean(values[: len(values) // 2])
                line.shown[question] = _mean(values[len(values) // 2 :])
    yield from lines.values()


def _rows(dataset: Dataset[EmbeddingSplit], seed: int) -> tuple[EmbeddingSplit, EmbeddingSplit, EmbeddingSplit]:
    """Return the rows to train on, of the base and of the queries, with classes numbered as the training rows' are.

    With labels the base is rows that are not trained on; where there are none, a tenth of the training rows becomes
    the base. Without labels, what is stored is what a user would fit to.
    """
    train, base = dataset.train, dataset.base
    if train.labels is not None:
        base = base.where(~dataset.trained_base())
        if len(base) <= NEAREST:
            train, base = hold_out(train, 0.1, seed, purpose="a comparison")
    if len(base) <= NEAREST:
        raise ValueError(f"{dataset.name} has {len(base)} rows to store; a comparison needs more than {NEAREST}")
    sizes = zip((train, base, dataset.query), (MOST_TRAIN, MOST_BASE, MOST_QUERIES), strict=True)
    train, *others = (_dense(part.labeled().subsample(most, seed)) for part, most in sizes)
    if train.labels is None:
        return train, others[0], others[1]
    train, classes = train.compact()
    for place, part in enumerate(others):
        labels = np.asarray(part.labels)
        if labels.ndim == 2:
            others[place] = part.with_rows(part.rows, labels[:, classes])
        else:
            known = part.where(np.isin(labels, classes))
            others[place] = known.with_rows(known.rows, np.searchsorted(classes, np.asarray(known.labels)))
    return train, others[0], others[1]


def _dense(part: EmbeddingSplit) -> EmbeddingSplit:
    """Return a split of a table that holds its rows alone, which another process gets."""
    return EmbeddingSplit(part.embeddings[part.rows], np.arange(len(part)), part.labels)


def _later(
    train: EmbeddingSplit, base: EmbeddingSplit, query: EmbeddingSplit, seed: int
) -> tuple[EmbeddingSplit, Question] | None:
    """Return training rows of half of the classes, and a question about the others; None if there are too few."""
    if train.labels is None or train.labels.ndim == 2 or ways.count_classes(train) < FEWEST_LATER:
        return None
    trained = trained_classes(train.labels, seed)
    base, query = (part.where(~np.isin(np.asarray(part.labels), trained)) for part in (base, query))
    if len(base) <= NEAREST:
        return None
    return train.where(np.isin(train.labels, trained)).compact()[0], Question("later", base, query, ("map",))


def _mean(values: npt.NDArray[np.float64]) -> float | None:
    return None if np.isnan(values).all() else round(float(np.nanmean(values)), 4)
