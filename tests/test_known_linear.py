"""The linear codes found by search: rank, minimum distance, symmetry, and the search itself."""

import math
import sys
from itertools import islice

import numpy as np
import numpy.typing as npt
import pytest
from benchmarks.code_search import (
    columns,
    divisible,
    group_modules,
    growing,
    linear_groups,
    permutation_groups,
    puncturing,
    random_modules,
    subcodes,
    wanted,
)

from lbhash.centers.bounds.best_linear import best_known_linear
from lbhash.centers.constructions import linear_table
from lbhash.centers.constructions.anticode import anticode_generator
from lbhash.centers.constructions.galois_field import divide, multiply
from lbhash.centers.constructions.known_linear import (
    KnownCode,
    KnownPuncturing,
    KnownSubcode,
    known_codes,
    known_puncturings,
    known_subcodes,
    linear_map,
    orbit,
)
from lbhash.centers.constructions.linear import Generator, row_reduced, span
from lbhash.centers.constructions.linear_table import best_linear_code
from lbhash.codes import hamming_distances


def least_weight(matrix: Generator) -> int:
    """The least weight of all words but the first; 0 where the rows are dependent."""
    words = span(matrix)
    return int(hamming_distances(words[1:], words[:1]).min())


@pytest.mark.parametrize("code", known_codes(), ids=lambda code: f"{code.n}-{code.k}-{code.d}")
def test_every_distance_is_counted(code: KnownCode) -> None:
    matrix = code.generator()
    assert matrix.shape == (code.k, code.n)
    assert matrix.dtype == np.uint8
    assert least_weight(matrix) == code.d


@pytest.mark.parametrize("line", known_puncturings(), ids=lambda line: f"{line.n}-{line.k} without {len(line.bits)}")
def test_every_distance_without_chosen_bits_is_counted(line: KnownPuncturing) -> None:
    code = best_linear_code(line.n - len(line.bits), line.k)
    assert "chosen bits" in code.name  # a line that another code makes useless is taken out
    assert least_weight(code.generator()) == code.d == line.d


@pytest.mark.parametrize("line", known_subcodes(), ids=lambda line: f"{line.n}-{line.k} over {len(line.messages)}")
def test_every_subcode_is_counted_and_construction_x_over_it(line: KnownSubcode) -> None:
    whole = best_linear_code(line.n, line.k).generator()
    rows = (np.array(line.messages)[:, None] >> np.arange(line.k) & 1).astype(np.uint8)
    assert least_weight(rows @ whole % 2) >= line.d
    more = line.k - len(rows)
    longer = linear_table._with_tail_outside(line.messages, whole, best_linear_code(more + 1, more).generator())
    assert least_weight(longer) >= min(line.d, best_linear_code(line.n, line.k).d + 2)


def test_codes_of_construction_x_over_subcodes_are_counted() -> None:
    codes = {
        code for n in range(20, 257) for k in range(9, 16) if "chosen subcode" in (code := best_linear_code(n, k)).name
    }
    assert len(codes) >= len(known_subcodes()) // 2
    assert all(least_weight(code.generator()) >= code.d for code in codes)


def test_residues_beside_the_word_of_ones_are_not_shortened_by_symbols() -> None:
    # Words of codes over GF(16) and the word of ones: no symbol of a sum with it is 0, though one was cut off as if.
    for n in range(100, 125):
        assert least_weight(best_linear_code(n, 12).generator()) >= best_linear_code(n, 12).d


def test_a_subcode_grows_from_heavy_words() -> None:
    weights = linear_table._weights(best_linear_code(24, 12).generator())  # Golay: weights 8, 12, 16, 24
    messages = subcodes.grown(weights, 12, 20, 0)
    rows = (messages[:, None] >> np.arange(12) & 1).astype(np.uint8)
    assert least_weight(rows @ best_linear_code(24, 12).generator() % 2) >= 12
    assert 3 <= len(messages) <= 5  # [24, 5, 12] is the best there is


def test_bits_are_chosen_where_they_cost_least() -> None:
    simplex = anticode_generator(4, ())  # [15, 4, 8]: seven bits of a plane cost 4, three of a line 2
    for count, d in ((7, 4), (3, 6)):
        bits = puncturing.chosen_bits(simplex, count, d, steps=500, seed=0)
        assert least_weight(np.delete(simplex, bits, axis=1)) == d
    assert puncturing.chosen_bits(simplex, 3, 7, steps=100, seed=0) == ()


def test_each_pair_once() -> None:
    assert len({(code.n, code.k) for code in known_codes()}) == len(known_codes())


@pytest.mark.parametrize("code", [code for code in known_codes() if code.field > 2], ids=str)
def test_the_symbols_of_a_code_over_a_larger_field_are_words_of_a_simplex_code(code: KnownCode) -> None:
    for symbol in np.split(code.generator(), code.n // (code.field - 1), axis=1):
        words = np.unique(np.unpackbits(span(symbol), axis=1, count=code.field - 1, bitorder="little"), axis=0)
        assert len(words) == code.field
        assert sorted(words.sum(axis=1)) == [0] + [code.field // 2] * (code.field - 1)


def test_a_map_multiplies_squares_and_exchanges() -> None:
    # GF(2)[x] / (x^2 + x + 1) twice, and GF(2): x (a + b x) = b + (a + b) x, and (a + b x)^2 = (a + b) + b x.
    assert linear_map("7.7.3", "2.1.1") == [2, 3, 4, 8, 16]
    assert linear_map("7.7.3", "1.1.1^1") == [1, 3, 4, 12, 16]
    assert linear_map("7.7.3", "1.2.1@1.0.2") == [4, 8, 2, 3, 16]
    assert orbit(1, [linear_map("7.7.3", "2.1.1"), linear_map("7.7.3", "1.1.1@1.0.2")]) == [1, 2, 3, 4, 8, 12]
    assert orbit(5, []) == [5]
    assert linear_map("", "2.1f.4.8") == [2, 31, 4, 8]


def test_cyclic_groups_have_the_dimension_and_an_orbit_as_long_as_their_order() -> None:
    groups = list(linear_groups.cyclic_groups(6, 20))
    assert ("43", "2") in groups  # of order 63, by x^6 + x + 1
    for blocks, power in groups:
        images = linear_map(blocks, power)
        assert len(images) == 6
        lengths = {len(orbit(start, [images])) for start in range(1, 2**6)}
        assert max(lengths) == math.lcm(*lengths) >= 2**6 / 20


def test_what_an_orbit_adds_to_the_weights_of_words_is_counted() -> None:
    group = group_modules.Group(2, "7.b", ("2.2",))
    images = linear_map(group.blocks, *group.maps)
    weights, lengths, columns = group_modules.orbits_of(group)
    assert [set(vectors) for vectors in columns] == [set(orbit(int(vectors[0]), [images])) for vectors in columns]
    assert lengths.tolist() == [len(vectors) for vectors in columns]
    assert sorted(v for vectors in columns for v in vectors) == list(range(1, 2**5))
    counted = {tuple(sum((u & v).bit_count() % 2 for v in vectors) for vectors in columns) for u in range(1, 2**5)}
    assert {tuple(row) for row in weights.astype(int).tolist()} == counted


def test_orbits_of_any_length_are_chosen() -> None:
    # All points of GF(2)^3 alone: the simplex code [7, 3, 4]; no [6, 3, 4] code is there.
    points = np.arange(1, 8)
    weights = np.array([[(u & v).bit_count() % 2 for v in points] for u in points], np.float32)
    lengths, four = np.ones(7, np.int64), np.full(7, 4, np.float32)
    for seed in range(20):  # any chance, any tenure
        start = np.arange(seed % 6)
        chosen, cost = group_modules.chosen_orbits(start, weights, lengths, 7, four, 1000, seed)
        assert (sorted(chosen), cost) == (list(range(7)), 0)
        chosen, cost = group_modules.chosen_orbits(start, weights, lengths, 6, four, 1000, seed)
        assert len(set(chosen)) == 6
        assert cost == 4  # the four words that the missing point adds to have weight 3
        chosen, cost = group_modules.chosen_orbits(start, weights, lengths, 6, four - weights[:, 2], 1000, seed)
        assert (sorted(chosen), cost) == ([0, 1, 3, 4, 5, 6], 0)


def test_a_plane_is_a_subspace_that_the_group_keeps() -> None:
    rng, met = np.random.default_rng(0), 0
    for blocks, power in linear_groups.cyclic_groups(7, 60):
        images = linear_map(blocks, power)
        plane = group_modules.kept_plane(group_modules.orbits_of(group_modules.Group(2, blocks, (power,))), rng)
        met += len(plane) > 0
        assert len(plane) in (0, 7)
        assert all(v ^ w in {0, *plane} for v in plane for w in plane)
        assert all(set(orbit(int(v), [images])) <= set(plane) for v in plane)
    assert met > 3


def test_codes_that_a_plane_lengthens_are_found() -> None:
    # The eight vectors outside a plane are the columns of a [8, 4, 4] code, and all fifteen those of the simplex code.
    rng = np.random.default_rng(0)
    groups = list(islice(group_modules.random_groups(4, rng), 20))
    goal = group_modules.Goal(8, 4, 8, lengthens=False, plane=True)
    found = [code for _ in range(60) if (code := group_modules._tried(goal, groups, 4, rng))]
    assert found
    for code in found:
        assert least_weight(code.generator()) == 4
    for reached in goal.reached.values():
        if reached.cost == 0:
            assert sorted([*reached.columns, *reached.plane]) == list(range(1, 16))


def test_a_subgroup_has_the_orbits_cut_up() -> None:
    rng = np.random.default_rng(0)
    for blocks, power in list(linear_groups.cyclic_groups(6, 30))[::4]:
        group = group_modules.Group(2, blocks, (power,))
        smaller = group_modules.subgroup(group, rng)
        if smaller:
            large, small = group_modules.orbits_of(group), group_modules.orbits_of(smaller)
            assert len(small.lengths) > len(large.lengths)
            columns = np.concatenate([large.vectors[0], large.vectors[-1], large.vectors[-1]])
            parts = group_modules.orbits_in(columns, small)
            assert sorted(np.concatenate([small.vectors[j] for j in parts])) == sorted(columns)


def test_random_modules_are_of_the_group_and_of_the_dimension() -> None:
    rng = np.random.default_rng(0)
    modules = [module for _ in range(200) if (module := random_modules.random_module(8, 60, rng))]
    assert len(modules) > 20
    for texts in modules:
        maps = [linear_map("", text) for text in texts]
        assert all(len(row_reduced(np.array(images)[:, None] >> np.arange(8) & 1)) == 8 for images in maps)


def test_a_part_is_a_module() -> None:
    # S_3 on its three points has submodules of dimension 1 and 2 alone, and so have the quotients.
    swap, turn = [2, 1, 4], [2, 4, 1]
    for seed in range(20):
        part = random_modules._part([swap, turn], 2, np.random.default_rng(seed))
        if part:
            a, b = (np.array(images)[:, None] >> np.arange(len(images)) & 1 for images in part)
            identity = np.eye(len(a), dtype=int)
            assert (a @ a % 2 == identity).all()
            assert (b @ b @ b % 2 == identity).all()
            assert (a @ b @ a @ b % 2 == identity).all()


def test_the_space_that_a_vector_and_its_images_span() -> None:
    maps = [[2, 4, 8, 1]]  # a turn of four coordinates
    for start, size in ((1, 4), (3, 3), (5, 2), (15, 1), (0, 0)):
        assert len(random_modules._spun(start, maps)) == size


@pytest.mark.parametrize(
    ("group", "order"),
    [
        (permutation_groups.affine(9), 54),
        (permutation_groups.symmetric(5), 120),
        (permutation_groups.alternating_5(), 60),
        (permutation_groups.linear(3), 1344),
        (permutation_groups.projective(7), 336),
        (permutation_groups.beside(permutation_groups.cyclic(3), permutation_groups.symmetric(3)), 18),
        (permutation_groups.wreath(permutation_groups.symmetric(3), 2), 72),
    ],
)
def test_groups_have_their_orders(group: list[list[int]], order: int) -> None:
    elements = permutation_groups.closure(np.array(group))
    assert len(elements) == order
    assert (np.sort(elements, axis=1) == np.arange(elements.shape[1])).all()


def test_the_search_among_groups_finds_codes_and_is_repeatable() -> None:
    found = list(group_modules.search(7, {24: 10, 28: 12}, minutes=2, seed=1))
    assert [(code.n, code.d) in {(24, 10), (23, 9), (28, 12), (27, 11)} for code in found] == [True, True]
    assert all(least_weight(code.generator()) >= code.d for code in found)
    assert list(group_modules.search(7, {24: 10, 28: 12}, minutes=2, seed=1)) == found


def test_the_search_among_groups_gives_up() -> None:
    assert list(group_modules.search(4, {7: 4}, minutes=0.005)) == []  # [7, 4, 3] is the best


def test_the_search_among_groups_wants_the_shortest_lengths() -> None:
    codes = wanted.wanted_codes(11)
    assert all(best_linear_code(n, 11).d < d == best_known_linear(n, 11) for n, d in codes.items())
    assert len(set(codes.values())) == len(codes)


def test_the_transform_is_the_sum_over_all_words() -> None:
    values = np.random.default_rng(0).normal(size=64).astype(np.float32)
    signs = np.array([[(-1) ** (u & v).bit_count() for u in range(64)] for v in range(64)])
    found = values.copy()
    columns._transform(found, 6, np.empty_like(found))
    np.testing.assert_allclose(found, signs @ values, atol=1e-4)


def weights_of(columns: npt.NDArray[np.int64], k: int) -> list[int]:
    return [sum((int(v) & u).bit_count() % 2 for v in columns) for u in range(1, 2**k)]


@pytest.mark.parametrize("d", [8, 20])
def test_the_cost_of_exchanged_columns_is_what_their_words_lack(d: int) -> None:
    start = np.random.default_rng(0).integers(1, 2**6, 20)
    found, cost = columns.exchanged(start, 6, d, 200, 0)
    assert cost == sum(max(0, d - weight) ** 2 for weight in weights_of(found, 6))
    assert (cost == 0) == (d == 8)  # 20 would need weight 20 of every word
    assert columns.exchanged(start, 6, d, 200, 0)[0].tolist() == found.tolist()


def test_the_search_among_columns_finds_codes_and_is_repeatable() -> None:
    wanted = {(24, 7): 10, (27, 7): 12}
    found = list(columns.search(wanted, minutes=2, seed=0))
    assert {(code.n, code.k, code.d) for code in found} <= {(23, 7, 9), (26, 7, 11), (27, 7, 12)}
    assert all(least_weight(code.generator()) == code.d for code in found)
    assert len(found) == 2
    assert list(columns.search(wanted, minutes=2, seed=0)) == found


def test_three_columns_add_two_to_the_distance() -> None:
    code = best_linear_code(51, 9)
    vectors = (1 << np.arange(9)) @ code.generator().astype(np.int64)
    a, b, c = columns.lengthened(vectors, 9, 22)
    longer = KnownCode(54, 9, 24, 2, "", "", " ".join(f"{v:x}" for v in [*vectors, a, b, c]))
    assert c == a ^ b
    assert least_weight(longer.generator()) == 24
    assert columns.lengthened(np.arange(1, 16), 4, 8) == []  # all words have weight 8


@pytest.mark.parametrize("seed", range(30))
def test_three_columns_are_found_if_there_are_any(seed: int) -> None:
    vectors = np.random.default_rng(seed).integers(1, 16, 9)
    weights = [sum((int(v) & u).bit_count() % 2 for v in vectors) for u in range(1, 16)]
    light = [u for u, weight in enumerate(weights, 1) if weight < min(weights) + 2]
    every = {
        (a, b)
        for a in range(1, 16)
        for b in range(16)
        if all((u & a).bit_count() % 2 or (u & b).bit_count() % 2 for u in light)
    }
    found = columns.lengthened(vectors, 4, min(weights))
    assert tuple(found[:2]) in every if every else found == []


def test_codes_of_a_field_are_linear_over_it() -> None:
    rng = np.random.default_rng(0)
    for field, blocks, maps in (linear_groups.random_group(12, rng) for _ in range(60)):
        cycle = orbit(1, [linear_map(blocks, maps[0])])
        if field > 2:
            assert {a ^ b for a in [0, *cycle] for b in cycle} == {0, *cycle}
            assert len(cycle) == field - 1


def test_periods_and_scalars() -> None:
    assert linear_groups._period(0b111) == 3
    assert linear_groups._primitive(3) == [0b1011, 0b1101]
    assert linear_groups._scalar(2, 0b10011) in (0b110, 0b111)  # the cube roots of 1 in GF(16)


def test_arguments_are_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["group_modules", "--dimension", "1"])
    with pytest.raises(SystemExit) as stopped:
        group_modules.main()
    assert stopped.value.code == 2


def test_command_prints_a_line_of_the_file(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(wanted, "wanted_codes", lambda k: {7: 4})
    monkeypatch.setattr(sys, "argv", ["group_modules", "--dimension", "4", "--minutes", "0.005"])
    group_modules.main()
    assert capsys.readouterr().out == ""  # [7, 4, 3] is the best
    monkeypatch.setattr(wanted, "wanted_codes", lambda k: {8: 4})
    group_modules.main()
    n, k, d, field, *texts = capsys.readouterr().out.strip().split(",")
    code = KnownCode(int(n), int(k), int(d), int(field), *texts)
    assert len(row_reduced(code.generator())) == 4
    assert least_weight(code.generator()) >= code.d >= 3


@pytest.mark.parametrize(("n", "d"), [(52, 24), (51, 22)])
def test_columns_that_move_keep_a_group_and_the_divisor_of_the_weights(n: int, d: int) -> None:
    rng = np.random.default_rng(0)
    moves, q = 0, 4 if d % 4 == 0 else 2
    for seed in range(30):
        blocks, text, group = divisible.random_group(6, rng)
        flats = divisible.random_flats(group.elements, rng)
        assert all(weight % 4 == 0 for flat in flats for weight in weights_of(flat, 6))
        columns = divisible.random_start(n, flats, rng)
        starts, firsts, short = group.split(np.zeros(0, np.int64) if columns is None else columns)
        if len(starts) < 4:  # there are too few to move
            continue
        found, cost = divisible.moved(starts, short, group, d, 200, 3.0, 0.3, seed)
        texts = " ".join(f"{start:x}" for start in [*found, *firsts])
        bits = KnownCode(n, 6, d, 2, blocks, text, texts).generator().astype(np.int64)
        ours = (1 << np.arange(6)) @ bits
        assert len(ours) == n
        weights = weights_of(ours, 6)
        assert all(weight % q == 0 for weight in weights)
        assert cost == sum(max(0, (d - weight) / q) ** 2 for weight in weights)
        for element in group.elements:
            np.testing.assert_array_equal(np.sort(element[ours]), np.sort(ours))
        moves += found.tolist() != starts.tolist()
    assert moves > 0


def test_columns_of_which_no_four_have_the_sum_0_stay() -> None:
    group, starts = divisible.Group.of(np.arange(2**6)[None]), 1 << np.arange(6)
    found, cost = divisible.moved(starts, starts[:0], group, 4, 5, 1.0, 0.1, 0)
    assert found.tolist() == starts.tolist()
    assert cost == sum(max(0, (4 - weight) / 4) ** 2 for weight in weights_of(starts, 6))


@pytest.mark.parametrize("d", [14, 16])
def test_the_costs_of_moves_are_those_of_the_moved_columns(d: int) -> None:
    rng = np.random.default_rng(d)
    q = 4 if d % 4 == 0 else 2
    for _ in range(20):
        _, _, group = divisible.random_group(5, rng)
        kept, moving = group.elements[:, rng.integers(32, size=8)], rng.integers(32, size=q)
        if q == 4:
            moving[3] = moving[0] ^ moving[1] ^ moving[2]
        weights = np.array([0, *weights_of(np.append(kept, group.elements[:, moving]), 5)])
        changes, costs, other = np.zeros(group.words.shape, np.int16), *np.zeros((2, 32), np.float32)
        divisible._look(moving, weights[group.words[0]], group, d, changes, costs, other)
        for v in range(32):
            lacks = np.maximum(d - np.array(weights_of(np.append(kept, group.elements[:, moving ^ v]), 5)), 0)
            assert costs[v] == pytest.approx((lacks**2).sum() / q**2, abs=1e-2)


def test_the_search_among_divisible_codes_finds_codes_and_is_repeatable() -> None:
    wanted = {28: 12, 59: 28}
    found = list(divisible.search(7, dict(wanted), minutes=2, seed=0))
    assert {code.n: code.d for code in found} == wanted
    assert all(least_weight(code.generator()) >= code.d for code in found)
    assert list(divisible.search(7, dict(wanted), minutes=2, seed=0)) == found


def test_cycles_move_words_as_they_move_bits() -> None:
    cycles = growing.Cycles(17, 3, 5)
    assert np.sort(cycles.images).tolist() == list(range(17))
    assert cycles.images[15:].tolist() == [15, 16]
    for word in np.random.default_rng(0).integers(2**17, size=20).tolist():
        once, twice = (
            sum(1 << int(images[i]) for i in range(17) if word >> i & 1)
            for images in (cycles.images, cycles.images[cycles.images])
        )
        assert cycles.applied(0b110, word) == once ^ twice
        assert cycles.applied(0b1001, word) == 0


@pytest.mark.parametrize("order", [3, 5, 7])
def test_the_factors_of_a_permutation(order: int) -> None:
    product = 1
    for factor in growing.factors(order):
        assert all(divide(factor, smaller)[1] for smaller in range(2, 1 << factor.bit_length() - 1))
        product = multiply(product, factor)
    assert product == 1 << order | 1


def with_images(code: frozenset[int], cycles: growing.Cycles, word: int) -> frozenset[int]:
    """The sums of a code's words with those of the images of another."""
    for j in range(cycles.order):
        code |= {other ^ cycles.applied(1 << j, word) for other in code}
    return code


@pytest.mark.parametrize(("r", "d"), [(1, 4), (2, 4), (2, 8), (3, 8)])
@pytest.mark.parametrize(("order", "count", "n"), [(3, 4, 14), (5, 2, 13)])
@pytest.mark.parametrize("words", [[], [0b11111111], [0b11111111, 0b111111110000]])
def test_what_fits_a_code_is_all_that_does(words: list[int], order: int, count: int, n: int, r: int, d: int) -> None:
    cycles = growing.Cycles(n, order, count)
    code = frozenset([0])
    for word in words:
        code = with_images(code, cycles, word)
    pivots: dict[int, int] = {}
    basis = [word for word in sorted(code) if growing._reduce(word, pivots)]
    if any(word.bit_count() % 2**r for word in code):
        return
    for factor in growing.factors(order):
        wanted = {with_images(code, cycles, word) for word in range(2**n) if not cycles.applied(factor, word)}
        wanted.discard(code)
        fits = {each for each in wanted if all(not w.bit_count() % 2**r and w.bit_count() >= d for w in each - code)}
        found = growing.fitting_words(basis, cycles, factor, d, r, np.random.default_rng(0), 2**14, tried=n)
        assert {with_images(code, cycles, word) for word in found} == fits


@pytest.mark.parametrize(("r", "d"), [(2, 4), (2, 8), (3, 8), (1, 6)])
@pytest.mark.parametrize("factors", [[0b111, 0b11], [0b111, 0b111], [0b11, 0b11, 0b11], [0b111, 0b11, 0b11]])
def test_a_code_is_grown_where_there_is_one(factors: list[int], r: int, d: int) -> None:
    cycles = growing.Cycles(13, 3, 4)

    def fits(code: frozenset[int]) -> bool:
        return all(not word.bit_count() % 2**r and word.bit_count() >= d for word in code - {0})

    def there_is(code: frozenset[int], factors: list[int]) -> bool:
        if not factors:
            return True
        words = (word for word in range(1, 2**13) if word not in code and not cycles.applied(factors[0], word))
        larger = {with_images(code, cycles, word) for word in words if word.bit_count() >= d}
        return any(there_is(each, factors[1:]) for each in larger if fits(each))

    found = growing.grown([(cycles, factor) for factor in factors], d, r, np.inf, np.random.default_rng(0))
    assert bool(found) == there_is(frozenset([0]), factors)
    code = frozenset([0])
    for word in found:
        code |= {other ^ word for other in code}
    assert fits(code)
    assert all(with_images(code, cycles, word) == code for word in found)
    assert len(code) == 2 ** (sum(factor.bit_length() - 1 for factor in factors) if found else 0)


def test_the_search_by_growing_finds_codes_and_is_repeatable() -> None:
    wanted = {45: 16, 72: 32, 50: 22}
    found = list(growing.search(8, dict(wanted), minutes=2, seed=0))
    assert {code.n: code.d for code in found} == {45: 16, 72: 32}  # 22 is no multiple of 4
    for code in found:
        assert least_weight(code.generator()) == code.d
        words = span(code.generator())
        assert not (hamming_distances(words, words[:1]) % 4).any()
    assert list(growing.search(8, dict(wanted), minutes=2, seed=0)) == found
