import json
import math
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lbhash.codes import pack, unpack
from lbhash.evaluation.lower_bound import bound
from lbhash.evaluation.neighbors import evaluate_neighbors
from lbhash.evaluation.ranking import RankHistogram
from lbhash.evaluation.recognition import knn_predict, linear_probe_predict
from lbhash.evaluation.report import evaluate, evaluate_parts, metrics
from lbhash.utils.labels import one_hot

RNG = np.random.default_rng(0)
QUERIES, BASE = (pack(RNG.choice([-1, 1], (n, 12))) for n in (9, 150))
QUERY_LABELS, BASE_LABELS = np.append(RNG.integers(0, 3, 8), 9), RNG.integers(0, 3, 150)


def test_queries_come_first():
    with pytest.raises(ValueError, match=r"^150 queries and 9 base codes are given by position; queries come first"):
        evaluate(BASE, BASE_LABELS, QUERIES, QUERY_LABELS)
    named = {"base_codes": QUERIES, "base_labels": QUERY_LABELS}
    assert evaluate(BASE, BASE_LABELS, **named).queries == 150
    assert evaluate(QUERIES, QUERY_LABELS, QUERIES, QUERY_LABELS).queries == 9


def test_a_report_as_text_and_as_a_table():
    report = evaluate(QUERIES, QUERY_LABELS, BASE, BASE_LABELS, 40, bits=12)
    lines = repr(report).splitlines()
    assert len(lines) == 5
    assert max(map(len, lines)) <= 100
    assert lines[0].startswith(f"mAP@40 {report.map:.4f}, ties expected")
    assert lines[-1] == "9 queries, 150 base codes, 12 bits"
    table = report.to_pandas()
    assert len(table) == 1
    row = table.iloc[0]
    assert (row["map"], row["bits"], row["ties"], row["ratio"]) == (report.map, 12, "expected", report.bound.ratio)
    assert row["recall_at_100"] == report.recall_at[2]
    assert pd.concat([table, table]).shape == (2, table.shape[1])


@pytest.mark.parametrize("empty", ["skip", "zero"])
@pytest.mark.parametrize("multi", [False, True])
def test_every_figure_is_that_of_its_metric(empty, multi):
    rng = np.random.default_rng(4)
    labels = (rng.random((9, 5)) < 0.4, rng.random((150, 5)) < 0.4) if multi else (QUERY_LABELS, BASE_LABELS)
    if multi:
        labels[0][8] = False
        labels[0][:8, 0] = True
    normalize = "all" if empty == "zero" else "retrieved"
    options = {"top_k": 40, "ranks": [100, 3, 3], "radius": 3, "k": 7, "normalize": normalize, "empty": empty}
    report = evaluate(QUERIES, labels[0], BASE, labels[1], bits=12, **options)
    hist = RankHistogram.from_codes(QUERIES, labels[0], BASE, labels[1], bits=12)

    def mean(values):
        assert not np.isnan(values[:8]).any()
        return values[:8].mean() if empty == "skip" else np.append(values[:8], np.nan_to_num(values[8])).mean()

    for name, ties in (("map", "expected"), ("map_best", "best"), ("map_worst", "worst")):
        assert getattr(report, name) == metrics.mean_over_queries(
            metrics.average_precision(hist, 40, ties, normalize), empty
        )
    assert report.map_worst < report.map < report.map_best
    assert report.bound.ratio == bound(BASE, labels[1], bits=12).ratio
    voted = None if multi else np.mean(knn_predict(QUERIES, BASE, BASE_LABELS, 7) == QUERY_LABELS)
    assert report.knn_accuracy == voted
    assert (report.top_k, report.k, report.bits, report.queries, report.base) == (40, 7, 12, 9, 150)
    assert report.ranks == (3, 100)
    for place, rank in enumerate(report.ranks):
        assert report.precision_at[place] == pytest.approx(mean(metrics.precision_at(hist, rank)))
        assert report.recall_at[place] == pytest.approx(mean(metrics.recall_at(hist, rank)))
        assert report.f1_at[place] == pytest.approx(mean(metrics.f1_at(hist, rank)))
    assert report.r_precision == pytest.approx(mean(metrics.r_precision(hist)))
    assert report.mean_misrank == pytest.approx(metrics.mean_misrank(hist)[:8].mean())
    assert report.ndcg == pytest.approx(mean(metrics.ndcg_at(hist, 40)))
    assert report.acg == pytest.approx(mean(metrics.acg_at(hist, 40)))
    assert report.wap == pytest.approx(mean(metrics.weighted_average_precision(hist, 40, normalize)))
    assert report.map_floor == pytest.approx(mean(metrics.average_precision_floor(hist)))
    assert report.empty_within_radius == pytest.approx(metrics.empty_within(hist, 3)[: 9 - (empty == "skip")].mean())
    assert report.precision_within_radius == pytest.approx(mean(metrics.precision_within(hist, 3)))
    curve = metrics.precision_recall_curve(hist, "rank", empty=empty)
    np.testing.assert_allclose(report.rank_curve.precision, curve.precision)
    np.testing.assert_allclose(report.rank_curve.recall, curve.recall)
    assert report.curve.precision[3] == pytest.approx(report.precision_within_radius)
    assert report.curve.recall[3] == pytest.approx(report.recall_within_radius)
    assert (report.largest_grade > 1) == multi
    assert report.empty_queries == 1


@pytest.mark.parametrize("multi", [False, True])
def test_stable_ties_are_in_the_order_of_the_base(multi):
    labels = (one_hot(QUERY_LABELS, 10), one_hot(BASE_LABELS, 10)) if multi else (QUERY_LABELS, BASE_LABELS)
    report = evaluate(QUERIES, labels[0], BASE, labels[1], top_k=40, bits=12, ranks=[5], ties="stable")
    distances = (unpack(QUERIES, 12)[:, None] != unpack(BASE, 12)).sum(axis=2)
    aps, precisions = [], []
    for i in range(8):
        ranked = (QUERY_LABELS[i] == BASE_LABELS)[np.argsort(distances[i], kind="stable")]
        hits = np.flatnonzero(ranked[:40]) + 1
        aps.append(np.mean(np.arange(1, len(hits) + 1) / hits) if len(hits) else 0.0)
        precisions.append(ranked[:5].mean())
    assert report.map == pytest.approx(np.mean(aps))
    assert report.precision_at[0] == pytest.approx(np.mean(precisions))
    plain = evaluate(QUERIES, labels[0], BASE, labels[1], top_k=40, bits=12, ranks=[5])
    assert report.ties == "stable"
    assert report.map != plain.map
    assert (report.map_worst, report.map_best) == (plain.map_worst, plain.map_best)
    assert report.map_worst <= report.map <= report.map_best
    order = np.random.default_rng(1).permutation(150)
    other = evaluate(QUERIES, labels[0], BASE[order], np.asarray(labels[1])[order], top_k=40, bits=12, ties="stable")
    assert other.map != report.map


@pytest.mark.parametrize("classes", [2, 3])
def test_a_column_of_labels_is_a_vector(classes):
    rng = np.random.default_rng(0)
    (q, ql), (b, bl) = ((rng.integers(0, 256, (n, 2), np.uint8), rng.integers(0, classes, n)) for n in (20, 90))
    expected = evaluate(q, ql, b, bl)
    for queries, base in ((ql[:, None], bl[:, None]), (ql, bl[:, None]), (ql[:, None], bl)):
        assert evaluate(q, queries, b, base).as_dict() == expected.as_dict()


def test_class_numbers_may_be_far_apart():
    near = evaluate(QUERIES, QUERY_LABELS, BASE, BASE_LABELS)
    far = evaluate(QUERIES, QUERY_LABELS * 10**15 + 7, BASE, BASE_LABELS * 10**15 + 7)
    of_far, of_near = far.as_dict(), near.as_dict()
    of_near["by_class"]["label"] = [label * 10**15 + 7 for label in of_near["by_class"]["label"]]
    assert of_far == of_near


@pytest.mark.parametrize("form", [list, np.array, lambda names: np.array(names, object), pd.Series])
def test_labels_may_be_names(form):
    names = np.array(["cat", "dog", "bird", "emu"])
    queries, base = names[np.minimum(QUERY_LABELS, 3)].tolist(), names[BASE_LABELS].tolist()
    order = sorted({*queries, *base})
    numbers = [[order.index(name) for name in labels] for labels in (queries, base)]
    wanted = evaluate(QUERIES, numbers[0], BASE, numbers[1], bits=12)
    named = wanted.by_class._replace(label=np.array(order)[wanted.by_class.label])
    assert_same_report(evaluate(QUERIES, form(queries), BASE, form(base), bits=12), replace(wanted, by_class=named))
    assert bound(BASE, form(base), bits=12).ratio == bound(BASE, BASE_LABELS, bits=12).ratio
    several = [[[name] for name in labels] for labels in (queries, base)]
    assert evaluate(QUERIES, several[0], BASE, several[1], bits=12).map == wanted.map
    with pytest.raises(ValueError, match="query_labels are text, such as 'bird', and those of base_labels are numbers"):
        evaluate(QUERIES, form(queries), BASE, BASE_LABELS, bits=12)


@pytest.mark.parametrize("several", [False, True])
@pytest.mark.parametrize("empty", ["skip", "zero"])
def test_figures_of_each_class_are_those_of_its_queries_alone(several, empty):
    asked, held = (np.eye(5, dtype=np.uint8)[labels] for labels in (np.minimum(QUERY_LABELS, 4), BASE_LABELS))
    if several:  # and a second label each, the next class
        asked, held = asked | np.roll(asked, 1, axis=1), held | np.roll(held, 1, axis=1)
    labels = (asked, held) if several else (asked.argmax(axis=1), held.argmax(axis=1))
    found = evaluate(QUERIES, labels[0], BASE, labels[1], bits=12, empty=empty).by_class
    values = {}
    for label in range(5):
        ours = asked[:, label] == 1
        if empty == "skip":
            ours &= (asked @ held.T).any(axis=1)
        if ours.any():
            related = (asked[ours] @ held.T).any()
            alone = evaluate(QUERIES[ours], labels[0][ours], BASE, labels[1], bits=12, empty=empty) if related else None
            chance = (asked[ours] @ held.T > 0).mean()
            values[label] = (ours.sum(), held[:, label].sum(), alone.map if alone else 0.0, chance)
    assert found.label.tolist() == list(values)
    np.testing.assert_allclose(np.transpose(found[1:]), [*values.values()])
    whole = evaluate(QUERIES, labels[0], BASE, labels[1], bits=12, empty=empty)
    assert whole.map_macro == pytest.approx(np.mean([value for _, _, value, _ in values.values()]))


def test_a_linear_probe_on_request():
    report = evaluate(QUERIES, QUERY_LABELS, BASE, BASE_LABELS, bits=12, probe=True)
    assert report.probe_accuracy == np.mean(linear_probe_predict(QUERIES, BASE, BASE_LABELS, 12) == QUERY_LABELS)
    assert evaluate(QUERIES, QUERY_LABELS, BASE, BASE_LABELS).probe_accuracy is None
    with pytest.raises(ValueError, match="probe is True, and the labels are multi-label"):
        evaluate(QUERIES, one_hot(QUERY_LABELS, 10), BASE, one_hot(BASE_LABELS, 10), probe=True)


def test_perfect_codes():
    codes = pack([[1] * 8, [-1] * 8])
    report = evaluate(codes, [0, 1], codes[[0, 0, 1]], [0, 0, 1])
    assert report.map == report.map_best == report.map_worst == 1
    assert report.knn_accuracy == 1  # of all three codes class 0 would have more votes
    assert (report.k, report.top_k) == (1, 3)
    assert math.isinf(report.bound.ratio)
    assert report.as_dict()["bound"] == {"inter": 8.0, "intra": 0.0, "ratio": None}


def test_as_dict_is_json():
    report = evaluate(QUERIES, QUERY_LABELS, BASE, np.zeros(150, int), top_k=10)
    text = json.dumps(report.as_dict(), allow_nan=False)
    assert json.loads(text)["bound"]["inter"] is None
    assert json.loads(text)["map"] == report.map
    assert len(json.loads(text)["curve"]["recall"]) == 17


GOOD = {"query_codes": QUERIES, "query_labels": QUERY_LABELS, "base_codes": BASE, "base_labels": BASE_LABELS}


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"query_codes": QUERIES[:, :1]}, ValueError, "base_codes has 2 bytes a row and query_codes has 1"),
        ({"query_labels": QUERY_LABELS[1:]}, ValueError, "query_labels has 8 rows and query_codes has 9"),
        (
            {"base_labels": one_hot(BASE_LABELS, 10)},
            ValueError,
            "base_labels has several labels a row, and query_labels",
        ),
        ({"base_codes": BASE[:0], "base_labels": []}, ValueError, "base_codes is empty"),
        ({"top_k": 2.5}, TypeError, "top_k is 2.5"),
        ({"ranks": [1, 151]}, ValueError, r"ranks is 151; it must be from 1 to the size of the base \(150\)"),
        ({"ties": "best"}, ValueError, "ties is 'best'; it must be one of expected, stable"),
        ({"bits": 24}, ValueError, "base_codes has 2 bytes a row; codes of 24 bits have 3"),
        ({"query_labels": QUERY_LABELS + 50}, ValueError, "no base code is relevant to any query"),
    ],
)
def test_errors_are_one_clear_line(change, error, message):
    with pytest.raises(error, match=message) as caught:
        evaluate(**{**GOOD, **change})
    assert "\n" not in str(caught.value)


def test_codes_of_a_column_a_bit_are_not_taken_for_packed_ones(capsys):
    bits = np.random.default_rng(0).integers(0, 2, (60, 16)).astype(np.uint8)
    labels = np.arange(60) % 3
    found = evaluate(bits[:20], labels[:20], bits[20:], labels[20:])
    said = "query_codes hold only 0 and 1, and are taken for 16 columns of a bit; bits 128 takes them for packed codes"
    assert said in capsys.readouterr().err
    packed = evaluate(bits[:20], labels[:20], bits[20:], labels[20:], bits=128)
    assert (found.bits, packed.bits) == (16, 128)
    assert found.map == packed.map  # every distance is the same
    assert capsys.readouterr().err == ""
    few = np.array([[0] * 16, [1] * 16], np.uint8)  # only 0 and 1, beside a base that has more
    packed = np.packbits(np.random.default_rng(1).integers(0, 2, (60, 128)), axis=1)
    assert evaluate(few, [0, 1], packed, labels).bits == 128
    zeros = np.zeros((60, 8), np.uint8)
    assert evaluate(zeros[:20], labels[:20], zeros[20:], labels[20:]).bits == 64


FORMS = {
    "±1": lambda signs: signs.astype(np.int64),
    "floats of ±1": lambda signs: signs.astype(float),
    "Booleans": lambda signs: signs > 0,
    "0 and 1": lambda signs: (signs > 0).astype(int),
    "floats of 0 and 1": lambda signs: (signs > 0).astype(np.float32),
    "lists": lambda signs: signs.tolist(),
    "0 and 1 of 8 bits": lambda signs: (signs > 0).astype(np.uint8),
    "packed": pack,
}


@pytest.mark.parametrize("bits", [12, 200])
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("base_form", ["packed", None])
def test_codes_of_any_form(form, base_form, bits):
    """As the command takes them; also if queries and base are not of one form."""
    if bits % 8 and form == "packed":
        pytest.skip("nothing says the length")
    rng = np.random.default_rng(bits)
    queries, base = rng.choice([-1, 1], (20, bits)), rng.choice([-1, 1], (60, bits))
    wanted, labels = np.arange(20) % 3, np.arange(60) % 3
    given_codes = FORMS[form](queries), FORMS[base_form or form](base)
    found = evaluate(given_codes[0], wanted, given_codes[1], labels)
    assert_same_report(found, evaluate(pack(queries), wanted, pack(base), labels, bits=bits))
    rows = base.astype(float)
    neighbors = evaluate_neighbors(given_codes[0], queries, given_codes[1], rows, bits=bits)
    assert neighbors == evaluate_neighbors(pack(queries), queries, pack(base), rows, bits=bits)
    assert bound(FORMS[form](base), labels, bits=bits).ratio == bound(pack(base), labels, bits=bits).ratio


def assert_same_report(found, whole):
    assert found.as_dict() == whole.as_dict()
    for name in ("centers", "present", "intra_counts", "inter_counts", "intra_per_class"):
        np.testing.assert_array_equal(getattr(found.bound, name), getattr(whole.bound, name))


@settings(max_examples=40, deadline=None)
@given(
    st.integers(0, 2**32 - 1),
    st.sampled_from([9, 70]),
    st.sampled_from(["single", "far apart", "multi"]),
    st.sampled_from([25, 1 << 20]),
)
def test_a_base_in_parts_has_the_report_of_the_whole(seed, queries, kind, chunk):
    rng = np.random.default_rng(seed)
    codes = pack(rng.choice([-1, 1], (queries + 150, 12)))
    labels = rng.integers(0, 5, len(codes)) * (10**12 if kind == "far apart" else 1)
    labels[0] += 1  # a class that the base may not have
    if kind == "multi":
        labels = (rng.random((len(codes), 5)) < 0.4).astype(np.uint8)
        labels[:, 0] = 1
    asked = codes[:queries], labels[:queries]
    base, named = codes[queries:], labels[queries:]
    cuts = np.sort(rng.integers(0, 151, 3))
    parts = list(zip(np.split(base, cuts), np.split(named, cuts), strict=True))
    options = {"top_k": 40, "bits": 12, "k": 7, "ranks": [3], "normalize": "all", "empty": "zero"}
    whole = evaluate(*asked, base, named, **options)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("lbhash.evaluation.parts.CHUNK", chunk)
        assert_same_report(evaluate_parts(*asked, parts, **options), whole)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"ties": "stable"}, "ties is 'stable', which needs the base in one part; it is in 2"),
        ({"probe": True}, "probe is True, which needs the base in one part; it is in 2"),
    ],
)
def test_what_parts_do_not_add_up_to_is_refused(options, message):
    parts = [(BASE[:50], BASE_LABELS[:50]), (BASE[50:], BASE_LABELS[50:])]
    with pytest.raises(ValueError, match=message):
        evaluate_parts(QUERIES, QUERY_LABELS, parts, bits=12, **options)
    with pytest.raises(ValueError, match="base_codes is empty"):
        evaluate_parts(QUERIES, QUERY_LABELS, [], bits=12)
