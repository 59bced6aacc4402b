"""Bounds on the size of codes: against exhaustive search, known codes and tables."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lbhash.centers.bounds import hamming, plotkin, proof, singleton

SIZES = [singleton, hamming, plotkin]

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
        assert words == 1 or all(proof(words, n, below) is None for below in range(min(n, d)))


def test_known_values():
    tight = [(12, 6), (16, 8), (24, 12), (32, 16), (64, 32), (256, 128), (11, 5), (31, 15)]
    assert [plotkin(*key) for key in tight] == [24, 32, 48, 64, 128, 512, 24, 64]
    assert plotkin(18, 8) == 2 * plotkin(17, 8) == 4 * plotkin(16, 8)


def test_the_simplest_bound_is_named():
    assert proof(1, 5, 5) == "one word has no pair"
    assert proof(2, 5, 5) == "Singleton"
    assert proof(32, 5, 1) == "Singleton"
    assert proof(10, 8, 4) == "Hamming"
    assert proof(10, 32, 17) == "Plotkin"
    assert proof(10, 32, 16) is None
    assert proof(37, 17, 7) is None  # A(17, 8) = 36 takes a stronger bound


@given(st.integers(1, 40), st.integers(1, 400))
@settings(max_examples=60, deadline=None)
def test_more_words_are_proven_too(bits, classes):
    classes = min(classes, 2**bits - 1)
    for distance in range(bits + 1):
        if proof(classes, bits, distance) and classes > 1:
            assert proof(classes + 1, bits, distance)
            assert proof(classes, bits, distance + 1)
