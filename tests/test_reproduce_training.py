"""The experiments that train: their runs on disk, their statistics, and their tables."""

from __future__ import annotations

import math
import re
from dataclasses import replace

import numpy as np
import pytest

from lbhash import TrainingArguments, evaluate
from lbhash.centers import class_centers
from lbhash.centers.distance import minimum_distance
from lbhash.data.split import EmbeddingSplit
from lbhash.evaluation.lower_bound import bound
from lbhash.evaluation.recognition import classifier_predict
from lbhash.hasher import Hasher, encode_split, fit_split
from lbhash.reproduce import Settings, curves, experiments, paper, tsne
from lbhash.reproduce.results import Regression, lift_counts
from lbhash.reproduce.runs.experiment_settings import METHODS
from lbhash.reproduce.runs.sources import Source, UnsuitableData
from lbhash.reproduce.runs.trained import CODES, SECONDS, TRAJECTORY, RunConfig, completed, outcome
from lbhash.trials.intervals import Interval
from lbhash.utils.parallel import read_run
from reproduce_tools import check_files, split_blobs

pytestmark = [pytest.mark.usefixtures("one_thread"), pytest.mark.end_to_end]

TITLES = ["HashNet", "DBDH", "DSDH", "DCH", "GreedyHash", "CSQ"]


@pytest.fixture(scope="module")
def file(blobs, write_parquet, tmp_path_factory):
    """Single-label rows."""
    x, columns = split_blobs(blobs, label=np.concatenate([blobs.y, blobs.query_y]))
    return str(write_parquet(tmp_path_factory.mktemp("data") / "blobs.parquet", x, **columns))


@pytest.fixture(scope="module")
def labels_file(blobs, write_parquet, tmp_path_factory):
    """Rows with several labels."""
    hot = np.vstack([blobs.hot, blobs.query_hot])
    x, columns = split_blobs(blobs, labels=[np.flatnonzero(row).tolist() for row in hot])
    return str(write_parquet(tmp_path_factory.mktemp("data") / "mosaic.parquet", x, **columns))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The runs that all tests of this file share."""
    return tmp_path_factory.mktemp("runs")


@pytest.fixture
def settings(file, folder):
    return Settings(seeds=2, sources=(Source("cifar10", file),), epochs=2, bits=(16,), workers=1, runs=folder, hidden=8)


@pytest.fixture
def small(file):
    """A run of its own."""
    return RunConfig(Source("blobs", file), "csq", "guided", 8, epochs=2, hidden=4)


def read(run, seed, folder):
    """What a run left with a seed."""
    return read_run(folder / f"{run.name(seed)}.json")


def wanting(run, *wanted):
    return replace(run, wanted=frozenset(wanted))


# Data


def test_sources_by_name():
    assert Source.of("cifar10=/a/b=c.parquet") == Source("cifar10", "/a/b=c.parquet")
    assert Source.of("/a=b/x.parquet") == Source("x", "/a=b/x.parquet")
    assert Source.of("digits") == Source("digits", "digits")
    names = ("cifar10", "tiny-imagenet", "mosaic", "nuswide", "mine")
    assert [Source(name, "f").column for name in names] == ["cifar10", "imagenet100", "nuswide", "nuswide", None]
    with pytest.raises(ValueError, match="data is 'x='"):
        Source.of("x=")
    with pytest.raises(ValueError, match="data has the name ' x'"):
        Source.of(" x=f")


def test_the_rank_is_that_of_the_protocol(file, labels_file, write_parquet, tmp_path):
    assert Source("cifar10", file).top_k() is None
    assert Source("imagenet100", file).top_k() is None  # of 160 rows there are no 1,000 places
    rng = np.random.default_rng(0)
    columns = {"in_train": np.arange(1200) < 50, "in_base": np.arange(1200) < 1150, "in_query": np.arange(1200) >= 1150}
    x = rng.normal(size=(1200, 3)).astype(np.float32)
    many = write_parquet(tmp_path / "many.parquet", x, label=np.arange(1200) % 2, **columns)
    assert Source("tiny-imagenet", str(many)).top_k() == 1000
    said = str(Source("tiny-imagenet", str(many)))
    assert "stands for the paper's ImageNet-100" in said
    assert "mAP@1,000" in said
    assert "4 labels, 160 rows to train" in str(Source("mosaic", labels_file))


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"epochs": 0}, "epochs is 0"),
        ({"lr": math.nan}, "lr is nan; it must be above 0 and finite"),
        ({"bits": (16, 16)}, "bits has 16 twice"),
        ({"methods": ("csq", "cbe")}, "methods has 'cbe'; it must name some of hashnet, dbdh, "),
        ({"sources": (Source("a", "x"), Source("a", "y"))}, "data has 'a' twice"),
    ],
)
def test_settings_are_checked(wrong, said):
    with pytest.raises(ValueError, match=re.escape(said)):
        Settings(**wrong)


def test_settings_and_the_experiments_own_choice():
    assert Settings().methods_or("csq", "hashnet") == ["hashnet", "csq"]
    assert Settings(methods=("csq", "dch")).methods_or("hashnet") == ["dch", "csq"]
    assert Settings().training() == {"epochs": 30, "lr": 0.001, "hidden": 1024}


# Runs


def test_a_run_is_named_after_all_that_matters(file, labels_file):
    source = Source("blobs", file)
    base = RunConfig(source, "csq", bits=8)
    others = [
        RunConfig(Source("other", file), "csq", bits=8),
        RunConfig(Source("blobs", labels_file), "csq", bits=8),
        RunConfig(source, "dch", bits=8),
        RunConfig(source, "csq", "guided", bits=8),
        RunConfig(source, "csq", "replace", bits=8),
        RunConfig(source, "csq", bits=12),
        RunConfig(source, "csq", bits=8, centers="bch"),
        RunConfig(source, "csq", bits=8, epochs=3),
        RunConfig(source, "csq", bits=8, hidden=8),
        RunConfig(source, "csq", bits=8, lr=0.1),
    ]
    assert len({cell.name(0) for cell in (base, *others)} | {base.name(1)}) == len(others) + 2
    assert base.name(0).startswith("blobs-csq-8bits-30epochs-seed0-")
    # A host that does not use class centers is the same run whatever they are, and so is one of which more is wanted.
    assert RunConfig(source, "dch", centers="bch").name(0) == RunConfig(source, "dch").name(0)
    assert wanting(base, CODES).name(0) == base.name(0)


def test_a_run_that_is_watched_is_the_run(small):
    data = small.source.dataset()
    hasher = Hasher(
        8,
        method="csq",
        epochs=2,
        seed=5,
        recipe="paper",
        centers="best",
        device="cpu",
        training=TrainingArguments(hidden=4),
    )
    fit_split(hasher, data.train, 4)
    query, base = encode_split(hasher, data.query), encode_split(hasher, data.base)
    found = outcome(wanting(small, TRAJECTORY, CODES, SECONDS), 5)
    np.testing.assert_array_equal(found[CODES], query)
    report = evaluate(query, data.query.labels, base, data.base.labels, bits=8)
    assert found["report"] == report.as_dict()
    assert found["recognition"] == report.knn_accuracy
    assert len(found[TRAJECTORY]) == len(found[SECONDS]) == 2
    assert min(found[SECONDS]) > 0
    last, distances = found[TRAJECTORY][-1], bound(base, data.base.labels)
    assert last["map"] == pytest.approx(report.map)
    assert (last["inter"], last["intra"]) == (distances.inter, distances.intra)
    for name, counts, percentile in (
        ("intra", distances.intra_counts.sum(0), 99.9),
        ("inter", distances.inter_counts, 0.1),
    ):
        assert last[f"{name}_99.9"] == pytest.approx(np.percentile(np.repeat(np.arange(9), counts), percentile))
    assert last["map"] != found[TRAJECTORY][0]["map"]
    plain = outcome(small, 5)
    assert plain["report"] == found["report"]
    assert not {TRAJECTORY, CODES, SECONDS} & set(plain)


def test_runs_on_several_labels_a_row(labels_file):
    run = RunConfig(Source("mosaic", labels_file), "csq", "replace", 8, epochs=2, hidden=4)
    found = outcome(wanting(run, TRAJECTORY), 0)
    assert found["recognition"] is None
    assert found[TRAJECTORY][-1]["map"] == pytest.approx(found["report"]["map"])
    assert found[TRAJECTORY][-1]["inter"] == found["report"]["bound"]["inter"]


def test_recognition_is_by_the_methods_own_classifier(small):
    data = small.source.dataset()
    run = RunConfig(small.source, "greedyhash", "guided", 8, epochs=2, hidden=4)
    hasher = Hasher(
        8,
        method="greedyhash",
        epochs=2,
        seed=0,
        recipe="paper",
        centers="best",
        device="cpu",
        training=TrainingArguments(hidden=4),
    )
    fit_split(hasher, data.train, 4)
    weights = hasher.model_.classifier
    own = np.mean(classifier_predict(encode_split(hasher, data.query), weights) == data.query.labels)
    found = outcome(run, 0)
    assert found["recognition"] == own != found["report"]["knn_accuracy"]


def test_what_is_there_is_not_run_again(small, tmp_path, capsys):
    two = Settings(seeds=2, workers=1, runs=tmp_path)
    (before,) = completed(two, [small])
    assert re.search("training .* 2/2 runs", capsys.readouterr().err)
    written = {file: file.stat().st_mtime_ns for file in tmp_path.iterdir()}
    assert len(written) == 2
    completed(two, [small])
    assert {file: file.stat().st_mtime_ns for file in tmp_path.iterdir()} == written
    assert capsys.readouterr().err == ""
    completed(replace(two, seeds=1), [wanting(small, SECONDS)])
    completed(replace(two, seeds=1), [wanting(small, CODES, TRAJECTORY)])
    (after,) = completed(two, [small])
    assert after.finals[1] == before.finals[1]
    assert after.finals[0]["report"] == before.finals[0]["report"]
    assert np.shape(after.finals[0][CODES]) == (40, 1)
    assert len(after.finals[0][TRAJECTORY]) == len(after.finals[0][SECONDS]) == 2


def test_kinds_with_the_same_centers_are_one_run(file, tmp_path):
    small = {"bits": 8, "epochs": 1, "hidden": 4}
    kinds = [RunConfig(Source("blobs", file), "csq", centers=kind, **small) for kind in ("best", "levenshtein")]
    best, other = completed(Settings(seeds=1, workers=1, runs=tmp_path), kinds)
    assert best.finals == other.finals
    assert len(list(tmp_path.iterdir())) == 1


# Statistics


def test_regression_by_direct_formulas():
    rng = np.random.default_rng(0)
    x = rng.normal(size=20)
    y = 2 * x + rng.normal(size=20)
    line = Regression.of([*x, np.inf, 1.0], [*y, 1.0, np.nan])
    assert line.points == 20
    assert line.slope == pytest.approx(((x - x.mean()) * (y - y.mean())).sum() / np.square(x - x.mean()).sum())
    assert line.pearson == pytest.approx(np.corrcoef(x, y)[0, 1])
    ranks = np.argsort(np.argsort(x)), np.argsort(np.argsort(y))
    assert line.spearman == pytest.approx(1 - 6 * np.square(ranks[0] - ranks[1]).sum() / (20 * (20**2 - 1)))


def test_regression_of_nothing():
    assert Regression.of([1, 1, 1, 1], [1, 2, 3, 4]) is None
    assert Regression.of([1, 2, 3, 4], [1, 1, 1, 1]) is None
    assert Regression.of([1, 2, np.nan], [1, 2, 3]) is None


def test_intervals():
    assert Interval.of([1.0, 2.0, 3.0]).half == pytest.approx(4.302652729911275 / math.sqrt(3))
    shown = [Interval.of(values).shown(1) for values in ([0.5], [1.0, 2.0], [0.5, 0.5, math.inf], [math.inf] * 2)]
    assert shown == ["0.5", "1.5 ± 6.4", "0.5 ± 0.0 (∞ in 1 of 3)", "∞"]
    assert Interval.of_known([np.nan, 1.0, 3.0]) == Interval.of([1.0, 3.0])
    assert Interval.of_known([np.nan]) is None
    counts = lift_counts([Interval.of(values) for values in ([3.0, 3.1], [-3.0, -3.1], [-3.0, 4.0])])
    assert list(counts.values()) == [2, 1, 1]
    assert list(lift_counts([Interval.of([3.0]), Interval.of([-3.0])]).values()) == [1, None, None]


def test_the_papers_tables_are_whole():
    assert set(paper.MAP) == {"cifar10", "nuswide", "imagenet100", "imagenet"}
    for table in (*paper.MAP.values(), *paper.RECOGNITION.values()):
        assert tuple(table) == METHODS
        assert all(tuple(row) == (16, 32, 64) and all(a < b for a, b in row.values()) for row in table.values())
    assert all(tuple(row) == (16, 32, 48) for table in paper.CENTERS.values() for row in table.values())


# Experiments


def values_of(source, method, recipe, bits, key, settings):
    cell = RunConfig(source, method, recipe, bits, epochs=settings.epochs, hidden=settings.hidden)
    return np.array([key(read(cell, seed, settings.runs)) for seed in settings.all_seeds()])


def test_map(settings, tmp_path):
    result = experiments()["map"].run(settings)
    check_files("map", result, tmp_path)
    rows = {row["method"]: row for row in result.more["cifar10"].table.to_dict("records")}
    assert list(rows) == TITLES
    (source,) = settings.sources
    lifts = []
    for method, title in zip(METHODS, TITLES, strict=True):
        host, guided = (
            100 * values_of(source, method, recipe, 16, lambda final: final["report"]["map"], settings)
            for recipe in ("plain", "guided")
        )
        row = rows[title]
        assert row["host"].mean == pytest.approx(host.mean())
        assert row["guided"].mean == pytest.approx(guided.mean())
        assert row["lift"].mean == pytest.approx((guided - host).mean())
        # t₀.₉₇₅(1) = 12.7062…; of two values s / √2 is half their difference.
        assert row["lift"].half == pytest.approx(12.7062047361747 * abs(np.ptp(guided - host)) / 2)
        assert [row["host, paper"], row["guided, paper"]] == paper.MAP["cifar10"][method][16]
        lifts.append(guided - host)
    groups = result.table.set_index("methods")
    of_pairs, of_all = groups.loc["pairwise methods"], groups.loc["all methods"]
    assert of_pairs["cells"] == 4
    assert of_pairs["lift"].mean == pytest.approx(np.mean(lifts[:4]))
    assert of_all["lift"].half == pytest.approx(12.7062047361747 * np.ptp(np.mean(lifts, axis=0)) / 2)
    assert of_all["lift, paper"] == pytest.approx((16.1 + 1.5 + 8.7 + 0.2 + 1.9 + 5.5) / 6)
    assert of_all["lift > 0"] == sum(lift.mean() > 0 for lift in lifts)


def test_data_of_ones_own_have_no_paper_column(settings, file):
    own = replace(settings, sources=(Source("mine", file),), methods=("csq",), seeds=1)
    result = experiments()["map"].run(own)
    assert not [column for column in (*result.table, *result.more["mine"].table) if "paper" in column]
    assert result.more["mine"].table["host"][0].half is None
    assert list(result.table["methods"]) == ["GreedyHash and CSQ", "all methods"]


def test_recognition(settings, labels_file, tmp_path):
    source = settings.sources[0]
    both = replace(settings, sources=(Source("mosaic", labels_file), Source("imagenet100", source.file)), seeds=1)
    result = experiments()["recognition"].run(replace(both, methods=("dsdh", "csq")))
    check_files("recognition", result, tmp_path)
    assert list(result.more) == ["imagenet100"]
    table = result.more["imagenet100"].table
    assert table[["host, paper", "guided, paper"]].to_numpy().tolist() == [[40.6, 61.1], [87.7, 87.9]]
    with pytest.raises(UnsuitableData, match="recognition needs data with one label a row"):
        experiments()["recognition"].run(replace(both, sources=both.sources[:1]))


def test_ratio(settings, tmp_path):
    longer = replace(settings, epochs=5)
    result = experiments()["ratio"].run(longer)
    check_files("ratio", result, tmp_path)
    (found,) = result.table.to_dict("records")
    cell = RunConfig(settings.sources[0], "csq", "guided", 16, epochs=5, hidden=8)
    seeds = [read(cell, seed, settings.runs)[TRAJECTORY] for seed in (0, 1)]
    points = np.array([[(at["map"], at["inter"] / at["intra"]) for at in seed] for seed in seeds])
    assert found["points"] == 10
    assert found["Pearson's r"].mean == pytest.approx(np.mean([np.corrcoef(seed.T)[0, 1] for seed in points]))
    maps, ratios = points.reshape(-1, 2).T
    assert found["slope, all"] == pytest.approx(np.polyfit(ratios, 100 * maps, 1)[0])
    epochs = result.more["epochs"].table
    assert list(epochs["epoch"]) == [1, 2, 3, 4, 5]
    assert [value.mean for value in epochs["mAP"]] == pytest.approx((100 * points[..., 0].mean(0)).tolist())


def test_few_epochs_of_one_seed_are_drawn(settings, tmp_path):
    """Three numbers for colors are not taken for a color."""
    check_files("ratio", experiments()["ratio"].run(replace(settings, seeds=1, epochs=3)), tmp_path)


def test_ratio_methods(settings, tmp_path):
    result = experiments()["ratio-methods"].run(settings)
    check_files("ratio-methods", result, tmp_path)
    table = result.table
    assert list(table["method"]) == [name for title in TITLES for name in (title, f"{title}_D")]
    means = [value.mean for value in table["ratio"]], [value.mean for value in table["mAP"]]
    finite = np.isfinite(means[0])
    line = result.more["line"].table
    assert line["points"][0] == finite.sum()
    assert line["slope"][0] == pytest.approx(np.polyfit(np.array(means[0])[finite], np.array(means[1])[finite], 1)[0])


def test_convergence(settings, tmp_path):
    result = experiments()["convergence"].run(settings)
    check_files("convergence", result, tmp_path)
    table = result.table
    assert list(table["loss"]) == ["BCE", "Cauchy", "guidance"]
    cell = RunConfig(settings.sources[0], "dch", "plain", 16, epochs=2, hidden=8)
    maps = np.array([[at["map"] for at in read(cell, seed, settings.runs)[TRAJECTORY]] for seed in (0, 1)])
    assert table["mAP"][1].mean == pytest.approx(100 * maps[:, -1].mean())
    first = [next(epoch for epoch, value in enumerate(seed, 1) if value >= 0.95 * seed[-1]) for seed in maps]
    assert table["epochs to 95 %"][1].mean == np.mean(first)


def test_cost(settings, tmp_path):
    result = experiments()["cost"].run(settings)
    check_files("cost", result, tmp_path)
    table = result.table
    assert table["× BCE"][0] == Interval(1.0, 0.0, 2)
    assert table["× BCE, paper"][2] == pytest.approx(38.95 / 38.13)
    bce, guidance = (
        [
            read(RunConfig(settings.sources[0], "csq", recipe, 16, epochs=2, hidden=8), seed, settings.runs)[SECONDS][1]
            for seed in (0, 1)
        ]
        for recipe in ("plain", "replace")
    )
    assert table["seconds"][2].mean == pytest.approx(np.mean(guidance))
    assert table["× BCE"][2].mean == pytest.approx(np.mean(np.divide(guidance, bce)))


def test_center_ablation(settings, tmp_path):
    result = experiments()["centers"].run(settings)
    check_files("centers", result, tmp_path)
    table = result.table
    assert list(table["centers"]) == ["reed-solomon", "bch", "hadamard", "best"]
    assert list(table["distance"]) == [minimum_distance(class_centers(4, 16, kind, 0)) for kind in table["centers"]]
    assert (table["distance, paper"][1], table["mAP, paper"][1]) == (7, 88.3)
    assert table["mAP, paper"][3] is None
    assert table["− best"][0].mean == pytest.approx(table["mAP"][0].mean - table["mAP"][3].mean)
    assert table["− best"][3] is None


def test_curves(settings, tmp_path):
    result = experiments()["curves"].run(replace(settings, methods=("csq",)))
    check_files("curves", result, tmp_path)
    (source,) = settings.sources
    reports = values_of(source, "csq", "guided", 16, lambda final: final["report"], settings)
    assert result.table["guided"][0].mean == pytest.approx(
        100 * np.mean([report["precision_within_radius"] for report in reports])
    )
    places = result.more["precision-at-k"].table.loc[1]
    assert places["method"] == "CSQ_D"
    for k, place in ((1, 0), (10, 1), (100, 2)):
        expected = 100 * np.mean([report["precision_at"][place] for report in reports])
        assert places[f"K = {k:,}"].mean == pytest.approx(expected, abs=0.3)  # between the curve's ranks
    assert places["K = 1,000"] is None
    curve = reports[0]["rank_curve"]
    at = np.searchsorted(curve["recall"], 0.5)
    pair = sorted(100 * curve["precision"][i] for i in (at - 1, at))
    precision, recall = (
        100 * np.array([one["rank_curve"][name] for one in reports]) for name in ("precision", "recall")
    )
    found = curves.at_recall(recall[:1], precision[:1], 0.5).mean
    assert pair[0] - 1e-9 <= found <= pair[1] + 1e-9
    assert result.more["precision-recall"].table["recall 50 %"][1] == curves.at_recall(recall, precision, 0.5)


def test_tsne(settings, labels_file, tmp_path):
    result = experiments()["tsne"].run(replace(settings, methods=("csq",)))
    check_files("tsne", result, tmp_path)
    table = result.table
    assert list(table["method"]) == ["CSQ", "CSQ_D"]
    assert list(table["queries"]) == [40, 40]
    signs, labels = np.repeat([[1, 1, 1, 1], [-1, -1, -1, -1]], 3, axis=0), np.repeat([0, 1], 3)
    signs[0, 0] = -1  # a quarter from its own class and three from the other; its two neighbors an eighth on average
    assert tsne.silhouette(signs, labels) == pytest.approx((2 / 3 + 2 * (1 - (1 / 8) / 1) + 3 * 1) / 6)
    assert tsne.silhouette(signs, np.zeros(6, int)) is None
    same = np.ones((12, 8), np.int8)
    assert np.isfinite(tsne.principal_components(same)).all()
    for name in ("tsne", "posterior-2bits"):
        with pytest.raises(UnsuitableData, match=f"{name} needs data with one label a row"):
            experiments()[name].run(replace(settings, sources=(Source("mosaic", labels_file),)))


def test_tsne_takes_few_rows_of_few_classes():
    labels = np.arange(3000) % 15
    rows = tsne.sampled_rows(EmbeddingSplit(np.zeros((3000, 1)), np.arange(3000), labels), 0)
    assert len(rows) == 1000
    assert (np.diff(rows) > 0).all()
    assert set(labels[rows]) == set(range(10))
