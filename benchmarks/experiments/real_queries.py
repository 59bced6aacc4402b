"""Whether queries rank better by their real outputs than by their bits, on rows that are held out of the training.

    python -m benchmarks.experiments.real_queries --data clinc=FILE --data cifar10=FILE --data mosaic=FILE \
        --data tiny-imagenet=FILE --out FOLDER

A fifth of the training rows is held out; half of it is stored and half is asked. No query of the data is looked at, so
that what is found may choose the default. mAP is of rows of a query's class, "later" of classes that were left out of
the training, and recall@10 of the nearest by cosine.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import product
from typing import Any

import numpy as np
import pandas as pd
from benchmarks.experiments.shared import markdown, options, run, show

from lbhash.data.holdout import hold_out
from lbhash.data.protocols import trained_classes
from lbhash.data.split import EmbeddingSplit
from lbhash.hasher import Hasher, fit_split, name_of
from lbhash.reproduce.runs.sources import Source
from lbhash.training.coders import learns_classes
from lbhash.trials.questions import Question
from lbhash.trials.trial import Trial
from lbhash.trials.ways import Store, codes, count_classes

PART = "real-queries"
LEARNS = {
    "default": {},
    "unseen 0.5": {"unseen": 0.5},
    "csq_d": {"method": "csq_d"},
    "dch": {"method": "dch", "pull": "none"},
}
LEARNS |= {"greedyhash": {"method": "greedyhash", "pull": "none"}, "hashnet": {"method": "hashnet", "pull": "none"}}
LEARNS |= {name: {"method": name} for name in ("logistic", "wccn-itq")}
FREE = ("itq", "sne", "cibhash", "sdc")


def fitted(train: EmbeddingSplit, *, hasher: Hasher) -> Iterator[Store]:
    """Yield the codes of a hasher, ranked by distance and by outputs."""
    learns = hasher.method is None or learns_classes(hasher.method)
    rows = train if learns else train.with_rows(train.rows, None)
    fit_split(hasher, rows, count_classes(rows))
    yield codes(name_of(hasher), hasher.bits, "", hasher.model_, 0.0, by=("itself", "outputs"))


def trials(source: Source, bits: int, seed: int, fits: list[str]) -> Iterator[tuple[dict[str, Any], Trial]]:
    """Yield a trial for each fit and question."""
    train, held = hold_out(source.training()[0], 0.2, seed)
    places = np.random.default_rng(seed).permutation(len(held))[:4000]
    base, query = (held.with_rows(held.rows[some], np.asarray(held.labels)[some]) for some in np.array_split(places, 2))
    questions = {"known": (train, base, query)}
    labels = np.asarray(train.labels)
    if labels.ndim == 1:
        known = trained_classes(labels, seed)
        later = (part.where(~np.isin(np.asarray(part.labels), known)) for part in (base, query))
        questions["later"] = (train.where(np.isin(labels, known)).compact()[0], *later)
    for name, asked in product(fits, questions):
        if (asked == "later" and name in FREE) or (labels.ndim == 2 and name in ("unseen 0.5", "wccn-itq")):
            continue  # a method without labels answers as before; the other two take one label a row
        given = LEARNS.get(name, {"method": name})
        fit = partial(fitted, hasher=Hasher(bits, seed=seed, **given))
        rows, *stored = questions[asked]
        yield (
            {"data": source.name, "bits": bits, "fit": name, "asked": asked, "seed": seed},
            Trial(fit, rows, (Question(asked, *stored),)),
        )


def table(found: pd.DataFrame) -> str:
    """Return a line for each method and question: by distance and by outputs, means over data, lengths and seeds."""
    cells = found.melt(["data", "bits", "fit", "asked", "seed", "by"], ["map", "recall"], "figure").dropna()
    by = cells.pivot_table("value", ["fit", "asked", "figure", "data", "bits"], "by")
    gain = by["outputs"] - by["itself"]
    each = gain.groupby(level=["fit", "asked", "figure"])
    lines = by.groupby(level=["fit", "asked", "figure"]).mean()
    lines["least gain"], lines["cells below 0"] = each.min(), (gain < 0).groupby(level=[0, 1, 2]).sum()
    return markdown(lines.round(3).reset_index().astype(str))


def main(arguments: list[str] | None = None) -> None:
    """Run what is missing, and print the table."""
    parser = options(__doc__, PART, data=None, bits=(16, 32, 64, 128), seeds=1)
    parser.add_argument("--fits", nargs="+", choices=[*LEARNS, *FREE], default=[*LEARNS, *FREE])
    given = parser.parse_args(arguments)
    wanted = product(given.data, given.bits, range(given.seeds))
    found = run((one for source, bits, seed in wanted for one in trials(source, bits, seed, given.fits)), given)
    show(table(found), PART, given.page)


if __name__ == "__main__":
    main()
