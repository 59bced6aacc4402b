import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lbhash.codes import pack
from lbhash.labels import one_hot
from lbhash.ranking import RankHistogram, distance_counts

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
@given(seeds, st.integers(1, 200), st.integers(1, 4), st.integers(1, 50))
def test_single_label_is_that_of_a_slow_one(seed, bits, classes, chunk):
    q, ql, b, bl, _ = random_sets(seed, bits, classes)
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


@pytest.mark.parametrize("bits", [16, 64, 100, 256, 1024])
@pytest.mark.parametrize("multi", [False, True])
def test_many_tiles_and_blocks(bits, multi):
    # More queries than a block and more codes than a tile, against a product of matrices.
    rng = np.random.default_rng(bits)
    base = 20_011 if bits <= 64 else 9_001
    q, b = (
        rng.choice(np.array([-1, 1], np.float32), (37, bits)),
        rng.choice(np.array([-1, 1], np.float32), (base, bits)),
    )
    ql, bl = (one_hot(rng.integers(0, 7, n), 70) for n in (37, base))
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
        assert (other.relevant == whole.relevant).all()


@settings(max_examples=20, deadline=None)
@given(seeds)
def test_single_label_equals_its_one_hot_form(seed):
    q, ql, b, bl, _ = random_sets(seed, 70, 5)
    single = RankHistogram.from_codes(pack(q), ql, pack(b), bl)
    multi = RankHistogram.from_codes(pack(q), one_hot(ql, 5), pack(b), one_hot(bl, 5))
    assert (single.relevant == multi.relevant).all()


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
