"""Projects codes to the plane: by principal components, then by t-SNE."""

from __future__ import annotations

from typing import Any

import numpy as np

POINTS = 2000  # codes on the map


def principal(signs: Any) -> Any:
    """Return the first two principal components of codes of ±1: ``[n, bits]`` to ``float32 [n, 2]`` in [-1, 1]."""
    centered = signs.astype(np.float64) - signs.mean(axis=0)
    _, vectors = np.linalg.eigh(centered.T @ centered)
    plane = centered @ vectors[:, ::-1][:, :2]
    return _scaled(np.pad(plane, ((0, 0), (0, 2 - plane.shape[1]))))


def neighborly(signs: Any) -> bytes:
    """Return the t-SNE of codes of ±1, ``[n, bits]``, as the bytes of ``float32 [n, 2]``; takes seconds.

    The squared Euclidean distance of codes of ±1 is four times the Hamming distance, so the neighbors are the same.
    """
    from sklearn.manifold import TSNE

    start = principal(signs) * 1e-2
    # Equal codes would start at one point and stay on top of each other.
    start += np.random.default_rng(0).normal(scale=1e-3, size=start.shape).astype(np.float32)
    tsne = TSNE(perplexity=min(30.0, (len(signs) - 1) / 3), init=start, random_state=0, n_jobs=1)
    return _scaled(tsne.fit_transform(signs.astype(np.float32))).tobytes()


def _scaled(plane: Any) -> Any:
    """Return points centered and in [-1, 1]; far outliers are moved inwards, so that the others have room."""
    plane = plane - np.median(plane, axis=0)
    radius = np.hypot(*plane.T)
    usual = max(float(np.median(radius)), 1e-12)
    plane = plane * (np.arcsinh(radius / usual) / np.maximum(radius, 1e-12))[:, None]
    plane = plane - (plane.max(axis=0) + plane.min(axis=0)) / 2
    return (plane / max(float(np.abs(plane).max()), 1e-12)).astype(np.float32)
