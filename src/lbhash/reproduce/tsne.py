"""The paper's image of the codes before and after guidance, by t-SNE."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt

from lbhash.codes import unpack
from lbhash.data.split import EmbeddingSplit
from lbhash.reproduce.results import Record, Result, panels
from lbhash.reproduce.runs import Settings
from lbhash.reproduce.runs.trained import CODES, completed, grid, pairs, with_setting
from lbhash.reproduce.texts import text

BITS = (64,)
HOSTS = ("hashnet", "csq")
CLASSES = 10
ROWS = 1000


def run(settings: Settings) -> Result:
    """Return the images, and how far apart the classes are in the codes."""
    once, seed = replace(settings, seeds=1), settings.seed
    sources = settings.single_label("tsne")
    done = completed(once, grid(once, BITS, pairs(settings, *HOSTS), CODES, sources=sources))
    records: list[Record] = []
    dots: list[Record] = []
    for one in done:
        query = one.config.source.dataset().query
        rows = sampled_rows(query, seed)
        assert query.labels is not None
        signs, labels = unpack(np.array(one.finals[0][CODES], np.uint8)[rows], one.config.bits), query.labels[rows]
        places, divergence = laid_out(signs, seed)
        values = {"queries": len(rows), "codes": len(np.unique(signs, axis=0)), "silhouette": silhouette(signs, labels)}
        records.append(one.config.head | values | {"KL": divergence})
        for label, (x, y) in sorted(zip(labels.tolist(), places.tolist(), strict=True)):
            dots.append(one.config.head | {"class": f"class {label}", "x": x, "y": y})
    about = text("tsne", rows=ROWS, classes=CLASSES, seed=seed)
    about = with_setting(about, once, sources)
    bare = {"by": ("data", "bits", "method"), "xticks": [], "yticks": [], "xlabel": "", "ylabel": ""}
    figure = panels.dots(dots, "x", "y", "class", columns=2, **bare)
    return Result.of("t-SNE of the codes before and after guidance", records, about, figure, digits=3)


def laid_out(signs: npt.NDArray[np.int8], seed: int) -> tuple[npt.NDArray[np.float64], float]:
    """Return where t-SNE puts codes of ±1, ``float64 [n, 2]``, and its divergence."""
    from sklearn.manifold import TSNE

    perplexity = min(30.0, (len(signs) - 1) / 3)
    tsne = TSNE(perplexity=perplexity, init=principal_components(signs), random_state=seed, n_jobs=1)
    return tsne.fit_transform(signs.astype(np.float32)), float(tsne.kl_divergence_)


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
