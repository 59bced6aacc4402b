"""Random modules over GF(2) of random small groups, for ``benchmarks.code_search.group_modules``.

A group of permutations permutes sets of points, and so acts on a space that has them as its basis. A chain of random
subspaces that it keeps, and of quotients by them, leads to a smaller space; the module is one, or a sum of several. A
subspace is that of all images of a vector in the kernel of a random sum of products of the maps, as in Parker's
Meataxe (1984).
"""

from __future__ import annotations

import numpy as np
from benchmarks.code_search.permutation_groups import Permutations, random_subgroup

from lbhash.centers.constructions.known_linear import _image

Maps = list[list[int]]
"""The images of the unit vectors under each generator of a group."""

MOST_SETS = 70


def random_module(k: int, most: int, rng: np.random.Generator) -> list[str]:
    """Maps of dimension k of a group with some ``most`` orbits, as ``known_linear.csv`` has them, or none at times."""
    group = random_subgroup(2**k / most, rng)
    maps: Maps = [[] for _ in group] if group is not None else []
    while group is not None and (left := k - len(maps[0])) > 0:
        part = _part(_permuted(group, rng), left, rng)
        if not part:
            return []
        maps = [images + [image << k - left for image in more] for images, more in zip(maps, part, strict=True)]
    return [".".join(f"{image:x}" for image in images) for images in maps]


def _permuted(group: Permutations, rng: np.random.Generator) -> Maps:
    """The space of the images of one or two random sets of points."""
    places: dict[frozenset[int], int] = {}
    for _ in range(int(rng.integers(1, 3))):
        begins = [frozenset(rng.permutation(group.shape[1])[: int(rng.integers(1, 4))].tolist())]
        for points in begins:  # it grows
            if points not in places and len(places) <= MOST_SETS:
                places[points] = len(places)
                begins += [frozenset(g[list(points)].tolist()) for g in group]
    if len(places) > MOST_SETS:
        return []
    return [[1 << places[frozenset(g[list(points)].tolist())] for points in places] for g in group]


def _part(maps: Maps, most: int, rng: np.random.Generator) -> Maps:
    """A space that a random chain of subspaces and quotients leads to, of dimension ``most`` at most; none at times."""
    for _ in range(60 if maps else 0):
        size = len(maps[0])
        if size <= most:
            return maps
        pivots = _spun(_random_vector(maps, rng), maps)
        inside, outside = len(pivots), size - len(pivots)
        if not inside or not outside or (max(inside, outside) < most and rng.random() < 0.7):
            continue
        sub = rng.random() < 0.5 if (inside >= most) == (outside >= most) else inside >= most
        kept = sorted(pivots) if sub else [i for i in range(size) if i not in pivots]
        begins = [pivots[i] for i in kept] if sub else [1 << i for i in kept]
        images = [[_reduced(_image(m, v), {} if sub else pivots) for v in begins] for m in maps]
        maps = [[sum((v >> i & 1) << j for j, i in enumerate(kept)) for v in row] for row in images]
    return []


def _random_vector(maps: Maps, rng: np.random.Generator) -> int:
    """A vector of the kernel, or of the image, of a random sum of products of the maps."""
    size = len(maps[0])
    total = [0] * size
    for _ in range(int(rng.integers(1, 5))):
        vectors = [1 << i for i in range(size)]
        for other in rng.integers(len(maps), size=int(rng.integers(0, 4))).tolist():
            vectors = [_image(maps[other], v) for v in vectors]
        total = [a ^ b for a, b in zip(total, vectors, strict=True)]
    if rng.random() < 0.4:
        return total[int(rng.integers(size))]
    rows: dict[int, tuple[int, int]] = {}
    kernel = 0
    for i, image in enumerate(total):
        message = 1 << i
        while image and (row := rows.get(image.bit_length())):
            image, message = image ^ row[0], message ^ row[1]
        if image:
            rows[image.bit_length()] = image, message
        elif rng.random() < 0.6 or not kernel:
            kernel ^= message
    return kernel


def _reduced(vector: int, pivots: dict[int, int]) -> int:
    for pivot, row in pivots.items():
        if vector >> pivot & 1:
            vector ^= row
    return vector


def _spun(start: int, maps: Maps) -> dict[int, int]:
    """The reduced basis, by leading bits, of the least space that has a vector and its images under the maps."""
    pivots: dict[int, int] = {}
    begins = [start]
    for begin in begins:  # it grows
        if vector := _reduced(begin, pivots):
            pivot = vector.bit_length() - 1
            pivots = {i: row ^ vector if row >> pivot & 1 else row for i, row in pivots.items()} | {pivot: vector}
            begins += [_image(m, vector) for m in maps]
    return pivots
