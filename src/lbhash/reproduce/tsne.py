"""The paper's image of the codes before and after guidance, by t-SNE."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from matplotlib.figure import Figure

from lbhash.codes import unpack
from lbhash.data import EmbeddingSplit
from lbhash.reproduce.results import Record, Result, plots
from lbhash.reproduce.runs import Settings
from lbhash.reproduce.runs.runner import CODES, RunConfig, completed, grid, pairs, row_head, with_setting
from lbhash.reproduce.texts import text

BITS = (64,)
HOSTS = ("hashnet", "csq")
CLASSES = 10
ROWS = 1000


class Map(NamedTuple):
    """The codes of a run as ±1, ``[n, bits]``, their places ``[n, 2]`` and labels ``[n]``, and t-SNE's divergence."""

    config: RunConfig
    signs: npt.NDArray[np.int8]
    places: npt.NDArray[np.float64]
    labels: npt.NDArray[np.int64]
    divergence: float

    @classmethod
    def of(cls, config: RunConfig, codes: npt.NDArray[np.uint8], seed: int) -> Map:
        """Lay out the queries' packed codes."""
        from sklearn.manifold import TSNE

        query = config.source.dataset().query
        rows = sampled_rows(query, seed)
        assert query.labels is not None
        signs = unpack(np.ascontiguousarray(codes[rows]), config.bits)
        perplexity = min(30.0, (len(signs) - 1) / 3)
        tsne = TSNE(perplexity=perplexity, init=principal_components(signs), random_state=seed, n_jobs=1)
        places = tsne.fit_transform(signs.astype(np.float32))
        return cls(config, signs, places, query.labels[rows], float(tsne.kl_divergence_))


def configs(settings: Settings) -> list[RunConfig]:
    """Return the runs, with their codes."""
    return grid(settings, BITS, pairs(settings, *HOSTS), CODES, sources=settings.single_label("tsne"))


def run(settings: Settings) -> Result:
    """Return the images, and how far apart the classes are in the codes."""
    once, seed = replace(settings, seeds=1), settings.seed
    found = completed(once, configs(once))
    maps = [Map.of(config, np.array(run[CODES], np.uint8), seed) for config, (run,) in found.items()]
    records: list[Record] = []
    for one in maps:
        codes = len(np.unique(one.signs, axis=0))
        values: Record = {"queries": len(one.signs), "codes": codes, "silhouette": silhouette(one.signs, one.labels)}
        records.append(row_head(one.config) | values | {"KL": one.divergence})
    about = text("tsne", rows=ROWS, classes=CLASSES, seed=seed)
    about = with_setting(about, once, dict.fromkeys(config.source for config in found))
    title = "t-SNE of the codes before and after guidance"
    return Result.of(title, records, about, lambda: maps_figure(maps), digits=3)


def sampled_rows(split: EmbeddingSplit, seed: int) -> npt.NDArray[np.int64]:
    """Return the positions of at most ``ROWS`` rows of the first ``CLASSES`` classes, in their order."""
    assert split.labels is not None
    rows = np.flatnonzero(np.isin(split.labels, np.unique(split.labels)[:CLASSES]))
    if len(rows) > ROWS:
        rows = np.sort(np.random.default_rng(seed).choice(rows, ROWS, replace=False))
    return rows


def principal_components(signs: npt.NDArray[np.int8]) -> npt.NDArray[np.float32]:
    """Return the first two principal components, the first with the standard deviation 1e-4 that t-SNE begins with.

    A little noise separates equal codes, which otherwise would stay in one place, and rows that differ in no component.
    """
    vectors, sizes, _ = np.linalg.svd(signs - signs.mean(axis=0), full_matrices=False)
    found = vectors[:, :2] * sizes[:2]
    found += 1e-3 * np.random.default_rng(0).normal(size=found.shape)
    return (1e-4 * found / found[:, 0].std()).astype(np.float32)


def silhouette(signs: npt.NDArray[np.int8], labels: npt.NDArray[np.int64]) -> float | None:
    """Return the mean silhouette by Hamming distance; ``None`` unless there are two classes, one of several rows."""
    if not 2 <= len(np.unique(labels)) < len(labels):
        return None
    from sklearn.metrics import silhouette_score

    return float(silhouette_score(signs, labels, metric="hamming"))


def maps_figure(maps: Sequence[Map]) -> Figure:
    """Draw host and guided side by side; each class has a color."""
    records = [
        {**row_head(one.config), "class": f"class {label}", "x": x, "y": y}
        for one in maps
        for label, (x, y) in sorted(zip(one.labels.tolist(), one.places.tolist(), strict=True))
    ]
    panels = ("data", "bits", "method")
    options: dict[str, Any] = {"columns": 2, "xticks": [], "yticks": [], "xlabel": "", "ylabel": ""}
    return plots.panel_figure(records, plots.draw_dots, "x", "y", "class", panels=panels, **options)
