"""``compare``: the ways to store rows of your data, and the figures of each."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from lbhash.codes.packing import MAX_BITS
from lbhash.comparison.result import Comparison, Line
from lbhash.data import Dataset
from lbhash.data.holdout import hold_out
from lbhash.data.protocols import PROTOCOLS, trained_classes
from lbhash.data.readers import check_embeddings
from lbhash.data.split import EmbeddingSplit
from lbhash.data.table import EmbeddingTable
from lbhash.hasher import Hasher
from lbhash.training.settings import grouped
from lbhash.trials import rivals, ways
from lbhash.trials.classifier import posterior
from lbhash.trials.questions import NEAREST, Question, Values
from lbhash.trials.stored import EMBEDDINGS, Stage, Way
from lbhash.trials.trial import Measured, Trial, kept_folder, run_trials
from lbhash.trials.ways import Fit
from lbhash.utils.arrays import as_matrix
from lbhash.utils.labels import has_label, read_labels
from lbhash.utils.system import TRAINING, check_packages
from lbhash.utils.validation import check_int, check_ints
from lbhash.utils.version import __version__

BITS = (16, 32, 64, 128)
SPLITS = 3
"""How often rows, and the classes that come later, are drawn."""
MOST_ROWS = 20_000
"""The most stored rows, and the most training rows, of a split; larger data are sampled."""
MOST_NEW, MOST_QUERIES = 2_000, 300
"""The most stored rows of a question about classes, and the most queries, of a split."""
TIMED = 50
"""Queries that are asked at once, to time a search."""
SHARE_LATER = 0.2
"""Share of rows and queries of later classes, in the question about a mixture."""
CLOSE, FAR = 0.02, 0.05
"""How far behind a way may be in the first split to be measured in the others.

A trial is repeated if one of its ways is at most ``CLOSE`` below the best way that is as light, and at most ``FAR``
below the best of all.
"""
FEWEST_LATER = 8
"""The fewest classes with which half of them are left out of training, to ask for classes that come later."""
STAGES = tuple(Stage(vectors, count) for vectors in ("int8", "embeddings") for count in (100, 200))
"""The second stages, after each of which every way is measured."""
_FIGURES = {"known": "map", "later": "map", "mixed": "map", "nearest": "recall", "third": "recall"}
"""The figure that answers each question of a trial."""

Queries: TypeAlias = "npt.NDArray[np.intp]"
Parts: TypeAlias = "Mapping[str, tuple[EmbeddingSplit, tuple[Question, ...]]]"


def compare(
    X: npt.ArrayLike,
    y: npt.ArrayLike | None = None,
    bits: Sequence[int] = BITS,
    out: str | Path | None = None,
    **settings: Any,
) -> Comparison:
    """Compare ways to store rows of embeddings, by what new queries find.

    Args:
        X: embeddings ``[n, dim]``.
        y: labels ``[n]``, or multi-hot ``[n, C]``; None if there are none.
        bits: lengths of the codes.
        out: a folder for the results.
        settings: other arguments of ``compare_dataset``, which describes the figures and the errors.

    >>> from sklearn.datasets import load_digits
    >>> found = compare(load_digits().data[:200], bits=[8])
    >>> print(found)  # doctest: +ELLIPSIS
    For the nearest items take ...
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
    count: int | None = None,
    seed: int = 0,
    epochs: int = 30,
    workers: int = 1,
    progress: bool = False,
    reading: Mapping[str, str] | None = None,
) -> Comparison:
    """Store rows in many ways, and measure the quality, the bytes and the time of each.

    Each way is asked four questions, in three splits of the rows, with queries that were not trained on:

    - Does it find new rows of the query's class, if the class was trained on (mAP)?
    - The same, if the class was not trained on (mAP, after a second fit on half of the classes)?
    - The same in a mixture, where a fifth of rows and queries are of classes that were not trained on?
    - Does it find the ten rows with the nearest embeddings, among all rows (recall)?

    Each way is measured alone, and with 100 and 200 candidates re-ranked by vectors on disk. Half of the queries choose
    the recommendation; the figures are from the other half. Ways that are far behind in the first split are not
    measured in the others; their figures are shifted by the embeddings' change from the first split to all splits.

    Args:
        dataset: embeddings, with or without labels. Training rows and queries are those of the data's own splits;
            without splits they are drawn. A split has at most 20,000 training rows, 20,000 stored rows (2,000 new rows
            for questions about classes) and 300 queries.
        bits: lengths of the codes.
        out: a folder for the results. Each is written at once, and an interrupted comparison resumes.
        count: the expected number of rows; by default that of the data set.
        seed: seed of everything random.
        epochs: epochs of the networks.
        workers: processes that fit at the same time, with a thread each. A script that asks for more than one must
            guard its main program (``if __name__ == "__main__"``).
        progress: show a progress bar.
        reading: passed to the ``Comparison``.

    Raises:
        TypeError, ValueError: a number is not as above, there are too few rows or one class, or ``out`` holds another
            comparison.
    """
    check_packages("compare", "train", *TRAINING)
    import lbhash.training.fit  # noqa: F401  # or the seconds that it takes to load would count as the first way's

    lengths = sorted(set(check_ints(bits, "bits", 1, MAX_BITS)))
    if not lengths:
        raise ValueError("bits is empty; give at least one length, such as 32")
    count = None if count is None else check_int(count, "count", 1)
    check_int(seed, "seed", 0)
    check_int(epochs, "epochs", 1)
    check_int(workers, "workers", 1)
    dataset.check_several_classes()
    rows = _rows(dataset)
    splits = [_split(dataset.name, rows, seed + number) for number in range(SPLITS)]
    (train, (first, *_)), *_ = splits[0].values()
    about = {
        "data": dataset.name,
        "lbhash": __version__,
        "bits": lengths,
        "seed": seed,
        "epochs": epochs,
        "dim": train.dim,
        "classes": ways.count_classes(train),
        "unlabeled": 0 if train.labels is None else int((~has_label(np.asarray(train.labels))).sum()),
        "splits": SPLITS,
        "rows": {"train": len(train)}
        | {question.name: len(question.base) for _, some in splits[0].values() for question in some},
        "queries": len(first.query),
        "fingerprint": [part.fingerprint() for part in rows if part is not None],
    }
    folder = None if out is None else kept_folder(Path(out), about, "comparison")
    found: list[dict[str, list[Measured]]] = []
    for number, parts in enumerate(splits):
        near = _near(found[0], seed) if found else None
        trials = {
            f"{name}-{part}-{number}": Trial(fit, fitted, questions)
            for part, (fitted, questions) in parts.items()
            for name, fit in _ways(fitted, lengths, seed + number, epochs, later=part == "half")
            if near is None or f"{name}-{part}" in near
        }
        made = run_trials(trials, folder, workers, progress=progress)
        found.append({name.rpartition("-")[0]: some for name, some in made.items()})
    total = len(dataset.train) + int((~dataset.trained_base()).sum()) + (0 if rows.query else len(dataset.query))
    comparison = Comparison(_lines(found, seed), about, count or total, reading or {})
    if out is not None:
        comparison.save(out)
    return comparison


def _ways(
    train: EmbeddingSplit, bits: Sequence[int], seed: int, epochs: int, *, later: bool
) -> Iterator[tuple[str, Fit]]:
    """Yield the fits by name, longest codes first, for classes that were trained on or come ``later``."""
    labels = train.labels is not None
    for length in reversed(bits):
        settings: dict[str, Any] = {"bits": length, "seed": seed}
        if labels:
            yield f"network-{length}", partial(ways.network, **settings, epochs=epochs)
        yield f"rivals-{length}", partial(rivals.of_bits, **settings)
        for method in ("itq", *(["wccn-itq"] if labels else []), *([] if later else ["sne"])):
            yield f"{method}-{length}", partial(ways.hashed, hasher=Hasher(**grouped(method=method, **settings)))
    if labels:
        yield "classifier", partial(posterior, seed=seed)
    yield "embeddings", ways.embeddings
    yield "signs", ways.signs
    yield "rivals", rivals.of_any_bits


def _near(found: Mapping[str, Sequence[Measured]], seed: int) -> set[str]:
    """Return the trials to repeat: in the first split, a way was near the best, and near the best that is as light."""
    halves, near = _halves([found], seed), {"embeddings-all", "embeddings-half"}
    for question, figure in _FIGURES.items():
        if question in halves:
            (chosen, _), *_ = halves[question]
            means = [
                (one.weight, one.figures[figure][chosen].mean(), name)
                for name, some in found.items()
                for one in some
                if one.question == question and one.name != EMBEDDINGS
            ]
            best, lightest = max(mean for _, mean, _ in means), 0.0
            for _, mean, name in sorted(means, key=lambda one: (one[0], -one[1])):
                lightest = max(lightest, mean)
                if mean >= lightest - CLOSE and mean >= best - FAR:
                    near.add(name)
    return near


def _lines(found: Sequence[Mapping[str, Sequence[Measured]]], seed: int) -> tuple[Line, ...]:
    """Return the line of each way: its figures in each split, for both halves of the queries."""
    halves, made = _halves(found, seed), []
    splits: dict[tuple[Any, ...], dict[tuple[int, str], Measured]] = {}
    for number, trials in enumerate(found):
        for one in (one for some in trials.values() for one in some):
            splits.setdefault((one.name, one.bits, one.vectors, one.rerank), {})[number, one.question] = one
    for measured in splits.values():
        timed = max(measured.values(), key=lambda one: one.search)
        way = {part.name: getattr(timed, part.name) for part in fields(Way)}
        times = {name: round(getattr(timed, name), 4) for name in ("fit", "encode", "search")}
        chosen: dict[str, Values] = {}
        shown: dict[str, Values] = {}
        for question, figure in _FIGURES.items():
            if question in halves and (0, question) in measured:
                for at, part in enumerate((chosen, shown)):
                    rows = [
                        measured[number, question].figures[figure][half[at]]
                        for number, half in enumerate(halves[question])
                        if (number, question) in measured
                    ]
                    part[question] = np.stack([some[: min(map(len, rows))] for some in rows])
        made.append(Line(**{**way, **times}, chosen=chosen, shown=shown))
    exact = next(line.shown for line in made if line.name == EMBEDDINGS)
    return tuple(
        replace(line, shown={name: _of_all(line.shown[name], exact[name]) for name in line.shown}) for line in made
    )


def _of_all(shown: Values, exact: Values) -> Values:
    """Return figures ``[splits, queries]``; those measured only in the first split are shifted to all splits.

    The shift is the embeddings' change from the first split to all splits, because later classes are harder in some.
    """
    return shown if len(shown) == len(exact) else np.clip(shown + exact.mean() - exact[: len(shown)].mean(), 0, 1)


def _halves(found: Sequence[Mapping[str, Sequence[Measured]]], seed: int) -> dict[str, list[tuple[Queries, Queries]]]:
    """Return the queries of each split for which a question's figure is defined: those that choose, and the others."""
    halves: dict[str, list[tuple[Queries, Queries]]] = {}
    for question, figure in _FIGURES.items():
        for number, trials in enumerate(found):
            measured = (one for some in trials.values() for one in some if one.question == question)
            if one := next(measured, None):
                order = np.random.default_rng([seed, number]).permutation(len(one.figures[figure]))
                order = order[~np.isnan(one.figures[figure][order])]
                if len(order) > 1:
                    half = len(order) // 2
                    halves.setdefault(question, []).append((order[:half], order[half:]))
    return {question: parts for question, parts in halves.items() if len(parts) == len(found)}


class _Rows(NamedTuple):
    """Rows that take part, with classes numbered without gaps.

    ``new`` rows, which are stored and not trained on, and ``query`` are given if the data have their own splits.
    """

    train: EmbeddingSplit
    new: EmbeddingSplit | None = None
    query: EmbeddingSplit | None = None

    @property
    def stored(self) -> EmbeddingSplit:
        """All rows but the queries."""
        return self.train if self.new is None else _joined(self.train, self.new)


def _rows(dataset: Dataset[EmbeddingSplit]) -> _Rows:
    """Return the rows that take part."""
    train, new, query = dataset.train, dataset.base.where(~dataset.trained_base()), dataset.query
    parts = []
    if dataset.protocol not in PROTOCOLS:  # the data say which rows are queries
        parts = [_dense(new.subsample(MOST_ROWS)), _dense(query.subsample(SPLITS * MOST_QUERIES))]
    else:  # all are of one table, which may be too large to be copied
        whole = train, new, query
        labels = None if train.labels is None else np.concatenate([np.asarray(part.labels) for part in whole])
        train = train.with_rows(np.concatenate([part.rows for part in whole]), labels)
    train = _dense(train.subsample(MOST_ROWS + MOST_QUERIES))
    if train.labels is None:
        return _Rows(train, *parts)
    train, classes = train.compact()
    for place, part in enumerate(parts):
        labels = np.asarray(part.labels)
        if labels.ndim == 2:
            parts[place] = part.with_rows(part.rows, labels[:, classes])
        else:
            known = part.where(np.isin(labels, classes))
            parts[place] = known.with_rows(known.rows, np.searchsorted(classes, np.asarray(known.labels)))
    return _Rows(train, *parts)


def _split(name: str, rows: _Rows, seed: int) -> Parts:
    """Return training rows and questions of one split: for all classes, and for half of them if there are enough."""
    train, query = rows.train, rows.query
    if query is None:
        train, query = _held_out(train, MOST_QUERIES, seed)
    query, stored = _dense(query.subsample(MOST_QUERIES, seed)), rows._replace(train=train).stored
    if rows.new is None or len(rows.new) <= NEAREST:
        train, new = _held_out(train, MOST_NEW, seed)
    else:
        new = rows.new.subsample(MOST_NEW, seed)
    if len(new) <= NEAREST:
        raise ValueError(f"{name} has {len(stored)} rows to store; a comparison needs more than {10 * NEAREST}")
    train, stored = train.subsample(MOST_ROWS, seed), stored.subsample(MOST_ROWS, seed)
    alike: dict[str, Any] = {"figures": ("recall",), "stages": STAGES}
    nearest = Question("nearest", _dense(stored), query, **alike, timed=TIMED)
    third = Question("third", _dense(stored.subsample(max(NEAREST, len(stored) // 3), seed)), query, **alike)
    if train.labels is None:
        return {"all": (_dense(train), (nearest, third))}
    of_classes: dict[str, Any] = {"figures": ("map",), "stages": STAGES}
    known = Question("known", _dense(new), query, **of_classes)
    parts = {"all": (_dense(train), (known, nearest, third))}
    if train.labels.ndim == 2 or ways.count_classes(train) < FEWEST_LATER:
        return parts
    trained = trained_classes(train.labels[has_label(train.labels)], seed)

    def by_class(rows: EmbeddingSplit) -> tuple[EmbeddingSplit, EmbeddingSplit]:
        labels = np.asarray(rows.labels)
        old, known = np.isin(labels, trained), has_label(labels)
        return rows.where(old | ~known), rows.where(~old & known)

    (old, _), (_, later), (old_query, later_query) = by_class(new), by_class(stored), by_class(query)
    later = later.subsample(MOST_NEW, seed)
    if min(map(len, (old, later, old_query, later_query))) <= NEAREST:
        return parts
    base, asked = (
        _joined(few, many.subsample(round(len(few) * SHARE_LATER / (1 - SHARE_LATER)), seed))
        for few, many in ((old, later), (old_query, later_query))
    )
    questions = tuple(
        Question(name, *rows, **of_classes)
        for name, rows in {"later": (_dense(later), later_query), "mixed": (base, asked)}.items()
    )
    return parts | {"half": (_dense(by_class(train)[0].compact()[0]), questions)}


def _held_out(rows: EmbeddingSplit, most: int, seed: int) -> tuple[EmbeddingSplit, EmbeddingSplit]:
    """Return the rows without a tenth of each class (about ``most`` rows at most), and this tenth."""
    share = min(0.1, most / len(rows))
    if rows.labels is not None:
        return hold_out(rows, share, seed, purpose="a comparison")
    chosen = np.zeros(len(rows), bool)
    chosen[np.random.default_rng(seed).permutation(len(rows))[: round(share * len(rows))]] = True
    return rows.where(~chosen), rows.where(chosen)


def _dense(part: EmbeddingSplit) -> EmbeddingSplit:
    """Return a split whose table holds only its rows, to be sent to another process."""
    return EmbeddingSplit(part.embeddings[part.rows], np.arange(len(part)), part.labels)


def _joined(one: EmbeddingSplit, other: EmbeddingSplit) -> EmbeddingSplit:
    """Return the rows of two splits as a new split."""
    rows = np.concatenate([part.embeddings[part.rows] for part in (one, other)])
    labels = None if one.labels is None else np.concatenate([np.asarray(part.labels) for part in (one, other)])
    return EmbeddingSplit(rows, np.arange(len(rows)), labels)
