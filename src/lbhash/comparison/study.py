"""``compare``: what the rows of one's own data could be stored as, and what each way answers."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import fields
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from lbhash.codes.packing import MAX_BITS
from lbhash.comparison import ways
from lbhash.comparison.result import Comparison, Line, Way
from lbhash.comparison.ways import NEAREST, Rows, Stored
from lbhash.data import Dataset, EmbeddingSplit, EmbeddingTable, check_embeddings, hold_out
from lbhash.data.protocols import trained_classes
from lbhash.evaluation.metrics import average_precision
from lbhash.evaluation.neighbors import expected_recall
from lbhash.evaluation.ranking import ranking_of
from lbhash.utils.arrays import as_matrix
from lbhash.utils.files import check_folder
from lbhash.utils.labels import read_labels, share_a_label
from lbhash.utils.parallel import in_processes, read_run, write_run
from lbhash.utils.progress import counted
from lbhash.utils.system import TRAINING, check_packages
from lbhash.utils.validation import check_int, check_ints
from lbhash.utils.version import __version__

BITS = (16, 32, 64, 128)
MOST_TRAIN, MOST_BASE, MOST_QUERIES = 20_000, 20_000, 1_000
"""The most rows of each split that take part; of more, as many are drawn."""
FEWEST_LATER = 8
"""The classes from which on half of them are left out of training, to ask for classes that come later."""
_PAIRS = 10_000_000  # of a query and a base row, at a time

Fit = Callable[[Rows], Iterator[Stored]]


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
    rows = _rows(dataset, seed)
    parts = {"known": rows}
    if later := _later(rows, seed):
        parts["later"] = later
    about = {
        "data": dataset.name,
        "lbhash": __version__,
        "bits": lengths,
        "seed": seed,
        "epochs": epochs,
        "dim": rows.train.dim,
        "classes": rows.classes,
        "rows": {name: len(getattr(rows, name)) for name in ("train", "base", "query")},
        "fingerprint": [getattr(rows, name).fingerprint() for name in ("train", "base", "query")],
    }
    folder = None if out is None else _folder(Path(out), about)
    jobs = {
        f"{name}-{part}": (fit, rows, part, seed)
        for part, rows in parts.items()
        for name, fit in _jobs(rows.classes > 0, lengths, seed, epochs)
    }
    files = {} if folder is None else {name: folder / f"{name}.json" for name in jobs}
    results = {name: read_run(file) for name, file in files.items() if file.exists()}
    missing = {name: job for name, job in jobs.items() if name not in results}
    here = ((name, execute(*job)) for name, job in missing.items())
    with counted("comparing", len(jobs), "fits", done=len(results), show=progress) as advance:
        for name, lines in in_processes(missing, execute, workers) if workers > 1 else here:
            results[name] = lines
            if name in files:
                write_run(files[name], lines)
            advance(1)
    found: dict[tuple[Any, ...], dict[str, Any]] = {}
    for name in jobs:
        for line in results[name]:
            first = found.setdefault((line["name"], line["bits"], line["rerank"]), line)
            for half in ("chosen", "shown"):  # the figures of the second fit join those of the first
                first[half] |= line[half]
    comparison = Comparison(tuple(Line(**line) for line in found.values()), about)
    if out is not None:
        comparison.save(out)
    return comparison


def _jobs(labels: bool, bits: Sequence[int], seed: int, epochs: int) -> Iterator[tuple[str, Fit]]:
    """Yield what is fitted, by name: each gives a line or more."""
    yield "any-bits", ways.of_any_bits
    kinds: dict[str, Callable[..., Iterator[Stored]]] = {}
    if labels:
        kinds["network"] = partial(ways.network, epochs=epochs)
    kinds |= {method: partial(ways.coder, method=method) for method in ("itq", "sne")}
    kinds["opq"] = ways.product_quantization
    for length in bits:
        settings: dict[str, Any] = {"bits": length, "seed": seed}
        for name, kind in kinds.items():
            yield f"{name}-{length}", partial(kind, **settings)
        if labels:
            yield f"logistic-{length}", partial(ways.logistic, **settings, class_number=length == bits[0])


def _rows(dataset: Dataset[EmbeddingSplit], seed: int) -> Rows:
    """Return the rows that take part, with classes numbered as the training rows' are.

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
        return Rows(train, *others)
    train, classes = train.compact()
    for place, part in enumerate(others):
        labels = np.asarray(part.labels)
        if labels.ndim == 2:
            others[place] = part.with_rows(part.rows, labels[:, classes])
        else:
            known = part.where(np.isin(labels, classes))
            others[place] = known.with_rows(known.rows, np.searchsorted(classes, np.asarray(known.labels)))
    return Rows(train, *others)


def _dense(part: EmbeddingSplit) -> EmbeddingSplit:
    """Return a split of a table that holds its rows alone, which another process gets."""
    return EmbeddingSplit(part.embeddings[part.rows], np.arange(len(part)), part.labels)


def _later(rows: Rows, seed: int) -> Rows | None:
    """Return training rows of half of the classes, and base and queries of the others; None if there are too few."""
    labels = rows.train.labels
    if labels is None or labels.ndim == 2 or rows.classes < FEWEST_LATER:
        return None
    trained = trained_classes(labels, seed)
    base, query = (part.where(~np.isin(np.asarray(part.labels), trained)) for part in (rows.base, rows.query))
    return Rows(rows.train.where(np.isin(labels, trained)).compact()[0], base, query) if len(base) > NEAREST else None


def execute(fit: Fit, rows: Rows, part: str, seed: int) -> list[dict[str, Any]]:
    """Fit ways to these rows, and return the line of each: what it weighs and takes, and its figures."""
    return [_measured(stored, rows, part, seed) for stored in fit(rows)]


def _measured(stored: Stored, rows: Rows, part: str, seed: int) -> dict[str, Any]:
    """Return the line of a way, with its figures by either half of the queries."""
    stored.search()  # what is compiled, is compiled
    began = time.perf_counter()
    stored.search()
    searched = time.perf_counter() - began
    figures = _figures(stored, rows, part)
    order = np.random.default_rng(seed).permutation(len(rows.query))
    halves = {"chosen": order[: len(order) // 2], "shown": order[len(order) // 2 :]}
    means = {half: {name: _mean(values[some]) for name, values in figures.items()} for half, some in halves.items()}
    way = {one.name: getattr(stored, one.name) for one in fields(Way)}
    seconds = {"fit": stored.fit, "encode": stored.encode, "search": 1000 * searched / len(rows.query)}
    return {**way, **{name: round(value, 4) for name, value in seconds.items()}, **means}


def _figures(stored: Stored, rows: Rows, part: str) -> dict[str, npt.NDArray[np.float64]]:
    """Return the figures of each query: of classes that were trained on and of nearest items, or of later classes."""
    found: dict[str, list[npt.NDArray[np.float64]]] = {}
    step = max(1, _PAIRS // len(rows.base))
    for start in range(0, len(rows.query), step):
        some = slice(start, start + step)
        scores = stored.scores(some)
        if rows.query.labels is not None:
            relevant = share_a_label(rows.query.labels[some], np.asarray(rows.base.labels))
            found.setdefault(part, []).append(average_precision(ranking_of(scores, relevant)))
        if part == "known":
            found.setdefault("nearest", []).append(expected_recall(scores, rows.nearest[some]))
    return {name: np.concatenate(values) for name, values in found.items()}


def _mean(values: npt.NDArray[np.float64]) -> float | None:
    return None if np.isnan(values).all() else round(float(np.nanmean(values)), 4)


def _folder(out: Path, about: dict[str, Any]) -> Path:
    """Return the folder of the results so far; raise ``ValueError`` if they are of another comparison."""
    check_folder(out, "out")
    folder, file = out / "runs", out / "runs" / "about.json"
    if file.exists() and (before := read_run(file)) != json.loads(json.dumps(about)):
        other = next(name for name in about if before.get(name) != about[name])
        raise ValueError(
            f"out is {str(out)!r}, which holds a comparison with {other} {before.get(other)!r}, and this one has "
            f"{about[other]!r}; name another folder, or remove that one"
        )
    folder.mkdir(parents=True, exist_ok=True)
    write_run(file, about)
    return folder
