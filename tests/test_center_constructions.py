"""Every construction of class centers against distances counted over all pairs, and against the literature."""

from __future__ import annotations

import re

import numpy as np
import pytest
from benchmarks.code_search.cyclic_codes import best_cyclic
from hypothesis import given, settings
from hypothesis import strategies as st

from lbhash.centers import minimum_distance
from lbhash.centers.choose import choose_balanced, choose_one_sided
from lbhash.centers.constructions.anticode import anticode_generator, anticode_parameters, subspace_dimensions
from lbhash.centers.constructions.conference import conference_blocks, conference_words
from lbhash.centers.constructions.coset_search import coset_search
from lbhash.centers.constructions.cyclic import CHECKS, cyclic_generator
from lbhash.centers.constructions.galois_field import galois_field
from lbhash.centers.constructions.goppa import goppa_generator
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
from lbhash.centers.constructions.linear_table import LinearCode, best_linear_code, linear_blocks, linear_words
from lbhash.centers.constructions.paley import hadamard_matrix, has_hadamard_matrix, has_jacobsthal, jacobsthal
from lbhash.centers.constructions.quadratic_residue import DISTANCES, quadratic_residue_generator
from lbhash.centers.constructions.reed_muller import reed_muller_dimension, reed_muller_generator
from lbhash.centers.constructions.reed_solomon import concatenated_generator
from lbhash.centers.constructions.reed_solomon import generator_matrix as reed_solomon_generator
from lbhash.codes import hamming_distances, unpack


def least_distance(words):
    """Over all pairs, one by one."""
    return min(int(np.sum(a != b)) for i, a in enumerate(words) for b in words[:i])


def least_weight(generator):
    words = span(generator)
    return int(hamming_distances(words, words[:1])[1:].min())


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


# Reed-Muller, quadratic residues, anticodes


@pytest.mark.parametrize(("r", "m"), [(r, m) for m in range(1, 6) for r in range(m + 1)])
def test_reed_muller_codes(r, m):
    generator = reed_muller_generator(r, m)
    assert generator.shape == (reed_muller_dimension(r, m), 2**m)
    assert len(row_reduced(generator)) == len(generator)
    if len(generator) <= 16:
        assert least_weight(generator) == 2 ** (m - r)


@pytest.mark.parametrize("m", range(1, 8))
def test_first_order_reed_muller_codes_are_the_hadamard_codes(m):
    words = unpack(span(reed_muller_generator(1, m)), 2**m)
    assert {word.tobytes() for word in words} == {word.tobytes() for word in hadamard_code_of_sylvester(m)}


def hadamard_code_of_sylvester(m):
    matrix = np.array([[(-1) ** bin(i & j).count("1") for j in range(2**m)] for i in range(2**m)], np.int8)
    return np.concatenate([matrix, -matrix])


@pytest.mark.parametrize("p", [7, 17, 23, 31])
def test_quadratic_residue_codes(p):
    generator = quadratic_residue_generator(p)
    assert generator.shape == ((p + 1) // 2, p)
    assert least_weight(generator) == DISTANCES[p]
    words = {word.tobytes() for word in generator}
    shifted = row_reduced(np.concatenate([generator, np.roll(generator, 1, axis=1)]))
    assert {word.tobytes() for word in shifted} == words


# Goppa


@pytest.mark.parametrize(
    ("m", "exponents", "power", "n", "k", "d"), [(3, (2, 1, 0), 1, 8, 2, 5), (6, (9, 0), 1, 55, 16, 19)]
)
def test_goppa_codes(m, exponents, power, n, k, d):
    generator = goppa_generator(m, exponents, power)
    assert generator.shape == (k, n)
    assert least_weight(generator) == d


def test_words_of_a_goppa_code_are_0_modulo_its_polynomial():
    # Over GF(8) with G = (x^2 + x + 1)^2, all 8 elements: the sum of c_i / (x - x_i) is 0 modulo G, term by term.
    field = galois_field(3)

    def times(a, b):
        product = [0] * (len(a) + len(b) - 1)
        for i, x in enumerate(a):
            for j, y in enumerate(b):
                product[i + j] ^= int(field.multiply(x, y))
        return product

    for word in goppa_generator(3, (2, 1, 0), 2):
        total = [0] * 8  # the numerator of the sum
        for i in np.flatnonzero(word):
            others = [1]
            for j in set(range(8)) - {int(i)}:
                others = times(others, [j, 1])
            total = [a ^ b for a, b in zip(total, others, strict=True)]
        while len(total) > 4:  # divided by G = x^4 + x^2 + 1
            lead = total.pop()
            total[-4] ^= lead
            total[-2] ^= lead
        assert total == [0, 0, 0, 0]


def test_the_extended_golay_code():
    code = best_linear_code(24, 12)
    words = linear_words(code)
    weights, counts = np.unique((words > 0).sum(axis=1), return_counts=True)
    assert dict(zip(weights.tolist(), counts.tolist(), strict=True)) == {0: 1, 8: 759, 12: 2576, 16: 759, 24: 1}
    assert minimum_distance(words) == 8


@pytest.mark.parametrize("k", range(2, 8))
def test_simplex_codes_without_an_anticode(k):
    for removed in subspace_dimensions(k):
        n, d = anticode_parameters(k, removed)
        generator = anticode_generator(k, removed)
        assert generator.shape == (k, n)
        if d > 0:
            assert least_weight(generator) == d


# Cyclic codes


@pytest.mark.parametrize(("n", "k"), list(CHECKS))
def test_cyclic_codes_are_cyclic_and_as_far_apart_as_the_table_says(n, k):
    distance, check_poly = CHECKS[n, k]
    generator = cyclic_generator(n, check_poly)
    assert generator.shape == (k, n)
    assert least_weight(generator) == distance
    both = np.concatenate([generator, np.roll(generator, 1, axis=1)])
    assert len(row_reduced(both)) == len(row_reduced(generator)) == k


def test_polynomials_that_do_not_divide_are_refused():
    with pytest.raises(ValueError, match="check_poly is 0x7; it must divide x\\^7 - 1"):
        cyclic_generator(7, 0b111)


def test_enumeration_finds_the_hamming_and_the_simplex_code():
    assert best_cyclic(7, 4)[0] == 3
    assert best_cyclic(15, 4)[0] == 8
    assert best_cyclic(51, 8) == CHECKS[51, 8]
    assert best_cyclic(15, 3)[0] == 5
    assert best_cyclic(13, 2) is None


# Concatenation


@pytest.mark.parametrize(
    ("m", "symbols", "dimension", "inner"), [(2, 4, 2, (3, 2)), (3, 8, 2, (7, 3)), (4, 9, 2, (8, 4))]
)
def test_concatenated_codes_multiply_their_distances(m, symbols, dimension, inner):
    code = best_linear_code(*inner)
    generator = concatenated_generator(m, symbols, dimension, code.generator())
    assert generator.shape == (dimension * m, symbols * code.n)
    assert least_weight(generator) >= (symbols - dimension + 1) * code.d


def test_words_of_a_concatenated_code_are_inner_words_of_the_symbols():
    inner = anticode_generator(2, ())
    outer = (unpack(span(reed_solomon_generator(2, 4, 2)), 8) > 0).reshape(16, 4, 2)
    by_hand = {((symbols @ inner) % 2).astype(np.uint8).tobytes() for symbols in outer.astype(int)}
    words = unpack(span(concatenated_generator(2, 4, 2, inner)), 12) > 0
    assert {word.astype(np.uint8).tobytes() for word in words} == by_hand


# The table of linear codes


@given(st.integers(1, 9), st.integers(0, 120))
@settings(max_examples=150, deadline=None)
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


def parts_of(code):
    yield code
    for part in code.parts:
        yield from parts_of(part)


def test_every_derivation_is_used_and_true():
    seen: dict[str, LinearCode] = {}
    for k in range(2, 17):
        for n in range(k, 257):
            for code in parts_of(best_linear_code(n, k)):
                if code.k <= 16:
                    seen.setdefault(re.sub(r"( of (?!ones)| under| RM|,| by \d| \d).*", "", code.name), code)
    derived = {
        "punctured",
        "subcode",
        "parity bit",
        "juxtaposition",
        "u | u + v",
        "construction B",
        "construction X",
        "construction X over a chosen subcode",
        "construction XX",
        "concatenation",
        "residue",
        "shortened",
        "with the word of ones",
        "without",
    }
    bases = {"all words", "Reed-Muller", "BCH", "Golay", "simplex", "simplex without an anticode", "found by search"}
    assert derived | bases <= set(seen)
    for code in seen.values():
        assert least_weight(code.generator()) >= code.d


def test_no_bit_of_a_linear_block_is_constant():
    for block in linear_blocks(1000, 100):
        assert (np.abs(block.words().sum(axis=0)) < 1024).all()


def test_codes_outside_the_table():
    assert best_linear_code(5, 6) is None
    assert best_linear_code(64, 21) is None


def test_names_tell_where_a_code_comes_from():
    assert str(best_linear_code(32, 10)) == "BCH [31, 11, 11], subcode, parity bit"
    assert str(best_linear_code(24, 12)) == "Golay [23, 12, 7], parity bit"


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


@pytest.mark.parametrize(("bits", "distance"), [(5, 2), (7, 3), (8, 4), (9, 3), (10, 5), (11, 4)])
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
    words = coset_search(reed_muller_generator(1, 4), 256, 6, steps=500)
    assert words.shape == (256, 16)
    assert least_distance(words) == 6


def test_the_search_finds_best_codes_of_length_ten_and_ends_where_there_are_none():
    nothing = np.zeros((0, 10), np.uint8)
    words = coset_search(nothing, 6, 6, steps=500)
    assert least_distance(words[:6]) >= 6
    assert coset_search(nothing, 7, 6, steps=500) is None  # A(10, 6) = 6
