"""Class centers of every kind: distances counted pair by pair, their promises, and requests that are refused."""

from __future__ import annotations

import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lbhash.centers import center_kinds, class_centers
from lbhash.centers.distance import bit_balance, describe, mean_distance, minimum_distance, pairwise_distances

KINDS = ["hadamard", "bch", "reed-solomon", "random"]
"""The paper's, which make any number of words."""


# Distances and the report


@given(st.integers(1, 40), st.integers(1, 70), st.integers(0, 99))
@settings(max_examples=25, deadline=None)
def test_distances_match_counting_pair_by_pair(classes, bits, seed):
    centers = 2 * np.random.default_rng(seed).integers(0, 2, (classes, bits), np.int8) - 1
    expected = [int(np.sum(a != b)) for i, a in enumerate(centers) for b in centers[:i]]
    distances = pairwise_distances(centers)
    assert distances[np.tril_indices(classes, -1)].tolist() == expected
    np.testing.assert_array_equal(distances, distances.T)
    assert not distances.diagonal().any()
    assert minimum_distance(centers) == min(expected, default=bits)
    assert mean_distance(centers) == pytest.approx(np.mean(expected) if expected else bits)
    assert bit_balance(centers) == pytest.approx(max(abs(column.mean()) for column in centers.T))
    report = describe(centers)
    assert report["histogram"] == {d: expected.count(d) for d in sorted(set(expected))}
    assert (report["classes"], report["bits"]) == (classes, bits)
    assert report["minimum_distance"] == min(expected, default=bits)


@pytest.mark.parametrize(
    "centers", [[1, -1], np.empty((0, 4)), np.ones((2, 0)), [[1, 0]], [[1, 2]], np.ones((1, 2000))]
)
def test_what_is_not_a_set_of_centers_is_refused(centers):
    for function in (pairwise_distances, minimum_distance, mean_distance, bit_balance, describe):
        with pytest.raises(ValueError, match="centers"):
            function(centers)


# Every kind


@pytest.mark.parametrize("kind", [*KINDS, "best"])
@given(data=st.data())
@settings(max_examples=25, deadline=None)
def test_centers_are_distinct_signs_and_repeatable(kind, data):
    bits = data.draw(st.integers(1, 300), "bits")
    classes = data.draw(st.integers(1, min(2**bits, 70)), "classes")
    seed = data.draw(st.integers(0, 2**32), "seed")
    centers = class_centers(classes, bits, kind, seed)
    assert centers.shape == (classes, bits)
    assert centers.dtype == np.int8
    assert set(np.unique(centers)) <= {-1, 1}
    assert len(np.unique(centers, axis=0)) == classes
    np.testing.assert_array_equal(centers, class_centers(classes, bits, kind, seed))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("bits", [1, 2, 3, 4, 8])
def test_every_number_of_classes_up_to_all_words(kind, bits):
    counts = range(1, 2**bits + 1) if bits <= 4 else [1, 2, 2 ** (bits - 1), 2 ** (bits - 1) + 1, 2**bits - 1, 2**bits]
    for classes in counts:
        assert len(np.unique(class_centers(classes, bits, kind), axis=0)) == classes


def test_kinds_are_listed_in_order_and_the_list_is_a_copy():
    kinds = ["best", "best-ratio", "levenshtein", "stored", *KINDS]
    assert center_kinds() == kinds
    center_kinds().clear()
    assert center_kinds() == kinds


def test_a_kind_that_has_not_as_many_words_says_so():
    line = "^kind is 'levenshtein', which has no 100 words of 16 bits; take 'best'$"
    with pytest.raises(ValueError, match=line):
        class_centers(100, 16, "levenshtein")


def test_random_centers_depend_on_the_seed_and_the_others_do_not():
    assert not np.array_equal(class_centers(10, 32, "random", 0), class_centers(10, 32, "random", 1))
    for kind in ("hadamard", "bch", "reed-solomon"):
        np.testing.assert_array_equal(class_centers(10, 32, kind, 0), class_centers(10, 32, kind, 1))


# Impossible requests


@pytest.mark.parametrize(
    ("arguments", "error", "line"),
    [
        ((5, 2), ValueError, r"classes is 5; with 2 bits it must be from 1 to 2\^2 = 4"),
        ((0, 8), ValueError, r"classes is 0; it must be at least 1"),
        ((2, 0), ValueError, r"bits is 0; it must be from 1 to 1024"),
        ((2, 1025), ValueError, r"bits is 1025; it must be from 1 to 1024"),
        ((2.0, 8), TypeError, r"classes is 2.0; it must be an integer of at least 1"),
        ((True, 8), TypeError, r"classes is True; it must be an integer"),
        ((2, "8"), TypeError, r"bits is '8'; it must be an integer"),
        (
            (2, 8, "kerdock"),
            ValueError,
            r"kind is 'kerdock'; it must be one of best, best-ratio, levenshtein, stored, hadamard, bch, reed-solomon",
        ),
        ((2, 8, "random", 0.5), TypeError, r"seed is 0.5; it must be an integer of at least 0"),
        ((2, 8, "random", -1), ValueError, r"seed is -1; it must be at least 0"),
    ],
)
def test_impossible_requests_say_what_may_be(arguments, error, line):
    with pytest.raises(error, match=f"^{line}") as caught:
        class_centers(*arguments)
    assert "\n" not in str(caught.value)


# Known values of the paper's kinds


@pytest.mark.parametrize(
    ("kind", "classes", "bits", "expected"),
    [
        *(("hadamard", classes, bits, bits // 2) for classes in (3, 10, 21, 32) for bits in (16, 32, 64)),
        *(("bch", *cell) for cell in [(10, 16, 8), (100, 16, 6), (100, 32, 12), (100, 64, 32), (1000, 32, 12)]),
        *(("bch", *cell) for cell in [(10, 12, 6), (100, 48, 20), (1000, 48, 17)]),
        *((kind, 2, bits, bits) for kind in ("hadamard", "bch", "reed-solomon") for bits in (8, 48, 128)),
    ],
)
def test_distances_of_the_papers_kinds(kind, classes, bits, expected):
    assert minimum_distance(class_centers(classes, bits, kind)) == expected


def test_many_classes():
    start = time.perf_counter()
    for kind in KINDS:
        assert class_centers(20_000, 64, kind).shape == (20_000, 64)
    assert minimum_distance(class_centers(5_000, 64, "bch")) >= 22
    assert time.perf_counter() - start < 20


@pytest.mark.parametrize("bits", [*range(1, 18), 33, 47, 64])
def test_hadamard_rows_stay_distinct_when_columns_are_dropped(bits):
    classes = 2 * 2 ** (bits - 1).bit_length()
    assert minimum_distance(class_centers(min(classes, 2**bits), bits, "hadamard")) >= 1
