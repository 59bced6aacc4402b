"""Vectors and outputs at scales from 1e-38 to 1e38: what is found by them, against double precision."""

from __future__ import annotations

import random

import numpy as np
from tests.faults.attack import Run, attack

NEAR = {"outputs": 1e-3, "embeddings": 1e-3, "int8": 0.03}
"""How far a distance by stored vectors, 1 − cosine, may be from that of the vectors themselves."""


def unit(rows: np.ndarray) -> np.ndarray:
    """Return rows at length 1, in double precision."""
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def scaled(rng: random.Random, rows: np.ndarray) -> np.ndarray:
    """Return rows times a power of ten, which is another one for each row half of the time, in float32 or float64."""
    powers = np.array([rng.uniform(-37, 37) for _ in rows])
    rows = rows * 10 ** (powers if rng.random() < 0.5 else powers[:1])[:, None]
    return np.clip(rows, -3e38, 3e38).astype(rng.choice([np.float32, np.float64]))


def by_cosine(rng: random.Random, many: np.random.Generator) -> tuple[str, str]:
    """Store vectors, add some more, and rank by them."""
    from lbhash.index import Index

    count, dim, store = rng.randrange(20, 400), rng.randrange(8, 80), rng.choice(list(NEAR))
    rows = scaled(rng, many.normal(size=(count, dim)))
    index, half = Index(8, vectors=store, learns_classes=False), rng.randrange(10, count)
    for part in (rows[:half], rows[half:]):
        index.add(np.zeros((len(part), 1), np.uint8), vectors=part)
    queries = scaled(rng, many.normal(size=(3, dim)))
    by = "outputs" if store == "outputs" else "embeddings"
    given = {"codes": np.zeros((3, 1), np.uint8), "embeddings": queries}
    if by == "outputs":
        from lbhash.index.rerank import reranked

        found = reranked(index, index.search(given["codes"], count), queries, count, by)
    else:
        found = index.search(**given, k=count, rerank=by, candidates=count)
    exact = 1 - unit(queries.astype(float)) @ unit(rows.astype(float)).T
    wrong = np.abs(np.take_along_axis(exact, found.ids, 1) - found.distances).max()
    return ("survived" if wrong < NEAR[store] else "wrong"), f"{store} [{count}, {dim}]: wrong by {wrong}"


def by_outputs(rng: random.Random, many: np.random.Generator) -> tuple[str, str]:
    """Search by real outputs."""
    from lbhash.index import Index

    count, bits = rng.choice([50, 3000, 6000]), 8 * rng.randrange(1, 17)
    codes = many.integers(0, 256, (count, bits // 8), dtype=np.uint8)
    index = Index(bits, rng.choice(["flat", "ivf"]) if count == 3000 else "flat")
    index.add(codes)
    asked = scaled(rng, many.normal(size=(4, bits))).astype(np.float32)
    found = index.search(outputs=asked, k=10)
    differ = (np.unpackbits(codes, axis=1) == 1)[None] != (asked >= 0)[:, None]
    exact = (differ * np.abs(asked.astype(float))[:, None]).sum(axis=2)
    told = np.take_along_axis(exact, found.ids, 1)
    right = np.allclose(found.distances, told, rtol=1e-5, atol=1e-45)
    if index.kind == "flat":
        right &= np.allclose(told, np.sort(exact, axis=1)[:, :10], rtol=1e-9)
    return (
        "survived" if right else "wrong"
    ), f"outputs of {bits} bits in {index.kind} of {count}: {told} {exact.min()}"


@attack("vectors", "vectors and outputs at scales from 1e-37 to 1e38, stored and asked")
def vectors(run: Run) -> None:
    for rng in run.faults():
        what = rng.choice([by_cosine, by_outputs])
        try:
            run.count(*what(rng, np.random.default_rng(rng.randrange(2**32))))
        except ValueError as error:
            run.count("refused" if str(error).startswith(("vectors ", "outputs ")) else "crashed", str(error))
        except Exception as error:
            run.count("crashed", repr(error))
