"""Class centers: every construction against distances counted pair by pair, and against the tables of the codes."""

from __future__ import annotations

import contextlib
import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lbhash.centers import (
    bit_balance,
    center_kinds,
    class_centers,
    describe,
    mean_distance,
    minimum_distance,
    pairwise_distances,
)
from lbhash.centers import distance as distance_module
from lbhash.centers.choose import farthest_first
from lbhash.centers.constructions.bch import bch_codes, cyclotomic_coset
from lbhash.centers.constructions.bch import generator_matrix as bch_generator
from lbhash.centers.constructions.galois_field import PRIMITIVE_POLYNOMIALS, galois_field
from lbhash.centers.constructions.linear import best_words, dimension_for, span
from lbhash.centers.constructions.reed_solomon import generator_matrix as rs_generator
from lbhash.codes import hamming_distances, unpack

KINDS = ["hadamard", "bch", "reed-solomon", "random"]
"""The paper's, which make any number of words."""


def distances_by_hand(centers):
    return [int(np.sum(a != b)) for i, a in enumerate(centers) for b in centers[:i]]


def weights_of(generator):
    words = span(generator)
    return hamming_distances(words, words[:1])[1:, 0]


# Distances and the report


@given(st.integers(1, 40), st.integers(1, 70), st.integers(0, 99))
@settings(max_examples=25, deadline=None)
def test_distances_match_counting_pair_by_pair(classes, bits, seed):
    centers = 2 * np.random.default_rng(seed).integers(0, 2, (classes, bits), np.int8) - 1
    expected = distances_by_hand(centers)
    distances = pairwise_distances(centers)
    assert distances[np.tril_indices(classes, -1)].tolist() == [
        int(np.sum(centers[i] != centers[j])) for i in range(classes) for j in range(i)
    ]
    np.testing.assert_array_equal(distances, distances.T)
    assert not distances.diagonal().any()
    assert minimum_distance(centers) == min(expected, default=bits)
    assert mean_distance(centers) == pytest.approx(np.mean(expected) if expected else bits)
    assert bit_balance(centers) == pytest.approx(max(abs(column.mean()) for column in centers.T))
    report = describe(centers)
    assert report["histogram"] == {d: expected.count(d) for d in sorted(set(expected))}
    assert (report["classes"], report["bits"]) == (classes, bits)
    assert report["minimum_distance"] == min(expected, default=bits)


def test_distances_do_not_depend_on_the_block(monkeypatch):
    centers = class_centers(50, 24, "random")
    whole = pairwise_distances(centers), describe(centers)
    monkeypatch.setattr(distance_module, "_BLOCK_VALUES", 350)
    np.testing.assert_array_equal(pairwise_distances(centers), whole[0])
    assert describe(centers) == whole[1]


def test_report_of_few_centers():
    assert describe([[1, -1, 1]]) == {
        "classes": 1,
        "bits": 3,
        "minimum_distance": 3,
        "mean_distance": 3.0,
        "bit_balance": 1.0,
        "histogram": {},
    }
    twins = describe([[1, -1], [1, -1], [-1, 1]])
    assert (twins["minimum_distance"], twins["histogram"]) == (0, {0: 1, 2: 2})


@pytest.mark.parametrize(
    "centers", [[1, -1], np.empty((0, 4)), np.ones((2, 0)), [[1, 0]], [[1, 2]], np.ones((1, 2000))]
)
def test_what_is_not_a_set_of_centers_is_refused(centers):
    for function in (pairwise_distances, minimum_distance, mean_distance, bit_balance, describe):
        with pytest.raises(ValueError, match="centers"):
            function(centers)


# Every construction


@pytest.mark.parametrize("kind", [*KINDS, "best"])
@given(data=st.data())
@settings(max_examples=25, deadline=None)
def test_centers_are_distinct_signs_and_repeatable(kind, data):
    bits = data.draw(st.integers(1, 80), "bits")
    classes = data.draw(st.integers(1, min(2**bits, 70)), "classes")
    seed = data.draw(st.integers(0, 2**32), "seed")
    centers = class_centers(classes, bits, kind, seed)
    assert centers.shape == (classes, bits)
    assert centers.dtype == np.int8
    assert set(np.unique(centers)) <= {-1, 1}
    assert len(np.unique(centers, axis=0)) == classes
    np.testing.assert_array_equal(centers, class_centers(classes, bits, kind, seed))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("bits", [1, 2, 3, 4, 5, 7, 8])
def test_every_number_of_classes_up_to_all_words(kind, bits):
    counts = range(1, 2**bits + 1) if bits <= 4 else [1, 2, 2 ** (bits - 1), 2 ** (bits - 1) + 1, 2**bits - 1, 2**bits]
    for classes in counts:
        centers = class_centers(classes, bits, kind)
        assert centers.shape == (classes, bits)
        assert len(np.unique(centers, axis=0)) == classes


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("bits", [15, 17, 31, 33, 65, 100, 128, 129, 255, 256])
def test_lengths_about_the_powers_of_two(kind, bits):
    centers = class_centers(100, bits, kind)
    assert centers.shape == (100, bits)
    by_hand = (centers[:, None] != centers).sum(axis=2) + bits * np.eye(100, dtype=int)
    assert minimum_distance(centers) == by_hand.min() > 0


@pytest.mark.parametrize("classes", [2, 10, 21, 100])
@pytest.mark.parametrize("bits", [8, 12, 16, 32, 48, 64])
def test_best_is_no_worse_than_any_kind(classes, bits):
    best = class_centers(classes, bits)
    made = []
    for kind in center_kinds():
        with contextlib.suppress(ValueError):  # a kind that has not as many words
            made.append(class_centers(classes, bits, kind))
    assert len(made) >= len(KINDS)
    merits = [(minimum_distance(c), mean_distance(c), -bit_balance(c)) for c in made]
    assert (minimum_distance(best), mean_distance(best), -bit_balance(best)) >= max(merits)


def test_kinds_are_listed_in_order_and_the_list_is_a_copy():
    kinds = [
        "best",
        "best-ratio",
        "levenshtein",
        "conference",
        "kerdock",
        "linear",
        "lexicode",
        "hadamard",
        "bch",
        "reed-solomon",
        "random",
    ]
    assert center_kinds() == kinds
    center_kinds().clear()
    assert center_kinds() == kinds


@pytest.mark.parametrize(
    ("kind", "classes", "bits"), [("levenshtein", 100, 16), ("conference", 101, 40), ("kerdock", 257, 16)]
)
def test_kinds_that_have_not_as_many_words_say_so(kind, classes, bits):
    line = f"^kind is '{kind}', which has no {classes} words of {bits} bits; 'best' always has$"
    with pytest.raises(ValueError, match=line):
        class_centers(classes, bits, kind)


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
        ((-1, 64), ValueError, r"classes is -1; it must be at least 1"),
        ((2, 0), ValueError, r"bits is 0; it must be from 1 to 1024"),
        ((2, 1025), ValueError, r"bits is 1025; it must be from 1 to 1024"),
        ((2.0, 8), TypeError, r"classes is 2.0; it must be an integer of at least 1"),
        ((True, 8), TypeError, r"classes is True; it must be an integer"),
        ((2, "8"), TypeError, r"bits is '8'; it must be an integer"),
        (
            (2, 8, "golay"),
            ValueError,
            r"kind is 'golay'; it must be one of best, best-ratio, levenshtein, conference, kerdock, linear",
        ),
        ((2, 8, "random", 0.5), TypeError, r"seed is 0.5; it must be an integer of at least 0"),
        ((2, 8, "random", -1), ValueError, r"seed is -1; it must be at least 0"),
    ],
)
def test_impossible_requests_say_what_may_be(arguments, error, line):
    with pytest.raises(error, match=f"^{line}") as caught:
        class_centers(*arguments)
    assert "\n" not in str(caught.value)


def test_integers_of_numpy_are_integers():
    np.testing.assert_array_equal(class_centers(np.int64(10), np.uint8(16)), class_centers(10, 16))


# Known values


@pytest.mark.parametrize(("bits", "expected"), [(16, 8), (32, 16), (64, 32)])
@pytest.mark.parametrize("classes", [3, 10, 21, 32])
def test_hadamard_centers_are_half_the_bits_apart(classes, bits, expected):
    assert minimum_distance(class_centers(classes, bits, "hadamard")) == expected


@pytest.mark.parametrize(
    ("classes", "bits", "expected"), [(10, 16, 8), (100, 16, 6), (100, 32, 12), (100, 64, 32), (1000, 32, 12)]
)
def test_bch_centers_reach_the_extended_codes(classes, bits, expected):
    assert minimum_distance(class_centers(classes, bits, "bch")) == expected


@pytest.mark.parametrize(("classes", "bits", "least"), [(10, 12, 6), (100, 48, 20), (1000, 48, 17)])
def test_bch_centers_of_lengths_between(classes, bits, least):
    assert minimum_distance(class_centers(classes, bits, "bch")) >= least


@pytest.mark.parametrize("bits", [8, 16, 32, 48, 64, 128])
def test_two_classes_are_opposite(bits):
    for kind in ("hadamard", "bch", "reed-solomon", "best"):
        assert minimum_distance(class_centers(2, bits, kind)) == bits


@pytest.mark.parametrize(
    ("classes", "bits", "published"),
    # The minimum distances that the paper reports for its best construction.
    [(10, 16, 8), (10, 32, 16), (10, 48, 21), (21, 16, 8), (21, 32, 16), (21, 48, 19), (100, 16, 4), (100, 32, 10)],
)
def test_best_centers_reach_the_published_distances(classes, bits, published):
    assert minimum_distance(class_centers(classes, bits)) >= published


# Hadamard


@pytest.mark.parametrize("m", range(8))
def test_hadamard_words_are_orthogonal_or_opposite(m):
    words = class_centers(2 ** (m + 1), 2**m, "hadamard").astype(int)
    products = words @ words.T
    assert set(np.unique(products)) <= {-(2**m), 0, 2**m}
    assert (np.count_nonzero(products, axis=1) == 2).all()


@pytest.mark.parametrize("bits", range(1, 65))
def test_hadamard_rows_stay_distinct_when_columns_are_dropped(bits):
    classes = 2 * 2 ** (bits - 1).bit_length()
    assert minimum_distance(class_centers(min(classes, 2**bits), bits, "hadamard")) >= 1


def test_hadamard_bits_are_balanced():
    assert bit_balance(class_centers(10, 32, "hadamard")) == 0


def test_hadamard_words_come_before_the_words_that_fill_up():
    few, many = class_centers(32, 16, "hadamard"), class_centers(50, 16, "hadamard")
    np.testing.assert_array_equal(many[:32], few)
    assert not np.array_equal(many, class_centers(50, 16, "hadamard", seed=1))


def test_words_that_fill_up_are_farther_than_random_ones():
    filled, random = class_centers(500, 32, "hadamard"), class_centers(500, 32, "random")
    assert minimum_distance(filled) > minimum_distance(random)


# BCH


@pytest.mark.parametrize(
    ("m", "expected"),
    # (k, d) of all codes that are neither trivial nor a repetition; Lin and Costello (2004), appendix C.
    [
        (3, [(4, 3)]),
        (4, [(11, 3), (7, 5), (5, 7)]),
        (5, [(26, 3), (21, 5), (16, 7), (11, 11), (6, 15)]),
        (6, [(57, 3), (51, 5), (45, 7), (39, 9), (36, 11), (30, 13), (24, 15), (18, 21), (16, 23), (10, 27), (7, 31)]),
    ],
)
def test_bch_codes_have_the_dimensions_and_distances_of_the_tables(m, expected):
    codes = [code for code in bch_codes(m) if 1 < code.k < code.n]
    assert [(code.k, code.delta) for code in codes] == expected
    for code in codes:
        generator = bch_generator(code)
        assert generator.shape == (2**m - 1, code.k)[::-1]
        if code.k <= 16:
            assert weights_of(generator).min() == code.delta
            assert weights_of(bch_generator(code, extended=True)).min() == code.delta + 1


def test_bch_codes_end_with_all_words_and_two_words():
    for m in range(2, 11):
        codes = bch_codes(m)
        assert (codes[0].k, codes[0].delta, codes[0].generator_poly) == (2**m - 1, 1, 1)
        assert (codes[-1].k, codes[-1].delta) == (1, 2**m - 1)
        assert bch_generator(codes[-1]).all()


def test_bch_generator_polynomial_of_the_double_error_correcting_code():
    assert next(code for code in bch_codes(4) if code.k == 7).generator_poly == 0b111010001


def test_bch_codes_are_cyclic():
    for code in bch_codes(4)[1:]:
        words = {word.tobytes() for word in unpack(span(bch_generator(code)), 15)}
        assert all(np.roll(np.frombuffer(word, np.int8), 1).tobytes() in words for word in words)


def test_cyclotomic_cosets_part_the_exponents():
    cosets = [cyclotomic_coset(i, 63) for i in range(63)]
    assert {len(coset) for coset in cosets} <= {1, 2, 3, 6}
    assert all(sorted(cosets[i]) == sorted(cosets[j]) for i in range(63) for j in cosets[i])


# Reed-Solomon


@pytest.mark.parametrize(("m", "n", "k"), [(2, 4, 2), (3, 8, 3), (3, 7, 4), (4, 16, 2), (4, 9, 3), (5, 32, 2)])
def test_reed_solomon_codes_meet_the_singleton_bound(m, n, k):
    generator = rs_generator(m, n, k)
    np.testing.assert_array_equal(generator[:, : k * m], np.eye(k * m))
    words = unpack(span(generator), n * m).reshape(-1, n, m)
    assert (words[1:] > 0).any(axis=2).sum(axis=1).min() == n - k + 1


def test_reed_solomon_words_are_values_of_polynomials():
    m, n, k = 3, 8, 3
    field = galois_field(m)
    points = np.append(0, field.exp[: field.order])
    polynomials = set()
    for coefficients in np.ndindex(8, 8, 8):
        values = np.zeros(n, np.int64)
        for coefficient in coefficients:  # Horner's rule
            values = field.multiply(values, points) ^ coefficient
        polynomials.add(tuple(values.tolist()))
    words = (unpack(span(rs_generator(m, n, k)), n * m).reshape(-1, n, m) > 0) @ (1 << np.arange(m))
    assert {tuple(word) for word in words.tolist()} == polynomials


@pytest.mark.parametrize(("m", "n", "k"), [(3, 9, 2), (3, 4, 5), (3, 4, 0)])
def test_reed_solomon_parameters_out_of_range_are_refused(m, n, k):
    with pytest.raises(ValueError, match=f"n is {n} and k is {k}"):
        rs_generator(m, n, k)


# Finite fields


def product_by_hand(a, b, m):
    product = 0
    for j in range(m):
        if b >> j & 1:
            product ^= a << j
    for j in range(2 * m - 2, m - 1, -1):
        if product >> j & 1:
            product ^= PRIMITIVE_POLYNOMIALS[m] << (j - m)
    return product


@pytest.mark.parametrize("m", range(1, 7))
def test_multiplication_is_that_of_polynomials(m):
    field, elements = galois_field(m), np.arange(2**m)
    table = field.multiply(elements[:, None], elements)
    assert table.tolist() == [[product_by_hand(a, b, m) for b in range(2**m)] for a in range(2**m)]


@pytest.mark.parametrize("m", PRIMITIVE_POLYNOMIALS)
def test_alpha_generates_all_nonzero_elements(m):
    field = galois_field(m)
    assert sorted(field.exp[: field.order].tolist()) == list(range(1, 2**m))
    elements = np.arange(1, 2**m)
    assert (field.multiply(elements, field.divide(1, elements)) == 1).all()


@given(st.sampled_from(sorted(PRIMITIVE_POLYNOMIALS)), st.data())
@settings(max_examples=100, deadline=None)
def test_field_axioms(m, data):
    field = galois_field(m)
    a, b, c = (data.draw(st.integers(0, field.order)) for _ in range(3))
    multiply = field.multiply
    assert multiply(a, b) == multiply(b, a) == product_by_hand(a, b, m)
    assert multiply(a, multiply(b, c)) == multiply(multiply(a, b), c)
    assert multiply(a, b ^ c) == multiply(a, b) ^ multiply(a, c)
    if b:
        assert multiply(field.divide(a, b), b) == a


def test_field_refuses_what_it_has_not():
    with pytest.raises(ZeroDivisionError, match=r"GF\(2\^4\)"):
        galois_field(4).divide(3, [1, 0])
    for m in (0, 12):
        with pytest.raises(ValueError, match=f"m is {m}; it must be from 1 to 11"):
            galois_field(m)


# Choosing words


def test_dimension_holds_the_classes():
    assert [dimension_for(classes) for classes in (1, 2, 3, 4, 5, 1000, 1024, 1025)] == [1, 1, 2, 2, 3, 10, 10, 11]


def test_farthest_first_stops_at_words_that_are_there_already():
    points = np.array([0, 5, 5, 9])
    chosen = farthest_first(lambda i: np.abs(points - points[i]), 4, np.full(4, 100))
    assert chosen.tolist() == [0, 3, 1]
    assert farthest_first(lambda i: np.abs(points - points[i]), 4, np.abs(points - 5)).tolist() == [0, 3]


def test_words_are_sums_of_rows_in_the_order_of_their_numbers():
    generator = np.array([[1, 1, 0], [0, 1, 1]], np.uint8)
    assert (unpack(span(generator), 3) > 0).astype(int).tolist() == [[0, 0, 0], [1, 1, 0], [0, 1, 1], [1, 0, 1]]


def test_codes_with_too_few_distinct_words_are_passed_over():
    dependent, independent = np.ones((2, 4), np.uint8), np.eye(2, 4, dtype=np.uint8)
    assert minimum_distance(best_words([dependent, independent], 3)) == 1
    with pytest.raises(ValueError, match="classes is 3"):
        best_words([dependent], 3)


# Size


def test_many_classes():
    start = time.perf_counter()
    for kind in KINDS:
        assert class_centers(20_000, 64, kind).shape == (20_000, 64)
    assert minimum_distance(class_centers(5_000, 64, "bch")) >= 22
    assert time.perf_counter() - start < 20
