import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lbhash.codes.distinct
import lbhash.evaluation.ranking.histogram
import lbhash.evaluation.ranking.stable
from lbhash.codes import pack
from lbhash.codes.distinct import compress, unique_rows
from lbhash.evaluation.ranking import RankHistogram, distance_counts, stable_rankings
from lbhash.utils.labels import one_hot

seeds = st.integers(0, 2**32 - 1)


def slow_histogram(queries, query_hot, base, base_hot):
    bits = queries.shape[1]
    total, relevant = np.zeros((2, len(queries), bits + 1), int)
    for i in range(len(queries)):
        for j in range(len(base)):
            distance = sum(x != y for x, y in zip(queries[i], base[j], strict=True))
            total[i, distance] += 1
            relevant[i, distance] += any(query_hot[i] & base_hot[j])
    return total, relevant


def random_sets(seed, bits, classes, queries=5, base=40):
    rng = np.random.default_rng(seed)
    q, b = rng.choice([-1, 1], (rng.integers(1, queries), bits)), rng.choice([-1, 1], (rng.integers(1, base), bits))
    return q, rng.integers(0, classes, len(q)), b, rng.integers(0, classes, len(b)), rng


@settings(max_examples=60, deadline=None)
@given(seeds, st.integers(1, 200), st.integers(1, 4), st.integers(1, 50), st.sampled_from([0, 100]))
def test_single_label_is_that_of_a_slow_one(seed, bits, classes, chunk, few):
    q, ql, b, bl, _ = random_sets(seed, bits, classes)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lbhash.evaluation.ranking.histogram, "_FEW", few)  # both ways, by sorting the base and without
        found = RankHistogram.from_codes(pack(q), ql, pack(b), bl, bits=bits, chunk=chunk)
    total, relevant = slow_histogram(q, one_hot(ql, classes), b, one_hot(bl, classes))
    assert (found.total == total).all()
    assert (found.relevant == relevant).all()
    assert (found.queries, found.base, found.bits) == (len(q), len(b), bits)


@settings(max_examples=40, deadline=None)
@given(seeds, st.integers(1, 200), st.sampled_from([1, 3, 64, 65, 130]), st.integers(1, 50))
def test_multi_label_is_that_of_a_slow_one(seed, bits, classes, chunk):
    q, _, b, _, rng = random_sets(seed, bits, classes)
    ql, bl = (rng.random((len(x), classes)) < 1 / classes for x in (q, b))
    found = RankHistogram.from_codes(pack(q), ql, pack(b), bl, bits=bits, chunk=chunk)
    total, relevant = slow_histogram(q, ql, b, bl)
    assert (found.total == total).all()
    assert (found.relevant == relevant).all()
    shared = ql.astype(int) @ bl.T.astype(int)
    for grade in range(1, found.graded.shape[1] + 1):
        _, graded = slow_graded(q, b, shared == grade)
        assert (found.graded[:, grade - 1] == graded).all()


def slow_graded(queries, base, chosen):
    total, counted = np.zeros((2, len(queries), queries.shape[1] + 1), int)
    for i, j in np.ndindex(len(queries), len(base)):
        distance = (queries[i] != base[j]).sum()
        total[i, distance] += 1
        counted[i, distance] += chosen[i, j]
    return total, counted


@settings(max_examples=40, deadline=None)
@given(seeds, st.integers(1, 70), st.integers(1, 3))
def test_a_relevance_function_is_asked_for_every_pair(seed, bits, largest):
    q, _, b, _, rng = random_sets(seed, bits, 3)
    places, others = rng.integers(0, 9, (len(q), 2)), rng.integers(0, 9, (len(b), 2))

    def nearness(left, right):
        return np.maximum(largest - np.abs(left[:, None] - right).sum(axis=2), 0)

    cut = int(rng.integers(0, len(b) + 1))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lbhash.evaluation.ranking.histogram, "_PAIRS", 2 * len(b))
        found = RankHistogram(pack(q), places, bits, relevance=nearness)
        found.update(pack(b[:cut]), others[:cut]).update(pack(b[cut:]), others[cut:])
    grades = nearness(places, others)
    for grade in range(1, found.graded.shape[1] + 1):
        total, counted = slow_graded(q, b, grades == grade)
        assert (found.graded[:, grade - 1] == counted).all()
    assert (found.total == total).all()
    assert found.relevant.sum() == (grades > 0).sum()


def test_a_memory_mapped_base_and_one_that_comes_in_parts(tmp_path):
    q, ql, b, bl, _ = random_sets(3, 40, 3, base=400)
    np.save(tmp_path / "codes.npy", pack(b))
    np.save(tmp_path / "labels.npy", bl)
    whole = RankHistogram.from_codes(pack(q), ql, pack(b), bl)
    codes, labels = (np.load(tmp_path / f"{name}.npy", mmap_mode="r") for name in ("codes", "labels"))
    mapped = RankHistogram.from_codes(pack(q), ql, codes, labels, chunk=100)
    parts = ((pack(b[start : start + 7]), bl[start : start + 7]) for start in range(0, len(b), 7))
    streamed = RankHistogram(pack(q), ql)
    for part in parts:
        streamed.update(*part)
    for other in (mapped, streamed):
        assert (other.total == whole.total).all()
        assert (other.relevant == whole.relevant).all()


def test_parts_whose_lists_of_labels_name_other_classes():
    codes = pack([[1, 1, 1]] * 2)
    parts = [(codes, [[0], [2]]), (codes, [[7], [1, 2]])]
    found = RankHistogram(codes[:1], [[0, 2]])
    for part in parts:
        found.update(*part)
    assert found.graded[0, :, 0].tolist() == [3, 0]
    assert found.base == 4


@pytest.mark.parametrize("multi", [False, True])
def test_few_queries_share_the_base_among_the_threads(multi, monkeypatch):
    rng = np.random.default_rng(1)
    q, b = rng.integers(0, 256, (3, 8), np.uint8), rng.integers(0, 256, (70_001, 8), np.uint8)
    ql, bl = rng.integers(0, 5, 3), rng.integers(0, 5, 70_001)
    labels = (one_hot(ql, 5), one_hot(bl, 5)) if multi else (ql, bl)
    expected = RankHistogram.from_codes(q, labels[0], b, labels[1])
    monkeypatch.setattr(lbhash.evaluation.ranking.histogram, "split", lambda queries, rows: (2, 5))
    found = RankHistogram.from_codes(q, labels[0], b, labels[1])
    monkeypatch.setattr(lbhash.evaluation.ranking.histogram, "_FEW", 0)
    sorted_by_label = RankHistogram.from_codes(q, labels[0], b, labels[1])
    for other in (found, sorted_by_label):
        assert (other.total == expected.total).all()
        assert (other.graded == expected.graded).all()
    assert expected.relevant[0].sum() == (bl == ql[0]).sum()


def test_many_labels_a_row_need_wider_places():
    rng = np.random.default_rng(2)
    q, b = rng.choice([-1, 1], (2, 1024)), rng.choice([-1, 1], (30, 1024))
    ql, bl = rng.random((2, 200)) < 0.5, rng.random((30, 200)) < 0.5
    found = RankHistogram.from_codes(pack(q), ql, pack(b), bl)
    assert found.graded.shape[1] * 1025 > 1 << 16
    shared = ql.astype(int) @ bl.T.astype(int)
    for grade in np.unique(shared):
        assert (found.graded[:, grade - 1] == slow_graded(q, b, shared == grade)[1]).all()


@pytest.mark.parametrize(
    ("relevance", "error", "message"),
    [
        (lambda x, y: np.ones((1, 1)), TypeError, "relevance returned float64; it must return booleans or integers"),
        (lambda x, y: np.ones((2, 1), int), ValueError, r"relevance returned shape \(2, 1\); .*\(2, 3\)"),
        (lambda x, y: np.full((2, 3), -1), ValueError, "relevance returned grades from -1 to -1; they must be from 0"),
        (lambda x, y: np.full((2, 3), 5000), ValueError, "they must be from 0 to 4,095"),
    ],
)
def test_bad_relevance_functions(relevance, error, message):
    codes = pack([[1, -1]] * 3)
    with pytest.raises(error, match=message):
        RankHistogram.from_codes(codes[:2], "ab", codes, "abc", relevance=relevance)
    with pytest.raises(error, match=message):
        list(stable_rankings(codes[:2], "ab", codes, "abc", relevance=relevance))


@settings(max_examples=40, deadline=None)
@given(seeds, st.integers(1, 100), st.sampled_from(["single", "multi", "function"]))
def test_stable_rankings_are_stable_sorts(seed, bits, kind):
    q, ql, b, bl, rng = random_sets(seed, bits, 3)
    relevance = None
    if kind == "multi":
        ql, bl = (rng.random((len(x), 5)) < 0.5 for x in (q, b))
        grades = ql.astype(int) @ bl.T.astype(int)
    elif kind == "single":
        grades = (ql[:, None] == bl).astype(int)
    else:
        grades = (ql[:, None] + bl) % 4
        relevance = lambda x, y: (x[:, None] + y) % 4  # noqa: E731
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lbhash.evaluation.ranking.stable, "_PAIRS", 2 * len(b))
        blocks = list(stable_rankings(pack(q), ql, pack(b), bl, relevance))
    assert max(block.queries for block in blocks) <= 2
    distances = (q[:, None] != b).sum(axis=2)
    i = 0
    for block in blocks:
        assert (block.total == 1).all()
        for graded in block.graded:
            order = sorted(range(len(b)), key=lambda j: (distances[i, j], j))
            ranked = (graded * np.arange(1, len(graded) + 1)[:, None]).sum(axis=0)
            assert ranked.tolist() == grades[i, order].tolist()
            i += 1
    assert i == len(q)


@pytest.mark.parametrize(("bits", "multi"), [(16, True), (64, False), (256, True), (1024, False)])
def test_many_tiles_and_blocks(bits, multi):
    # More queries than a block and more codes than a tile, against a product of matrices.
    rng = np.random.default_rng(bits)
    base = 20_011 if bits <= 64 else 9_001
    q, b = (
        rng.choice(np.array([-1, 1], np.float32), (70, bits)),
        rng.choice(np.array([-1, 1], np.float32), (base, bits)),
    )
    ql, bl = (one_hot(rng.integers(0, 7, n), 70) for n in (70, base))
    distances = ((bits - q @ b.T) / 2).round().astype(int)
    shared = ql.astype(int) @ bl.T > 0
    labels = (ql, bl) if multi else (ql.argmax(axis=1), bl.argmax(axis=1))
    found = RankHistogram.from_codes(pack(q), labels[0], pack(b), labels[1], bits=bits)
    assert (found.total == [np.bincount(d, minlength=bits + 1) for d in distances]).all()
    assert (
        found.relevant == [np.bincount(d[s], minlength=bits + 1) for d, s in zip(distances, shared, strict=True)]
    ).all()
    assert (distance_counts(pack(q), pack(b), bits) == found.total).all()


@settings(max_examples=20, deadline=None)
@given(seeds, st.booleans())
def test_merged_updated_and_permuted_bases_equal_the_whole(seed, multi):
    q, ql, b, bl, rng = random_sets(seed, 40, 3)
    if multi:
        ql, bl = one_hot(ql, 3), one_hot(bl, 3)
    q, b = pack(q), pack(b)
    whole = RankHistogram.from_codes(q, ql, b, bl)
    cut = int(rng.integers(0, len(b) + 1))
    parts = [(b[:cut], bl[:cut]), (b[cut:], bl[cut:])]
    merged = RankHistogram.from_codes(q, ql, *parts[0]).merge(RankHistogram.from_codes(q, ql, *parts[1]))
    updated = RankHistogram(q, ql)
    for part in parts:
        updated.update(*part)
    order = rng.permutation(len(b))
    permuted = RankHistogram.from_codes(q, ql, b[order], bl[order])
    for other in (merged, updated, permuted):
        assert (other.total == whole.total).all()
        assert (other.graded == whole.graded).all()


@settings(max_examples=40, deadline=None)
@given(seeds, st.sampled_from([3, 64, 100, 200]), st.booleans(), st.sampled_from([0, 100]))
def test_codes_that_repeat_count_as_often(seed, bits, multi, few):
    rng = np.random.default_rng(seed)
    kinds = rng.choice([-1, 1], (int(rng.integers(1, 6)), bits))
    q, b = kinds[rng.integers(0, len(kinds), 12)], kinds[rng.integers(0, len(kinds), 120)]
    ql, bl = rng.integers(0, 3, 12), rng.integers(0, 3, 120)
    if multi:
        ql, bl = (rng.random((12, 4)) < 0.4).astype(np.uint8), (rng.random((120, 4)) < 0.4).astype(np.uint8)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lbhash.evaluation.ranking.histogram, "_FEW", few)
        patch.setattr(lbhash.evaluation.ranking.histogram, "_GROUP", 1)
        found = RankHistogram.from_codes(pack(q), ql, pack(b), bl, bits=bits)
    shared = ql.astype(int) @ bl.T.astype(int) if multi else (ql[:, None] == bl).astype(int)
    total, relevant = slow_graded(q, b, shared > 0)
    assert (found.total == total).all()
    assert (found.relevant == relevant).all()
    for grade in range(1, found.graded.shape[1] + 1):
        assert (found.graded[:, grade - 1] == slow_graded(q, b, shared == grade)[1]).all()
    assert len(found.unique) <= 12
    assert (found.total[found.unique][found.inverse] == found.total).all()


@settings(max_examples=40, deadline=None)
@given(seeds, st.integers(1, 4), st.integers(1, 30))
def test_distinct_rows_and_compressed_codes_stand_for_all(seed, words, most):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 80))
    rows = rng.integers(0, 2**64, (most, words), np.uint64)[rng.integers(0, most, n)]
    one, kind = unique_rows(rows)
    assert (rows[one][kind] == rows).all()
    assert len(one) == len(np.unique(rows, axis=0))  # no two kinds have one key here
    groups = rng.integers(0, 3, n)
    held, of, weights = compress(rows, groups)
    assert (np.diff(of) >= 0).all()
    weights = weights if weights.size else np.ones(len(held), int)
    back = np.repeat(np.column_stack([of.astype(np.uint64), held]), weights, axis=0)
    expected = np.column_stack([groups.astype(np.uint64), rows])
    assert sorted(map(tuple, back.tolist())) == sorted(map(tuple, expected.tolist()))


def test_rows_of_one_key_are_kept_apart(monkeypatch):
    monkeypatch.setattr(lbhash.codes.distinct, "row_keys", lambda rows: np.zeros(len(rows), np.uint64))
    rows = np.array([[1], [2], [1], [2], [2]], np.uint64)
    one, kind = unique_rows(rows)
    assert (rows[one][kind] == rows).all()
    held, _, weights = compress(np.repeat(rows, 9, axis=0), np.zeros(45, int))
    assert weights.sum() == 45
    assert {int(code): int(weights[held[:, 0] == code].sum()) for code in (1, 2)} == {1: 18, 2: 27}


def test_large_and_unknown_class_numbers():
    codes = pack([[1, 1], [1, -1]])
    found = RankHistogram.from_codes(codes, [2**40, 7], codes, [2**40, 2**40 + 1], bits=2)
    assert found.relevant.tolist() == [[1, 0, 0], [0, 0, 0]]


def test_lists_of_lists():
    codes = pack([[1, 1]])
    assert RankHistogram.from_codes(codes, [[1]], codes, [[5, 1]]).relevant[0, 0] == 1


CODES = pack([[1] * 12, [-1] * 12])


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: RankHistogram(CODES, [0]), "query_labels has 1 rows and query_codes has 2"),
        (lambda: RankHistogram(CODES, [0, 1], bits=20), "query_codes has 2 bytes a row; codes of 20 bits have 3"),
        (lambda: RankHistogram(CODES, [0, 1], bits=11), "query_codes has a bit beyond the first 11 set in row 0"),
        (lambda: RankHistogram(CODES, [0, 1]).update(CODES[:, :1], [0, 1]), "base_codes has 1 bytes a row"),
        (lambda: RankHistogram(CODES, [0, 1]).update(CODES, [0]), "base_labels has 1 rows and base_codes has 2"),
        (lambda: RankHistogram(CODES, [0, 1]).update(CODES, np.eye(2)), "query_labels is single-label"),
        (lambda: RankHistogram.from_codes(CODES, [0, 1], CODES, [0, 1], chunk=0), "chunk is 0"),
        (lambda: RankHistogram(CODES, [0, 1]).merge(RankHistogram(CODES, [0, 1], bits=12)), "other has 12 bits"),
        (lambda: RankHistogram(CODES, [0, 1]).merge(RankHistogram(CODES, [0, 2])), "other queries"),
    ],
)
def test_errors(call, message):
    with pytest.raises(ValueError, match=message):
        call()
