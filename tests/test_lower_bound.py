import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lbhash.evaluation.lower_bound
from lbhash.codes import pack
from lbhash.evaluation.lower_bound import bound, quotient
from lbhash.evaluation.metrics import average_precision
from lbhash.evaluation.ranking import RankHistogram
from lbhash.utils.labels import one_hot

seeds = st.integers(0, 2**32 - 1)


def random_set(seed, bits, classes=4, most=60):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, most))
    return rng.choice([-1, 1], (n, bits)), rng.integers(0, classes, n), rng


@settings(max_examples=30, deadline=None)
@given(seeds, st.integers(1, 7))
def test_majority_is_the_code_of_least_total_distance(seed, bits):
    signs, labels, _ = random_set(seed, bits)
    found = bound(pack(signs), labels, bits=bits)
    for c in range(len(found.centers)):
        members = signs[labels == c]
        assert found.present[c] == (len(members) > 0)
        totals = [(members != np.array(code)).sum() for code in itertools.product([-1, 1], repeat=bits)]
        assert (members != found.centers[c]).sum() == min(totals)


def test_a_tie_gives_plus_one():
    found = bound(pack([[1, -1], [-1, -1]]), [2, 2], bits=2, classes=4)
    assert found.centers.tolist() == [[1, 1], [1, 1], [1, -1], [1, 1]]
    assert found.centers.dtype == np.int8
    assert found.present.tolist() == [False, False, True, False]


def slow_bound(signs, hot, percentile, inter_percentile):
    classes = [c for c in range(hot.shape[1]) if hot[:, c].any()]
    centers = {c: np.where(signs[hot[:, c] > 0].sum(axis=0) >= 0, 1, -1) for c in classes}
    intra = {c: (signs[hot[:, c] > 0] != centers[c]).sum(axis=1) for c in classes}
    inter = [(centers[a] != centers[b]).sum() for a, b in itertools.combinations(classes, 2)]
    return (
        np.percentile(inter, inter_percentile) if inter else np.nan,
        np.percentile(np.concatenate(list(intra.values())), percentile),
        [np.percentile(intra[c], percentile) if c in intra else np.nan for c in range(hot.shape[1])],
    )


@settings(max_examples=60, deadline=None)
@given(
    seeds,
    st.integers(1, 40),
    st.booleans(),
    st.sampled_from([None, 0, 37.5, 50, 99.9, 100]),
    st.sampled_from([None, 0, 12.5, 100]),
    st.sampled_from([1, 7, 8192]),
)
def test_bound_is_that_of_a_slow_one(seed, bits, multi, percentile, inter_percentile, chunk):
    signs, labels, rng = random_set(seed, bits)
    hot = one_hot(labels, 5)
    if multi:
        hot |= rng.random(hot.shape) < 0.3
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lbhash.evaluation.lower_bound, "_CHUNK", chunk)
        found = bound(
            pack(signs), hot if multi else labels, percentile, inter_percentile=inter_percentile, classes=5, bits=bits
        )
    inter, intra, per_class = slow_bound(
        signs, hot, 100 if percentile is None else percentile, 0 if inter_percentile is None else inter_percentile
    )
    np.testing.assert_allclose(found.inter, inter)
    np.testing.assert_allclose(found.intra, intra)
    np.testing.assert_allclose(found.intra_per_class, per_class)
    with np.errstate(all="ignore"):
        np.testing.assert_allclose(found.ratio, np.divide(inter, intra))


def test_codes_on_their_centers():
    found = bound(pack([[1, 1, 1], [1, 1, 1], [-1, -1, 1]]), [0, 0, 1])
    assert (found.inter, found.intra, found.ratio) == (2, 0, np.inf)
    assert found.inter_matrix().tolist() == [[0, 2], [2, 0]]
    assert np.isnan(bound(pack([[1, 1], [1, 1]]), [0, 1]).ratio)


def test_one_class_has_no_inter():
    found = bound(pack([[1, 1], [1, -1]]), [0, 0])
    assert np.isnan(found.inter)
    assert np.isnan(found.ratio)
    assert found.intra == 1


def test_rows_without_labels_count_nowhere():
    found = bound(pack([[1, 1], [-1, -1]]), np.zeros((2, 3)))
    assert np.isnan([found.inter, found.intra, found.ratio]).all()
    assert not found.present.any()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda c: bound(c, [0]), "labels has 1 rows and codes has 2"),
        (lambda c: bound(c[:0], []), "codes is empty"),
        (lambda c: bound(c, [0, 1], percentile=101), "percentile is 101; it must be from 0 to 100"),
        (lambda c: bound(c, [0, 4], classes=4), "with classes 4 it must be from 0 to 3"),
    ],
)
def test_errors(call, message):
    with pytest.raises(ValueError, match=message):
        call(pack([[1, 1], [1, -1]]))


def test_quotients():
    assert quotient(3, 4) == 0.75
    assert quotient(3, 0) == np.inf
    assert np.isnan([quotient(0, 0), quotient(np.nan, 0), quotient(None, 1), quotient(1, None)]).all()


# ------------------------------------------------------------------- what the distances say of the average precision


def worst_average_precision(signs, labels):
    """Return the AP of every row as a query to all rows, at the worst order of ties."""
    codes = pack(signs)
    return average_precision(RankHistogram.from_codes(codes, labels, codes, labels), ties="worst")


def slow_floor(signs, labels, centers):
    """Return (1/K) Σ_k k / (k + N_k) of every row as a query to all rows (docs/evaluation.md)."""
    radius = [int((row != centers[y]).sum()) for row, y in zip(signs, labels, strict=True)]
    floors = []
    for q, y in enumerate(labels):
        near = sorted(radius[i] for i in range(len(labels)) if labels[i] == y)
        margins = [
            int((centers[y] != centers[labels[i]]).sum()) - radius[i] - 2 * radius[q]
            for i in range(len(labels))
            if labels[i] != y
        ]
        terms = [k / (k + sum(margin <= r for margin in margins)) for k, r in enumerate(near, start=1)]
        floors.append(sum(terms) / len(terms))
    return np.array(floors)


@settings(max_examples=150, deadline=None)
@given(seeds, st.integers(4, 40), st.integers(2, 4), st.floats(0, 0.3))
def test_average_precision_is_bounded_by_the_distances_to_centers(seed, bits, classes, noise):
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, classes, 24)
    designed = rng.choice([-1, 1], (classes, bits))
    signs = designed[labels] * np.where(rng.random((24, bits)) < noise, -1, 1)
    found = bound(pack(signs), labels, classes=classes, bits=bits)
    precision = worst_average_precision(signs, labels)
    assert (precision >= slow_floor(signs, labels, found.centers) - 1e-12).all()
    if found.ratio > 4:
        np.testing.assert_allclose(precision, 1)


@pytest.mark.parametrize("count", [10, 1000])
def test_the_ratio_alone_bounds_nothing(count):
    rim = [1, 1, 1, 1, -1, -1, -1, -1]
    signs = np.array([[1] * 8] * 3 + [rim] + [[-1] * 8] * count + [rim] * (count - 1))
    labels = np.repeat([0, 1], [4, 2 * count - 1])
    assert bound(pack(signs), labels).ratio == 2
    assert worst_average_precision(signs, labels)[3] < 4 / count


@pytest.mark.parametrize("apart", [11, 6, 1, 0])
@pytest.mark.parametrize("count", [10, 1000])
def test_no_ratio_below_four_is_enough(count, apart):
    """D_inter is below 4r and D_intra r, here 3; the query lies toward the other center, and its class elsewhere."""
    r = 3
    bits = apart + 3 * r
    first, second = np.ones(bits, int), np.where(np.arange(bits) < apart, -1, 1)
    query, wrong = first.copy(), second.copy()
    turned = min(r, apart // 2)
    query[:turned] *= -1
    wrong[turned : min(turned + r, apart)] *= -1  # toward the query
    away = [first.copy() for _ in range(3)]
    for k, code in enumerate(away):
        code[apart + r * k : apart + r * (k + 1)] *= -1
    base = pack(np.array(away + [wrong] * count + [second] * (count + 1)))
    labels = np.repeat([0, 1], [3, 2 * count + 1])
    for codes, of in ((base, labels), (np.concatenate([pack(query[None]), base]), np.concatenate([[0], labels]))):
        found = bound(codes, of)  # with the query in the majority, and without
        assert (found.inter, found.intra) == (apart, r)
    precision = average_precision(RankHistogram.from_codes(pack(query[None]), [0], base, labels))
    assert precision[0] < 4 / count
