"""mAP of classes seen against mAP of classes never seen, along the setting ``unseen`` and beside other methods.

    python -m benchmarks.experiments.frontier --data clinc=FILE --data cifar10=FILE --data tiny-imagenet@1000=FILE

Half of the classes are trained on, in several draws. Train, base and queries are cut from the train rows, unless
``--queries`` asks those of the data. A network is trained once for a draw: ``unseen`` changes only what is fitted after
it. Each draw leaves a JSON file under ``--runs``; an interrupted run goes on. A table a length is printed, and a CSV
file of all and the picture are written.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from benchmarks.experiments.data import parsed
from benchmarks.experiments.page import markdown_table, write_csv

from lbhash.codes import pack
from lbhash.data import Dataset, EmbeddingSplit, load_dataset, validation_dataset
from lbhash.data.protocols import trained_classes
from lbhash.evaluation.report import evaluate
from lbhash.hasher import Hasher
from lbhash.models.hash_model import HashModel
from lbhash.training.neighborhood import neighborhood
from lbhash.utils.files import replacing
from lbhash.utils.parallel import read_run, write_run

POINTS = (0.0, 0.25, 0.5, 0.6, 0.7, 0.8, 1.0)
HEADS = ("CSQ_D", "CSQ_D, joined")
OTHERS = {"HashNet": "hashnet", "ITQ": "itq", "WCCN-ITQ": "wccn-itq"}

Cell = tuple[str, int]
"""A data set's name, and bits."""


def execute(data: Dataset[EmbeddingSplit], at: int | None, bits: int, draw: int, epochs: int) -> dict[str, list[float]]:
    """Return the mAP of classes seen and of the others, by method and, where it has one, ``unseen``."""
    classes = trained_classes(np.asarray(data.train.labels), draw)
    part, _ = data.train.where(np.isin(data.train.labels, classes)).compact()
    found = {}

    def score(model: HashModel) -> list[float]:
        return [_map(model, data, classes, at, known=known) for known in (True, False)]

    hasher = Hasher(bits, head="joined", seed=draw, epochs=epochs, device="cpu")
    joined = hasher.fit_split(part, len(classes)).model_
    branch = joined.posterior
    for name, own in zip(HEADS, (None, branch), strict=True):
        for unseen in POINTS:
            joined.posterior, joined.neighborhood = own, None
            if unseen:
                joined.neighborhood = neighborhood(joined, part, len(classes), unseen)
            found[f"{name}, {unseen:g}"] = score(joined)
    for name, method in OTHERS.items():
        settings = {"guided": False, "epochs": epochs} if method == "hashnet" else {}
        hasher = Hasher(bits, method, seed=draw, device="cpu", **settings).fit_split(part, len(classes))
        found[name] = score(hasher.model_)
    return found


def _map(
    model: HashModel, data: Dataset[EmbeddingSplit], classes: npt.NDArray, at: int | None, *, known: bool
) -> float:
    parts = [split.where(np.isin(split.labels, classes, invert=not known)) for split in (data.query, data.base)]
    query, base = (pack(np.concatenate([model.outputs(chunk) for chunk in part.chunks()])) for part in parts)
    most = None if at is None else min(at, len(base))
    return float(evaluate(query, parts[0].labels, base, parts[1].labels, most, bits=model.bits).map)


def draw_curves(results: Mapping[Cell, Mapping[str, npt.NDArray]], file: Path) -> None:
    """A row of panels a data set, a panel a length: a curve for each head along ``unseen``, a point for the others."""
    from lbhash.utils.plotting import new_grid, palette

    names, lengths = (list(dict.fromkeys(part)) for part in zip(*results, strict=True))
    figure, grid = new_grid(len(names), len(lengths), 4.4, 3.8)
    colors = palette(len(HEADS) + len(OTHERS))
    for axes, ((name, bits), found) in zip(grid.ravel(), results.items(), strict=True):
        for color, head in zip(colors, HEADS, strict=False):
            seen, unseen = np.array([found[f"{head}, {point:g}"] for point in POINTS]).T
            axes.plot(seen, unseen, "o-", color=color, label=f"{head}, along unseen")
            for place, text in ((0, "0"), (2, "0.5"), (len(POINTS) - 1, "1")):
                axes.annotate(text, (seen[place], unseen[place]), (6, 6), textcoords="offset points", fontsize=9)
        for color, marker, other in zip(colors[len(HEADS) :], "sD^", OTHERS, strict=True):
            axes.plot(*found[other], marker, color=color, markersize=9, label=other)
        axes.set(title=f"{name}, {bits} bits", xlabel="mAP, classes seen", ylabel="mAP, classes never seen")
        axes.margins(0.08)
    figure.legend(*grid[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=5, frameon=False)
    with replacing(file) as temporary:
        figure.savefig(temporary, format="png", dpi=110)


def table(results: Mapping[Cell, Mapping[str, npt.NDArray]], bits: int) -> str:
    """Return the table of a length in Markdown."""
    own = {name: found for (name, length), found in results.items() if length == bits}
    columns = ["method", "unseen", *(f"{name}, {what}" for name in own for what in ("seen", "never seen"))]
    rows = [
        [*_method(key), *(f"{value:.4f}" for found in own.values() for value in found[key])]
        for key in next(iter(own.values()))
    ]
    return markdown_table(columns, rows, left=0)


def _method(key: str) -> tuple[str, str]:
    """Return method and ``unseen``, "" where it has none."""
    head, _, point = key.rpartition(", ")
    return (head, point) if head in HEADS else (key, "")


def main() -> None:
    """Run what is missing, print the tables, write the CSV file, and draw the picture."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", action="append", required=True, metavar="NAME[@R]=FILE")
    parser.add_argument("--bits", nargs="+", type=int, default=[16, 32, 64, 128])
    parser.add_argument("--draws", type=int, default=2, help="seeds 0, 1, …")
    parser.add_argument("--epochs", type=int, default=15)
    parser.add_argument("--queries", action="store_true", help="ask the queries of the data")
    parser.add_argument("--image", type=Path, default=Path("docs/frontier.png"), help="beside it, the CSV file")
    parser.add_argument("--runs", type=Path, default=Path("runs/frontier"))
    given = parser.parse_args()
    results: dict[Cell, dict[str, Any]] = {}
    for source, bits in product(parsed(parser, given.data), given.bits):
        draws = []
        for draw in range(given.draws):
            kind = "queries" if given.queries else "held-out"
            cell = given.runs / f"{source}-{kind}-{bits}bits-{given.epochs}epochs-draw{draw}.json"
            if not cell.exists():
                data = load_dataset(source.file)
                data = data if given.queries else validation_dataset(data)
                write_run(cell, execute(data, source.at, bits, draw, given.epochs))
            draws.append(read_run(cell))
            print(cell.name, draws[-1], flush=True)
        results[source.name, bits] = {key: np.mean([one[key] for one in draws], axis=0) for key in draws[0]}
    for bits in given.bits:
        print(f"\n{bits} bits\n\n{table(results, bits)}")
    lines = [
        {
            "data": name,
            "bits": bits,
            "method": method,
            "unseen": point,
            "seen": f"{seen:.4f}",
            "never seen": f"{new:.4f}",
        }
        for (name, bits), found in results.items()
        for (method, point), (seen, new) in zip(map(_method, found), found.values(), strict=True)
    ]
    write_csv(given.image.with_suffix(".csv"), lines)
    draw_curves(results, given.image)


if __name__ == "__main__":
    main()
