"""What the paper's guidance adds to a host method, and to a pull bit by bit: the same centers, seeds and budget.

    python -m benchmarks.experiments.like_for_like --data cifar10=FILE --data tiny-imagenet=FILE --data mosaic=FILE \
        --data clinc=FILE --out FOLDER --page docs/guidance.md

Every method, as the paper sets it and with its own recommended settings, is trained guided and, on the same (arranged)
centers with the same seeds, with no pull and with the pull "bits" where it has settings of its own; all are asked the
data's own queries.

A cell's lift is the mean over seeds and queries of the guided form's average precision less the other's. Its interval
is that of a nested bootstrap: seeds and queries are drawn with replacement, and both forms keep the same draws. The
p-values of all cells that compare with the same pull are corrected by Holm's method. ``--page`` names a page whose part
"like-for-like" becomes the table, with a picture of the means and the cells as CSV beside it. A cell that this CSV
has is not run again: take its line out where its settings have changed. Without ``--data`` nothing is run, and the part
and the picture are made from the CSV.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from itertools import product
from typing import Any

import numpy as np
import pandas as pd
import seaborn as sns
from benchmarks.experiments.shared import asked, markdown, missing, options, read_csv, run, save, show, write_csv

from lbhash.hasher import Hasher
from lbhash.losses.registry import METHODS as LOSSES
from lbhash.losses.registry import recommended
from lbhash.reproduce.runs.experiment_settings import METHODS
from lbhash.reproduce.runs.sources import Source
from lbhash.training.settings import grouped
from lbhash.trials.intervals import bootstrap, holm, p_value
from lbhash.trials.trial import Trial

PART = "like-for-like"
RECIPES = ("paper", "tuned")
OVER = ("none", "bits")
"""The pulls that the guidance is compared with."""
FORMS = ["alone", "pull bits", "guidance"]
KEY = ["data", "recipe", "method", "over", "bits", "epochs", "seeds"]
COLUMNS = [*KEY, "other", "guided", "low", "high", "p"]
TYPES = dict.fromkeys(KEY[4:], int) | dict.fromkeys(COLUMNS[len(KEY) :], float)


def trials(cells: pd.DataFrame, sources: dict[str, Source]) -> Iterator[tuple[dict[str, Any], Trial]]:
    """Yield what the cells compare; several compare with the same guided form."""
    for data, recipe, method, over, bits, epochs, seeds in cells[KEY].itertuples(index=False):
        for pull, seed in product((over, "surrogate"), range(seeds)):
            own = {"pull": pull, "recipe": recipe, "seed": seed, "device": "cpu"}
            hasher, columns = (
                Hasher(**grouped(bits=bits, method=method, epochs=epochs, **own)),
                dict(zip(KEY, (data, recipe, method), strict=False)),
            )
            columns |= {"over": pull, "bits": bits, "epochs": epochs, "seed": seed}
            yield columns, asked(sources[data], hasher, sources[data].top_k())


def compared(cells: pd.DataFrame, found: pd.DataFrame) -> pd.DataFrame:
    """Return the cells with the mAP of both forms in percent, the lift's interval and its p-value."""
    kept = found.groupby([*KEY[:-1], "seed"])["queries"].first()
    lines = []
    for cell in cells[KEY].to_dict("records"):
        of, seeds = [cell[name] for name in KEY[:-1]], range(cell["seeds"])
        other, guided = (
            np.array([kept[(*of[:3], pull, *of[4:], seed)]["map"] for seed in seeds])
            for pull in (cell["over"], "surrogate")
        )
        known = ~np.isnan(other).any(axis=0)  # a query without a relevant code has no precision
        means = 100 * bootstrap((guided - other)[:, known])
        shown = 100 * other[:, known].mean(), 100 * guided[:, known].mean(), *np.quantile(means, [0.025, 0.975])
        lines.append((*cell.values(), *(round(float(value), 3) for value in shown), p_value(means)))
    return pd.DataFrame(lines, columns=COLUMNS)


def in_order(lines: pd.DataFrame) -> pd.DataFrame:
    """Return the lines by pull, recipe, data, method and length."""
    orders = {"over": OVER, "recipe": RECIPES, "method": METHODS}
    by = ["over", "recipe", "data", "method", "bits"]
    return lines.sort_values(
        by, key=lambda one: one.map(list(orders[one.name]).index) if one.name in orders else one, ignore_index=True
    )


def corrected(lines: pd.DataFrame) -> pd.DataFrame:
    """Return the lines with kind, lift, and whether it is other than 0 by Holm's method over all of the same pull."""
    sure = lines.groupby("over")["p"].transform(lambda p: holm(p.to_numpy())) < 0.05
    kinds = {name: "with centers" if LOSSES[name].uses_centers else "without centers" for name in METHODS}
    lift = lines["guided"] - lines["other"]
    return lines.assign(lift=lift, sure=sure, methods=lines["method"].map(kinds))


def summary(made: pd.DataFrame) -> str:
    """Return, for each pull and recipe, in how many cells the guidance gains or loses, and the mean lift."""
    up, down = made["lift"] > 0, made["lift"] < 0
    said = {"lift > 0": up, "gains (Holm)": made["sure"] & up, "loses (Holm)": made["sure"] & down}
    by = made.assign(**said).groupby(["over", "recipe", "methods"], sort=False)
    table = by[list(said)].sum().astype(int).astype(str)
    table = table.apply(lambda one: one + " of " + by.size().astype(str))
    table["mean lift"] = (by["lift"].mean().round(1) + 0.0).map("{:+.1f}".format)
    named = table.reset_index().rename(columns={"over": "guidance over"})
    return markdown(named.replace({"guidance over": dict(zip(OVER, FORMS, strict=False))}), left=2)


def forms(made: pd.DataFrame) -> pd.DataFrame:
    """Return the mAP of each form with the recipe "paper"; both comparisons have the guided one."""
    own = made[made["recipe"] == "paper"]
    others = own.assign(form=own["over"].map(dict(zip(OVER, FORMS, strict=False))), map=own["other"])
    guided = own.drop_duplicates(["data", "method", "bits"])
    return pd.concat([others, guided.assign(form=FORMS[-1], map=guided["guided"])])


def draw(made: pd.DataFrame) -> sns.FacetGrid:
    """Draw the mAP of every method and form, with the recipe "paper", means over the lengths."""
    own = forms(made).groupby(["data", "method", "form"], sort=False, as_index=False)["map"].mean()
    shown = own.rename(columns={"map": "mAP, %, mean over the lengths"})
    look = {"hue": "form", "style": "form", "s": 70, "height": 2.6, "aspect": 2, "facet_kws": {"sharex": False}}
    return sns.relplot(shown, x=shown.columns[-1], y="method", col="data", col_wrap=2, hue_order=FORMS, **look)


def wanted(given: argparse.Namespace) -> pd.DataFrame:
    """Return the cells that are asked for."""
    every = product(given.data, RECIPES, given.methods, given.over, given.bits)
    cells = [
        (source.name, recipe, method, over, bits, given.epochs, given.seeds)
        for source, recipe, method, over, bits in every
        if recipe == "paper" or recommended(method, over, bits)
    ]
    return pd.DataFrame(cells, columns=KEY)


def main(arguments: list[str] | None = None) -> None:
    """Train what is missing, and print the table."""
    parser = options(__doc__, PART, data=[], bits=(16, 32, 64), epochs=15, seeds=3)
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=METHODS)
    parser.add_argument("--over", nargs="+", choices=OVER, default=OVER)
    given = parser.parse_args(arguments)
    lines = read_csv(given.page and given.page.with_suffix(".csv"), COLUMNS).astype(TYPES)
    cells = missing(wanted(given), lines, KEY)
    if len(cells):
        found = run(trials(cells, {source.name: source for source in given.data}), given)
        lines = in_order(pd.concat([lines, compared(cells, found)]))
    made = corrected(lines)
    show(summary(made), PART, given.page)
    if given.page:
        write_csv(lines, given.page.with_suffix(".csv"))
        save(draw(made), given.page.with_suffix(".png"))


if __name__ == "__main__":
    main()
