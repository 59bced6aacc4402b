"""Upper bounds on the distance of centers: against slow formulas, exhaustive search, known codes and tables."""

from __future__ import annotations

from math import comb

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lbhash.centers.bounds import bounds_table, stored_bound, stored_bounds, upper_bound
from lbhash.centers.bounds.delsarte import certified_bound, delsarte, multipliers
from lbhash.centers.bounds.elementary import hamming, plotkin, singleton

SIZES = [singleton, hamming, plotkin, delsarte, lambda n, d: stored_bound(n, d).upper]

CODES = {
    # Sizes of codes that are known: Hamming's, Golay's, Nordstrom and Robinson's, first-order Reed-Muller codes,
    # Kerdock's of 64 bits, the dual of the extended 2-error-correcting BCH code of 128 bits, and Brouwer's table.
    (5, 1): 32,
    (5, 2): 16,
    (5, 6): 1,
    (7, 3): 16,
    (8, 3): 20,
    (11, 3): 144,
    (12, 6): 24,
    (13, 6): 32,
    (16, 6): 256,
    (16, 8): 32,
    (17, 6): 258,
    (17, 8): 36,
    (21, 8): 512,
    (23, 7): 4096,
    (24, 8): 4096,
    (24, 12): 48,
    (25, 12): 52,
    (32, 16): 64,
    (64, 28): 2**12,
    (64, 32): 128,
    (128, 56): 2**15,
    (256, 128): 512,
}


def largest_code(words, distance):
    """Size of the largest set of pairwise distant words, by exhaustive search."""
    near = [sum(1 << j for j, w in enumerate(words) if (w ^ v).bit_count() >= distance) for v in words]

    def grow(candidates, size):
        nonlocal best
        best = max(best, size)
        while candidates and size + candidates.bit_count() > best:
            index = candidates.bit_length() - 1
            candidates &= ~(1 << index)
            grow(candidates & near[index], size + 1)

    best = 0
    grow((1 << len(words)) - 1, 0)
    return best


@pytest.mark.parametrize("length", range(2, 7))
def test_no_bound_is_below_the_truth(length):
    even = [word for word in range(2**length) if word.bit_count() % 2 == 0]
    for distance in range(2, length + 1, 2):
        truth = largest_code(even, distance)
        if length <= 5:
            assert largest_code(range(2**length), distance) == truth
        for bound in SIZES:
            assert bound(length, distance) >= truth
            assert bound(length - 1, distance - 1) >= truth


def test_no_bound_is_below_a_code_that_is_known():
    for (n, d), words in CODES.items():
        assert all(bound(n, d) >= words for bound in SIZES)
        assert upper_bound(words, n).distance >= min(n, d)


# Delsarte's linear program


def linear_program(n, d):
    """The largest sum of A_i in floats: all k, nothing normalized."""
    from scipy.optimize import linprog

    distances = list(range(d, n + 1, 2))
    rows = [
        [-float(sum((-1) ** j * comb(i, j) * comb(n - i, k - j) for j in range(k + 1))) for i in distances]
        for k in range(1, n + 1)
    ]
    right = [float(comb(n, k)) for k in range(1, n + 1)]
    return 1 - linprog([-1.0] * len(distances), A_ub=rows, b_ub=right, method="highs").fun


@pytest.mark.parametrize("length", [6, 11, 16, 23])
def test_certificate_loses_nothing_against_the_float_program(length):
    for d in range(4, length + 1, 2):
        assert delsarte(length, d) == int(linear_program(length, d) * (1 + 1e-8)), d


def test_known_values():
    tight = [(5, 1), (5, 2), (5, 6), (16, 6), (16, 8), (23, 7), (24, 8), (24, 12), (32, 16), (64, 32), (256, 128)]
    assert [delsarte(*key) for key in tight] == [CODES[key] for key in tight]
    tight = [(12, 6), (16, 8), (24, 12), (32, 16), (64, 32), (256, 128), (11, 5), (31, 15)]
    assert [plotkin(*key) for key in tight] == [24, 32, 48, 64, 128, 512, 24, 64]
    assert plotkin(18, 8) == 2 * plotkin(17, 8) == 4 * plotkin(16, 8)


@given(st.sampled_from([key for key in CODES if key[0] <= 64 and key[1] % 2 == 0 and 2 < key[1] <= key[0]]), st.data())
@settings(max_examples=100, deadline=None)
def test_any_multipliers_prove_a_bound(key, data):
    n, d = key
    guess = data.draw(st.lists(st.floats(-5, 1000), min_size=n // 2, max_size=n // 2))
    share = data.draw(st.sampled_from([0.0, 1e-9, 0.001, 1.0]))
    mixed = [(1 - share) * m + share * g for m, g in zip(multipliers(n, d), guess, strict=True)]
    assert certified_bound(n, d, mixed) >= CODES[key]


# Stored bounds


def test_stored_bounds_fit_each_other_and_prove_more():
    bounds = stored_bounds()
    assert len(bounds) == len({(bound.n, bound.d) for bound in bounds}) > 60
    for n, d, upper, _ in bounds:
        assert d % 2 == 0
        assert upper < min(bound(n, d) for bound in SIZES[:-1])
        assert all(other.upper <= upper for other in bounds if other.n <= n and other.d >= d)
    assert stored_bound(16, 7) == stored_bound(17, 8) == (17, 8, 36, "Brouwer's table")
    assert stored_bound(16, 8).upper == 36
    assert stored_bound(200, 50).upper == 2**200


# The distance


def test_the_simplest_bound_is_named():
    assert upper_bound(1, 5) == (5, "one word has no pair")
    assert upper_bound(2, 5) == (5, "Singleton")
    assert upper_bound(32, 5) == (1, "Singleton")
    assert upper_bound(10, 8) == (4, "Hamming")
    assert upper_bound(10, 32) == (17, "Plotkin")
    assert upper_bound(37, 17) == (7, "A(17, 8) ≤ 36, Brouwer's table")
    assert upper_bound(77, 32) == (14, "A(33, 16) ≤ 74, Schrijver's semidefinite program")
    assert upper_bound(1000, 48) == (20, "Delsarte's linear program")


@given(st.integers(1, 40), st.integers(1, 400))
@settings(max_examples=60, deadline=None)
def test_the_bound_is_the_least_of_the_table_and_monotone(bits, classes):
    classes = min(classes, 2**bits)
    bound = upper_bound(classes, bits)
    assert bound.distance == min(bounds_table(classes, bits).values())
    assert bound.distance <= upper_bound(classes, bits + 1).distance <= bound.distance + 1
    if classes < 2**bits:
        assert upper_bound(classes + 1, bits).distance <= bound.distance
