"""What a pull onto the class centers gives where a backbone learns, and what the guidance's parts give. Writes a page.

    python -m benchmarks.experiments.pulls --data cifar10=FILE --data tiny-imagenet=FILE --data mosaic=FILE \
        --images cifar10=IMAGES --backbone FOLDER \
        --page docs/guidance.md

On embeddings a head learns; on images the backbone does, too. For each method and set of data the weight of a form
is searched at the first length and seed, by the mAP of a fifth of the training rows that the search holds out; parts of
the guidance take that of the guidance. With this weight a form is trained on all training rows, and the queries are
asked for at most 10,000 rows of the base, none of which was trained on unless the data say so.

- "by bits" is the mAP by Hamming distance, with its range over orders of tied codes; "by outputs" that of real-valued
  queries, which ties hardly touch.
- "by posterior" ranks by Σ p(c | query) p(c | row): p is the softmax over classes of minus half of the distances to a
  class's code, which is the majority of its training codes.
- "k-NN" is the accuracy of a vote of the 100 nearest codes.

A cell of the first table has three figures: alone, with pull bits, with the guidance. In the second, which is of the
first length and seed, a cell has the mAP by bits and by outputs. "Blocks of 1" is the guidance that takes every bit by
itself; "frozen" has a surrogate that does not learn. PAGE's folder gets pulls.csv, with the weights and the 95 %
intervals over seeds of "by outputs" (±).
"""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import product
from typing import Any
from unittest import mock

import numpy as np
import pandas as pd
from benchmarks.experiments.shared import Others, markdown, options, run, show, write_csv
from torch import Tensor

from lbhash import evaluate
from lbhash.codes import unpack
from lbhash.data import Dataset, load_dataset, load_images
from lbhash.data.holdout import hold_out
from lbhash.data.split import Split
from lbhash.hasher import Hasher, fit_split, name_of
from lbhash.models.surrogate import Surrogate
from lbhash.reproduce.runs.sources import Source
from lbhash.training.settings import grouped
from lbhash.trials.intervals import Interval
from lbhash.trials.questions import Question, Values
from lbhash.trials.stored import Rows, Scores, Stored
from lbhash.trials.trial import Trial
from lbhash.trials.ways import Store, codes, count_classes
from lbhash.utils.formatting import number

PART = "pulls"
BASE = 10_000
BY_POSTERIOR = "by posterior"
RANKED = {"by bits": "itself", "by outputs": "outputs", BY_POSTERIOR: BY_POSTERIOR}
WEIGHTS = (0.01, 0.1, 1.0)
SHARPNESS = 0.5
"""Of the posterior's softmax, as in ``class_posterior``."""


class Frozen(Surrogate):
    """A surrogate that does not learn."""

    def losses(self, *given: Any) -> tuple[Tensor, Tensor]:
        """Return both losses, the first without a gradient."""
        fit, pull = super().losses(*given)
        return 0 * fit, pull


FORMS: dict[str, tuple[str, Any]] = {
    "alone": ("none", Surrogate),
    "pull bits": ("bits", Surrogate),
    "guidance": ("surrogate", Surrogate),
    **{f"blocks of {bits}": ("surrogate", partial(Surrogate, block_bits=bits)) for bits in (1, 2, 4)},
    "frozen": ("surrogate", Frozen),
}
"""The pull of each form, and its surrogate."""
MAIN, SEARCHED = ("alone", "pull bits", "guidance"), ("pull bits", "guidance")


class Asked(Question):
    """A question whose figures are those of a report on the codes, each a mean over the queries."""

    def answers(self, stored: Stored) -> dict[str, Values]:
        """Return the mAP of each query and, by bits, its range and the accuracy of a vote."""
        found = super().answers(stored)
        if stored.by == "itself" and stored.codes is not None:
            query, base, bits = stored.codes
            report = evaluate(query, self.query.labels, base, self.base.labels, bits=bits)
            others = {"worst": report.map_worst, "best": report.map_best, "knn": report.knn_accuracy}
            found |= {name: np.array([np.nan if value is None else value]) for name, value in others.items()}
        return found


def trained(train: Split, *, form: str, weight: float, bits: int, **settings: Any) -> Iterator[Store]:
    """Yield the codes of a method in a form: by bits and outputs, and ranked by the posterior of their classes."""
    pull, surrogate = FORMS[form]
    settings |= {"pull": pull, "guidance": None if pull == "none" else {"weight": weight}}
    settings |= {"recipe": "paper", "schedule": "cosine", "device": "cpu"}
    hasher = Hasher(**grouped(bits=bits, **settings))
    with mock.patch("lbhash.losses.pulls.Surrogate", surrogate):
        fit_split(hasher, train, count_classes(train))
    own = codes(name_of(hasher), bits, "", hasher.model_, 0.0, by=("itself", "outputs"))
    of_classes = majority(hasher)

    def store(question: Question) -> Iterator[Stored]:
        backbone = hasher.backbone_ if question.base.needs_backbone else None
        parts = {name: getattr(question, name).embedded(backbone) for name in ("base", "query")}
        seen = replace(question, **parts)
        yield from own(seen)
        if not isinstance(question, Asked):
            return
        known, asked = (
            posterior(hasher.model_.outputs(part.take(slice(None))), of_classes, signs=name == "base")
            for name, part in parts.items()
        )

        def scores(some: Rows) -> Scores:
            return -(asked[some] @ known.T)

        yield Stored(BY_POSTERIOR, bits, 0, True, "", 0.0, 0.0, scores, lambda *_: np.empty((0, 0), np.int64))

    yield store


def majority(hasher: Hasher) -> np.ndarray:
    """Return the majority of the training codes of each class, ±1, ``float64 [C, bits]``."""
    signs = 2.0 * unpack(hasher.train_codes_, hasher.bits) - 1
    labels = np.asarray(hasher.train_labels_)
    of_class = labels.T if labels.ndim == 2 else labels[None] == np.unique(labels)[:, None]
    return np.where(of_class.astype(float) @ signs >= 0, 1.0, -1.0)


def posterior(outputs: np.ndarray, of_classes: np.ndarray, *, signs: bool) -> np.ndarray:
    """Return the probability of each class for rows by their outputs, or by the signs of these, ``float64 [n, C]``."""
    rows = np.where(outputs > 0, 1.0, -1.0) if signs else outputs.astype(float)
    nearness = SHARPNESS * (rows @ of_classes.T) / 2
    found = np.exp(nearness - nearness.max(axis=1, keepdims=True))
    return found / found.sum(axis=1, keepdims=True)


def cells(found: pd.DataFrame) -> pd.DataFrame:
    """Return a line for each method, length and form of each set of data: means over seeds, in percent."""
    key = ["data", "method", "bits", "form"]
    ranked = found["by"].where(found["way"] != BY_POSTERIOR, BY_POSTERIOR).rename("ranked")
    values = 100 * found.set_index([*key, "weight", "seed", ranked])[["map", "worst", "best", "knn"]]
    lines = []
    for (*names, weight), of_form in values.groupby(level=[*key, "weight"], sort=False):
        maps, means = of_form["map"].unstack("ranked"), of_form.xs("itself", level="ranked").mean()
        line = dict(zip(key, names, strict=False)) | {"weight": weight, "seeds": len(maps)}
        line |= {title: maps[own].mean() for title, own in RANKED.items()}
        line |= {"±": Interval.of(maps["outputs"]).half, "range": means["best"] - means["worst"], "k-NN": means["knn"]}
        lines.append(line)
    return pd.DataFrame(lines).set_index(key)


def tables(lines: pd.DataFrame, first: pd.DataFrame) -> str:
    """Return two tables: the three forms by each score, and of the first seed the guidance's parts by two."""

    def joined(of: pd.DataFrame, column: str, rows: Sequence[str]) -> str:
        return "/".join(number(of.loc[row, column], 1) for row in rows)

    forms = lines.index.get_level_values("form")
    main = [
        dict(zip(("data", "method", "bits"), names, strict=True))
        | {
            score: joined(of.droplevel([0, 1, 2]), score, MAIN)
            for score in ("by bits", "range", *list(RANKED)[1:], "k-NN")
        }
        for names, of in lines[forms.isin(MAIN)].groupby(level=["data", "method", "bits"], sort=False)
    ]
    parts = [
        dict(zip(("data", "method"), names, strict=True))
        | {form: joined(scores, form, ("by bits", "by outputs")) for form in list(FORMS)[1:]}
        for (*names, _), of in first.groupby(level=["data", "method", "bits"], sort=False)
        for scores in [of.droplevel([0, 1, 2]).T]
        if set(FORMS) <= set(scores)
    ]
    shown = [pd.DataFrame(main), pd.DataFrame(parts).rename(columns={"guidance": "guidance (blocks of 8)"})]
    return "\n\n".join(markdown(one.astype(str)) for one in shown if len(one))


def trials(
    data: dict[str, tuple[Dataset, dict[str, Any]]], pairs: list[tuple[str, str]], given: Namespace
) -> Iterator[tuple[dict[str, Any], Trial]]:
    """Search the weights of pairs of data and method, and yield a trial for each form and seed."""
    tries = []
    for (name, method), form, weight in product(pairs, SEARCHED, WEIGHTS):
        dataset, more = data[name]
        train, held = hold_out(dataset.train.compact()[0], 0.2, 0)
        own = {"method": method, "form": form, "weight": weight, "bits": given.bits[0], "seed": 0}
        trial = Trial(partial(trained, **own, **more), train, (Others("held out", held, held),))
        tries.append(({"searched": name, **own}, trial))
    found = run(tries, given)
    found = found[found["by"] == "itself"]
    best = found.loc[found.groupby(["searched", "method", "form"])["map"].idxmax()]
    weights = best.set_index(["searched", "method", "form"])["weight"].to_dict()
    for seed, (name, method), length, form in product(range(given.seeds), pairs, given.bits, FORMS):
        if form in MAIN or ((length, seed) == (given.bits[0], 0) and not given.no_parts):
            dataset, more = data[name]
            weight = 0.0 if form == "alone" else weights[name, method, form if form in SEARCHED else "guidance"]
            own = {"method": method, "bits": length, "form": form, "weight": weight, "seed": seed}
            question = Asked("queries", dataset.base.labeled().subsample(BASE), dataset.query.labeled(), ("map",))
            yield {"data": name, **own}, Trial(partial(trained, **own, **more), dataset.train.compact()[0], (question,))


def main(arguments: list[str] | None = None) -> None:
    """Run what is missing, and write the table."""
    parser = options(__doc__, PART, data=[], bits=(16, 64), epochs=15, seeds=3)
    parser.add_argument("--images", action="append", type=Source.of, default=[], metavar="NAME=IMAGES")
    parser.add_argument("--backbone", help="a folder of a vision model of transformers, for images")
    parser.add_argument("--image-size", type=int, default=64)
    parser.add_argument("--image-epochs", type=int, default=8)
    parser.add_argument("--no-parts", action="store_true", help="leave the second table out")
    parser.add_argument("--methods", nargs="+", default=["csq", "hashnet"])
    parser.add_argument("--image-methods", nargs="+", default=["csq"])
    given = parser.parse_args(arguments)
    learning = {"backbone": given.backbone, "image_size": given.image_size, "epochs": given.image_epochs}
    embeddings = {one.name: (load_dataset(one.file), {"epochs": given.epochs}) for one in given.data}
    images = {f"{one.name}, images": (load_images(one.file).dataset(), learning) for one in given.images}
    pairs = [*product(embeddings, given.methods), *product(images, given.image_methods)]
    found = run(trials(embeddings | images, pairs, given), given)
    lines = cells(found)
    show(tables(lines, cells(found[found["seed"] == 0])), PART, given.page)
    if given.page is not None:
        write_csv(lines.reset_index().round(2), given.page.with_name("pulls.csv"))


if __name__ == "__main__":
    main()
