"""The demo's report: one HTML file with its table, curves, a search, and a map of the classes."""

from __future__ import annotations

import io
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import matplotlib
import numpy as np
import numpy.typing as npt
from matplotlib.figure import Figure

from lbhash.codes import PackedCodes, pack_outputs, unpack
from lbhash.data import Dataset
from lbhash.evaluation.plots import precision_recall_figure
from lbhash.evaluation.recognition import knn_predict
from lbhash.evaluation.report import Report
from lbhash.hasher import Hasher
from lbhash.utils.files import write_text
from lbhash.utils.html import png_url, render

matplotlib.use("agg")

CONFUSED = 8  # pairs of classes that the page lists
VOTES = 20


@dataclass(frozen=True, eq=False)
class Run:
    """A line of the table: a method, its fitted hasher, the queries' outputs, the base's codes, and their figures."""

    name: str
    about: str
    hasher: Hasher
    outputs: npt.NDArray[np.float32]
    base: PackedCodes
    report: Report  # on new rows
    trained: float  # mAP on the training rows
    unseen: float  # mAP on classes that a second training left out
    seconds: float

    @property
    def query(self) -> PackedCodes:
        """The codes of the queries."""
        return pack_outputs(self.outputs)

    def cells(self) -> list[str]:
        """Return the cells of the table."""
        found = self.report
        assert found.by_bits is not None
        figures = (found.map, found.map_macro, found.by_bits.map, self.trained, self.unseen)
        return [self.name, *(f"{value:.3f}" for value in figures), f"{self.seconds:.1f}"]


class Neighborhood(NamedTuple):
    """A query and its nearest neighbors; ``rows`` are positions in the data set, nearest first.

    ``distances`` are sums of the query's absolute outputs over the bits that differ.
    """

    query: int
    code: PackedCodes
    rows: np.ndarray
    codes: PackedCodes
    distances: np.ndarray


class Confusion(NamedTuple):
    """Two confused classes: their names, the number of confused queries, and the distance of their centers."""

    names: tuple[str, str]
    queries: int
    distance: int


def write_report(
    path: str | Path,
    title: str,
    columns: Sequence[str],
    runs: Sequence[Run],
    dataset: Dataset,
    found: Sequence[Neighborhood],
    *,
    commands: Sequence[str],
    seed: int,
    epochs: int,
    pixels: float,
) -> None:
    """Write the report of all runs as one HTML file; the search results ``found`` and the map are the last run's.

    ``pixels`` is the mAP of ranking by the images' pixels.
    """
    last, report = runs[-1], runs[-1].report
    confused = confusions(last, dataset)
    distances = report.bound.inter_matrix()
    values: dict[str, Any] = {"title": title, "columns": columns, "commands": commands, "seed": seed, "epochs": epochs}
    values["pixels"] = f"{pixels:.3f}"
    values |= {"train": len(dataset.train), "base": len(dataset.base), "queries": len(dataset.query)}
    values |= {"classes": dataset.classes, "bits": report.bits, "bytes": last.base.shape[1], "votes": VOTES}
    values |= {"numbers": dataset.train.input_dim(), "searched": last.name, "confused": confused}
    values |= {"apart": distances[~np.eye(len(distances), dtype=bool)].mean()}
    values |= {"confused_apart": np.mean([one.distance for one in confused]) if confused else None}
    values |= {"best": max(runs, key=lambda run: run.report.map).name}
    values |= {"best_unseen": max(runs, key=lambda run: run.unseen).name}
    names, found_classes = class_names(dataset), report.by_class
    rows = zip(found_classes.label.tolist(), found_classes.map.tolist(), found_classes.base.tolist(), strict=True)
    classes = sorted(rows, key=lambda row: row[1])
    values["weakest"] = [(names[label], precision, count) for label, precision, count in classes]
    values["runs"] = [(run.name, run.about, run.cells()) for run in runs]
    values["searches"] = [search_cards(dataset, hood, report.bits) for hood in found]
    curves = precision_recall_figure({run.name: run.report for run in runs})
    curves.set_size_inches(6.4, 4.2)
    values |= {"curves": _png(curves), "map": _png(map_figure(distances, class_names(dataset), confused))}
    write_text(path, render("lbhash.cli", "demo.html", **values))


def distance_of(distance: float) -> str:
    """Format a distance for the report."""
    return f"{distance:.3f}"


def class_names(dataset: Dataset) -> list[str]:
    """Return the name of each class, or its number if it has no name."""
    return list(map(str, dataset.class_names))


def neighbor_rows(dataset: Dataset, hood: Neighborhood) -> list[npt.NDArray[np.int64]]:
    """Return the images of a query and its neighbors: gray values from 0 to 255 (full ink), ``[side, side]``."""
    pixels = dataset.base.embeddings
    full, side = int(pixels.max()), int(np.sqrt(pixels.shape[1]))
    return [pixels[row].reshape(side, side).astype(np.int64) * 255 // full for row in (hood.query, *hood.rows)]


def search_cards(dataset: Dataset, hood: Neighborhood, bits: int) -> list[dict[str, Any]]:
    """Return the cards of a query and its neighbors: caption, image, bits, and which bits differ."""
    labels = np.full(len(dataset.base.embeddings), -1)
    for split in (dataset.base, dataset.query):
        labels[split.rows] = split.labels
    names, signs = class_names(dataset), unpack(np.vstack([hood.code[None], hood.codes]), bits)
    captions = ["query", *map(distance_of, hood.distances.tolist())]
    rows = (hood.query, *hood.rows.tolist())
    return [
        {
            "caption": caption,
            "name": names[labels[row]],
            "image": _gray_png(255 - image),
            "bits": [("1" if bit > 0 else "0", bool(bit != asked)) for bit, asked in zip(code, signs[0], strict=True)],
            "wrong": bool(labels[row] != labels[hood.query]),
        }
        for caption, row, image, code in zip(captions, rows, neighbor_rows(dataset, hood), signs, strict=True)
    ]


def confusions(run: Run, dataset: Dataset) -> list[Confusion]:
    """Return the pairs of classes that a vote of the nearest codes confuses, the most frequent first."""
    labels, names = np.asarray(dataset.query.labels), class_names(dataset)
    k = min(VOTES, len(run.base))
    guessed = knn_predict(run.query, run.base, dataset.base.labels, k, query_outputs=run.outputs)
    wrong = guessed != labels
    pairs = Counter(tuple(sorted(pair)) for pair in np.stack([labels, guessed], axis=1)[wrong].tolist())
    distances = run.report.bound.inter_matrix()
    return [
        Confusion((names[a], names[b]), count, int(distances[a, b]))
        for (a, b), count in sorted(pairs.items(), key=lambda item: (-item[1], item[0]))[:CONFUSED]
    ]


def map_figure(distances: npt.NDArray, names: Sequence[str], confused: Sequence[Confusion]) -> Figure:
    """Draw the classes in 2-D so that near centers stay near, with lines between confused classes."""
    from sklearn.manifold import TSNE

    perplexity = min(10.0, (len(names) - 1) / 3)
    places = TSNE(metric="precomputed", init="random", perplexity=perplexity, random_state=0, n_jobs=1)
    where = dict(zip(names, places.fit_transform(distances.astype(np.float64)), strict=True))
    figure = Figure(figsize=(6.4, 5.2))
    axes = figure.add_axes((0, 0, 1, 1))
    for one in confused:
        axes.plot(*zip(*(where[name] for name in one.names), strict=True), color="tab:red", alpha=0.6, linewidth=2)
    marked = {name for one in confused for name in one.names}
    x, y = np.array(list(where.values())).T
    axes.scatter(x, y, s=230, color="white", zorder=2)
    for name, place in where.items():
        color, weight = ("tab:red", "bold") if name in marked else ("0.15", "normal")
        axes.text(
            place[0], place[1], name, color=color, weight=weight, size=13, ha="center", va="center", parse_math=False
        )
    axes.margins(0.05)
    axes.set_axis_off()
    return figure


def _gray_png(gray: npt.NDArray) -> str:
    from PIL import Image

    buffer = io.BytesIO()
    Image.fromarray(gray.astype(np.uint8)).save(buffer, format="png")
    return png_url(buffer.getvalue())


def _png(figure: Figure) -> str:
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=160)
    return png_url(buffer.getvalue())
