"""No kind of centers takes a word and its negative while there are others, and none is nearer for it."""

from __future__ import annotations

from itertools import combinations, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.linalg import hadamard

from lbhash.centers import class_centers

CLASSES, BITS = (2, 10, 21, 100, 200), (8, 16, 24, 32, 48, 64)

BEFORE = {
    # Minimum distances of the words that were chosen in opposite pairs, a row for each of CLASSES; 0 if there are none.
    "hadamard": [
        [8, 16, 24, 32, 48, 64],
        [4, 8, 11, 16, 23, 32],
        [2, 8, 10, 16, 22, 32],
        [2, 4, 7, 11, 20, 32],
        [1, 4, 7, 10, 16, 24],
    ],
    "bch": [
        [8, 16, 24, 32, 48, 64],
        [4, 8, 12, 16, 24, 32],
        [2, 8, 11, 16, 23, 32],
        [2, 6, 9, 12, 20, 32],
        [1, 4, 8, 12, 19, 28],
    ],
    "reed-solomon": [
        [8, 16, 24, 32, 48, 64],
        [4, 8, 12, 16, 24, 32],
        [2, 8, 10, 15, 23, 32],
        [2, 5, 8, 11, 19, 32],
        [1, 4, 8, 10, 17, 24],
    ],
    "levenshtein": [
        [8, 16, 24, 32, 48, 64],
        [4, 8, 12, 17, 26, 35],
        [2, 8, 12, 16, 24, 33],
        [0, 0, 0, 0, 23, 32],
        [0, 0, 0, 0, 0, 0],
    ],
    "stored": [
        [8, 16, 24, 32, 48, 64],
        [4, 8, 12, 16, 24, 33],
        [2, 8, 12, 16, 24, 32],
        [2, 6, 10, 14, 22, 32],
        [1, 6, 8, 13, 22, 29],
    ],
    "best": [
        [8, 16, 24, 32, 48, 64],
        [4, 8, 12, 17, 26, 35],
        [2, 8, 12, 16, 24, 33],
        [2, 6, 10, 14, 23, 32],
        [1, 6, 8, 13, 22, 29],
    ],
}

NEARER = [("bch", 21, 48)]
"""Cells in which the words without opposites would be nearer to each other."""


def measured(centers):
    """The minimum distance and the number of opposite pairs, pair by pair."""
    distances = [int((a != b).sum()) for a, b in combinations(centers, 2)]
    return min(distances), distances.count(centers.shape[1])


@pytest.mark.end_to_end
@pytest.mark.parametrize("kind", [*BEFORE, "best-ratio"])
def test_no_word_has_its_negative_and_no_distance_falls(kind):
    before = np.ravel(BEFORE["best" if kind == "best-ratio" else kind])
    for (classes, bits), least in zip(product(CLASSES, BITS), before, strict=True):
        if least:
            smallest, pairs = measured(class_centers(classes, bits, kind))
            assert smallest >= least, (classes, bits)
            if 2 < classes <= bits:
                assert (pairs > 0) == ((kind, classes, bits) in NEARER), (classes, bits)


@pytest.mark.parametrize("kind", ["hadamard", "levenshtein", "stored", "best", "best-ratio", "bch"])
def test_negatives_come_when_the_rows_are_used_up(kind):
    # More than 96 words of 64 bits that are 32 apart must hold opposites; so must more than 16 of the code's 32.
    assert measured(class_centers(100, 64, kind)) == (32, 36)
    assert measured(class_centers(20, 16, kind)) == (8, 4)


@pytest.mark.parametrize("bits", [16, 32, 64])
def test_hadamard_words_are_those_of_csq(bits):
    rows = hadamard(bits)
    for classes in (3, 10, bits, bits + 5, 2 * bits):
        expected = np.concatenate([rows, -rows])[:classes]
        np.testing.assert_array_equal(class_centers(classes, bits, "hadamard"), expected)
    np.testing.assert_array_equal(class_centers(2, bits, "hadamard"), [rows[0], -rows[0]])


@given(st.data())
@settings(max_examples=40, deadline=None)
def test_random_words_have_no_opposites_if_there_are_others(data):
    bits = data.draw(st.integers(1, 12))
    classes = data.draw(st.integers(1, 2**bits))
    centers = class_centers(classes, bits, "random", data.draw(st.integers(0, 99)))
    names = {word.tobytes() for word in centers}
    pairs = sum((-word).tobytes() in names for word in centers) // 2
    assert (len(names), pairs) == (classes, max(0, classes - 2 ** (bits - 1)))
