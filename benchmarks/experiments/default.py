"""What ``lbhash train`` takes where nothing is said, beside what it could take: mAP in new rows, and seconds.

    python -m benchmarks.experiments.default --data clinc=FILE --data cifar10=FILE --data mosaic=FILE \
        --data tiny-imagenet=FILE --out FOLDER --page docs/default.md

"default" is CSQ joined with a class posterior, "csq" the same network's bits, "csq_d" CSQ with the paper's guidance in
its searched settings, and "logistic" and "ridge" need no network. All have the same training rows and the same class
centers. Queries are the data's own, in real numbers, and the base is theirs, without the rows that were trained on.
With ``--held-out`` both are training rows that no way learns from: the choice was made by these. Seconds are those of a
processor, one thread.

``--page`` names a page whose part "default" becomes the table, with a picture and a CSV file of every length.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from functools import partial
from itertools import product
from typing import Any

import pandas as pd
import seaborn as sns
from benchmarks.experiments.shared import fitted, markdown, options, run, save, show, write_csv

from lbhash.data.holdout import validation_dataset
from lbhash.data.split import EmbeddingSplit
from lbhash.hasher import Hasher, fit_split
from lbhash.models.hash_model import HashModel
from lbhash.reproduce.runs.sources import Source
from lbhash.training.heads import join
from lbhash.training.settings import Settings
from lbhash.trials.questions import Question
from lbhash.trials.trial import Trial
from lbhash.trials.ways import Fit, Store, codes, count_classes

PART = "default"
WAYS = ["default", "csq", "csq_d", "logistic", "ridge"]


def network(train: EmbeddingSplit, *, bits: int, seed: int) -> Iterator[Store]:
    """Yield a network's bits, and the default, for which it is trained no second time."""
    fit_split(Hasher(bits, epochs=1), train, count_classes(train))  # what is loaded and compiled, is
    began, hasher = time.process_time(), Hasher(bits, method="csq", seed=seed)
    fit_split(hasher, train, count_classes(train))
    seconds = time.process_time() - began
    yield codes("csq", bits, "", hasher.model_, seconds)
    began, model = time.process_time(), HashModel.of(hasher.model_)
    join(model, Settings(bits=bits, seed=seed), train, count_classes(train), hasher.centers_)
    yield codes("default", bits, "", model.encoder(), seconds + time.process_time() - began)


def trials(source: Source, held_out: bool, bits: int, seed: int) -> Iterator[tuple[dict[str, Any], Trial]]:
    """Yield a trial for each fit."""
    data = source.dataset()
    if held_out:
        data = validation_dataset(data)
    base = data.base.where(~data.trained_base()).labeled()
    question, train = Question("new rows", base, data.query.labeled(), ("map",)), data.train.compact()[0]
    fits: dict[str, Fit] = {"network": partial(network, bits=bits, seed=seed)}
    fits |= {way: partial(fitted, hasher=Hasher(bits, method=way, seed=seed), by="outputs") for way in WAYS[2:]}
    for name, fit in fits.items():
        yield {"data": source.name, "bits": bits, "fit": name, "seed": seed}, Trial(fit, train, (question,))


def cells(found: pd.DataFrame) -> pd.DataFrame:
    """Return a line for each data set, length and way: mAP of each seed, and means over them."""
    data = pd.Categorical(found["data"], found["data"].unique())
    found = found.assign(data=data, way=pd.Categorical(found["way"], WAYS))
    by = found.groupby(["data", "bits", "way"], observed=True)
    seeds = found.pivot(index=["data", "bits", "way"], columns="seed", values="map").add_prefix("map_").round(5)
    return by.size().to_frame("seeds").join(seeds).join(by[["map", "seconds"]].mean()).reset_index()


def table(lines: pd.DataFrame) -> str:
    """Return the table: mAP in percent, means over the lengths, a row's best in bold, and the default's seconds."""
    by = lines.groupby(["data", "way"], sort=False, observed=True)
    maps = (100 * by["map"].mean()).map("{:.1f}".format).unstack()[WAYS]
    best = maps.astype(float).max(axis=1)
    shown = maps.apply(lambda way: way.where(way.astype(float) < best, "**" + way + "**"))
    seconds = by["seconds"].sum().unstack()
    shown["seconds / csq_d's"] = (seconds["default"] / seconds["csq_d"]).map("{:.2f}".format)
    return markdown(shown.reset_index())


def draw(lines: pd.DataFrame) -> sns.FacetGrid:
    """Draw mAP by length, a panel for each data set, without ridge regression, which is far below on most."""
    shown = lines[lines["way"] != "ridge"].assign(way=lambda one: one["way"].astype(str))
    shown = shown.assign(bits=shown["bits"].astype(str), map=100 * shown["map"]).rename(columns={"map": "mAP, %"})
    look = {"kind": "line", "marker": "o", "height": 3.2, "aspect": 1.4, "facet_kws": {"sharey": False}}
    return sns.relplot(shown, x="bits", y="mAP, %", hue="way", col="data", col_wrap=2, **look)


def main(arguments: list[str] | None = None) -> None:
    """Run what is missing, and write the table, the picture and the CSV."""
    parser = options(__doc__, PART, data=None, bits=(16, 32, 64, 128), seeds=3)
    parser.add_argument("--held-out", action="store_true", help="ask held-out training rows, not the queries")
    given = parser.parse_args(arguments)
    wanted = product(given.data, given.bits, range(given.seeds))
    found = run((one for source, bits, seed in wanted for one in trials(source, given.held_out, bits, seed)), given)
    lines = cells(found)
    show(table(lines), PART, given.page)
    if given.page is not None:
        write_csv(lines.round({"map": 5, "seconds": 1}), given.page.with_name("default.csv"))
        save(draw(lines), given.page.with_name("default.png"))


if __name__ == "__main__":
    main()
