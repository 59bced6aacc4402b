"""Every construction of class centers against distances counted over all pairs, and against the literature."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lbhash.centers.choose import choose, farthest_first, opposite_pairs
from lbhash.centers.constructions.bch import bch_codes
from lbhash.centers.constructions.bch import generator_matrix as bch_generator
from lbhash.centers.constructions.blocks import Block, best_plan
from lbhash.centers.constructions.galois_field import PRIMITIVE_POLYNOMIALS, galois_field
from lbhash.centers.constructions.hadamard_matrix import (
    hadamard_matrix,
    has_hadamard_matrix,
    has_jacobsthal,
    jacobsthal,
)
from lbhash.centers.constructions.levenshtein import hadamard_code, levenshtein_blocks
from lbhash.centers.constructions.linear import best_words, span
from lbhash.centers.constructions.reed_solomon import generator_matrix as rs_generator
from lbhash.centers.constructions.stored import _stored, linear_codes, shortened_words, stored_blocks
from lbhash.centers.distance import minimum_distance
from lbhash.codes import unpack


def is_a_block(block, classes):
    words = block.words()
    assert words.shape[1] == block.length
    assert len(words) >= classes
    assert set(np.unique(words)) <= {-1, 1}
    return minimum_distance(words) == block.distance


# Hadamard and conference matrices


@pytest.mark.parametrize("q", [3, 5, 7, 9, 11, 13, 25, 27, 49, 81, 125])
def test_jacobsthal_matrices_hold_the_quadratic_character(q):
    core = jacobsthal(q).astype(int)
    unit, ones = np.eye(q, dtype=int), np.ones((q, q), int)
    np.testing.assert_array_equal(core @ core.T, q * unit - ones)
    assert not core.sum(axis=0).any()
    np.testing.assert_array_equal(core, core.T if q % 4 == 1 else -core.T)


def test_hadamard_matrices_of_all_orders_but_the_known_gaps():
    assert not any(map(has_jacobsthal, [1, 2, 4, 8, 15, 21, 36, 45]))
    assert not any(map(has_hadamard_matrix, [-4, 0, 3, 6, 10]))
    missing = []
    for order in [1, 2, *range(4, 257, 4)]:
        if not has_hadamard_matrix(order):
            missing.append(order)
            continue
        rows = hadamard_matrix(order).astype(int)
        np.testing.assert_array_equal(rows @ rows.T, order * np.eye(order, dtype=int))
        assert (rows[0] == 1).all()
        assert (rows[:, 0] == 1).all()
    assert missing == [92, 116, 156, 172, 184, 188, 232, 236]


def test_levenshteins_blocks_have_their_parameters():
    blocks = {block.name: block for block in levenshtein_blocks(3, 49)}
    for order in (4, 8, 12, 20, 24, 28, 48):
        for kind, length, words in (("A", order - 1, order), ("A'", order - 2, order // 2), ("C", order, 2 * order)):
            if words > 2:
                block = blocks[f"Hadamard {kind}_{order}"]
                assert (block.length, block.distance, len(block.words())) == (length, order // 2, words)
                assert is_a_block(block, words)
    for q in (5, 9, 13, 17, 25, 29, 37, 41, 49):
        assert is_a_block(blocks[f"conference code of length {q}"], 2 * q + 2)
    assert [b.length for b in levenshtein_blocks(105, 61) if "conference" in b.name] == [53, 61]


@pytest.mark.parametrize("bits", [20, 23, 32, 41, 65])
def test_levenshteins_codes_meet_the_plotkin_bound(bits):
    for distance in range(2 * -(-bits // 4) + 2, bits, 2):
        count = 2 * (distance // (2 * distance - bits))  # Levenshtein's theorem: A(n, d) for even d < n < 2d
        if count > 2:
            plan = best_plan(levenshtein_blocks(count, bits + 8), bits)
            made = plan.words()
            assert len(made) >= count
            assert minimum_distance(made) >= plan.distance >= distance


# Stored codes


def least_weight(generator):
    """The least weight of all words but 0, by the Walsh-Hadamard transform: n - 2 weight of each word."""
    k, n = generator.shape
    sums = np.bincount((1 << np.arange(k)) @ generator.astype(np.int64), minlength=2**k)
    for half in 2 ** np.arange(k):
        left, right = sums.reshape(-1, 2, half).transpose(1, 0, 2)
        sums = np.stack([left + right, left - right], axis=1).ravel()
    return (n - sums[1:].max()) // 2


@pytest.mark.parametrize("many", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_the_distance_of_every_stored_linear_code_is_counted(many):
    stored = {cell: code for cell, code in _stored()[0].items() if (cell[1] > 13) == many}
    assert len(stored) > 90
    for (n, k), (d, generator) in stored.items():
        assert least_weight(generator) == d == linear_codes(k)[n].d


def test_the_distance_of_every_stored_union_is_counted():
    sizes = {}
    for union in _stored()[1]:
        words = union.words().astype(np.float32)
        count, n = words.shape
        # From all words of an equal coset the others are at the same distances.
        some = words[:: 2 ** len(union.generator)]
        products = some @ words.T
        products[np.arange(len(some)), np.arange(len(some)) * 2 ** len(union.generator)] = -n
        assert (n - products.max()) / 2 == union.d
        sizes[n] = (count, union.d)
    # A(12, 4) = 144, Nordstrom and Robinson's, and Kerdock's; the others were found by search.
    expected = {12: (144, 4), 16: (256, 6), 22: (56, 10), 25: (160, 10), 64: (4096, 28), 256: (65536, 120)}
    assert sizes == expected


def test_the_nordstrom_robinson_code_and_shortened_codes():
    for union in _stored()[1][:4]:
        count, n = union.words().shape
        for dropped in range(7):
            words = shortened_words(union, dropped)
            assert len(words) >= -(-count >> dropped)
            assert words.shape[1] == n - dropped
            assert minimum_distance(words) >= union.d
    blocks = [block for block in stored_blocks(17, 16) if "Nordstrom" in block.name]
    assert [block.length for block in blocks] == [16, 15, 14, 13]
    assert all(is_a_block(block, 256 >> dropped) for dropped, block in enumerate(blocks))
    words = blocks[0].words().astype(int)
    # From every word the others are at the same distances: 112 at 6, 30 at 8, 112 at 10, one at 16.
    for row in (16 - words @ words.T) // 2:
        assert dict(zip(*np.unique(row, return_counts=True), strict=True)) == {0: 1, 6: 112, 8: 30, 10: 112, 16: 1}


@pytest.mark.parametrize("k", [2, 5, 8, 10, 13])
def test_linear_codes_are_as_far_apart_as_the_table_says(k):
    lengths = sorted(linear_codes(k))
    assert lengths[-1] >= 256
    for n in (*range(k, k + 12), 31, 55, 64, 99, 120, 250):
        code = linear_codes(k)[n]
        assert (code.n, code.k) == (n, k)
        while code:  # and the code that it is made of
            generator = code.generator()
            assert generator.shape == (code.k, code.n)
            assert code.k > 14 or least_weight(generator) >= code.d
            code = code.of


def test_no_bit_of_a_linear_block_is_constant_and_no_code_is_outside_the_table():
    for block in stored_blocks(1000, 100):
        if block.name.startswith("linear"):
            assert (np.abs(block.words().sum(axis=0)) < 1024).all()
    assert 5 not in linear_codes(6)
    assert not linear_codes(21)


# Side by side


def block(name, length, distance, words):
    return Block(name, length, distance, lambda: np.ones((words, length), np.int8))


@given(st.lists(st.tuples(st.integers(1, 9), st.integers(1, 9)), min_size=1, max_size=5), st.integers(1, 20))
@settings(max_examples=100, deadline=None)
def test_the_best_plan_is_the_best_of_all_sums(sizes, bits):
    blocks = [block(str(i), n, min(n, d), 4) for i, (n, d) in enumerate(sizes)]
    plan = best_plan(blocks, bits)

    best = {0: 0}  # the largest distance of every length that sums of blocks have
    for length in range(1, bits + 9):
        options = [best[length - b.length] + b.distance for b in blocks if length - b.length in best]
        if options:
            best[length] = max(options)
    expected = max(d - max(0, length - bits) for length, d in best.items())
    if expected <= 0:
        assert plan is None
        return
    assert plan.distance == expected
    length = sum(b.length for b in plan.blocks)
    assert sum(b.distance for b in plan.blocks) - max(0, length - bits) == expected
    assert plan.words().shape == (4, bits)


# BCH and Reed-Solomon


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
        assert generator.shape == (code.k, 2**m - 1)
        if code.k <= 16:
            assert least_weight(generator) == code.delta
            assert least_weight(bch_generator(code, extended=True)) == code.delta + 1


@pytest.mark.parametrize(("m", "n", "k"), [(2, 4, 2), (3, 8, 3), (3, 7, 4), (4, 16, 2), (4, 9, 3), (5, 32, 2)])
def test_reed_solomon_codes_meet_the_singleton_bound(m, n, k):
    generator = rs_generator(m, n, k)
    np.testing.assert_array_equal(generator[:, : k * m], np.eye(k * m))
    words = unpack(span(generator), n * m).reshape(-1, n, m)
    assert (words[1:] > 0).any(axis=2).sum(axis=1).min() == n - k + 1


# Choosing


@given(st.data())
@settings(max_examples=60, deadline=None)
def test_the_negative_of_a_chosen_word_is_chosen_when_no_other_is_left(data):
    bits, half = data.draw(st.integers(2, 20)), data.draw(st.integers(1, 20))
    some = np.random.default_rng(data.draw(st.integers(0, 99))).choice([-1, 1], (half, bits)).astype(np.int8)
    words = np.unique(np.concatenate([some, -some]), axis=0)
    count = data.draw(st.integers(1, len(words)))
    # Without some of the words, some have no negative.
    for some in (words, words[: data.draw(st.integers(count, len(words)))]):
        chosen, present = choose(some, count), {word.tobytes() for word in some}
        names = {word.tobytes() for word in chosen}
        assert len(names) == count
        assert names <= present
        pairs = sum((-word).tobytes() in names for word in chosen) // 2
        alone = len(some) - sum((-word).tobytes() in present for word in some) // 2
        assert pairs == opposite_pairs(chosen) == max(0, count - alone)


def test_exchanges_balance_words_without_negatives():
    words = np.unique(np.random.default_rng(0).choice([-1, 1], (300, 12)).astype(np.int8), axis=0)
    words = words[words[:, 0] > 0]  # so that none has its negative
    chosen = choose(words, 40)
    assert len(np.unique(chosen, axis=0)) == 40
    assert np.abs(words[:40, 1:].sum(axis=0, dtype=int)).max() > 10
    assert np.abs(chosen[:, 1:].sum(axis=0, dtype=int)).max() <= 2


def test_farthest_first_stops_at_words_that_are_there_already():
    points = np.array([0, 5, 5, 9])
    chosen = farthest_first(lambda i: np.abs(points - points[i]), 4, np.full(4, 100))
    assert chosen.tolist() == [0, 3, 1]
    assert farthest_first(lambda i: np.abs(points - points[i]), 4, np.abs(points - 5)).tolist() == [0, 3]


def test_farthest_first_takes_negatives_last():
    points, opposite = np.array([0, 9, 4, 6]), np.array([1, 0, -1, -1])
    for last, expected in ((None, [0, 1, 2, 3]), (opposite, [0, 3, 2, 1])):
        chosen = farthest_first(lambda i: np.abs(points - points[i]), 4, np.full(4, 100), last)
        assert chosen.tolist() == expected


def test_chosen_words_are_balanced_as_far_as_their_signs_allow():
    assert np.abs(choose(hadamard_code("C", 16), 10).sum(axis=0, dtype=int)).max() <= 6
    assert np.abs(choose(hadamard_code("C", 16), 20).sum(axis=0, dtype=int)).max() <= 6


@pytest.mark.parametrize("m", PRIMITIVE_POLYNOMIALS)
def test_alpha_generates_all_nonzero_elements(m):
    field = galois_field(m)
    assert sorted(field.exp[: field.order].tolist()) == list(range(1, 2**m))
    elements = np.arange(1, 2**m)
    assert (field.multiply(elements, field.divide(1, elements)) == 1).all()
    assert not field.divide(0, elements).any()


def test_codes_with_too_few_distinct_words_are_passed_over():
    dependent, independent = np.ones((2, 4), np.uint8), np.eye(2, 4, dtype=np.uint8)
    assert minimum_distance(best_words([dependent, independent], 3)) == 1
    with pytest.raises(ValueError, match="classes is 3"):
        best_words([dependent], 3)
