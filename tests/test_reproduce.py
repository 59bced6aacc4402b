"""The experiments that need no data, how results are written, and the command."""

from __future__ import annotations

import itertools
import json
import math
import re
from importlib.resources import files
from pathlib import Path

import numpy as np
import pytest

from lbhash.data.split import EmbeddingSplit
from lbhash.evaluation.metrics import lowest_average_precision
from lbhash.reproduce import Settings, experiments, posterior_2bits, posterior_8, posterior_16, run_experiment, theory
from lbhash.reproduce.distributions import (
    dirichlet,
    divergence,
    independent_bits,
    independent_blocks,
    knowing_the_prior,
    product_of_marginals,
    random_joint,
)
from lbhash.reproduce.results import Result
from lbhash.reproduce.results.write import as_csv, as_json, as_markdown
from lbhash.reproduce.runs.sources import Source
from lbhash.reproduce.scores import random_truth
from lbhash.reproduce.surrogate_fit import (
    fit_surrogate,
    mean_of_blocks,
    mean_of_products,
    mean_with_dropout,
    raw_outputs,
    stretched,
)
from lbhash.training.schedule import Schedule
from lbhash.trials.intervals import Interval
from lbhash.utils import parallel
from reproduce_tools import check_files, check_written

pytestmark = [pytest.mark.usefixtures("one_thread"), pytest.mark.end_to_end]

BRIEF = Schedule(epochs=1)


def rng(*seed):
    return np.random.default_rng(seed or 0)


def sampled(joint, samples, *seed):
    """How often each outcome is among samples."""
    return np.bincount(rng(*seed).choice(len(joint), samples, p=joint), minlength=len(joint))


# Distributions and their estimates


def test_independent_bits_lose_nothing():
    joint = product_of_marginals(rng().uniform(0.2, 0.8, 6))
    assert divergence(joint, independent_bits(joint)) == pytest.approx(0, abs=1e-14)
    np.testing.assert_allclose(independent_blocks(joint, 2), joint)
    correlated = random_joint(4, rng())
    assert divergence(correlated, independent_bits(correlated)) > 0.05


def test_smoothing():
    counts = np.array([0, 3, 7, 0, 1, 25, 4, 0])
    estimate = dirichlet(counts)
    assert estimate.sum() == pytest.approx(1)
    alpha = estimate[0] * counts.sum() / (1 - 8 * estimate[0])
    np.testing.assert_allclose(estimate, (counts + alpha) / (40 + 8 * alpha))

    def evidence(a):
        return math.lgamma(8 * a) - math.lgamma(40 + 8 * a) + sum(math.lgamma(c + a) - math.lgamma(a) for c in counts)

    assert evidence(alpha) >= max(evidence(0.98 * alpha), evidence(1.02 * alpha))


def test_knowing_the_prior_is_best_on_average():
    scores = []
    for seed in range(40):
        truth = random_joint(8, rng(8, seed))
        counts = sampled(truth, 1000, 9, seed)
        estimates = knowing_the_prior(counts), dirichlet(counts)
        scores.append([*(divergence(truth, found) for found in estimates), divergence(counts / 1000, truth)])
    prior, smooth, plain = np.mean(scores, axis=0)
    assert prior < smooth < plain
    many = sampled(truth, 10**6, 10)
    assert divergence(many / 10**6, knowing_the_prior(many)) < 1e-5


def test_the_fitted_surrogate_tells_the_joint_of_correlated_bits():
    truth = np.array([0.05, 0.45, 0.4, 0.1])
    outcomes = rng().choice(4, 2000, p=truth)
    outputs = raw_outputs(outcomes, 2, rng(1))
    np.testing.assert_array_equal(outputs.numpy() > 0, np.stack([outcomes & 1, outcomes >> 1], axis=1))
    surrogate = fit_surrogate(outputs, 0, Schedule(epochs=10, decay_every=4))
    said = mean_of_blocks(surrogate, outputs)
    assert said.shape == (1, 4)
    assert said.sum() == pytest.approx(1)
    assert divergence(truth, said[0]) < 0.01 < divergence(truth, independent_bits(truth))
    again = fit_surrogate(outputs, 0, Schedule(epochs=10, decay_every=4))
    np.testing.assert_array_equal(said, mean_of_blocks(again, outputs))
    dropped = mean_with_dropout(surrogate, outputs, 0)
    assert not surrogate.training
    assert 0 < np.abs(dropped - said).max() < 0.1


def test_the_mean_of_products_is_no_product():
    # 16 bits, all equal: given ℓ the blocks are independent, on average they are the same.
    outputs = raw_outputs(np.repeat([0, 65535], 300), 16, rng())
    surrogate = fit_surrogate(outputs, 0, Schedule(epochs=15, decay_every=15))
    joint = mean_of_products(surrogate, outputs)
    assert joint.sum() == pytest.approx(1)
    assert joint[[0, 65535]].sum() > 0.9
    first, second = mean_of_blocks(surrogate, outputs)
    np.testing.assert_allclose(joint.reshape(256, 256).sum(0), first)
    np.testing.assert_allclose(joint.reshape(256, 256).sum(1), second)
    rows = surrogate.joint(outputs[:3]).double().detach().numpy()
    expected = np.mean([np.outer(row[1], row[0]).ravel() for row in rows], axis=0)
    np.testing.assert_allclose(mean_of_products(surrogate, outputs[:3]), expected)


def test_the_surrogate_takes_as_many_steps_whatever_the_samples():
    schedule = Schedule(epochs=30)
    assert stretched(schedule, 1000, 10_000) == Schedule(epochs=300, decay_every=100)
    assert stretched(schedule, 100_000, 10_000) == posterior_16.lasting(schedule, 100_000) == schedule
    assert posterior_16.lasting(schedule, 5_000) == Schedule(epochs=60, decay_every=20)
    assert posterior_16.lasting(schedule, 300_000) == Schedule(epochs=30, batch_size=3 * schedule.batch_size)


# The experiments


def test_posterior_8(tmp_path, capsys, in_this_process):
    in_this_process(parallel)
    settings = Settings(seeds=2, workers=2, runs=tmp_path / "runs")
    small = {"samples": 5000, "curve": (3000,), "fresh": (100, 4000), "schedule": BRIEF}
    result = posterior_8.run(settings, **small)
    check_files("posterior-8", result, tmp_path / "out")
    new = ("surrogate, 100 new outputs", "surrogate, 4,000 new outputs")
    plain = ("frequencies", "Dirichlet", "known prior")
    names = ["marginals", "surrogate", "surrogate, dropout", *new, *plain]
    assert list(result.table["estimate"]) == names
    found = {name: kl.mean for name, kl in result.table.iloc[:, :2].to_numpy()}
    assert found["known prior"] < found["surrogate"] < found["marginals"]
    assert list(result.more["samples"].table["samples"]) == [3000, 5000]
    runs = sorted((tmp_path / "runs").iterdir())
    assert [run.name.rpartition("-")[0] for run in runs] == [
        f"posterior-8-{samples}samples-seed{seed}" for samples in (3000, 5000) for seed in (0, 1)
    ]
    of_seeds = [json.loads(run.read_text())["joints"] for run in runs[2:]]
    for name, there, back, _ in result.table.to_numpy():
        pairs = [(random_truth(8, seed), np.array(of_seed[name])) for seed, of_seed in enumerate(of_seeds)]
        assert back.mean == pytest.approx(np.mean([divergence(found, truth) for truth, found in pairs]), rel=1e-4)
        assert there.mean == pytest.approx(np.mean([divergence(truth, found) for truth, found in pairs]), rel=1e-4)
    assert re.search("estimating .* 4/4 runs", capsys.readouterr().err)
    runs[1].unlink()
    posterior_8.run(settings, **small)
    assert runs[1].exists()


def test_posterior_16(tmp_path, in_this_process):
    in_this_process(parallel)
    settings = Settings(seeds=1, workers=2, runs=tmp_path / "runs")
    result = posterior_16.run(settings, samples=(3000,), curve=(3000, 20_000), schedule=BRIEF)
    check_files("posterior-16", result, tmp_path / "out")
    assert len(list((tmp_path / "runs").iterdir())) == 2
    found = {name: kl.mean for name, kl in result.table.iloc[:, :2].to_numpy()}
    floor = found["two blocks, exact"]
    assert all(found[name] > floor for name in ("marginals", "two blocks, frequencies", "surrogate, blocks"))
    assert found["frequencies"] == math.inf
    assert found["known prior"] < floor


def test_posterior_2bits(tmp_path, blobs, write_parquet):
    file = write_parquet(tmp_path / "blobs.parquet", np.vstack([blobs.x] * 2), label=np.tile(blobs.y, 2))
    result = posterior_2bits.run(Settings(sources=(Source("blobs", str(file)),)), epochs=2, steps=60)
    check_files("posterior-2bits", result, tmp_path / "out")
    rows = {name: values for name, *values in result.table.to_numpy()}
    for column in range(4):
        codes = [rows[f"code {name}"][column] for name in posterior_2bits.OUTCOMES]
        assert sum(codes) == pytest.approx(1)
        assert rows["bit 1 is +"][column] == pytest.approx(codes[1] + codes[3])
        assert rows["bit 2 is −"][column] == pytest.approx(codes[0] + codes[1])
    assert rows["bit 1 is −"][3] == pytest.approx(0.473)
    assert rows["bit 2 is −"][3] == pytest.approx(0.525)


def test_the_nearest_classes():
    x, y = np.zeros((8, 2), np.float32), np.repeat([0, 1, 3, 5], 2)
    x[:, 0] = np.repeat([0, 9, 4, 5], 2)
    assert posterior_2bits.nearest_classes(EmbeddingSplit(x, np.arange(8), y)) == (3, 5)
    with pytest.raises(ValueError, match="data has 1 class"):
        posterior_2bits.nearest_classes(EmbeddingSplit(x, np.arange(2), y[:2]))


def test_theory(tmp_path, command):
    status, out, error = command("reproduce", "theory", "--out", tmp_path)
    assert (status, error) == (0, "")
    assert "duplicated and mixed" in out
    result = theory.run(Settings())
    check_written("theory", result, tmp_path, "lbhash reproduce theory --seeds 5")
    named = result.table
    for i, lowest in enumerate(named["orders: lowest"]):
        assert named["floor"][i] <= named["worst"][i] + 1e-12
        assert named["worst"][i] <= named["AP"][i] <= named["best"][i] + 1e-12
        if lowest is not None:
            assert named["worst"][i] == pytest.approx(lowest)
            assert named["best"][i] == pytest.approx(named["highest"][i])
            assert named["floor"][i] == pytest.approx(named["all lists"][i])
    for k, m, floor, found, lists in result.more["curve"].table.to_numpy():
        assert floor == pytest.approx(found) == pytest.approx(float(lowest_average_precision(k, m)))
        assert lists == math.comb(k + m, k)
    assert sorted(theory.orders(["+-", "-", "++-"])) == [
        [first, *places] for first in (0, 1) for places in itertools.combinations((3, 4, 5), 2)
    ]
    assert theory.direct_average_precision([1, 2]) == pytest.approx((1 / 2 + 2 / 3) / 2)


# How results are written


def test_a_table_of_records():
    records = [{"x": 1.0, "x, paper": 2.0, "y": 3, "y, paper": None, "paper": 4.0}]
    table = Result.of("T", records, "", None).table
    assert list(table) == ["x", "x, paper", "y", "paper"]  # the paper has nothing for y
    assert table.to_numpy().tolist() == [[1.0, 2.0, 3, 4.0]]


def test_every_text_belongs_to_a_table():
    names = [file.stem for file in (files("lbhash.reproduce") / "texts").iterdir() if file.name.endswith(".md")]
    of_several = {"host-guided", "host-guided-lift", "losses", "setting"}
    assert all(name.startswith(tuple(experiments())) or name in of_several for name in names)


def test_tables():
    records = [
        {"name": "a", "kl": Interval.of([1.0, 2.0]), "x": 0.25, "n": None},
        {"name": "b", "kl": None, "x": math.inf, "n": 1200},
    ]
    result = Result.of("T", records, "Words.", None, digits=4)
    lines = as_csv(result.table).splitlines()
    assert lines[0] == "name,kl,kl ± 95 %,kl infinite,x,n"
    assert lines[1].startswith("a,1.5,6.353")
    assert lines[2] == "b,,,,inf,1200"
    page = as_markdown("t", result, "lbhash reproduce t")
    assert "| a | 1.5000 ± 6.3531 | 0.2500 |  |" in page
    assert "| b |  | ∞ | 1,200 |" in page
    assert "|:--|--:|--:|--:|" in page
    assert as_json("t", result)["tables"]["t"]["rows"][1]["x"] is None


# The command


def test_the_list_is_that_of_the_registry(command):
    status, out, error = command("reproduce", "--list")
    assert (status, error) == (0, "")
    for name, experiment in experiments().items():
        shown = "yes" if experiment.in_docs else "no"
        assert any(line.split(maxsplit=2) == [name, shown, experiment.summary] for line in out.splitlines())
        docs = Path(__file__).parents[1] / "docs" / "reproduce"
        assert experiment.in_docs == any((docs / f"{name}.{ending}").exists() for ending in ("csv", "png"))
    status, out, _ = command("reproduce", "--list", "--json")
    assert [row["name"] for row in json.loads(out)["experiments"]] == [*experiments(), "all"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["posterior-9"], "name is 'posterior-9'; it must be one of map, "),
        ([], "NAME is missing; there are several experiments: give NAME, or --list"),
        (["theory", "--data", "a.npy"], "data is 'a.npy', and theory makes its own; leave it out"),
        (["ratio", "--method", "csq"], "--method is csq, and ratio has no use for it"),
        (["imagenet"], "imagenet needs data of 1,000 classes, and digits has 10; give embeddings of ILSVRC"),
        (["all", "--data", "no.parquet"], "no.parquet"),
    ],
)
def test_bad_arguments_are_one_line(command, tmp_path, arguments, said):
    status, out, error = command("reproduce", *arguments, "--out", tmp_path / "out")
    assert (status, out) == (2, "")
    assert said in error
    assert error.count("\n") == 1
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("name", ["theory", "all"])
def test_a_file_in_the_way(command, tmp_path, name):
    (tmp_path / "out").write_text("")
    status, _, error = command("reproduce", name, "--out", tmp_path / "out")
    assert status == 2
    assert "which is a file; it must be a folder" in error
    with pytest.raises(ValueError, match="it must be one of map, "):
        run_experiment("x", Settings(), tmp_path)
