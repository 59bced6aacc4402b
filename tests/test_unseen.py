"""Classes seen, classes never seen, and items of a class: against loops over rows."""

from __future__ import annotations

from dataclasses import replace
from itertools import permutations

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from lbhash import Hasher
from lbhash.codes import hamming_distances, pack, unpack
from lbhash.data import Dataset, load_dataset
from lbhash.data.protocols import PROTOCOLS, trained_classes
from lbhash.data.split import EmbeddingSplit
from lbhash.pipeline.unseen import evaluate_unseen
from lbhash.training.settings import grouped
from lbhash.trials import questions
from lbhash.trials.questions import Question
from lbhash.trials.stored import Stored
from test_cli import assert_refused

pytestmark = pytest.mark.end_to_end


def table(classes=6, each=(30, 15, 4), dim=12, seed=0):
    """Return train, base and query of blobs that overlap."""
    rng = np.random.default_rng(seed)
    labels = np.repeat(np.arange(classes), sum(each))
    rows = rng.standard_normal((classes, dim))[labels] + rng.standard_normal((len(labels), dim))
    place = np.tile(np.repeat(np.arange(3), each), classes)
    splits = (np.flatnonzero(place == number) for number in range(3))
    return Dataset("blobs", "flags", *(EmbeddingSplit(rows.astype(np.float32), at, labels[at]) for at in splits))


@pytest.mark.parametrize(("count", "share", "out"), [(10, 0.5, 5), (7, 0.5, 3), (10, 0.25, 2), (10, 0.8, 8)])
def test_a_share_of_the_classes_is_taken_out(count, share, out):
    labels = np.random.default_rng(1).permutation(np.repeat(3 * np.arange(count), 5))
    draws = [trained_classes(labels, seed, share) for seed in range(20)]
    assert {len(classes) for classes in draws} == {count - out}
    assert all(np.isin(classes, labels).all() and (np.diff(classes) > 0).all() for classes in draws)
    assert len({tuple(classes) for classes in draws}) > 1
    again = PROTOCOLS["unseen"].split(labels, 4)["train"]
    np.testing.assert_array_equal(np.unique(labels[again]), trained_classes(labels, 4))


@pytest.mark.parametrize(("share", "out"), [(0.1, 1), (0.9, 9)])
def test_two_classes_are_out_and_two_are_in(share, out):
    with pytest.raises(ValueError, match=f"^share is {share}, which takes {out} of 10 classes out of training; at lea"):
        trained_classes(np.arange(10), 0, share)


def test_items_of_a_class_are_looked_for_among_its_own(monkeypatch):
    rng = np.random.default_rng(2)
    labels, asked = np.array([0] * 5 + [1] * 6 + [2] * 2), np.array([0, 0, 1, 2, 3])
    x, q = rng.standard_normal((13, 4)).astype(np.float32), rng.standard_normal((5, 4)).astype(np.float32)
    base, query = pack(x[:, :2]), pack(q[:, :2])  # two bits: many ties
    distances = hamming_distances(query, base)
    means = []
    for row in range(3):  # class 2 has as few rows as are looked for, and class 3 has none
        own = np.flatnonzero(labels == asked[row])
        near = set(own[np.argsort(-x[own] @ q[row] / np.linalg.norm(x[own], axis=1))][:2])
        ranked = [order for order in permutations(own) if (np.diff(distances[row, list(order)]) >= 0).all()]
        means.append(np.mean([len(near & set(order[:2])) / 2 for order in ranked]))
    splits = EmbeddingSplit(x, np.arange(13), labels), EmbeddingSplit(q, np.arange(5), asked)
    question = Question("within", *splits, figures=("within",))
    stored = Stored("x", 2, 1, False, "", 0, 0, lambda some: distances[some], None)
    monkeypatch.setattr(questions, "NEAREST", 2)
    found = question.answers(stored)["within"]
    assert np.nanmean(found) == pytest.approx(np.mean(means))
    assert np.isnan(found).tolist() == [False, False, False, True, True]
    monkeypatch.setattr(questions, "NEAREST", 6)
    assert np.isnan(question.answers(stored)["within"]).all()


def average_precision(distances, relevant):
    """Return the mean over random orders of tied codes, by a shift that breaks ties, many times."""
    rng = np.random.default_rng(0)
    values = []
    for _ in range(1000):
        hits = relevant[np.lexsort((rng.random(len(distances)), distances))]
        values.append((np.cumsum(hits) / np.arange(1, len(hits) + 1))[hits].mean())
    return np.mean(values)


def test_each_draw_is_a_training_without_some_classes():
    data = table()
    found = evaluate_unseen(data, Hasher(6, method="itq"), draws=2, seed=5)
    for draw in range(2):
        classes = trained_classes(np.arange(6), 5 + draw)
        take = np.isin(data.train.labels, classes)
        hasher = Hasher(6, method="itq", seed=draw).fit(data.train.take(slice(None))[take])
        for name, known in (("seen_map", True), ("unseen_map", False)):
            query, base = (split.where(np.isin(split.labels, classes) == known) for split in (data.query, data.base))
            codes = [hasher.encode(split.take(slice(None))) for split in (query, base)]
            far = hamming_distances(*codes)
            mean = [average_precision(far[i], base.labels == label) for i, label in enumerate(query.labels)]
            assert found.figures[name][draw] == pytest.approx(np.mean(mean), abs=0.01)
            outputs = hasher.model_.outputs(query.take(slice(None)))
            scores = np.round(-outputs @ unpack(codes[1], 6).T.astype(float), 3)  # equal codes have equal scores
            mean = [average_precision(scores[i], base.labels == label) for i, label in enumerate(query.labels)]
            assert found.figures[f"{name}_real"][draw] == pytest.approx(np.mean(mean), abs=0.01)
        bits = [unpack(one, 6).astype(float) for one in codes]  # of the classes that are new
        probe = LogisticRegression(max_iter=1000, tol=1e-3).fit(bits[1], base.labels)
        assert found.figures["transfer_accuracy"][draw] == pytest.approx(probe.score(bits[0], query.labels))
    stored = found.as_dict()
    assert (stored["method"], stored["bits"]) == ("itq", 6)
    assert stored["unseen_map"] == pytest.approx(np.mean(found.figures["unseen_map"]))
    assert stored["draws"]["within_recall"] == list(found.figures["within_recall"])


@pytest.mark.parametrize("method", ["ridge", "greedyhash_d"])
def test_rows_of_classes_that_are_out_change_nothing(method):
    data = table()
    hasher = Hasher(**grouped(bits=8, method=method, **{} if method == "ridge" else {"epochs": 1, "hidden": 0}))
    found = evaluate_unseen(data, hasher, draws=1)
    rows = data.train.embeddings.copy()
    out = ~np.isin(data.train.labels, trained_classes(data.train.labels, 0))
    rows[data.train.rows[out]] = 1e6
    other = replace(data, train=EmbeddingSplit(rows, data.train.rows, data.train.labels))
    assert evaluate_unseen(other, hasher, draws=1).as_dict() == found.as_dict()


def test_map_looks_at_top_k_rows():
    few, more, all_of_them = (
        evaluate_unseen(table(), Hasher(8, method="itq"), draws=1, top_k=top_k).figures["seen_map"]
        for top_k in (20, 999, None)
    )
    assert few != all_of_them
    assert more == all_of_them


def test_the_command_trains_and_prints_a_table(command, json_of):
    given = ("evaluate", "--protocol", "unseen", "--data", "digits", "--bits", 12, "--draws", 2)
    found = json_of(*given, "--epochs", 1, "--method", "itq", "--method", "csq")["methods"]
    assert [(one["method"], one["bits"], len(one["draws"]["seen_map"])) for one in found] == [
        ("itq", 12, 2),
        ("csq", 12, 2),
    ]
    status, out, errors = command(*given, "--method", "itq")
    assert (status, errors) == (0, "")
    lines = [line.strip() for line in out.splitlines() if "±" in line]
    names = found[0]["draws"]
    shown = ("seen mAP ", "unseen mAP ", "transfer ", "recall@10 within ", "seen mAP, real", "unseen mAP, real")
    for line, name, label in zip(lines, names, shown, strict=True):
        assert line.startswith(label)
        assert line.endswith(f"{found[0][name]:.3f} ± {np.std(found[0]['draws'][name]):.3f}")


def test_share_and_the_settings_of_a_network_reach_it(json_of):
    given = ("evaluate", "--protocol", "unseen", "--data", "digits", "--bits", 8, "--draws", 1, "--share", 0.3)
    given += ("--epochs", 1, "--head", "joined", "--method", "csq", "--method", "itq")
    network, coder = json_of(*given)["methods"]
    for found, settings in ((network, {"method": "csq", "epochs": 1, "head": "joined"}), (coder, {"method": "itq"})):
        data = load_dataset("digits")
        assert found == evaluate_unseen(data, Hasher(**grouped(bits=8, **settings)), draws=1, share=0.3).as_dict()


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (["--protocol", "unseen"], "protocol is 'unseen', and --data is not given; methods are trained on data"),
        (
            ["--protocol", "unseen", "--data", "digits", "--radius", 2],
            "protocol is 'unseen', and --radius is 2; methods are trained",
        ),
        (
            ["--queries", "q.npz", "--base", "b.npz", "--draws", 3],
            "draws is 3, and --protocol is not given; codes are evaluated without a training",
        ),
        (["--protocol", "unseen", "--data", "digits", "--share", 0.9], "share is 0.9, which takes 9 of 10 classes"),
        (
            ["--protocol", "unseen", "--data", "digits", "--method", "itq", "--unseen", 0.5],
            "unseen is 0.5, and no method given trains a network; leave it out, or add csq",
        ),
    ],
)
def test_what_the_protocol_cannot_take_is_refused(command, given, message):
    assert_refused(command("evaluate", *given), message)
