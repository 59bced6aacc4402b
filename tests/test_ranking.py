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


def slow_counts(queries, base, grades):
    """How many base codes, ``[queries, bits + 1]``, and how many of each grade, ``[queries, grades, bits + 1]``."""
    levels = np.arange(1, max(1, grades.max(initial=1)) + 1)
    total = np.zeros((len(queries), queries.shape[1] + 1), int)
    graded = np.zeros((len(queries), len(levels), queries.shape[1] + 1), int)
    for i, j in np.ndindex(len(queries), len(base)):
        distance = (queries[i] != base[j]).sum()
        total[i, distance] += 1
        graded[i, :, distance] += grades[i, j] == levels
    return total, graded


def assert_counts(found, queries, base, grades):
    total, graded = slow_counts(queries, base, grades)
    assert (found.total == total).all()
    assert (found.relevant == graded.sum(axis=1)).all()
    assert (found.graded[:, : graded.shape[1]] == graded).all()
    assert not found.graded[:, graded.shape[1] :].any()


def random_sets(seed, bits, classes, queries=5, base=40):
    rng = np.random.default_rng(seed)
    q, b = rng.choice([-1, 1], (rng.integers(1, queries), bits)), rng.choice([-1, 1], (rng.integers(1, base), bits))
    return q, rng.integers(0, classes, len(q)), b, rng.integers(0, classes, len(b)), rng


@settings(max_examples=100, deadline=None)
@given(
    seeds,
    st.integers(1, 200),
    st.sampled_from([1, 3, 64, 65, 130]),
    st.integers(1, 50),
    st.booleans(),
    st.booleans(),
    st.sampled_from([1, 1 << 16]),
)
def test_counts_are_those_of_a_slow_loop(seed, bits, classes, chunk, multi, repeats, most):
    q, ql, b, bl, rng = random_sets(seed, bits, classes, queries=9)
    if repeats:
        kinds = rng.choice([-1, 1], (3, bits))
        q, b = kinds[rng.integers(0, 3, len(q))], kinds[rng.integers(0, 3, len(b))]
    if multi:
        ql, bl = (rng.random((len(x), classes)) < 1 / classes for x in (q, b))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lbhash.evaluation.ranking.histogram, "CHUNK", chunk)
        patch.setattr(lbhash.evaluation.ranking.histogram, "_SORTED", most)
        found = RankHistogram.from_codes(pack(q), ql, pack(b), bl, bits=bits)
    assert_counts(found, q, b, ql.astype(int) @ bl.T.astype(int) if multi else (ql[:, None] == bl).astype(int))
    assert (found.queries, found.base, found.bits) == (len(q), len(b), bits)
    assert (found.total[found.unique][found.inverse] == found.total).all()


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
    assert_counts(found, q, b, nearness(places, others))


def test_a_memory_mapped_base(tmp_path):
    q, ql, b, bl, _ = random_sets(3, 40, 3, base=400)
    np.save(tmp_path / "codes.npy", pack(b))
    np.save(tmp_path / "labels.npy", bl)
    codes, labels = (np.load(tmp_path / f"{name}.npy", mmap_mode="r") for name in ("codes", "labels"))
    assert_counts(RankHistogram.from_codes(pack(q), ql, codes, labels), q, b, (ql[:, None] == bl).astype(int))


@pytest.mark.parametrize("multi", [False, True])
def test_few_queries_share_the_base_among_the_threads(multi, monkeypatch):
    rng = np.random.default_rng(1)
    q, b = rng.integers(0, 256, (3, 8), np.uint8), rng.integers(0, 256, (70_001, 8), np.uint8)
    ql, bl = rng.integers(0, 5, 3), rng.integers(0, 5, 70_001)
    labels = (one_hot(ql, 5), one_hot(bl, 5)) if multi else (ql, bl)
    expected = RankHistogram.from_codes(q, labels[0], b, labels[1])
    monkeypatch.setattr(lbhash.evaluation.ranking.histogram, "split", lambda queries, rows: (2, 5))
    found = RankHistogram.from_codes(q, labels[0], b, labels[1])
    assert (found.total == expected.total).all()
    assert (found.graded == expected.graded).all()
    assert expected.relevant[0].sum() == (bl == ql[0]).sum()


def test_many_labels_a_row_need_wider_places():
    rng = np.random.default_rng(2)
    q, b = rng.choice([-1, 1], (2, 1024)), rng.choice([-1, 1], (30, 1024))
    ql, bl = rng.random((2, 200)) < 0.5, rng.random((30, 200)) < 0.5
    found = RankHistogram.from_codes(pack(q), ql, pack(b), bl)
    assert found.graded.shape[1] * 1025 > 1 << 16
    assert_counts(found, q, b, ql.astype(int) @ bl.T.astype(int))


@pytest.mark.parametrize(
    ("relevance", "error", "message"),
    [
        (
            lambda x, y: np.ones((1, 1)),
            ValueError,
            r"relevance returned float64 \[1, 1\]; it must return Booleans or integers",
        ),
        (lambda x, y: np.ones((2, 1), int), ValueError, r"relevance returned int64 \[2, 1\]; .*\[2, 3\]"),
        (lambda x, y: np.full((2, 3), 5000), ValueError, "they must be from 0 to 4,095"),
    ],
)
def test_bad_relevance_functions(relevance, error, message):
    codes = pack([[1, -1]] * 3)
    with pytest.raises(error, match=message):
        RankHistogram.from_codes(codes[:2], "ab", codes, "abc", relevance=relevance)


@settings(max_examples=40, deadline=None)
@given(seeds, st.integers(1, 100), st.booleans())
def test_stable_rankings_are_stable_sorts(seed, bits, multi):
    q, ql, b, bl, rng = random_sets(seed, bits, 3)
    if multi:
        ql, bl = (rng.integers(0, 2, (len(x), 5), np.uint8) for x in (q, b))
    grades = ql.astype(int) @ bl.T.astype(int) if multi else (ql[:, None] == bl).astype(int)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lbhash.evaluation.ranking.stable, "_PAIRS", 2 * len(b))
        blocks = list(stable_rankings(pack(q), ql, pack(b), bl))
    assert max(block.queries for block in blocks) <= 2
    assert all((block.total == 1).all() for block in blocks)
    order = np.argsort((q[:, None] != b).sum(axis=2), axis=1, kind="stable")
    found = [
        (graded * np.arange(1, len(graded) + 1)[:, None]).sum(axis=0) for block in blocks for graded in block.graded
    ]
    assert (np.array(found) == np.take_along_axis(grades, order, axis=1)).all()


@pytest.mark.parametrize(("bits", "multi"), [(16, True), (64, False), (1024, False)])
def test_many_tiles_and_blocks(bits, multi):
    # More queries than a block and more codes than a tile, against a product of matrices.
    rng = np.random.default_rng(bits)
    base = 20_011 if bits <= 64 else 9_001
    q, b = (rng.choice(np.array([-1, 1], np.float32), (rows, bits)) for rows in (70, base))
    ql, bl = (rng.integers(0, 7, rows) for rows in (70, base))
    distances = ((bits - q @ b.T) / 2).round().astype(int)
    shared = ql[:, None] == bl
    labels = (one_hot(ql, 70), one_hot(bl, 70)) if multi else (ql, bl)
    found = RankHistogram.from_codes(pack(q), labels[0], pack(b), labels[1], bits=bits)
    assert (found.total == [np.bincount(d, minlength=bits + 1) for d in distances]).all()
    relevant = [np.bincount(d[s], minlength=bits + 1) for d, s in zip(distances, shared, strict=True)]
    assert (found.relevant == relevant).all()
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


def test_rows_of_one_key_are_kept_apart(monkeypatch):
    monkeypatch.setattr(lbhash.codes.distinct, "row_keys", lambda rows: np.zeros(len(rows), np.uint64))
    rows = np.array([[1], [2], [1], [2], [2]], np.uint64)
    one, kind = unique_rows(rows)
    assert (rows[one][kind] == rows).all()
    held, _, weights = compress(np.repeat(rows, 9, axis=0), np.zeros(45, int))
    assert {int(code): int(weights[held[:, 0] == code].sum()) for code in (1, 2)} == {1: 18, 2: 27}


def test_large_and_unknown_class_numbers():
    codes = pack([[1, 1], [1, -1]])
    found = RankHistogram.from_codes(codes, [2**40, 7], codes, [2**40, 2**40 + 1], bits=2)
    assert found.relevant.tolist() == [[1, 0, 0], [0, 0, 0]]


CODES = pack([[1] * 12, [-1] * 12])


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: RankHistogram(CODES, [0, 1]).update(CODES[:, :1], [0, 1]), "base_codes has 1 bytes a row"),
        (lambda: RankHistogram(CODES, [0, 1]).update(CODES, [0]), "base_labels has 1 rows and base_codes has 2"),
        (lambda: RankHistogram(CODES, [0, 0.5]), r"query_labels holds float64 \[2\]; it must be class numbers"),
        (
            lambda: RankHistogram(CODES, [[0, 2], [1, 0]]),
            r"query_labels holds int64 \[2, 2\]; it must be class numbers",
        ),
        (
            lambda: RankHistogram(CODES, [0, 1]).update(CODES, [0, -1]),
            "base_labels is -1 in row 1; it must be at least",
        ),
        (
            lambda: RankHistogram(CODES, [0, 1]).update(CODES, np.eye(2)),
            r"base_labels has shape \(2, 2\) and query_labels \(2,\)",
        ),
        (
            lambda: RankHistogram(CODES, [0, 1]).merge(RankHistogram(CODES, [0, 1], bits=12)),
            "other was counted for other queries",
        ),
        (lambda: RankHistogram(CODES, [0, 1]).merge(RankHistogram(CODES, [0, 2])), "other queries"),
    ],
)
def test_errors(call, message):
    with pytest.raises(ValueError, match=message):
        call()
