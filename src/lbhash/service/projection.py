"""The code space in the plane: a sample of the codes by principal components, then by t-SNE."""

from __future__ import annotations

from typing import Any

POINTS = 2000
"""How many codes are shown."""


def principal(signs: Any) -> Any:
    """The first two principal components of codes of ±1: ``[n, bits]`` to ``float32 [n, 2]``, each in [-1, 1]."""
    import numpy as np

    centered = signs.astype(np.float64) - signs.mean(axis=0)
    _, vectors = np.linalg.eigh(centered.T @ centered)
    plane = centered @ vectors[:, ::-1][:, :2]
    return _fitted(np.pad(plane, ((0, 0), (0, 2 - plane.shape[1]))))


def neighborly(signs: Any) -> bytes:
    """t-SNE of codes of ±1, ``[n, bits]``, as the bytes of ``float32 [n, 2]``; for a child process, as it takes long.

    Squared Euclidean distance of ±1 is four times Hamming's, so that who is a neighbor is the same.
    """
    import numpy as np
    from sklearn.manifold import TSNE

    start = principal(signs)[:, :2] * 1e-2
    # Codes that are equal start at one place and would stay there, under each other.
    start += np.random.default_rng(0).normal(scale=1e-3, size=start.shape).astype(np.float32)
    plane = TSNE(perplexity=min(30.0, (len(signs) - 1) / 3), init=start, random_state=0, n_jobs=1).fit_transform(
        signs.astype(np.float32)
    )
    return _fitted(plane).tobytes()


def _fitted(plane: Any) -> Any:
    """Centered and in [-1, 1]; the few that lie far off are drawn in, so that the many have room."""
    import numpy as np

    plane = plane - np.median(plane, axis=0)
    radius = np.hypot(*plane.T)
    usual = max(float(np.median(radius)), 1e-12)
    plane = plane * (np.arcsinh(radius / usual) / np.maximum(radius, 1e-12))[:, None]
    plane = plane - (plane.max(axis=0) + plane.min(axis=0)) / 2
    return (plane / max(float(np.abs(plane).max()), 1e-12)).astype(np.float32)
