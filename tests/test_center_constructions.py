"""Every construction of class centers against distances counted over all pairs, and against the literature."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lbhash.centers import minimum_distance
from lbhash.centers.bounds.best_linear import best_known_linear
from lbhash.centers.choose import choose_balanced, choose_one_sided
from lbhash.centers.constructions.conference import conference_blocks, conference_words
from lbhash.centers.constructions.coset_search import coset_search
from lbhash.centers.constructions.juxtaposition import Block, best_plan
from lbhash.centers.constructions.kerdock import DISTANCES as KERDOCK_DISTANCES
from lbhash.centers.constructions.kerdock import (
    hensel_lift,
    kerdock_blocks,
    kerdock_words,
    quaternary_generator,
)
from lbhash.centers.constructions.levenshtein import hadamard_blocks, hadamard_code
from lbhash.centers.constructions.lexicode import lexicode_basis, lexicode_centers
from lbhash.centers.constructions.linear import row_reduced, span
from lbhash.centers.constructions.linear_table import (
    best_linear_code,
    linear_blocks,
    linear_words,
    stored_generators,
)
from lbhash.centers.constructions.paley import hadamard_matrix, has_hadamard_matrix, has_jacobsthal, jacobsthal
from lbhash.codes import hamming_distances


def least_distance(words):
    """Over all pairs, one by one."""
    return min(int(np.sum(a != b)) for i, a in enumerate(words) for b in words[:i])


def is_a_block(block, classes):
    words = block.words()
    assert words.shape[1] == block.length
    assert len(words) >= classes
    assert set(np.unique(words)) <= {-1, 1}
    return minimum_distance(words) == block.distance


# Paley's matrices


@pytest.mark.parametrize("q", [3, 5, 7, 9, 11, 13, 25, 27, 49, 81, 125])
def test_jacobsthal_matrices_hold_the_quadratic_character(q):
    core = jacobsthal(q).astype(int)
    unit, ones = np.eye(q, dtype=int), np.ones((q, q), int)
    np.testing.assert_array_equal(core @ core.T, q * unit - ones)
    assert not core.sum(axis=0).any()
    np.testing.assert_array_equal(core, core.T if q % 4 == 1 else -core.T)


@pytest.mark.parametrize("q", [1, 2, 4, 8, 15, 21, 36, 45])
def test_there_is_no_jacobsthal_matrix_of_other_orders(q):
    assert not has_jacobsthal(q)
    with pytest.raises(ValueError, match=f"q is {q}; it must be the power of an odd prime"):
        jacobsthal(q)


def test_hadamard_matrices_of_all_orders_but_the_known_gaps():
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
    for order in (-4, 0, 3, 6, 10):
        with pytest.raises(ValueError, match=f"order is {order}"):
            hadamard_matrix(order)


# Hadamard codes and Levenshtein's


@pytest.mark.parametrize("order", [4, 8, 12, 20, 24, 28])
@pytest.mark.parametrize(("kind", "length", "words"), [("A", -1, 1), ("A'", -2, 0.5), ("C", 0, 2)])
def test_hadamard_codes_have_levenshteins_parameters(order, kind, length, words):
    code = hadamard_code(kind, order)
    assert code.shape == (words * order, order + length)
    assert least_distance(code) == order // 2


def test_a_hadamard_code_of_an_order_that_is_missing_is_refused():
    with pytest.raises(ValueError, match="order is 92"):
        hadamard_code("A", 92)


def plotkin_words(bits, distance):
    """Levenshtein's theorem: A(n, d) for even d < n < 2d."""
    return 2 * (distance // (2 * distance - bits))


@pytest.mark.parametrize("bits", [20, 23, 32, 41, 64, 65])
def test_levenshteins_codes_meet_the_plotkin_bound(bits):
    for distance in range(2 * -(-bits // 4) + 2, bits, 2):
        words = plotkin_words(bits, distance)
        if words > 2:
            plan = best_plan(hadamard_blocks(words, bits + 8), bits)
            assert plan.distance >= distance
            made = plan.words()
            assert len(made) >= words
            assert least_distance(made) >= distance


# Conference codes


def test_conference_codes():
    assert [conference_words(q).shape for q in (5, 9, 13)] == [(12, 5), (20, 9), (28, 13)]
    for block in conference_blocks(2, 49):
        assert is_a_block(block, 2 * block.length + 2)
    assert [block.length for block in conference_blocks(99, 61)] == [49, 53, 61]
    with pytest.raises(ValueError, match="q is 21"):
        conference_words(21)


# Kerdock codes


def test_the_nordstrom_robinson_code():
    words = kerdock_words(16)
    distances = hamming_distances(*[np.packbits(words > 0, axis=1)] * 2)
    assert words.shape == (256, 16)
    # From every word the others are at the same distances: 112 at 6, 30 at 8, 112 at 10, one at 16.
    for row in distances:
        assert dict(zip(*np.unique(row, return_counts=True), strict=True)) == {0: 1, 6: 112, 8: 30, 10: 112, 16: 1}


def test_the_kerdock_code_of_length_64():
    words = kerdock_words(64)
    assert words.shape == (4096, 64)
    assert minimum_distance(words) == KERDOCK_DISTANCES[64] == 28


def test_the_kerdock_code_of_length_256_is_as_far_from_many_of_its_words():
    words = kerdock_words(256).astype(np.float32)
    assert words.shape == (65536, 256)
    some = np.random.default_rng(0).choice(65536, 40, replace=False)
    distances = (256 - words[some] @ words.T) / 2
    distances[np.arange(40), some] = 256
    assert distances.min() == KERDOCK_DISTANCES[256] == 120


def test_shortened_kerdock_codes_keep_their_distance():
    blocks = [block for block in kerdock_blocks(17, 60) if block.distance < 28]
    assert [block.length for block in blocks] == [16, 15, 14, 13]
    for block in blocks:
        assert is_a_block(block, 256 >> (16 - block.length))
    with pytest.raises(ValueError, match="bits is 32; it must be one of 16, 64, 256"):
        kerdock_words(32)


@pytest.mark.parametrize("r", [3, 5, 7])
def test_the_lifted_polynomial_divides_and_its_root_has_the_right_order(r):
    generator = quaternary_generator(r)
    assert generator.shape == (r + 1, 2**r)
    # The powers of xi are distinct, and modulo 2 all nonzero columns.
    powers = (generator[1:, 1:] % 2 * 2 ** np.arange(r)[:, None]).sum(axis=0)
    assert sorted(powers) == list(range(1, 2**r))


def test_hensel_lift_of_the_polynomial_of_degree_three():
    # x^3 + x + 1 lifts to x^3 + 2x^2 + x + 3 modulo 4 (Hammons et al., section III.A).
    assert hensel_lift(0b1011, 3).tolist() == [3, 1, 2, 1]


# The table of linear codes


def test_the_extended_golay_code():
    code = best_linear_code(24, 12)
    words = linear_words(code)
    weights, counts = np.unique((words > 0).sum(axis=1), return_counts=True)
    assert dict(zip(weights.tolist(), counts.tolist(), strict=True)) == {0: 1, 8: 759, 12: 2576, 16: 759, 24: 1}
    assert minimum_distance(words) == 8


def least_weight(generator):
    """The least weight of all words but 0, by the Walsh-Hadamard transform: n - 2 weight of each word."""
    k, n = generator.shape
    sums = np.bincount((1 << np.arange(k)) @ generator.astype(np.int64), minlength=2**k)
    for half in 2 ** np.arange(k):
        left, right = sums.reshape(-1, 2, half).transpose(1, 0, 2)
        sums = np.stack([left + right, left - right], axis=1).ravel()
    return (n - sums[1:].max()) // 2


@pytest.mark.parametrize("many", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_the_distance_of_every_stored_code_is_counted(many):
    stored = {cell: generator for cell, generator in stored_generators().items() if (cell[1] > 13) == many}
    assert len(stored) > 90
    for (n, k), generator in stored.items():
        assert least_weight(generator) == best_linear_code(n, k).d


@pytest.mark.parametrize("k", range(1, 16))
def test_no_code_is_more_than_two_below_the_best_known(k):
    allowed = 0 if k <= 10 else 2
    assert all(best_linear_code(n, k).d >= best_known_linear(n, k) - allowed - (k == 15) for n in range(max(4, k), 257))


@given(st.integers(1, 9), st.integers(0, 120))
@settings(max_examples=40, deadline=None)
def test_linear_codes_are_as_far_apart_as_the_table_says(k, more):
    code = best_linear_code(k + more, k)
    generator = code.generator()
    assert generator.shape == (k, k + more)
    assert len(row_reduced(generator)) == k
    assert least_weight(generator) >= code.d


@pytest.mark.parametrize("length", [100, 256, 300, 512, 1024])
def test_long_linear_codes(length):
    for k in (2, 5, 8, 12):
        assert least_weight(best_linear_code(length, k).generator()) >= best_linear_code(length, k).d > length // 4


@pytest.mark.parametrize(("n", "k"), [(31, 11), (55, 4), (99, 9), (120, 13), (250, 10), (288, 5)])
def test_every_rule_keeps_its_promise(n, k):
    codes = [best_linear_code(n, k)]
    while codes:
        code = codes.pop()
        generator = code.generator()
        assert generator.shape == (code.k, code.n)
        assert code.k > 14 or least_weight(generator) >= code.d
        codes.extend(code.parts)


def test_no_bit_of_a_linear_block_is_constant():
    for block in linear_blocks(1000, 100):
        assert (np.abs(block.words().sum(axis=0)) < 1024).all()


def test_codes_outside_the_table():
    assert best_linear_code(5, 6) is None
    assert best_linear_code(64, 21) is None


def test_names_tell_where_a_code_comes_from():
    assert str(best_linear_code(24, 12)) == "linear [24, 12, 8]"
    assert str(best_linear_code(100, 7)) == "linear [100, 8, 48], subcode"
    assert str(best_linear_code(1024, 10)) == "4 × linear [256, 10, 124]"


@given(st.integers(1, 12), st.integers(1, 12), st.integers(0, 999))
@settings(max_examples=100, deadline=None)
def test_row_reduction_keeps_the_span(k, n, seed):
    matrix = np.random.default_rng(seed).integers(0, 2, (k, n), np.uint8)
    reduced = row_reduced(matrix)
    assert {w.tobytes() for w in span(matrix)} == {w.tobytes() for w in span(reduced)}
    assert len(span(reduced)) == len({w.tobytes() for w in span(reduced)})


# Lexicodes


def lexicode_by_hand(bits, distance):
    words: list[int] = []
    for number in range(2**bits):
        if all((number ^ word).bit_count() >= distance for word in words):
            words.append(number)
    return words


@pytest.mark.parametrize(("bits", "distance"), [(5, 2), (8, 4), (9, 3)])
def test_lexicodes_are_taken_in_the_order_of_numbers(bits, distance):
    expected = lexicode_by_hand(bits, distance)
    words = [0]
    for vector in lexicode_basis(bits, distance, bits):
        words += [word ^ vector for word in words]
    assert sorted(words) == expected
    made = lexicode_centers(len(expected), bits)
    assert least_distance(made) == distance


def test_lexicodes_of_long_words_are_refused():
    with pytest.raises(ValueError, match="bits is 21; a lexicode is searched for up to 20 bits"):
        lexicode_centers(4, 21)


# Side by side


def block(name, length, distance, words):
    return Block(name, length, distance, lambda: np.ones((words, length), np.int8))


@given(
    st.lists(st.tuples(st.integers(1, 9), st.integers(1, 9)), min_size=1, max_size=5),
    st.integers(1, 20),
)
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


def test_a_plans_name_counts_its_blocks():
    plan = best_plan([block("a", 3, 2, 4), block("b", 4, 3, 4)], 12)
    assert (plan.name, plan.distance) == ("3 × b", 9)
    assert best_plan([block("b", 4, 3, 4)], 11).name == "3 × b, 1 bit dropped"
    assert best_plan([block("b", 4, 3, 4)], 9).name == "2 × b, 1 free bit"
    assert best_plan([], 10) is None


# Choosing


@given(st.data())
@settings(max_examples=60, deadline=None)
def test_chosen_words_are_rows_and_balanced_where_every_word_has_its_negative(data):
    bits, half = data.draw(st.integers(2, 20)), data.draw(st.integers(1, 20))
    some = np.random.default_rng(data.draw(st.integers(0, 99))).choice([-1, 1], (half, bits)).astype(np.int8)
    words = np.unique(np.concatenate([some, -some]), axis=0)
    count = data.draw(st.integers(1, len(words)))
    chosen = choose_balanced(words, count)
    assert len({word.tobytes() for word in chosen}) == count
    assert {word.tobytes() for word in chosen} <= {word.tobytes() for word in words}
    assert (np.abs(chosen.sum(axis=0, dtype=int)) == count % 2).all()


def test_exchanges_balance_words_without_negatives():
    words = np.unique(np.random.default_rng(0).choice([-1, 1], (300, 12)).astype(np.int8), axis=0)
    words = words[words[:, 0] > 0]  # so that none has its negative
    chosen = choose_balanced(words, 40)
    assert len(np.unique(chosen, axis=0)) == 40
    assert np.abs(words[:40, 1:].sum(axis=0, dtype=int)).max() > 10
    assert np.abs(chosen[:, 1:].sum(axis=0, dtype=int)).max() <= 2
    np.testing.assert_array_equal(chosen, choose_balanced(words, 40))


@given(st.data())
@settings(max_examples=60, deadline=None)
def test_no_two_of_one_sided_words_are_opposite(data):
    bits, half = data.draw(st.integers(2, 20)), data.draw(st.integers(1, 20))
    some = np.random.default_rng(data.draw(st.integers(0, 99))).choice([-1, 1], (half, bits)).astype(np.int8)
    words = np.unique(np.concatenate([some, -some]), axis=0)
    count = data.draw(st.integers(1, len(words) // 2))
    chosen = choose_one_sided(words, count)
    taken = {word.tobytes() for word in chosen}
    assert len(taken) == count
    assert taken <= {word.tobytes() for word in words}
    assert not any((-word).tobytes() in taken for word in chosen)


def test_one_sided_words_are_balanced_as_far_as_their_signs_allow():
    rows = hadamard_code("C", 16)
    assert np.abs(choose_one_sided(rows, 10).sum(axis=0, dtype=int)).max() <= 6
    assert len(choose_one_sided(rows, 17)) == 17  # then some are opposite


# The search


def test_the_search_finds_the_nordstrom_robinson_code():
    words = coset_search(best_linear_code(16, 5).generator(), 256, 6, steps=500)
    assert words.shape == (256, 16)
    assert least_distance(words) == 6


def test_the_search_finds_best_codes_of_length_ten_and_ends_where_there_are_none():
    nothing = np.zeros((0, 10), np.uint8)
    words = coset_search(nothing, 6, 6, steps=500)
    assert least_distance(words[:6]) >= 6
    assert coset_search(nothing, 7, 6, steps=500) is None  # A(10, 6) = 6
