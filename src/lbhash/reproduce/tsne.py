"""The paper's image of the codes before and after guidance, by t-SNE."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from lbhash.codes import unpack
from lbhash.data import EmbeddingSplit
from lbhash.reproduce.paper import METHOD_TITLES
from lbhash.reproduce.results.result import Cell, Result
from lbhash.reproduce.runs.config import CODES
from lbhash.reproduce.runs.config import Cell as Run
from lbhash.reproduce.runs.grid import cell, completed, setting_text, single_label
from lbhash.reproduce.runs.settings import Settings
from lbhash.utils.plotting import new_grid

if TYPE_CHECKING:
    from matplotlib.figure import Figure

BITS = (64,)
HOSTS = ("hashnet", "csq")
CLASSES = 10
ROWS = 1000

TEXT = """The codes of the same queries, host and guided, as scikit-learn's t-SNE lays them out in the plane (perplexity
{perplexity}, from their first two principal components). Its distances are Euclidean between codes of ±1, whose squares
are four times Hamming's. They are those of at most {rows:,} queries of the first {classes} classes, and of one seed,
{seed}.

- **codes**: how many different ones there are.
- **silhouette**: how much nearer a code is to its own class's than to the next class's, by Hamming distance, from −1 to
  1, mean over the queries (P. J. Rousseeuw, 1987).
- **KL**: what t-SNE's image loses, the divergence that it minimizes, in nats."""


@dataclass(frozen=True)
class Map:
    """The codes of a run as ±1, ``[n, bits]``, their places ``[n, 2]`` and labels ``[n]``, and t-SNE's divergence."""

    run: Run
    signs: npt.NDArray[np.int8]
    places: npt.NDArray[np.float64]
    labels: npt.NDArray[np.int64]
    divergence: float


def cells(settings: Settings) -> list[Run]:
    """The trainings, with their codes."""
    return [
        cell(settings, source, method, recipe, bits).wanting(CODES)
        for source in single_label(settings, "tsne")
        for bits in settings.bits_or(*BITS)
        for method in settings.methods_or(*HOSTS)
        for recipe in ("plain", "guided")
    ]


def run(settings: Settings) -> Result:
    """The images, and how far apart the classes are in the codes."""
    wanted = cells(settings)
    runs = completed(settings.repeated(1), wanted)
    maps = []
    for c in wanted:
        query = c.source.dataset().query
        rows = chosen_rows(query, settings.seed)
        assert query.labels is not None
        signs = unpack(np.ascontiguousarray(runs.codes(c, settings.seed)["query"][rows]), c.bits)
        maps.append(laid_out(c, signs, query.labels[rows], settings.seed))
    text = TEXT.format(perplexity=30, rows=ROWS, classes=CLASSES, seed=settings.seed)
    return Result(
        "t-SNE of the codes before and after guidance",
        ("data", "bits", "method", "queries", "codes", "silhouette", "KL"),
        [row_of(one) for one in maps],
        "\n\n".join([text, setting_text(settings.repeated(1), [*dict.fromkeys(c.source for c in wanted)])]),
        lambda: draw(maps),
        digits=3,
    )


def chosen_rows(part: EmbeddingSplit, seed: int) -> npt.NDArray[np.int64]:
    """Positions of at most ``ROWS`` rows of the first ``CLASSES`` classes, in their order."""
    assert part.labels is not None
    rows = np.flatnonzero(np.isin(part.labels, np.unique(part.labels)[:CLASSES]))
    if len(rows) > ROWS:
        rows = np.sort(np.random.default_rng(seed).choice(rows, ROWS, replace=False))
    return rows


def laid_out(run: Run, signs: npt.NDArray[np.int8], labels: npt.NDArray[np.int64], seed: int) -> Map:
    """The places that t-SNE gives them."""
    from sklearn.manifold import TSNE

    perplexity = min(30.0, (len(signs) - 1) / 3)
    tsne = TSNE(perplexity=perplexity, init=principal_components(signs), random_state=seed, n_jobs=1)
    places = tsne.fit_transform(signs.astype(np.float32))
    return Map(run, signs, places, labels, float(tsne.kl_divergence_))


def principal_components(signs: npt.NDArray[np.int8]) -> npt.NDArray[np.float32]:
    """The first two, the first with a standard deviation of 1e-4, as t-SNE is begun with.

    A little noise keeps equal codes apart, which else would stay in one place; and a component in which none differ.
    """
    vectors, sizes, _ = np.linalg.svd(signs - signs.mean(axis=0), full_matrices=False)
    found = vectors[:, :2] * sizes[:2]
    found += 1e-3 * np.random.default_rng(0).normal(size=found.shape)
    return (1e-4 * found / found[:, 0].std()).astype(np.float32)


def silhouette(signs: npt.NDArray[np.int8], labels: npt.NDArray[np.int64]) -> float | None:
    """Mean silhouette by Hamming distance; ``None`` where there are not two classes of which one has two rows."""
    if not 2 <= len(np.unique(labels)) < len(labels):
        return None
    from sklearn.metrics import silhouette_score

    return float(silhouette_score(signs, labels, metric="hamming"))


def row_of(found: Map) -> list[Cell]:
    """The row of an image."""
    title = METHOD_TITLES[found.run.method] + ("_D" if found.run.recipe == "guided" else "")
    codes = len(np.unique(found.signs, axis=0))
    score = silhouette(found.signs, found.labels)
    return [found.run.source.name, found.run.bits, title, len(found.signs), codes, score, found.divergence]


def draw(maps: Sequence[Map]) -> Figure:
    """Host on the left, guided on the right, two of such pairs in a row; a color a class."""
    import matplotlib

    columns = min(len(maps), 4)
    figure, axes = new_grid(-(-len(maps) // columns), columns, 3.7, 3.5)
    colors = matplotlib.colormaps["tab10"]
    for spare in axes.ravel()[len(maps) :]:
        spare.set_axis_off()
    for axis, found in zip(axes.ravel(), maps, strict=False):
        for place, label in enumerate(np.unique(found.labels)):
            own = found.places[found.labels == label]
            words: dict[str, Any] = {"s": 9, "linewidth": 0, "alpha": 0.75, "label": str(label)}
            axis.scatter(own[:, 0], own[:, 1], color=colors(place), **words)
        method = row_of(found)[2]
        axis.set(title=f"{found.run.source.name}, {found.run.bits} bits, {method}", xticks=[], yticks=[])
    axes[0, -1].legend(title="class", fontsize=7, markerscale=2, loc="center left", bbox_to_anchor=(1, 0.5))
    return figure
