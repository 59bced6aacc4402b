import json
import math

import numpy as np
import pytest

from lbhash.bound import bound
from lbhash.codes import pack
from lbhash.evaluation import evaluate
from lbhash.labels import one_hot
from lbhash.metrics import mean_average_precision, precision_within, recall_within
from lbhash.ranking import RankHistogram
from lbhash.recognition import knn_accuracy

RNG = np.random.default_rng(0)
QUERIES, BASE = (pack(RNG.choice([-1, 1], (n, 12))) for n in (9, 150))
QUERY_LABELS, BASE_LABELS = np.append(RNG.integers(0, 3, 8), 9), RNG.integers(0, 3, 150)


@pytest.mark.parametrize("empty", ["skip", "zero"])
@pytest.mark.parametrize("normalize", ["retrieved", "all"])
def test_report_is_what_its_parts_give(empty, normalize):
    report = evaluate(QUERIES, QUERY_LABELS, BASE, BASE_LABELS, at=40, k=7, bits=12, normalize=normalize, empty=empty)
    hist = RankHistogram.from_codes(QUERIES, QUERY_LABELS, BASE, BASE_LABELS, bits=12)
    assert report.map == mean_average_precision(hist, 40, "expected", normalize, empty)
    assert report.map_best == mean_average_precision(hist, 40, "best", normalize, empty)
    assert report.map_worst == mean_average_precision(hist, 40, "worst", normalize, empty)
    assert report.map_worst < report.map < report.map_best
    share = 8 / 9 if empty == "zero" else 1
    assert report.precision_within_radius == pytest.approx(precision_within(hist, 2)[:8].mean() * share)
    assert report.recall_within_radius == pytest.approx(recall_within(hist, 2)[:8].mean() * share)
    assert report.curve.precision[2] == pytest.approx(report.precision_within_radius)
    assert report.curve.recall[2] == pytest.approx(report.recall_within_radius)
    assert report.knn_accuracy == knn_accuracy(QUERIES, QUERY_LABELS, BASE, BASE_LABELS, 7)
    assert report.bound.ratio == bound(BASE, BASE_LABELS, bits=12).ratio
    assert (report.at, report.k, report.bits, report.queries, report.base) == (40, 7, 12, 9, 150)
    assert report.empty_queries == 1


def test_multi_label_form_gives_the_same_without_recognition():
    single = evaluate(QUERIES, QUERY_LABELS, BASE, BASE_LABELS)
    multi = evaluate(QUERIES, one_hot(QUERY_LABELS, 10), BASE, one_hot(BASE_LABELS, 10))
    assert multi.map == single.map
    assert multi.bound.ratio == single.bound.ratio
    assert multi.knn_accuracy is None
    assert single.knn_accuracy is not None


def test_perfect_codes():
    codes = pack([[1] * 8, [-1] * 8])
    report = evaluate(codes, [0, 1], codes[[0, 0, 1]], [0, 0, 1])
    assert report.map == report.map_best == report.map_worst == 1
    assert report.knn_accuracy == 0.5  # the whole base votes, and class 0 has more codes in it
    assert (report.k, report.at) == (3, 3)
    assert math.isinf(report.bound.ratio)
    assert report.as_dict()["bound"] == {"inter": 8.0, "intra": 0.0, "ratio": None}


def test_as_dict_is_json():
    report = evaluate(QUERIES, QUERY_LABELS, BASE, np.zeros(150, int), at=10)
    text = json.dumps(report.as_dict(), allow_nan=False)
    assert json.loads(text)["bound"]["inter"] is None
    assert json.loads(text)["map"] == report.map
    assert len(json.loads(text)["curve"]["recall"]) == 17


def test_base_order_does_not_matter():
    order = np.random.default_rng(1).permutation(150)
    left = evaluate(QUERIES, QUERY_LABELS, BASE, BASE_LABELS, at=33)
    right = evaluate(QUERIES, QUERY_LABELS, BASE[order], BASE_LABELS[order], at=33)
    assert left.as_dict() == right.as_dict()


GOOD = {"query_codes": QUERIES, "query_labels": QUERY_LABELS, "base_codes": BASE, "base_labels": BASE_LABELS}


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"query_codes": QUERIES.astype(int)}, TypeError, "query_codes holds int64; packed codes are uint8"),
        ({"base_codes": BASE.ravel()}, ValueError, "base_codes has shape"),
        ({"query_codes": QUERIES[:, :1]}, ValueError, "query_codes has 1 bytes a row and base_codes has 2"),
        ({"query_labels": QUERY_LABELS[1:]}, ValueError, "query_labels has 8 rows and query_codes has 9"),
        ({"base_labels": BASE_LABELS[1:]}, ValueError, "base_labels has 149 rows and base_codes has 150"),
        (
            {"base_labels": one_hot(BASE_LABELS)},
            ValueError,
            "query_labels is single-label .* base_labels is multi-label",
        ),
        (
            {"query_labels": one_hot(QUERY_LABELS), "base_labels": one_hot(BASE_LABELS)},
            ValueError,
            "query_labels has 10 label columns and base_labels has 3",
        ),
        ({"query_codes": QUERIES[:0], "query_labels": []}, ValueError, "query_codes is empty"),
        ({"base_codes": BASE[:0], "base_labels": []}, ValueError, "base_codes is empty"),
        ({"at": 0}, ValueError, r"at is 0; it must be from 1 to the size of the base \(150\)"),
        ({"at": 151}, ValueError, "at is 151"),
        ({"at": 2.5}, TypeError, "at is 2.5"),
        ({"k": 0}, ValueError, "k is 0; it must be at least 1"),
        ({"radius": 17}, ValueError, "radius is 17"),
        ({"radius": -1}, ValueError, "radius is -1"),
        ({"radius": 1.0}, TypeError, "radius is 1.0"),
        ({"normalize": "x"}, ValueError, "normalize is 'x'"),
        ({"empty": "x"}, ValueError, "empty is 'x'"),
        ({"bits": 11}, ValueError, "beyond the first 11"),
        ({"bits": 24}, ValueError, "base_codes has 2 bytes a row; codes of 24 bits have 3"),
        ({"query_labels": QUERY_LABELS + 50}, ValueError, "no base code is relevant to any query"),
    ],
)
def test_errors_are_one_clear_line(change, error, message):
    with pytest.raises(error, match=message) as caught:
        evaluate(**{**GOOD, **change})
    assert "\n" not in str(caught.value)
