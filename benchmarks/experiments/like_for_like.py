"""Host methods beside their guided forms, like for like: the same centers, seeds and budget of settings.

    python -m benchmarks.experiments.like_for_like --data cifar10=FILE --data tiny-imagenet=FILE --data mosaic=FILE \
        --data clinc=FILE --out FOLDER --page docs/results.md

Every method, as the paper sets it and with its own recommended settings, is trained plain and guided on the same
(arranged) centers with the same seeds, and asked the data's own queries. Each run leaves the average precision of
every query for every seed in a file, and a grid that was interrupted goes on.

A cell's lift is the mean over seeds and queries of the guided form's average precision less the host's. Its interval is
that of a nested bootstrap: seeds and queries are drawn with replacement, and both forms keep the same draws. The
p-values of the whole table are corrected by Holm's method. ``--page`` names a page whose part "like-for-like" becomes
both tables, with a picture of the lifts beside it.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from benchmarks.experiments.page import check_part, replace_part

from lbhash.evaluation.metrics import average_precision
from lbhash.evaluation.ranking import RankHistogram
from lbhash.hasher import Hasher
from lbhash.reproduce.results import Interval, plots
from lbhash.reproduce.runs.settings import METHODS
from lbhash.reproduce.runs.sources import Source
from lbhash.utils.checksums import read_npz, write_npz
from lbhash.utils.files import replacing
from lbhash.utils.parallel import in_processes, print_progress

PART = "like-for-like"
RECIPES = ("paper", "tuned")
DRAWS = 10_000

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Cell:
    """What is trained with every seed, but for the recipe's settings."""

    source: Source
    recipe: str
    method: str
    bits: int
    epochs: int
    seeds: int

    def name(self, guided: bool) -> str:
        """The name of its file, of the host or of the guided form."""
        return f"{self.source.name}-{self.recipe}-{self.method}{'_d' * guided}-{self.bits}bits-{self.epochs}epochs"


def precision(cell: Cell, guided: bool, folder: Path) -> None:
    """Train all seeds, and keep the average precision of every query, ``[seeds, queries]``."""
    split, classes = cell.source.training()
    data = cell.source.dataset()
    hasher = Hasher(cell.bits, cell.method, guided, cell.epochs, recipe=cell.recipe, device="cpu")
    found = []
    for trained in hasher.fit_seeds(split, len(classes), range(cell.seeds)):
        query, base = trained.encode_split(data.query), trained.encode_split(data.base)
        histogram = RankHistogram.from_codes(query, data.query.labels, base, data.base.labels, cell.bits)
        found.append(average_precision(histogram, cell.source.top_k()))
    write_npz(folder / f"{cell.name(guided)}.npz", {"average_precision": np.array(found)})


def bootstrap(lift: Floats, draws: int = DRAWS, seed: int = 0) -> Floats:
    """Return means of ``lift`` ``[seeds, queries]`` over seeds and queries that are drawn anew, ``[draws]``."""
    rng = np.random.default_rng(seed)
    seeds, queries = lift.shape
    means = np.empty(draws)
    for start in range(0, draws, 500):
        count = min(500, draws - start)
        of_queries = rng.multinomial(queries, np.full(queries, 1 / queries), count) / queries
        of_seeds = rng.multinomial(seeds, np.full(seeds, 1 / seeds), count) / seeds
        means[start : start + count] = ((of_queries @ lift.T) * of_seeds).sum(axis=1)
    return means


def p_value(means: Floats) -> float:
    """Return the two-sided p-value of a mean of 0, at least 2 / (draws + 1)."""
    below, above = (means <= 0).sum(), (means >= 0).sum()
    return float(min(1.0, 2 * (min(below, above) + 1) / (len(means) + 1)))


def holm(p: Floats) -> Floats:
    """Return the p-values corrected by Holm's method."""
    order = np.argsort(p)
    corrected = np.empty(len(p))
    corrected[order] = np.minimum(1, np.maximum.accumulate(p[order] * np.arange(len(p), 0, -1)))
    return corrected


def rows(cells: Iterable[Cell], folder: Path) -> list[dict[str, Any]]:
    """Return a row a cell: mean average precision of both forms in percent, the lift, its interval and its p-value."""
    made = []
    for cell in cells:
        host, guided = (read_npz(folder / f"{cell.name(form)}.npz")["average_precision"] for form in (False, True))
        asked = ~np.isnan(host).any(axis=0)  # a query without a relevant code has no precision
        means = 100 * bootstrap((guided - host)[:, asked])
        low, high = np.quantile(means, [0.025, 0.975])
        made.append(
            {
                "cell": cell,
                "host": 100 * host[:, asked].mean(),
                "guided": 100 * guided[:, asked].mean(),
                "low": low,
                "high": high,
                "p": p_value(means),
            }
        )
    for row, p in zip(made, holm(np.array([row["p"] for row in made])), strict=True):
        row["holm"] = p
    return made


def table(made: list[dict[str, Any]]) -> str:
    """Return the table in Markdown: a line for data, method and bits, with both recipes side by side."""
    heads = [f"{recipe}: host | guided | lift" for recipe in RECIPES]
    lines = [f"| data | method | bits | {' | '.join(heads)} |", "|:--|:--|--:|" + "--:|" * 6]
    found = {(row["cell"].source.name, row["cell"].method, row["cell"].bits, row["cell"].recipe): row for row in made}
    for data, method, bits in dict.fromkeys(key[:3] for key in found):
        parts = [data, method, str(bits)]
        for recipe in RECIPES:
            row = found[data, method, bits, recipe]
            sure = "**" if row["holm"] < 0.05 else ""
            lift = row["guided"] - row["host"]
            parts += [f"{row['host']:.1f}", f"{row['guided']:.1f}"]
            parts.append(f"{sure}{lift:+.1f}{sure} ({row['low']:+.1f} to {row['high']:+.1f})")
        lines.append(f"| {' | '.join(parts)} |")
    return "\n".join(lines)


def summary(made: list[dict[str, Any]]) -> str:
    """Return, for each method and recipe, in how many cells the guidance gains or loses, and the mean lift."""
    lines = ["| method | recipe | lift > 0 | gains (Holm) | loses (Holm) | mean lift |", "|:--|:--|--:|--:|--:|--:|"]
    for method, recipe in product(dict.fromkeys(row["cell"].method for row in made), RECIPES):
        own = [row for row in made if (row["cell"].method, row["cell"].recipe) == (method, recipe)]
        lifts = np.array([row["guided"] - row["host"] for row in own])
        sure = np.array([row["holm"] < 0.05 for row in own])
        counts = [(lifts > 0).sum(), (sure & (lifts > 0)).sum(), (sure & (lifts < 0)).sum()]
        of = f" of {len(own)}"
        lines.append(f"| {method} | {recipe} | {' | '.join(f'{n}{of}' for n in counts)} | {lifts.mean():+.1f} |")
    return "\n".join(lines)


def draw(made: list[dict[str, Any]], file: Path) -> None:
    """Draw the lifts with their intervals, a panel for each set of data and length."""
    shown = [
        {
            "data": row["cell"].source.name,
            "bits": row["cell"].bits,
            "method": row["cell"].method,
            "recipe": row["cell"].recipe,
            "lift": Interval(row["guided"] - row["host"], (row["high"] - row["low"]) / 2, row["cell"].seeds),
        }
        for row in made
    ]
    figure = plots.panel_figure(
        shown, plots.draw_points, "method", "lift", "recipe", xlabel="lift in points of mAP", xscale="symlog"
    )
    with replacing(file) as temporary:
        figure.savefig(temporary, format="png", dpi=110)


def main(arguments: list[str] | None = None) -> None:
    """Train what is missing, and print both tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", action="append", required=True, metavar="NAME=FILE", type=Source.of)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=METHODS)
    parser.add_argument("--bits", type=int, nargs="+", default=[16, 32, 64])
    parser.add_argument("--epochs", type=int, default=15)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--workers", type=int, default=os.cpu_count())
    parser.add_argument("--page", type=Path)
    given = parser.parse_args(arguments)
    if given.page:
        check_part(given.page, PART)
    given.out.mkdir(parents=True, exist_ok=True)
    cells = [
        Cell(source, recipe, method, bits, given.epochs, given.seeds)
        for recipe, source, method, bits in product(RECIPES, given.data, given.methods, given.bits)
    ]
    missing = {
        cell.name(guided): (cell, guided, given.out)
        for cell, guided in product(cells, (False, True))
        if not (given.out / f"{cell.name(guided)}.npz").exists()
    }
    for _ in print_progress(in_processes(missing, precision, given.workers), len(missing), lambda name, _: name):
        pass
    made = rows(cells, given.out)
    text = f"{summary(made)}\n\n{table(made)}"
    print(text)
    if given.page:
        draw(made, given.page.with_name(f"{given.page.stem}.png"))
        replace_part(given.page, PART, text)


if __name__ == "__main__":
    main()
