"""Trials: second stages as an index has them, what a way finds and scores, and a classifier's answer."""

from __future__ import annotations

import math

import numpy as np
import pytest
from sklearn.datasets import make_blobs

from lbhash import Hasher, Index
from lbhash.data.split import EmbeddingSplit
from lbhash.hasher import fit_split
from lbhash.trials import rivals, ways
from lbhash.trials.classifier import kept, posterior
from lbhash.trials.questions import Question
from lbhash.trials.stages import after_stages
from lbhash.trials.stored import Stage
from lbhash.trials.trial import Trial

STAGES = tuple(Stage(vectors, count) for vectors in ("int8", "embeddings") for count in (5, 20))


def split(x, y=None):
    return EmbeddingSplit(x, np.arange(len(x)), y)


@pytest.fixture(scope="module")
def rows():
    x, y = make_blobs(660, 24, centers=6, cluster_std=5.0, random_state=0)
    x = x.astype(np.float32)
    return split(x[:500], y[:500]), split(x[500:620], y[500:620]), split(x[620:], y[620:])


@pytest.fixture(scope="module")
def asked(rows):
    _, base, query = rows
    return Question("new rows", base, query, stages=STAGES)


def test_a_second_stage_is_that_of_an_index(rows):
    train, base, query = rows
    hasher = fit_split(Hasher(8, method="ridge", progress=False), train, 6)
    for vectors in ("int8", "embeddings"):
        index = Index(8, vectors=vectors, learns_classes=True)
        index.add(hasher.encode(base.embeddings), vectors=base.embeddings)
        question = Question("", base, query, stages=(Stage(vectors, 20),))
        (store,) = ways.hashed(train, hasher)
        (stored,) = store(question)
        (again,) = after_stages(stored, question)
        outputs = hasher.outputs(query.embeddings)
        ids = index.search(outputs=outputs, k=10, embeddings=query.embeddings, rerank="embeddings", candidates=20).ids
        np.testing.assert_array_equal(again.find(slice(None), 10), ids)
        np.testing.assert_array_equal(np.argsort(again.scores(slice(0, 40)), axis=1, kind="stable")[:, :10], ids)
        assert (again.disk, again.memory) == (24 * (1 if vectors == "int8" else 2), 1)


@pytest.mark.parametrize(
    "fit", [ways.signs, ways.embeddings, rivals.of_any_bits, lambda rows: rivals.of_bits(rows, 16, 0)]
)
def test_a_way_finds_what_it_scores(rows, asked, fit):
    train, *_ = rows
    found = [stored for store in fit(train) for stored in store(asked)]
    assert found
    for stored in found:
        if stored.name == "usearch int8":
            continue  # its graph is approximate
        scores = stored.scores(slice(None))
        best = np.sort(scores, axis=1)[:, :10]
        assert np.take_along_axis(scores, stored.find(slice(None), 10), 1) == pytest.approx(best, abs=1e-4), stored.name


def test_candidates_come_in_the_order_of_the_cosines(rows, asked):
    train, base, query = rows
    unit = [x.embeddings / np.linalg.norm(x.embeddings, axis=1, keepdims=True) for x in (query, base)]
    cosines = unit[0] @ unit[1].T
    (store,) = ways.signs(train)
    (stored,) = store(asked)
    near = np.argsort(stored.scores(slice(None)), axis=1, kind="stable")[:, :20]
    wanted = np.argsort(-cosines, axis=1)[:, :10]
    (again,) = (one for one in after_stages(stored, asked) if (one.vectors, one.rerank) == ("embeddings", 20))
    recall = []
    for row, candidates in enumerate(near):
        first = candidates[np.argsort(-cosines[row, candidates], kind="stable")][:10]
        recall.append(len(set(first) & set(wanted[row])) / 10)
    assert asked.answers(again)["recall"].mean() == pytest.approx(np.mean(recall), abs=0.005)  # they are float16


def test_embeddings_weigh_what_an_index_keeps_of_them():
    for kind, size, whole in (("uint8", 8, 8), ("float16", 16, 16), ("float32", 16, 32), ("float64", 16, 32)):
        x = np.random.default_rng(0).integers(0, 200, (60, 8)).astype(kind)
        question = Question("", split(x), split(x), stages=(Stage("embeddings", 20),))
        assert [one.disk for one in Trial(ways.signs, split(x), (question,)).run()] == [0, size]
        assert [one.memory for one in Trial(ways.embeddings, split(x), (question,)).run()] == [whole]


@pytest.mark.parametrize("scale", [1e-30, 1e-8, 1e6, 1e30])
def test_a_second_stage_keeps_cosines_at_every_scale(scale):
    x = np.random.default_rng(0).normal(size=(60, 8)).astype(np.float32)
    usual, scaled = (
        Question("", split(part), split(part), stages=(Stage("embeddings", 20),)) for part in (x, x * np.float32(scale))
    )
    made = [
        [one.figures["recall"].mean() for one in Trial(ways.signs, question.base, (question,)).run()]
        for question in (usual, scaled)
    ]
    assert made[0] == pytest.approx(made[1], abs=0.01)
    assert made[1][1] > 0.9


def test_signs_of_more_numbers_than_an_index_takes_bits():
    rng = np.random.default_rng(0)
    base, query = rng.normal(size=(40, 1100)).astype(np.float32), rng.normal(size=(5, 1100)).astype(np.float32)
    (store,) = ways.signs(split(base))
    (alone,) = store(Question("", split(base), split(query)))
    unit = [x / np.linalg.norm(x, axis=1, keepdims=True) for x in (query, base)]
    median = np.median(unit[1], axis=0)
    slow = [[np.abs(q - median)[(q > median) != (b > median)].sum() for b in unit[1]] for q in unit[0]]
    np.testing.assert_allclose(alone.scores(slice(None)), slow, rtol=1e-5)
    assert alone.memory == 138
    np.testing.assert_array_equal(alone.find(slice(None), 3), np.argsort(slow, axis=1)[:, :3])
    (store,) = rivals.sign_bits(split(base))
    (alone,) = store(Question("", split(base), split(query)))
    slow = ((query > 0)[:, None] != (base > 0)).sum(axis=2)
    scores = alone.scores(slice(None))
    assert (np.argsort(scores, axis=1, kind="stable") == np.argsort(slow, axis=1, kind="stable")).all()
    assert np.take_along_axis(slow, alone.find(slice(None), 3), 1).tolist() == np.sort(slow, axis=1)[:, :3].tolist()


@pytest.mark.parametrize("several", [False, True])
def test_what_is_kept_of_probabilities(several):
    rng = np.random.default_rng(0)
    p = rng.dirichlet(np.full(5, 0.5), 7).astype(np.float32)
    for count in (1, 2, 4):
        found = kept(p, count, several=several)
        for row, each in zip(p, found, strict=True):
            first = sorted(range(5), key=lambda c: -row[c])[:count]
            steps = {c: round(15 * float(row[c])) / 15 for c in first}
            rest = 0 if several else max(0, 1 - sum(steps.values())) / (5 - count)
            assert each == pytest.approx([steps.get(c, rest) for c in range(5)], abs=1e-6)


def test_a_classifiers_answer_ranks_by_the_probability_of_one_class(rows, asked):
    train, _, _ = rows
    found = list(Trial(lambda part: posterior(part, 0), train, (asked,)).run())
    alone = [one for one in found if not one.vectors]
    assert [one.memory for one in alone] == [math.ceil(count * (3 + 4) / 8) for count in (1, 2, 3)]
    assert all(one.figures["map"].mean() > 0.8 for one in alone)


def test_several_labels_share_a_class_with_the_probability_that_some_is_shared(rows):
    rng = np.random.default_rng(1)
    y = (rng.random((500, 4)) < 0.4).astype(np.uint8)
    x = (y @ rng.normal(size=(4, 16)) + rng.normal(size=(500, 16))).astype(np.float32)
    train, base, query = split(x[:400], y[:400]), split(x[400:480], y[400:480]), split(x[480:], y[480:])
    question = Question("", base, query)
    (store,) = posterior(train, 0, counts=(2,))
    (stored,) = store(question)
    import torch

    from lbhash.models.hash_model import HashModel

    model = HashModel.of(fit_split(Hasher(8, method="logistic", progress=False), train, 4).model_).posterior
    with torch.inference_mode():
        q, b = (model.probabilities(torch.from_numpy(part.embeddings)).numpy() for part in (query, base))
    b = kept(b, 2, several=True)
    slow = [[math.prod(1 - one * other for one, other in zip(row, each, strict=True)) for each in b] for row in q]
    np.testing.assert_allclose(stored.scores(slice(None)), slow, atol=1e-4)
