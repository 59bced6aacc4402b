"""What a user would pick instead: scores, contenders, page and command."""

from __future__ import annotations

import csv
from itertools import permutations

import numpy as np
import pytest
from benchmarks.experiments import alternatives, contenders
from benchmarks.experiments.alternatives import Run
from benchmarks.experiments.data import Data
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from lbhash import evaluate
from lbhash.codes import hamming_distances
from lbhash.data import load_dataset
from lbhash.evaluation.metrics import average_precision
from lbhash.evaluation.neighbors import expected_recall
from lbhash.evaluation.ranking import ranking_of
from lbhash.index import FlatIndex, rerank
from lbhash.utils.parallel import write_run


def orders(scores):
    """All rankings by a score, each order of equal ones."""
    return [order for order in permutations(range(len(scores))) if (np.diff(scores[list(order)]) >= 0).all()]


def slow_average(order, relevant, at):
    ranks = [rank for rank, place in enumerate(order[:at], start=1) if relevant[place]]
    return sum(found / rank for found, rank in enumerate(ranks, start=1)) / len(ranks) if ranks else 0.0


@st.composite
def few_scores(draw):
    count = draw(st.integers(1, 6))
    values = hnp.arrays(np.int32, (2, count), elements=st.integers(-2, 1))
    scores = draw(values)
    if draw(st.booleans()):
        scores = (scores / 7).astype(np.float32)
    k = draw(st.integers(1, count))
    wanted = np.array([draw(st.permutations(range(count)))[:k] for _ in range(2)])
    return scores, draw(hnp.arrays(bool, (2, count))), k, wanted


@given(few_scores())
@settings(max_examples=60, deadline=None)
def test_average_precision_is_the_mean_over_all_orders_of_ties(drawn):
    scores, relevant, at, _ = drawn
    found = average_precision(ranking_of(scores, relevant), at)
    for row, hits, value in zip(scores, relevant, found, strict=True):
        if not hits.any():
            assert np.isnan(value)
            continue
        assert value == pytest.approx(np.mean([slow_average(order, hits, at) for order in orders(row)]))


@given(few_scores())
@settings(max_examples=60, deadline=None)
def test_recall_is_the_mean_over_all_orders_of_ties(drawn):
    scores, _, k, wanted = drawn
    found = expected_recall(scores, wanted)
    for row, those, value in zip(scores, wanted, found, strict=True):
        slow = np.mean([len(set(order[:k]) & set(those.tolist())) / k for order in orders(row)])
        assert value == pytest.approx(slow)


# ----------------------------------------------------------------------------------------------------- the contenders


@pytest.fixture(scope="module")
def files(blobs, write_parquet, tmp_path_factory):
    """The blobs with a label a row, and with several."""
    folder = tmp_path_factory.mktemp("blobs")
    x = np.concatenate([blobs.x, blobs.query_x])
    query = np.arange(len(x)) >= len(blobs.x)
    flags = {"in_train": ~query, "in_base": ~query, "in_query": query}
    hot = np.concatenate([blobs.hot, blobs.query_hot])
    return {
        "one": write_parquet(folder / "one.parquet", x, label=np.concatenate([blobs.y, blobs.query_y]), **flags),
        "several": write_parquet(
            folder / "several.parquet", x, labels=[np.flatnonzero(row).tolist() for row in hot], **flags
        ),
    }


@pytest.fixture(scope="module")
def work(files):
    return contenders.Work(load_dataset(files["one"]), seed=1)


@pytest.fixture(scope="module")
def csq(work):
    return {one.name: one for one in contenders.lbhash_codes(work, 16, 0, 2)}


def everything(contender, work):
    return contender.scores(slice(0, len(work.query)))


def test_the_base_is_reordered_with_its_labels(work, blobs):
    assert work.stored.tolist() != blobs.x.tolist()
    place = {row.tobytes(): label for row, label in zip(blobs.x, blobs.y, strict=True)}
    assert [place[row.tobytes()] for row in work.stored] == work.base_labels.tolist()
    np.testing.assert_allclose(np.linalg.norm(work.base, axis=1), 1, rtol=1e-5)


@pytest.mark.parametrize("at", [None, 25])
@pytest.mark.parametrize("kind", ["one", "several"])
def test_codes_are_measured_as_evaluate_does(files, kind, at):
    work = contenders.Work(load_dataset(files[kind]))
    (lsh,) = contenders.random_hyperplanes(work, 16, 3)
    mean = work.train.mean(axis=0)
    query, base = (contenders.pack(contenders._rotated(x - mean, 16, 3)) for x in (work.query, work.base))
    report = evaluate(query, work.query_labels, base, work.base_labels, at)
    assert alternatives.measure(lsh, work, at)["seen"] == pytest.approx(report.map, abs=1e-12)
    np.testing.assert_array_equal(everything(lsh, work), hamming_distances(query, base))


def test_the_embeddings_find_themselves(work):
    cosine, euclidean = contenders.exact(work)
    found = alternatives.measure(cosine, work, None)
    assert found["recalls"] == {"10": 1.0, "100": 1.0}
    assert (found["bytes"], found["supervised"]) == (12 * 4, False)
    differences = work.dataset.query.take(slice(None))[:, None] - work.stored[None]
    slow = np.argsort((differences.astype(np.float64) ** 2).sum(axis=2), axis=1)
    np.testing.assert_array_equal(np.argsort(everything(euclidean, work), axis=1)[:, :5], slow[:, :5])


def test_sizes_and_labels(work, csq):
    kinds = ("CSQ_D, joined", "CSQ_D", "CSQ_D, unseen 0.5")
    sizes = {"": 2, ", asymmetric": 2, ", top 1,000 by embeddings": 2 + 24}
    expected = {name + what: (size, True) for name in kinds for what, size in sizes.items()}
    assert {name: (one.bytes, one.supervised) for name, one in csq.items()} == expected
    coders = {one.name: one.supervised for one in contenders.linear_coders(work, 16, 0)}
    names = ["logistic onto centers", "ridge onto centers", "CCA-ITQ", "SDH", "WCCN-ITQ"]
    assert coders == dict.fromkeys(names, True) | dict.fromkeys(["ITQ", "PCA, turned at random", "sne"], False)
    sizes = {one.name: one.bytes for one in contenders.rabitq(work)}
    assert sizes == {
        "FAISS RaBitQ": 10,
        "FAISS RaBitQ, 2 bits": 24,
        "FAISS RaBitQ, 3 bits": 25,
        "FAISS RaBitQ, 4 bits": 27,
    }
    bits, soft = contenders.one_bit_a_dimension(work)
    assert (bits.bytes, bits.supervised) == (soft.bytes, soft.supervised) == (2, False)
    signs = np.where(work.base >= work.train.mean(axis=0), 1, -1)
    np.testing.assert_allclose(everything(soft, work), -(work.query @ signs.T), atol=1e-5)
    names = [one.name for one in contenders.discriminants(work, 16, 0)]
    assert names == ["LDA, signs", "LDA, float16"]
    assert [one.name for one in contenders.discriminants(work, 64, 0)] == ["LDA, signs"]  # it has 3 numbers, not 4


def test_what_cannot_be_is_left_out(work, files):
    assert list(contenders.iterative_quantization(work, 16, 0)) == []
    assert list(contenders.few_dimensions(work, 16)) == []
    assert list(contenders.product_quantization(work, 16, 0)) == []  # 160 train rows for 256 centroids
    several = contenders.Work(load_dataset(files["several"]))
    assert list(contenders.classifier(several)) == []
    assert list(contenders.discriminants(several, 8, 0)) == []


def test_the_second_stage_is_the_products(work):
    rng = np.random.default_rng(0)
    base, query = (rng.integers(0, 256, (len(x), 2), np.uint8) for x in (work.base, work.query))
    index = FlatIndex(16, store_vectors="embeddings", learns_classes=True)
    index.add(base, vectors=work.stored)
    vectors = work.dataset.query.take(slice(None))
    one = contenders._reranked("x", 1, index, query, vectors, "embeddings", 30)
    found = rerank(index, index.search(query, 30), vectors, 30, "embeddings")
    scores = one.scores(slice(None))
    np.testing.assert_array_equal(np.argsort(scores, kind="stable")[:, :7], found.ids[:, :7])
    for row, ids, distances in zip(scores, found.ids, hamming_distances(query, base), strict=True):
        rest = np.setdiff1d(np.arange(len(base)), ids)
        assert row[ids].max() < row[rest].min()  # the candidates come first, and then the others by distance
        np.testing.assert_array_equal(row[rest], distances[rest] + 30)


def test_the_classifier(work):
    predicted, by_query, probabilities = contenders.classifier(work)
    assert (predicted.bytes, by_query.bytes, probabilities.bytes) == (1, 1, 8)
    scores = everything(predicted, work)
    assert set(np.unique(scores)) == {0, 1}
    assert ((scores == 0) == work.relevant(slice(None))).mean() > 0.9
    assert {len(np.unique(row)) for row in everything(by_query, work)} == {4}
    first = np.argmin(everything(probabilities, work), axis=1)
    assert (work.base_labels[first] == work.query_labels).mean() > 0.9


def test_faiss_ranks_as_the_scores_do(monkeypatch):
    faiss = pytest.importorskip("faiss")
    monkeypatch.setattr(contenders, "OPQ_ROUNDS", 1)
    work = contenders.Work(load_dataset("digits"))
    asked = np.square(work.query).sum(axis=1, keepdims=True)
    found = list(contenders.product_quantization(work, 16, 0))
    assert [(one.name, one.bytes) for one in found] == [("FAISS PQ", 2), ("FAISS OPQ + PQ", 2)]
    index = faiss.IndexPQ(work.dim, 2, 8)
    scores = (everything(contenders._quantized("x", work, index), work) + asked)[:20]
    distances, ids = index.search(work.query[:20], 10)
    np.testing.assert_allclose(np.sort(scores, axis=1)[:, :10], distances, atol=1e-4)
    np.testing.assert_allclose(np.take_along_axis(scores, ids, 1), distances, atol=1e-4)
    assert len(list(contenders.few_dimensions(work, 16))) == 2
    (itq,) = contenders.iterative_quantization(work, 16, 0)
    (lsh,) = contenders.random_hyperplanes(work, 16, 0)
    maps = [alternatives.measure(one, work, 100)["seen"] for one in (itq, lsh)]
    assert maps[0] > maps[1] > 0.2
    residual, local = contenders.additive_quantization(work, 16, 0)
    assert (residual.bytes, local.bytes) == (2, 2)
    rabitq = list(contenders.rabitq(work, 256))
    names = ["FAISS RaBitQ", "FAISS RaBitQ, 2 bits", "FAISS RaBitQ, 3 bits", "FAISS RaBitQ, 4 bits"]
    assert [(one.name, one.bytes) for one in rabitq] == [(names[0], 16), *((name, 32) for name in names[1:])]
    assert list(contenders.rabitq(work, 64)) == []
    for one in (residual, local, *rabitq):
        assert alternatives.measure(one, work, 100)["recalls"]["100"] > 0.4


def test_codes_of_more_bits_than_the_librarys():
    rng = np.random.default_rng(0)
    query, base = (rng.integers(0, 256, (rows, 160), np.uint8) for rows in (3, 5))
    slow = np.unpackbits(query[:, None] ^ base[None], axis=2).sum(axis=2)
    np.testing.assert_array_equal(contenders._distances(query, base), slow)
    asked = rng.normal(size=(3, 1280))
    signs = np.where(np.unpackbits(base, axis=1, bitorder="little"), 1, -1)
    soft = contenders._asymmetric("x", False, asked, base, 1280)
    np.testing.assert_allclose(soft.scores(slice(None)), -(asked @ signs.T))


# ------------------------------------------------------------------------------------------------ the page, the command


@pytest.fixture(scope="module")
def made(files):
    data = Data("blobs", str(files["one"]), 50)
    runs = [Run(data, 8, 0, 1), Run(data, 8, 1, 1), Run(data, None, 0, 1), Run(data, None, 1, 1)]
    return {run: alternatives.execute(run) for run in runs}


def test_half_of_the_classes_are_trained_on(files):
    whole = load_dataset(files["one"])
    half = alternatives.halved(whole, 0, 20)
    assert set(half.train.labels) == {0, 1}
    assert (len(half.query), len(half.base)) == (20, len(whole.base))
    number = {tuple(row): label for row, label in zip(whole.base.take(slice(None)), whole.base.labels, strict=True)}
    found = [number[tuple(row)] for row in half.base.take(slice(None))]
    pairs = set(zip(found, half.base.labels, strict=True))
    assert len(pairs) == 4  # other numbers of the same classes
    assert {number[tuple(row)] for row in half.train.take(slice(None))} == {old for old, new in pairs if new < 2}
    several = load_dataset(files["several"])
    assert len(alternatives.halved(several, 0, None).train) == len(several.train)


def test_the_map_of_either_half_is_that_of_its_rows(files):
    work = contenders.Work(alternatives.halved(load_dataset(files["one"]), 0, None))
    (lsh,) = contenders.random_hyperplanes(work, 16, 3)
    found, scores = alternatives.measure(lsh, work, 20), everything(lsh, work)
    for name, seen in (("seen", True), ("unseen", False)):
        own = (work.query_labels < 2) == seen, (work.base_labels < 2) == seen
        kept = scores[np.ix_(*own)], work.relevant(slice(None))[np.ix_(*own)]
        assert found[name] == pytest.approx(np.nanmean(average_precision(ranking_of(*kept), 20)))


def test_lines_are_means_over_the_seeds(made):
    lines = alternatives.lines_of(made, next(iter(made)).data)
    own = next(line for line in lines if line.name == "CSQ_D, joined")
    first = [result["contenders"][0] for run, result in made.items() if run.bits]
    assert own.seen == pytest.approx(np.mean([one["seen"] for one in first]))
    assert own.unseen == pytest.approx(np.mean([one["unseen"] for one in first]))
    assert [line.bytes for line in lines] == sorted(line.bytes for line in lines)
    assert {line.name for line in lines if line.bits is None} >= {"float exact, cosine", "logistic regression, class"}


def test_the_page_and_the_list(made):
    page = alternatives.page(made, ["search.png"])
    assert "--data blobs@50=FILE --bits 8 --seeds 2 --epochs 1`" in page
    assert "80 train rows of 2 classes, 160 base rows, 40 queries, 12 numbers an embedding; mAP@50." in page
    assert "| bytes | method | labels | seen mAP | unseen mAP | recall@10 | recall@100 |" in page
    lines = alternatives.lines_of(made, next(iter(made)).data)
    rows = list(csv.DictReader(alternatives.listed(made).splitlines()))
    assert [row["method"] for row in rows] == [line.name for line in lines]
    assert [float(row["unseen mAP"]) for row in rows] == pytest.approx([line.unseen for line in lines], abs=1e-4)


def line(name, size, seen, unseen, recall):
    return alternatives.Line(name, 8, size, True, seen, unseen, (recall,))


def test_the_page_has_the_best_of_each_size(monkeypatch):
    monkeypatch.setattr(alternatives, "KEPT_BEST", 1)
    lines = [line("A", 1, 0.9, 0.1, 0.1), line("B", 1, 0.8, 0.2, 0.5), line("C", 1, 0.7, 0.3, 0.2)]
    lines += [line("D", 1, 0.6, 0.0, 0.3), line("CSQ_D", 1, 0.5, 0.0, 0.0), line("D", 2, 0.1, np.nan, 0.1)]
    assert alternatives.best_lines(lines) == [*lines[:3], *lines[4:]]
    table = alternatives._table(lines)
    assert "| 1 | A | yes | **0.900** | 0.100 | 0.100 |" in table
    assert "| 2 | D | yes | **0.100** | – | **0.100** |" in table


def test_the_command_goes_on_where_it_was(made, files, tmp_path, monkeypatch, capsys):
    runs = tmp_path / "runs"
    runs.mkdir()
    for run, result in made.items():
        write_run(runs / f"{run.name}.json", result)
    assert (runs / "blobs@50-allqueries-fixed-seed0.json").exists()
    (tmp_path / "s.md").write_text("before\n<!-- alternatives: begin -->\n<!-- alternatives: end -->\n")
    arguments = ["--data", f"blobs@50={files['one']}", "--bits", "8", "--seeds", "2", "--epochs", "1"]
    arguments += ["--runs", runs, "--out", tmp_path / "s.md", "--image", tmp_path / "s.png"]
    arguments += ["--csv", tmp_path / "s.csv"]
    monkeypatch.setattr("sys.argv", ["program", *map(str, arguments)])
    alternatives.main()
    assert capsys.readouterr().err == ""  # nothing was missing
    assert "![mAP and recall against bytes a row](s.png)" in (tmp_path / "s.md").read_text()
    assert (tmp_path / "s.md").read_text().startswith("before\n")
    assert (tmp_path / "s.csv").read_text().startswith("data,bytes,method")
    assert (tmp_path / "s.png").stat().st_size > 10_000


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--data", "digits"], "data is 'digits'; it must be NAME=FILE or NAME@R=FILE"),
        (["--data", "a@0=digits"], "data is 'a@0=digits'; its R must be an integer of at least 1"),
        (["--data", "a=none.parquet"], "data is 'none.parquet', and there is no such file"),
        (["--data", "a=digits", "--data", "a@5=digits"], "data has two sets of one name"),
        (["--data", "a=digits", "--bits", "8,x"], "bits is '8,x'; it must be integers with commas between them"),
        (["--data", "a=digits", "--seeds", "0"], "seeds is 0; it must be at least 1"),
    ],
)
def test_bad_arguments(arguments, message, monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["program", *arguments])
    with pytest.raises(SystemExit) as ended:
        alternatives.main()
    assert ended.value.code == 2
    assert message in capsys.readouterr().err
