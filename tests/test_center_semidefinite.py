"""Schrijver's semidefinite bound: the program holds for real codes, and the certificates prove the lines."""

from __future__ import annotations

import math
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from benchmarks.code_search import semidefinite as script

from lbhash.centers.bounds import upper_bound
from lbhash.centers.bounds.delsarte import delsarte
from lbhash.centers.bounds.semidefinite import semidefinite, semidefinite_table

CERTIFICATES = Path(script.__file__).with_suffix(".npz")


def even_code(n, d, seed):
    """Words of n bits with even weight, taken in random order where they are far enough from those before."""
    words = [word for word in product((0, 1), repeat=n) if sum(word) % 2 == 0]
    code = []
    for place in np.random.default_rng(seed).permutation(len(words)):
        word = np.array(words[place])
        if all((word != other).sum() >= d for other in code):
            code.append(word)
    return np.array(code)


def unknowns(code, counts):
    """x of a code, by counting all of its triples."""
    found = dict.fromkeys(counts, 0)
    for x, y, z in product(code, repeat=3):
        i, j, last = (x != y).sum(), (x != z).sum(), (y != z).sum()
        key = tuple(sorted((int(i), int(j), int(last))))
        if (int(j), int(i)) == key[1:]:  # of a set of distances one order is counted
            found[key] += 1
    return {key: found[key] / len(code) / counts[key] for key in counts}


@pytest.mark.parametrize(("n", "d", "seed"), [(6, 2, 0), (7, 4, 1), (8, 4, 2), (9, 4, 3)])
def test_every_code_is_a_solution(n, d, seed):
    code = even_code(n, d, seed)
    made = script.program(n, d)
    x = unknowns(code, made.counts)
    assert x[0, 0, 0] == 1
    assert sum(math.comb(n, i) * x[0, i, i] for i in (0, *range(d, n + 1, 2))) == pytest.approx(len(code))
    for low, high in made.below:
        assert 0 <= x[low] <= x[high] + 1e-12
    for rows, cells, _ in made.blocks:
        matrix = np.zeros((len(rows), len(rows)))
        for (a, b), of in cells.items():
            matrix[a, b] = matrix[b, a] = sum(value * x[key] for key, value in of.items())
        assert np.linalg.eigvalsh(matrix).min() > -1e-8 * max(1, abs(matrix).max())


def test_the_stored_certificates_prove_the_stored_lines():
    with np.load(CERTIFICATES) as stored:
        for (n, d), upper in semidefinite_table().items():
            count = len(script.program(n, d).blocks)
            factors = [stored[f"{n},{d},{place}"] for place in range(count)]
            assert script.certified_bound(n, d, factors, list(stored[f"{n},{d},below"])) == upper < delsarte(n, d)


def test_no_numbers_prove_too_much():
    """Whatever the certificate: A(8, 4) is 16, and A(7, 4) is 8."""
    rng = np.random.default_rng(0)
    for n, d, size in ((8, 4, 16), (7, 4, 8)):
        made = script.program(n, d)
        for _ in range(20):
            scale = 10.0 ** rng.uniform(-6, 1)
            factors = [scale * rng.normal(size=(len(block.rows), 2)) for block in made.blocks]
            multipliers = list(scale * rng.random(len(made.below)))
            assert script.certified_bound(n, d, factors, multipliers) >= size
    with pytest.raises(ValueError, match="a multiplier is"):
        script.certified_bound(7, 4, factors, [-1.0] * len(made.below))


def test_the_solver_finds_what_schrijver_published():
    pytest.importorskip("clarabel")
    for (n, d), published in {(19, 6): 1280, (20, 8): 274, (22, 10): 87}.items():
        _, factors, multipliers = script.solve(n, d)
        assert script.certified_bound(n, d, factors, multipliers) == published


def test_it_proves_centers_optimal():
    assert semidefinite(32, 15) == 74
    assert semidefinite(40, 15) == delsarte(40, 15)
    for classes in (77, 81):
        assert upper_bound(classes, 32) == (14, "Schrijver's semidefinite program")
