"""All methods with labels, plain and guided, and coders, under one protocol: mAP, new classes, k-NN and seconds.

    python -m benchmarks.experiments.methods_table --data clinc=FILE --data tiny-imagenet@1000=FILE --bits 32
    python -m benchmarks.experiments.methods_table

A data set is NAME=FILE, or NAME@R=FILE where its mAP looks at the first R of a ranking; FILE may be "digits".
``--page`` names a page whose part "methods-table" becomes the means over the data sets. Means for classes that are new
after training become the part "new-classes" of ``new-classes.md`` in the same folder. A CSV file with each cell and a
picture for each page lie beside them. A cell that the CSV has of as many seeds is not run again: take its line out
where its settings have changed. Without ``--data`` nothing is run, and parts and pictures are made from the CSV.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Iterator
from functools import cache, partial
from itertools import product
from typing import Any

import numpy as np
import pandas as pd
import seaborn as sns
from benchmarks.experiments.shared import (
    fitted,
    half_widths,
    markdown,
    missing,
    options,
    read_csv,
    run,
    save,
    show,
    write_csv,
)

from lbhash.data import Dataset, load_dataset
from lbhash.evaluation.report import evaluate
from lbhash.hasher import Hasher
from lbhash.losses.registry import METHODS
from lbhash.reproduce.runs.sources import Source
from lbhash.training.coders import CODERS
from lbhash.training.settings import LABEL_FREE, grouped
from lbhash.trials.questions import Question, Values
from lbhash.trials.stored import Stored
from lbhash.trials.trial import Trial

PART, NEW = "methods-table", "new-classes"
UNSEEN = "unseen"
LEFT = ("ridge", "wccn-itq", "sne")  # their names stand left of their points
KEY = ["data", "at", "protocol", "method", "bits", "epochs"]
FIGURES = ["map", "map_worst", "map_best", "knn_accuracy"]
COLUMNS = [*KEY, "seeds", "map", "half", *FIGURES[1:], "seconds"]

NAMES = [*METHODS, *(name for name, kind in CODERS.items() if kind.needs_labels), "itq", LABEL_FREE]
"""The methods; of those that need no labels the usual one, and the default."""
FORMS = [host + form for host in NAMES for form in ("", "_d") if not form or host in METHODS]
"""Each host and then its guided form, and the coders, which are not guided."""

dataset = cache(load_dataset)


class Reported(Question):
    """A question whose figures are those of ``evaluate``."""

    def answers(self, stored: Stored) -> dict[str, Values]:
        """Return the mean of each figure, ``float64 [1]``; none of k-NN with several labels a row."""
        assert stored.codes is not None
        query, base, bits = stored.codes
        report = evaluate(query, self.query.labels, base, self.base.labels, self.top_k, bits=bits)
        return {name: np.array([getattr(report, name)], np.float64) for name in FIGURES}


def parsed(given: str) -> tuple[Source, str]:
    """Return a data set that is typed as NAME=FILE or NAME@R=FILE, and R, which is "" if none is given."""
    names, _, file = given.partition("=")
    name, several, rank = names.partition("@")
    if several and not (rank.isdecimal() and int(rank) > 0):
        raise argparse.ArgumentTypeError(f"data is {given!r}; its R must be an integer of at least 1")
    return Source.of(f"{name}={file}"), rank


def hasher_of(method: str, bits: int, epochs: int, seed: int) -> Hasher:
    """Return what a form trains."""
    host = method.removesuffix("_d")
    training: dict[str, Any] = {"pull": "none" if host == method else "surrogate", "epochs": epochs}
    return Hasher(**grouped(bits=bits, method=host, seed=seed, device="cpu", **{} if host in CODERS else training))


def trials(cells: pd.DataFrame, given: argparse.Namespace) -> Iterator[tuple[dict[str, Any], Trial]]:
    """Yield a trial for each seed of the cells."""
    files = {source.name: source.file for source, _ in given.data}
    for (data, at, protocol), own in cells.groupby(KEY[:3], sort=False):
        held: Dataset = dataset(files[data], protocol=protocol or None)
        train, top_k = held.train.compact()[0], int(at) if at else None
        question = Reported("queries", held.base, held.query, tuple(FIGURES), top_k)
        for cell, seed in product(own.to_dict("records"), range(given.seeds)):
            hasher = hasher_of(cell["method"], int(cell["bits"]), int(cell["epochs"]), seed)
            yield cell | {"seed": seed}, Trial(partial(fitted, hasher=hasher), train, (question,))


def lines_of(found: pd.DataFrame) -> pd.DataFrame:
    """Return a line for each cell: means over the seeds, the interval of mAP, and the seconds of all, as text."""
    by = found.groupby(KEY, sort=False)
    made = by[FIGURES].mean()
    made["half"] = half_widths(by["map"])
    made = made.map("{:.5f}".format).replace("nan", "")
    made["seeds"], made["seconds"] = by.size().astype(str), by["seconds"].sum().map("{:.1f}".format)
    return made.reset_index()[COLUMNS]


def wanted(given: argparse.Namespace, lines: pd.DataFrame) -> pd.DataFrame:
    """Return the cells that are asked for, and that no line has of as many seeds."""
    rules = [UNSEEN if rule == UNSEEN else "" for rule in given.protocols]
    forms = [form for form in FORMS if form.removesuffix("_d") in given.methods]
    cells = [
        (source.name, at, rule, form, str(bits), str(given.epochs))
        for (source, at), bits, rule, form in product(given.data, given.bits, rules, forms)
    ]
    known = lines[lines["seeds"].astype(int) >= given.seeds]
    return missing(pd.DataFrame(cells, columns=KEY), known, KEY)


def in_order(lines: pd.DataFrame) -> pd.DataFrame:
    """Return the lines by data set, as these came first, then by protocol, length and method."""
    sets = list(lines["data"].unique())
    places = {"data": sets.index, "protocol": str, "bits": int, "method": FORMS.index}
    return lines.sort_values(list(places), key=lambda column: column.map(places[column.name]), kind="stable")


def means(lines: pd.DataFrame) -> pd.DataFrame:
    """Return the mean over the data sets by host, length and form, where every set has the cell, in percent.

    The sets are those of the table and not drawn. The interval is that of the seeds, which are other in every set:
    ``half`` of it is the root of the sum of the squares of the sets' halves, over the number of sets; NaN if one has
    none.
    """
    methods, numbers = lines["method"], 100 * lines[["map", "half"]].apply(pd.to_numeric)
    forms = methods.str.endswith("_d").map({False: "plain", True: "guided"})
    columns = {"host": methods.str.removesuffix("_d"), "bits": lines["bits"].astype(int), "form": forms}
    by = numbers.assign(**columns).groupby(list(columns))
    half = by["half"].agg(lambda halves: math.hypot(*halves) / len(halves))
    return by["map"].mean().to_frame().join(half)[by.size() == lines["data"].nunique()]


def grid(found: pd.Series) -> pd.DataFrame:
    """Return a row for each host, and a column for each length, plain and then guided."""
    columns = product(sorted(set(found.index.get_level_values("bits"))), ("plain", "guided"))
    table = found.unstack(["bits", "form"]).reindex(columns=list(columns))
    return table.reindex([host for host in NAMES if host in table.index])


def cells(found: pd.DataFrame) -> pd.DataFrame:
    """Return the ``grid`` of means with their intervals, as text; NaN where there is none."""
    half = found["half"].map("±{:.1f}".format).replace("±nan", "")
    return grid(found["map"].map("{:.1f}".format) + half)


def all_methods(found: pd.DataFrame) -> str:
    """Return the table of all methods, plain and guided, by length."""
    return lettered(cells(found))


def beside_coders(found: pd.DataFrame) -> str:
    """Return the table of coders, beside CSQ, and the mean and the best of all methods with a network, by length."""
    maps, own = grid(found["map"]), cells(found)
    networks = maps[maps.index.isin(METHODS)]
    every = {"mean": networks.mean(), "best": networks.max()}
    rows = pd.DataFrame({f"{name} of the {len(METHODS)} with a network": values for name, values in every.items()}).T
    shown = rows.map("{:.1f}".format).replace("nan", np.nan)
    return lettered(pd.concat([shown, own[own.index.isin(["csq", *NAMES[len(METHODS) :]])]]))


def lettered(table: pd.DataFrame) -> str:
    """Return a ``grid`` in Markdown."""
    names = [f"{bits} bits" if form == "plain" else form for bits, form in table.columns]
    shown = table.dropna(how="all").fillna("–").set_axis(names, axis=1)
    return markdown(shown.rename_axis("method").reset_index())


def draw(found: pd.DataFrame) -> sns.FacetGrid:
    """Draw the mean mAP of every method, plain and guided, a panel for each length, the best plain one on top."""
    shown, label = found.reset_index(), "mAP, %, mean over the data sets"
    longest = shown[(shown["form"] == "plain") & (shown["bits"] == shown["bits"].max())]
    order = list(longest.sort_values("map", ascending=False)["host"])
    orders = {"order": order, "hue_order": ["plain", "guided"]}
    look = {"kind": "strip", "jitter": False, "height": 6, "aspect": 0.6}
    named = shown.rename(columns={"map": label})
    panels = sns.catplot(named, x=label, y="host", hue="form", col="bits", **orders, **look)
    for bits, axes in panels.axes_dict.items():
        own = shown[shown["bits"] == bits]
        axes.errorbar(own["map"], own["host"], xerr=own["half"], fmt="none", ecolor="0.5", zorder=2)
        axes.grid(visible=True, axis="y")
    return panels.set_axis_labels(label, "")


def kind_of(host: str, form: str) -> str:
    """Return what kind of method a point is of."""
    if host not in CODERS:
        return f"network, {form}"
    return "no network, labels" if CODERS[host].needs_labels else "no network, no labels"


def draw_new(seen: pd.DataFrame, new: pd.DataFrame) -> sns.FacetGrid:
    """Draw the mean mAP of trained classes against that of new classes, a panel for each length."""
    x, y = "mAP of new classes, %", "mAP of trained classes, %"
    shown = new["map"].rename(x).to_frame().join(seen["map"].rename(y), how="inner").reset_index()
    shown["kind"] = [kind_of(host, form) for host, form in zip(shown["host"], shown["form"], strict=True)]
    look = {"hue": "kind", "style": "kind", "s": 60, "col": "bits", "height": 4.8}
    panels = sns.relplot(shown, x=x, y=y, facet_kws={"sharex": False, "sharey": False}, **look)
    for bits, axes in panels.axes_dict.items():
        for point in shown[(shown["bits"] == bits) & shown["host"].isin(CODERS)].to_dict("records"):
            side = {"xytext": (-6, 0), "ha": "right"} if point["host"] in LEFT else {"xytext": (6, 0)}
            axes.annotate(point["host"], (point[x], point[y]), **side, textcoords="offset points", va="center")
        axes.margins(x=0.12)
    return panels


def write(lines: pd.DataFrame, given: argparse.Namespace) -> None:
    """Write the parts of both pages and the pictures, of trainings with as many epochs as asked for."""
    own = lines[lines["epochs"] == str(given.epochs)]
    trained, new = (own[own["protocol"] == rule] for rule in ("", UNSEEN))
    if len(trained):
        show(all_methods(means(trained)), PART, given.page)
        save(draw(means(trained)), given.page.with_name(f"{PART}.png"))
    if len(new):
        page, sets = given.page.with_stem(NEW), trained["data"].isin(new["data"])
        show(beside_coders(means(new)), NEW, page)
        save(draw_new(means(trained[sets]), means(new)), page.with_suffix(".png"))


def main(arguments: list[str] | None = None) -> None:
    """Run what is missing, and write the tables, the pictures and the CSV."""
    parser = options(__doc__, PART, "docs/numbers.md", bits=(16, 32, 64), seeds=3, epochs=15)
    parser.add_argument("--data", action="append", default=[], metavar="NAME[@R]=FILE", type=parsed)
    parser.add_argument("--methods", nargs="+", choices=NAMES, default=NAMES)
    parser.add_argument("--protocols", nargs="+", choices=["own", UNSEEN], default=["own", UNSEEN])
    given = parser.parse_args(arguments)
    file = given.page.with_name("methods-table.csv")
    lines = read_csv(file, COLUMNS)
    cells = wanted(given, lines)
    if len(cells):
        try:
            made = lines_of(run(trials(cells, given), given))
        except ValueError as error:
            parser.error(str(error))
        lines = in_order(pd.concat([lines, made]).drop_duplicates(KEY, keep="last"))
        write_csv(lines, file)
    write(in_order(lines), given)


if __name__ == "__main__":
    main()
