"""Hyper-parameters by the ratio: the held-out rows, the score, its warnings, the search and its command."""

from __future__ import annotations

import csv
import json
import sys
from contextlib import suppress
from dataclasses import asdict

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution
from optuna.trial import create_trial

from image_tools import write_backbone, write_stripes
from lbhash import Hasher, TrainingArguments, evaluate
from lbhash.codes import pack
from lbhash.data.dataset import Dataset
from lbhash.data.holdout import hold_out
from lbhash.data.split import EmbeddingSplit
from lbhash.evaluation import bound
from lbhash.evaluation.diagnostics import FEW_ROWS, diagnose_rows, diagnose_values
from lbhash.evaluation.held_out import leave_one_out_map, score_codes
from lbhash.hasher import encode_split, fit_split
from lbhash.losses.registry import METHODS
from lbhash.training.confusion import confusion
from lbhash.training.settings import grouped
from lbhash.tuning import tune
from lbhash.tuning.found import as_dict, best_trial, score_of, state_of
from lbhash.tuning.space import checked_space, default_space, from_entry, read_space, starting_point, with_params
from lbhash.tuning.tuner import search

pytestmark = pytest.mark.end_to_end

SMALL = {
    "lr": FloatDistribution(1e-4, 1e-1, log=True),
    "hidden": CategoricalDistribution((0, 6)),
    "guidance.weight": FloatDistribution(0.1, 2.0),
}


def part_of(x, y):
    return EmbeddingSplit(x, np.arange(len(x)), y)


def small(**changes):
    return Hasher(**grouped(bits=8, **{"epochs": 2, "hidden": 6, "recipe": "paper", "device": "cpu"} | changes))


@pytest.fixture(scope="module")
def train(blobs):
    return part_of(blobs.x, blobs.y)


# ------------------------------------------------------------------------------------------------ the held-out rows


@given(st.lists(st.integers(0, 4), min_size=5, max_size=60), st.floats(0.01, 0.99), st.integers(0, 5))
@settings(deadline=None, max_examples=60)
def test_every_class_gives_its_share_and_keeps_a_row(classes, share, seed):
    labels = np.array([*classes, 0, 0, 1, 1])
    part = EmbeddingSplit(np.zeros((len(labels) + 3, 2)), np.arange(3, len(labels) + 3), labels)
    fitted, validation = hold_out(part, share, seed)
    assert sorted([*fitted.rows, *validation.rows]) == sorted(part.rows)
    for some in (fitted, validation):
        assert (labels[some.rows - 3] == some.labels).all()
        assert (np.diff(some.rows) > 0).all()
    for label, count in zip(*np.unique(labels, return_counts=True), strict=True):
        assert (validation.labels == label).sum() == min(count - 1, max(1, round(share * count)))
    assert (hold_out(part, share, seed)[1].rows == validation.rows).all()


def test_rows_that_cannot_be_held_out(train):
    for share in (0.0, 1.0, -1, float("nan")):
        with pytest.raises(ValueError, match=r"held_out is .*; it must be above 0 and below 1"):
            hold_out(train, share)
    with pytest.raises(TypeError, match=r"held_out is '0\.2'"):
        hold_out(train, "0.2")
    with pytest.raises(ValueError, match="split has no labels"):
        hold_out(part_of(train.embeddings, None))
    with pytest.raises(ValueError, match="split has 3 rows, of which 0 can be for validation; tuning needs two"):
        hold_out(part_of(np.zeros((3, 2)), np.arange(3)))


# -------------------------------------------------------------------------------------------------------- the score


@pytest.mark.parametrize("many", [False, True])
def test_the_map_is_that_of_each_row_against_the_others(many):
    rng = np.random.default_rng(3)
    codes = pack(rng.choice([-1, 1], (24, 5)))  # 32 words only, so that codes repeat
    labels = rng.integers(0, 2, (24, 4)).astype(np.uint8) if many else rng.integers(0, 9, 24)
    for top_k in (None, 4):
        found = []
        for row in range(24):
            others = np.arange(24) != row
            with suppress(ValueError):  # no row is relevant
                report = evaluate(codes[[row]], labels[[row]], codes[others], labels[others], top_k, bits=5)
                found.append(report.map)
        assert leave_one_out_map(codes, labels, 5, top_k) == pytest.approx(np.mean(found))


@given(st.integers(2, 40), st.integers(1, 20), st.floats(0, 100), st.integers(0, 9))
@settings(deadline=None, max_examples=40)
def test_the_ratio_is_that_of_the_bound(rows, bits, percentile, seed):
    rng = np.random.default_rng(seed)
    codes, labels = pack(rng.choice([-1, 1], (rows, bits))), rng.integers(0, 3, rows)
    score, found = (
        score_codes(codes, labels, 3, bits, percentile, 30.0),
        bound(codes, labels, percentile, inter_percentile=30.0, bits=bits),
    )
    assert score.intra == found.intra
    extremes = bound(codes, labels, bits=bits)
    assert score.intra_max == extremes.intra
    assert (score.inter, score.inter_min) == tuple(np.nan_to_num([found.inter, extremes.inter]))
    assert score.map is score.map_seconds is None
    assert score.distinct == len({code.tobytes() for code in codes})
    assert 0 <= score.by("ratio") <= bits
    if np.isfinite(found.ratio):
        assert score.ratio == found.ratio
        if found.intra >= 1:
            assert score.by("ratio") == found.ratio


# ----------------------------------------------------------------------------------------------------- the warnings


def kinds(score):
    return {diagnostic.kind: diagnostic.line for diagnostic in score.diagnostics}


def around(centers, each):
    """So many codes of each class, all on its center, and their labels."""
    return np.repeat(np.array(centers), each, axis=0), np.repeat(np.arange(len(centers)), each)


FAR = [[1] * 8 + [-1] * 8, [-1] * 8 + [1] * 8, [1] * 16]


def test_nothing_is_said_of_good_codes():
    signs, labels = around(FAR, 20)
    for row in range(0, len(signs), 4):
        signs[row, row % 16] *= -1
    score = score_codes(pack(signs), labels, 3, 16, 90, 0)
    assert score.by("ratio") == 8
    assert score.diagnostics == ()


def test_all_codes_equal():
    score = score_codes(pack(np.ones((12, 16))), np.arange(12) % 3, 3, 16)
    assert kinds(score) == {"equal": "all 12 codes are equal; the ratio is 0 / 0 and says nothing"}
    assert score.by("ratio") == 0


def test_classes_that_share_a_code():
    signs, labels = around([FAR[0], FAR[0], FAR[0], FAR[0], FAR[1]], 10)
    said = kinds(score_codes(pack(signs), labels, 5, 16))
    assert "5 classes have 2 distinct codes among 50 validation rows (40% of a code each)" in said["collapsed"]
    assert "4 of 5 classes share their center with another (classes 0, 1, 2 and 1 more have one)" in said["shared"]
    signs[::3, 15] *= -1  # now there are codes enough, and yet the centers are the same
    said = kinds(score_codes(pack(signs), labels, 5, 16))
    assert "collapsed" not in said or "4 distinct" in said["collapsed"]
    assert "min D_inter is 0 whatever the others do" in said["shared"]


def test_one_stray_code():
    signs, labels = around(FAR, 200)
    signs[0] *= -1
    for percentile, ratio in ((99, 8), (75, 8), (100, 0.5)):
        score = score_codes(pack(signs), labels, 3, 16, percentile, 0)
        assert score.by("ratio") == ratio
        assert score.strict_ratio == 0.5
        line = kinds(score)["outliers"]
        assert line.startswith(
            "max D_intra is 16, and 99 % of the codes lie within 0: min D_inter / max D_intra is 0.5"
        )
        assert line.endswith("without the few it is inf")
    assert "crossed" not in kinds(score_codes(pack(signs), labels, 3, 16, 99))
    signs[:10] = signs[0]  # no longer few
    assert "outliers" not in kinds(score_codes(pack(signs), labels, 3, 16, 75))


def test_rows_that_lie_with_another_class():
    signs, labels = around(FAR, 50)
    labels[:6] = 1  # 6 of 150 rows have class 1 and the code of class 0
    said = kinds(score_codes(pack(signs), labels, 3, 16, 99))
    assert said["crossed"].startswith("4.0% of the validation rows lie nearer to another class's center")
    assert "crossed" not in kinds(score_codes(pack(signs), labels, 3, 16, 95))


def test_rows_of_several_labels_may_lie_with_any_of_them():
    signs, labels = around(FAR[:2], 20)
    hot = np.eye(2, dtype=np.uint8)[labels]
    more = np.repeat(np.array([[1, 1], [0, 0]], np.uint8), 4, axis=0)
    score = score_codes(pack([*signs, *signs[:4], *-signs[:4]]), np.concatenate([hot, more]), 2, 16, 80)
    assert "crossed" not in kinds(score)
    hot[:15] = [0, 1]
    assert "crossed" in kinds(score_codes(pack(signs), hot, 2, 16, 80))


def test_too_few_rows():
    sizes = [FEW_ROWS, FEW_ROWS - 1, 0]
    labels = np.repeat(np.arange(3), sizes)
    found = {diagnostic.kind: diagnostic.line for diagnostic in diagnose_rows(labels, 3, 95)}
    assert "2 of 3 classes have fewer than 5 validation rows (class 2 has 0)" in found["few"]
    assert "percentile 95 of 9 validation rows lies between the two farthest" in found["coarse"]
    assert diagnose_rows(np.repeat(np.arange(3), 40), 3, 95) == []
    assert diagnose_rows(np.repeat(np.arange(3), 40), 3, 100) == []  # a maximum that says so
    assert diagnose_rows(np.ones((40, 3), np.uint8), 3, 95) == []


def test_the_confusion_is_computed_once_for_all_trials(blobs, monkeypatch):
    asked = []
    for module in ("lbhash.training.prepare", "lbhash.tuning.tuner"):
        monkeypatch.setattr(f"{module}.confusion", lambda *given: asked.append(given) or confusion(*given))
    part = EmbeddingSplit(blobs.x, np.arange(len(blobs.x)), blobs.y)
    search(Hasher(8, epochs=1, training=TrainingArguments(hidden=4)), part, 4, trials=3, prune=False)
    ((rows, classes),) = asked
    assert (len(rows), classes) == (round(0.8 * len(part)), 4)
    search(Hasher(8, epochs=1, training=TrainingArguments(hidden=4, validation=0.25)), part, 4, trials=2, prune=False)
    assert [len(rows) for rows, _ in asked[1:]] == [round(0.6 * len(part))] * 2  # which are none of the search's


# -------------------------------------------------------------------------------------------------------- the space


def test_the_default_spaces_can_be_made_and_hold_the_defaults():
    for method in METHODS:
        pull = {"csq": "surrogate", "hashnet": "bits"}.get(method, "none")
        space = default_space(method, pull, 16)
        checked_space(space, Hasher(16, method=method, pull=pull), 4)
        assert any(name.startswith("options.") for name in space)
        assert ("guidance.weight" in space) == (pull != "none")
        assert "centers" not in space  # by their distances the ratio would tell those that are arranged from the rest
        assert set(starting_point(Hasher(16, method=method, pull=pull), space)) == set(space)
        start = starting_point(Hasher(16, method=method, pull=pull, recipe="paper"), space)
        assert set(start) == set(space)
        assert start["lr"] == 1e-3
        if method == "hashnet":
            assert start["options.alpha"] == 10 / 16


def test_a_start_that_the_space_does_not_hold_is_sampled_by_the_seed(train):
    """The first trial has what the hasher says, and of the rest what Optuna samples."""
    space = SMALL | {"dropout": FloatDistribution(0.6, 0.8)}
    first, again, other = (
        search(small(seed=seed, epochs=1), train, 4, trials=1, space=space).trials[0].params for seed in (0, 0, 1)
    )
    assert first == again != other
    assert list(first) == list(space)
    assert first["hidden"] == other["hidden"] == 6
    assert 0.6 <= first["dropout"] <= 0.8
    assert first["lr"] == 1e-3


def test_a_custom_method_brings_its_search_space():
    class Own(METHODS["csq"]):
        search_space = {"lam": lambda bits: {"low": 1, "high": bits}, "other": {"choices": ["a", None]}}  # noqa: RUF012

    space = default_space(Own, "none", 8)
    assert space["options.lam"] == IntDistribution(1, 8)
    assert space["options.other"] == CategoricalDistribution(("a", None))


def test_whole_limits_of_what_is_no_count_have_fractions_between():
    space = {"options.lam": IntDistribution(0, 1), "hidden": IntDistribution(0, 8)}
    found = checked_space(space, small(pull="none"), 4)
    assert found == {"options.lam": FloatDistribution(0, 1), "hidden": IntDistribution(0, 8)}


def test_an_own_method_may_keep_its_option_under_another_name():
    class Own(METHODS["csq"]):
        search_space = {"margin": {"low": 1, "high": 10}}  # noqa: RUF012

        def __init__(self, task, *, margin=1.0):
            super().__init__(task)
            self._m = margin

    for options, first in ((None, 1.0), ({"margin": 2.5}, 2.5), ({"margin": 3}, 3)):
        hasher = small(method=Own, options=options)
        space = checked_space(default_space(Own, "surrogate", 8), hasher, 4)
        assert space["options.margin"] == FloatDistribution(1, 10)
        assert starting_point(hasher, space)["options.margin"] == first


def test_params_go_where_they_belong():
    given = small(options={"lam": 0.5}, guidance={"mode": "replace"})
    made = with_params(given, {"lr": 0.25, "guidance.weight": 2.0, "options.lam": 0.125})
    assert (made.training.lr, made.guidance, made.options) == (0.25, {"mode": "replace", "weight": 2.0}, {"lam": 0.125})
    assert given.guidance == {"mode": "replace"}


def test_a_space_from_a_file(tmp_path):
    file = tmp_path / "space.json"
    file.write_text('{"lr": {"low": 1e-4, "high": 0.01, "log": true}, "hidden": {"choices": [0, 8]}}')
    assert read_space(file) == {
        "lr": FloatDistribution(1e-4, 0.01, log=True),
        "hidden": CategoricalDistribution((0, 8)),
    }
    assert from_entry({"low": 1, "high": 8}) == IntDistribution(1, 8)
    assert from_entry({"low": 1, "high": 8.5}) == FloatDistribution(1, 8.5)


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("{", "which is not JSON"),
        ("{}", "it must be an object of names"),
        ('{"lr": 3}', "space has 'lr' with 3; it must be"),
        ('{"lr": {"low": 1, "high": 2, "step": 1}}', "space has 'lr' with"),
        ('{"lr": {"low": 2, "high": 1}}', "space has 'lr' with .*; `low <= high` must hold"),
        ('{"lr": {"low": NaN, "high": 1}}', "low is nan; it must be finite"),
        ('{"lr": {"choices": [[1]]}}', r"choices has \[1\]"),
    ],
)
def test_files_that_are_no_space(tmp_path, text, line):
    file = tmp_path / "space.json"
    file.write_text(text)
    with pytest.raises((ValueError, TypeError), match=line):
        read_space(file)


@pytest.mark.parametrize(
    ("space", "line"),
    [
        ({}, "space is empty"),
        ({"bits": CategoricalDistribution((8,))}, "space has 'bits'; it may have lr"),
        ({"guidance.weight": IntDistribution(0, 1)}, "pull is 'none'; leave it out, or add a pull"),
        ({"lr": FloatDistribution(0.0, 1.0)}, "space has 'lr' with 0.0, which cannot be: lr is 0.0"),
        ({"centers": CategoricalDistribution(("best", "worst"))}, "space has 'centers' with 'worst'"),
        ({"options.lamb": IntDistribution(0, 1)}, "options has 'lamb', which method csq does not take"),
        ({"lr": 0.1}, "it must be one of Optuna's distributions"),
    ],
)
def test_spaces_that_cannot_be(train, space, line):
    with pytest.raises((ValueError, TypeError), match=line):
        search(small(pull="none"), train, 4, space=space)


# ------------------------------------------------------------------------------------------------------- the search


@pytest.fixture(scope="module")
def found(train):
    return search(small(), train, 4, trials=7, space=SMALL, compare=True)


def test_the_best_trial_has_the_largest_ratio(found):
    assert [trial.number for trial in found.trials] == list(range(7))
    values = {trial.number: score_of(trial).by("ratio") for trial in found.trials if state_of(trial) == "complete"}
    assert values[found.best.number] == max(values.values())
    assert found.best_params == found.best.params
    assert all(getattr(found.hasher.training, name) == found.best_params[name] for name in ("lr", "hidden"))
    assert not hasattr(found.hasher, "model_")
    assert all(list(trial.params) == list(SMALL) for trial in found.trials)
    for trial in found.trials:
        assert all(values._contains(values.to_internal_repr(trial.params[name])) for name, values in SMALL.items())
    assert len({json.dumps(trial.params) for trial in found.trials}) == 7


def test_the_first_trial_is_the_hasher_as_it_is(found, train):
    first = found.trials[0]
    assert first.params == {"lr": 1e-3, "hidden": 6, "guidance.weight": 1.0}
    fitted, validation = hold_out(train, 0.2, 0)
    codes = encode_split(fit_split(small(), fitted, 4), validation)
    again = score_codes(codes, validation.labels, 4, 8, found.percentile, with_map=True)
    score = score_of(first)
    assert (score.inter, score.intra, score.map) == (again.inter, again.intra, again.map)
    assert first.user_attrs["epochs"] == 2
    assert found.held_out == len(validation)


def test_by_map_the_largest_map_is_chosen(train, found):
    by_map = search(small(), train, 4, trials=7, space=SMALL, by="map", prune=False)
    values = [trial.value for trial in by_map.trials]
    assert by_map.best.number == int(np.argmax(values))
    assert values[0] == score_of(found.trials[0]).map
    assert {state_of(trial) for trial in by_map.trials} == {"complete"}


def test_tune_fits_the_best_on_all_training_rows(train, blobs):
    tuned = tune(small(), train, 4, trials=2, space=SMALL)
    alone = fit_split(with_params(small(), tuned.best_params), train, 4)
    assert tuned.hasher.model_.fingerprint() == alone.model_.fingerprint()
    assert len(tuned.hasher.train_codes_) == len(train)


def test_a_data_set_is_tuned_by_its_train_split_alone(blobs, train):
    query = part_of(blobs.query_x, 3 * blobs.query_y)
    gone = EmbeddingSplit(np.full_like(blobs.x, np.nan), np.arange(len(blobs.x)), 3 * blobs.y)
    data = Dataset("blobs", "files", part_of(blobs.x, 3 * blobs.y), gone, query)  # with classes 0, 3, 6 and 9
    tuned = tune(small(), data, trials=2, space=SMALL)
    assert tuned.hasher.classes_.tolist() == [0, 3, 6, 9]
    assert tuned.best_params == search(small(), train, 4, trials=2, space=SMALL).best_params
    with pytest.raises(ValueError, match="classes is 4 and data is a data set"):
        search(small(), data, 4)


def outcome(found):
    return [
        (trial.params, trial.state, trial.value, trial.intermediate_values, score_of(trial).distinct)
        for trial in found.trials
    ]


@pytest.mark.parametrize("kept", [0, 3, 6])
def test_a_killed_search_goes_on_as_if_nothing_had_happened(train, found, tmp_path, kept, monkeypatch):
    """The last two of ``found`` are proposed by what Optuna learned of the five before."""
    fit = fit_split

    def dies(self, *arguments, **more):
        if len(list((tmp_path / "runs").glob("[0-9]*"))) == kept:
            raise KeyboardInterrupt
        return fit(self, *arguments, **more)

    options = {"trials": 7, "space": SMALL, "compare": True, "folder": tmp_path}
    monkeypatch.setattr("lbhash.tuning.tuner.fit_split", dies)
    with pytest.raises(KeyboardInterrupt):
        search(small(), train, 4, **options)
    monkeypatch.undo()
    assert outcome(search(small(), train, 4, **options)) == outcome(found)
    (tmp_path / "runs" / "5.json").unlink()
    assert outcome(search(small(), train, 4, **options)) == outcome(found)


def test_another_search_does_not_go_on(train, tmp_path):
    options = {"trials": 1, "space": SMALL, "folder": tmp_path}
    search(small(), train, 4, **options)
    with pytest.raises(ValueError, match=r"which holds a search with percentile 75.0, and this one has 90;"):
        search(small(), train, 4, **options, percentile=90)
    with pytest.raises(ValueError, match=r"which holds a search with epochs 2, and this one has 3; name another"):
        search(small(epochs=3), train, 4, **options)
    other = part_of(train.embeddings + 1, train.labels)
    with pytest.raises(ValueError, match="holds a search with rows "):
        search(small(), other, 4, **options)
    assert len(search(small(), train, 4, **options | {"trials": 2}).trials) == 2  # more of the same
    file = tmp_path / "runs" / "0.json"
    file.write_text(file.read_text().replace("0.001", "0.002"))
    with pytest.raises(ValueError, match=r"0.json is damaged .*; delete it to run it again$"):
        search(small(), train, 4, **options)
    with pytest.raises(ValueError, match="which is a file; it must be a folder"):
        search(small(), train, 4, **options | {"folder": file})


def test_trials_that_cannot_be_trained_fail_alone(train):
    wild = {"lr": CategoricalDistribution((1e-3, 1e38))}
    some = search(small(pull="none", seed=1), train, 4, trials=6, space=wild)
    states = {trial.params["lr"]: state_of(trial) for trial in some.trials}
    assert states == {1e-3: "complete", 1e38: "fail"}
    failed = next(trial for trial in some.trials if state_of(trial) == "fail")
    assert "a smaller lr may help" in failed.user_attrs["why"]
    assert as_dict(failed)["score"] is None
    with pytest.raises(ValueError, match=r"none of 2 trials came to its end: the loss is"):
        search(small(pull="none"), train, 4, trials=2, space={"lr": CategoricalDistribution((1e38,))})


def test_trials_below_the_median_are_ended(train, monkeypatch):
    """The value of every epoch is made up: 1 in the first five trials, then 2, then a half."""

    def searched(**options):
        ratios = iter([1.0] * 20 + [2.0] * 4 + [0.5] * 4)
        monkeypatch.setattr("lbhash.tuning.tuner._Watch.value", lambda watch: next(ratios))
        return search(small(epochs=4), train, 4, trials=7, space=SMALL, **options)

    found = searched(compare=True)
    assert [state_of(trial) for trial in found.trials] == ["complete"] * 6 + ["pruned"]
    assert list(found.table()["epochs"]) == [4] * 6 + [2]  # the first quarter is not judged
    assert score_of(found.trials[6]).map is None
    assert score_of(found.trials[6]).intra >= 0
    by_map = searched(by="map")
    assert state_of(by_map.trials[6]) == "pruned"
    assert by_map.table()["value"][6] == 0.5
    assert by_map.best.value == max(score_of(trial).map for trial in by_map.trials[:6])
    assert set(searched(prune=False).table()["epochs"]) == {4}


@pytest.mark.parametrize(
    ("options", "error", "line"),
    [
        ({"percentile": 101}, ValueError, "percentile is 101; it must be from 0 to 100"),
        ({"held_out": 7}, ValueError, "held_out is 7; it must be"),
        ({"prune": "x"}, TypeError, "prune is 'x'; it must be True"),
        ({"classes": None}, ValueError, "classes is missing"),
        ({"data": [1, 2]}, TypeError, "data is of type list; it must be a Dataset or an EmbeddingSplit"),
        ({"hasher": Hasher(8, training=TrainingArguments(threads=0))}, ValueError, "threads is 0"),
        ({"hasher": Hasher(8, device="abacus")}, ValueError, "device is 'abacus'"),
    ],
)
def test_bad_arguments(train, options, error, line):
    arguments = {"hasher": small(), "data": train, "classes": 4, "trials": 1} | options
    with pytest.raises(error, match=line):
        search(**arguments)


def test_without_optuna_it_says_how_to_get_it(train, monkeypatch):
    monkeypatch.setitem(sys.modules, "optuna", None)
    with pytest.raises(ValueError, match=r"tune needs the package optuna: pip install 'lbhash\[tune\]'"):
        search(small(), train, 4, space=SMALL)


def test_of_equal_ratios_the_papers_decides(found):
    held = asdict(score_of(found.trials[0])) | {"inter": 8.0}
    distances = [(1.0, 4.0, 8.0), (1.0, 6.0, 8.0), (1.0, 6.0, 8.0), (1.0, 6.0, 9.0), (2.0, 8.0, 2.0)]
    trials = []
    for number, values in enumerate(distances):
        metadata = {"score": held | dict(zip(("intra", "inter_min", "intra_max"), values, strict=True))}
        trials.append(create_trial(value=8.0 / values[0], user_attrs=metadata))
        trials[-1].number = number
    assert best_trial(trials, "ratio").number == 1
    assert best_trial(trials[2:], "ratio").number == 2
    (diagnostic,) = diagnose_values([trial.value for trial in trials])
    assert (diagnostic.kind, diagnostic.line.split(", and")[0]) == (
        "ceiling",
        "4 of 5 trials have the largest ratio, 8",
    )
    assert diagnose_values([8.0, 4.0, 4.0]) == diagnose_values([0.0, 0.0]) == diagnose_values([]) == []


# ------------------------------------------------------------------------------------------------------ the command


@pytest.fixture(scope="module")
def space_file(tmp_path_factory):
    file = tmp_path_factory.mktemp("space") / "space.json"
    file.write_text('{"lr": {"low": 0.001, "high": 0.01, "log": true}, "hidden": {"choices": [8]}}')
    return file


def test_the_command_leaves_trials_and_a_model(succeed, refuse, json_of, tmp_path, space_file):
    out = tmp_path / "tuned"
    given = ["digits", "--out", out, "--bits", 16, "--epochs", 1, "--space", space_file, "--trials", 2, "--compare"]
    given += ["--option", "lam=0.02"]
    told = json_of("tune", *given)
    rows = list(csv.DictReader((out / "trials.csv").open()))
    assert [row["number"] for row in rows] == ["0", "1"]
    best = max(rows, key=lambda row: float(row["value"]))
    assert told["best_params"] == {"lr": float(best["lr"]), "hidden": 8}
    assert json.loads((out / "best.json").read_text())["best_params"] == told["best_params"]
    assert all(set(trial["warnings"][0]) == {"kind", "line"} for trial in told["trials"] if trial["warnings"])
    about_rows = {"few", "coarse"} & {warning["kind"] for warning in told["warnings"]}
    assert about_rows == ({"coarse"} if 159 * (1 - told["percentile"] / 100) < 1 else set())
    assert (out / "ratio_map.png").read_bytes().startswith(b"\x89PNG")
    assert json.loads((out / "model" / "metrics.json").read_text()) == told["metrics"]
    stored = Hasher.from_pretrained(out / "model")
    assert (stored.training.lr, stored.options) == (told["best_params"]["lr"], {"lam": 0.02})

    printed, _ = succeed("tune", *given)
    assert "2 trials by ratio, 160 validation rows" in printed
    assert f"* trial {best['number']}: lr" in printed
    for trial in told["trials"]:
        for warning in trial["warnings"]:
            assert warning["kind"] in printed
    assert "which holds a search with options" in refuse("tune", *given[:-1], "lam=0.03")
    assert "there is no --resume; a search goes on with the trials in the folder" in refuse("tune", *given, "--resume")


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["--top-k", "100000"], "--top-k is 100000; it must be from 1 to the size of the base (1597)"),
        (["--method", "itq"], "method is 'itq', which fits a model by itself; a search is for methods with epochs"),
        (
            ["x.npy"],
            "data has no labels, which the trials of a search learn from; give a file of labels or a --label-column",
        ),
        (["--backbone", "b", "--labels", "y.npy"], "labels is 'y.npy'; images are one file"),
    ],
)
def test_what_the_command_refuses(refuse, tmp_path, arguments, line):
    np.save(tmp_path / "x.npy", np.random.default_rng(0).normal(size=(60, 5)))
    arguments = [tmp_path / "x.npy" if word == "x.npy" else word for word in arguments]
    data = [] if arguments[0] == tmp_path / "x.npy" else ["digits"]
    assert line in refuse("tune", *data, "--out", tmp_path / "out", *arguments)


def test_images_are_embedded_once(refuse, succeed, tmp_path, space_file, monkeypatch):
    monkeypatch.setenv("LBHASH_CACHE", str(tmp_path / "cache"))  # no other test has embedded them
    write_stripes(tmp_path / "images", 20)
    write_backbone(tmp_path / "backbone")
    given = (tmp_path / "images", "--bits", 8, "--epochs", 1, "--space", space_file, "--trials", 2)
    given += ("--out", tmp_path / "out", "--json")
    errors = refuse("tune", *given)
    assert "which holds images; give what embeds them (--backbone FOLDER)" in errors
    assert not (tmp_path / "out").exists()
    printed, errors = succeed("tune", *given, "--backbone", tmp_path / "backbone")
    assert errors.count("embedding") == 1
    assert json.loads(printed)["metrics"]["protocol"] == "holdout"
    known = Hasher.from_pretrained(tmp_path / "out" / "model").model_.metadata["backbone"]
    assert known["name"] == str(tmp_path / "backbone")
