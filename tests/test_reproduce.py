from __future__ import annotations

import csv
import itertools
import json
import math
from importlib.resources import files

import numpy as np
import pytest
from matplotlib.image import imread

from lbhash.evaluation.metrics import lowest_average_precision
from lbhash.reproduce import Settings, experiments, posterior_2bits, posterior_8, posterior_16, run_experiment, theory
from lbhash.reproduce.distributions import (
    dirichlet,
    divergence,
    frequencies,
    independent_bits,
    independent_blocks,
    knowing_the_prior,
    marginals,
    random_joint,
    sample,
    signs,
)
from lbhash.reproduce.ranked_lists import direct_average_precision, groups, lowest_of_all, orders
from lbhash.reproduce.results import Interval, Result
from lbhash.reproduce.results.write import as_csv, as_json, as_markdown, print_result, write_result
from lbhash.reproduce.runs.sources import Source
from lbhash.reproduce.scores import Trial, random_truth
from lbhash.reproduce.surrogate_fit import (
    fit_surrogate,
    mean_of_blocks,
    mean_of_products,
    mean_with_dropout,
    raw_outputs,
    stretched,
)
from lbhash.reproduce.texts import text
from lbhash.training.schedule import Schedule
from lbhash.utils import parallel

pytestmark = pytest.mark.usefixtures("one_thread")

BRIEF = Schedule(epochs=1)


def rng(seed=0):
    return np.random.default_rng(seed)


def independent(bits, seed=0):
    """A joint distribution of independent bits, outcome by outcome."""
    ones = rng(seed).uniform(0.2, 0.8, bits)
    return np.array([math.prod(one if b >> k & 1 else 1 - one for k, one in enumerate(ones)) for b in range(2**bits)])


def test_divergence_is_the_direct_sum():
    p, q = random_joint(5, rng(1)), random_joint(5, rng(2))
    assert divergence(p, q) == pytest.approx(sum(a * math.log(a / b) for a, b in zip(p, q, strict=True)), rel=1e-12)
    assert divergence(p, p) == 0
    assert divergence(np.array([0.5, 0.5]), np.array([1.0, 0.0])) == math.inf
    assert divergence(np.array([1.0, 0.0]), np.array([0.5, 0.5])) == pytest.approx(math.log(2))


def test_independent_bits_lose_nothing():
    for bits in (1, 3, 6):
        joint = independent(bits)
        assert divergence(joint, independent_bits(joint)) == pytest.approx(0, abs=1e-14)
    joint = random_joint(4, rng())
    expected = [sum(joint[b] for b in range(16) if b >> k & 1) for k in range(4)]
    np.testing.assert_allclose(marginals(joint), expected)
    assert divergence(joint, independent_bits(joint)) > 0.05


def test_the_floor_of_two_blocks_is_the_nearest_product():
    joint = random_joint(3, rng(3))
    floor = divergence(joint, independent_blocks(joint, 1))
    # By brute force over a grid of all products of a distribution of bit 1 and one of bits 2 and 3.
    grid = np.linspace(0, 1, 26)[1:-1]
    lowest = math.inf
    for one in grid:
        first = np.array([1 - one, one])
        for a, b, c in itertools.product(grid, repeat=3):
            if a + b + c < 0.999:
                second = np.array([a, b, c, 1 - a - b - c])
                product = np.outer(second, first).ravel()
                lowest = min(lowest, float(joint @ np.log(joint / product)))
    assert floor <= lowest <= floor + 0.02
    np.testing.assert_allclose(independent_blocks(independent(6), 2), independent(6))
    # Blocks of one bit each are the product of marginals, and larger blocks are never farther.
    two = random_joint(2, rng(4))
    np.testing.assert_allclose(independent_blocks(two, 1), independent_bits(two))
    assert floor <= divergence(joint, independent_bits(joint))


def test_the_frequencies_cost_what_the_docstring_says():
    truth = random_joint(4, rng(5))
    n = 20_000
    found = [frequencies(np.bincount(sample(truth, n, rng([6, s])), minlength=16)) for s in range(400)]
    for scores in ([divergence(truth, q) for q in found], [divergence(q, truth) for q in found]):
        error = np.std(scores) / math.sqrt(len(scores))
        assert abs(np.mean(scores) - 15 / (2 * n)) < 4 * error


def test_a_softmax_of_normal_draws_is_half_a_nat_from_uniform():
    joint = random_joint(16, rng(7))
    assert divergence(joint, np.full(2**16, 2.0**-16)) == pytest.approx(0.5, abs=0.02)
    assert divergence(joint, independent_blocks(joint, 8)) == pytest.approx(0.49, abs=0.02)


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
    scores = {"frequencies": [], "dirichlet": [], "prior": []}
    for seed in range(40):
        truth = random_joint(8, rng([8, seed]))
        counts = np.bincount(sample(truth, 1000, rng([9, seed])), minlength=256)
        scores["frequencies"].append(divergence(frequencies(counts), truth))
        scores["dirichlet"].append(divergence(truth, dirichlet(counts)))
        scores["prior"].append(divergence(truth, knowing_the_prior(counts)))
    mean = {name: np.mean(values) for name, values in scores.items()}
    assert mean["prior"] < mean["dirichlet"] < mean["frequencies"]
    many = np.bincount(sample(truth, 10**6, rng(10)), minlength=256)
    assert divergence(frequencies(many), knowing_the_prior(many)) < 1e-5


def test_outputs_have_the_signs_of_their_outcomes():
    outcomes = rng().integers(0, 16, 50)
    outputs = raw_outputs(outcomes, 4, rng(1))
    np.testing.assert_array_equal(np.sign(outputs.numpy()), signs(outcomes, 4))
    assert signs(np.array([1]), 3).tolist() == [[1, -1, -1]]


def test_the_fitted_surrogate_tells_the_joint_of_correlated_bits():
    truth = np.array([0.05, 0.45, 0.4, 0.1])
    outcomes = sample(truth, 2000, rng())
    outputs = raw_outputs(outcomes, 2, rng(1))
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
    assert joint.shape == (65536,)
    assert joint.sum() == pytest.approx(1)
    assert joint[[0, 65535]].sum() > 0.9
    first, second = mean_of_blocks(surrogate, outputs)
    np.testing.assert_allclose(joint.reshape(256, 256).sum(0), first)
    np.testing.assert_allclose(joint.reshape(256, 256).sum(1), second)
    rows = surrogate.joint(outputs[:3]).double().detach().numpy()
    expected = np.mean([np.outer(row[1], row[0]).ravel() for row in rows], axis=0)
    np.testing.assert_allclose(mean_of_products(surrogate, outputs[:3]), expected)


def test_fewer_samples_get_more_epochs():
    assert stretched(Schedule(epochs=30), 1000, 10_000) == Schedule(epochs=300, decay_every=100)
    assert stretched(Schedule(epochs=30), 100_000, 10_000) == Schedule(epochs=30)


def test_more_samples_of_16_bits_get_larger_batches():
    schedule = Schedule(epochs=30)
    assert posterior_16.lasting(schedule, 5_000) == Schedule(epochs=60, decay_every=20)
    assert posterior_16.lasting(schedule, 100_000) == schedule
    assert posterior_16.lasting(schedule, 300_000) == Schedule(epochs=30, batch_size=3 * schedule.batch_size)


def test_intervals():
    assert Interval.of([1.0, 2.0, 3.0]).half == pytest.approx(4.302652729911275 / math.sqrt(3))
    assert str(Interval.of([0.5])) == "0.5000"
    assert str(Interval.of([0.5, 0.5, math.inf])) == "0.5000 ± 0.0000 (∞ in 1 of 3)"
    assert str(Interval.of([math.inf] * 2)) == "∞"


def test_lists():
    assert groups("+(+-)-") == ["+", "+-", "-"]
    assert len(list(orders(groups("(+-)-(++-)")))) == 2 * 3
    assert direct_average_precision([False, True, True]) == pytest.approx((1 / 2 + 2 / 3) / 2)
    for wrong in ("+(+", "+)", "((+))", "+x"):
        with pytest.raises(ValueError, match="list is"):
            groups(wrong)
    for items, relevant, misrank in ((5, 2, 1), (7, 3, 4), (8, 4, 0)):
        found, lists = lowest_of_all(items, relevant, misrank)
        assert found == pytest.approx(float(lowest_average_precision(relevant, misrank)))
        assert lists == math.comb(relevant + misrank, relevant)


def check_files(name, result, out):
    """All files are there, the images are images, and the tables hold the rows."""
    parts = result.tables(name)
    expected = {f"{name}.md"} | {f"{part}.{kind}" for part in parts for kind in ("csv", "png", "svg")}
    assert {file.name for file in out.iterdir()} == expected
    page = (out / f"{name}.md").read_text()
    for part, table in parts.items():
        image = imread(out / f"{part}.png")
        assert image.shape[0] > 400
        assert image.shape[1] > 800
        assert image[..., :3].std() > 0.02
        assert "<svg" in (out / f"{part}.svg").read_text()
        with (out / f"{part}.csv").open(newline="") as lines:
            rows = list(csv.reader(lines))
        assert len(rows) == len(table.rows) + 1
        assert {len(row) for row in rows} == {len(rows[0])}
        for row in table.rows:
            assert page.count(f"| {row[0]} |" if isinstance(row[0], str) else f"| {row[0]:,} |") >= 1
        assert f"({part}.png)" in page
    assert "{marginals}" not in page
    assert "{seeds}" not in page
    assert list(json.loads(json.dumps(as_json(name, result), allow_nan=False))["tables"]) == list(parts)


def test_posterior_8(tmp_path, capsys, in_this_process):
    in_this_process(parallel)
    settings = Settings(seeds=2, workers=2, runs=tmp_path / "runs")
    small = {"samples": 5000, "curve": (3000,), "fresh": (100, 4000), "schedule": BRIEF}
    result = posterior_8.run(settings, **small)
    write_result("posterior-8", result, tmp_path / "out", "the command")
    check_files("posterior-8", result, tmp_path / "out")
    assert [row[0] for row in result.rows] == [
        "marginals",
        "surrogate",
        "surrogate, dropout",
        "surrogate, 100 new outputs",
        "surrogate, 4,000 new outputs",
        "frequencies",
        "Dirichlet",
        "known prior",
    ]
    found = {row[0]: row[1].mean for row in result.rows}
    assert found["known prior"] < found["surrogate"] < found["marginals"]
    assert [row[0] for row in result.more["samples"].rows] == [3000, 5000]
    trials = [Trial(5000, seed, stretched(BRIEF, 5000, 10_000), (100, 4000)) for seed in (0, 1)]
    of_seeds = [posterior_8.estimates(random_truth(8, trial.seed), trial) for trial in trials]
    for name, there, back, _ in result.rows:
        pairs = [(random_truth(8, seed), of_seed[name]) for seed, of_seed in enumerate(of_seeds)]
        assert there.mean == pytest.approx(np.mean([divergence(truth, found) for truth, found in pairs]), rel=1e-4)
        assert back.mean == pytest.approx(np.mean([divergence(found, truth) for truth, found in pairs]), rel=1e-4)
    said = capsys.readouterr()
    assert all(f"posterior-8-{samples}samples-seed{seed}" in said.err for samples in (3000, 5000) for seed in (0, 1))
    assert "[4/4] posterior-8-" in said.err
    assert ": KL of marginals 0." in said.err
    files = sorted((tmp_path / "runs").iterdir())
    assert len(files) == 4
    files[1].unlink()
    print_result(posterior_8.run(settings, **small))
    said = capsys.readouterr()
    assert "[1/1] posterior-8-" in said.err
    assert "known prior" in said.out
    files[2].write_text(files[2].read_text()[:99])
    with pytest.raises(
        ValueError, match=r"posterior-8-.*\.json is damaged \(.*\); delete it, and its run is made anew"
    ):
        posterior_8.run(settings, **small)


def test_posterior_16(tmp_path, in_this_process):
    in_this_process(parallel)
    settings = Settings(seeds=1, workers=2, runs=tmp_path / "runs")
    result = posterior_16.run(settings, samples=(3000,), curve=(3000, 20_000), schedule=Schedule(epochs=1))
    write_result("posterior-16", result, tmp_path / "out", "the command")
    check_files("posterior-16", result, tmp_path / "out")
    assert len(list((tmp_path / "runs").iterdir())) == 2
    found = {row[0]: row[1].mean for row in result.rows}
    floor = found["two blocks, exact"]
    assert all(found[name] > floor for name in ("marginals", "two blocks, frequencies", "surrogate, blocks"))
    assert found["frequencies"] == math.inf
    assert found["known prior"] < floor


def test_posterior_2bits(tmp_path, blobs, write_parquet):
    file = write_parquet(tmp_path / "blobs.parquet", np.vstack([blobs.x] * 2), label=np.tile(blobs.y, 2))
    result = posterior_2bits.run(Settings(sources=(Source("blobs", str(file)),)), epochs=2, steps=60)
    write_result("posterior-2bits", result, tmp_path / "out", "the command")
    check_files("posterior-2bits", result, tmp_path / "out")
    rows = {row[0]: row[1:] for row in result.rows}
    for column in range(4):
        codes = [rows[f"code {name}"][column] for name in posterior_2bits.OUTCOMES]
        assert sum(codes) == pytest.approx(1)
        assert rows["bit 1 is +"][column] == pytest.approx(codes[1] + codes[3])
        assert rows["bit 2 is −"][column] == pytest.approx(codes[0] + codes[1])
    assert rows["bit 1 is −"][3] == pytest.approx(0.473)
    assert rows["bit 2 is −"][3] == pytest.approx(0.525)


def test_the_nearest_classes(blobs):
    from lbhash.data import EmbeddingSplit

    x = np.zeros((8, 2), np.float32)
    y = np.repeat([0, 1, 3, 5], 2)
    x[:, 0] = np.repeat([0, 9, 4, 5], 2)
    assert posterior_2bits.nearest_classes(EmbeddingSplit(x, np.arange(8), y)) == (3, 5)
    with pytest.raises(ValueError, match="data has 1 class"):
        posterior_2bits.nearest_classes(EmbeddingSplit(x, np.arange(2), y[:2]))


def test_theory(tmp_path):
    result = theory.run(Settings())
    write_result("theory", result, tmp_path, "the command")
    check_files("theory", result, tmp_path)
    named = dict(zip(result.columns, zip(*result.rows, strict=True), strict=True))
    for i, lowest in enumerate(named["orders: lowest"]):
        assert named["floor"][i] <= named["worst"][i] + 1e-12
        assert named["worst"][i] <= named["AP"][i] <= named["best"][i] + 1e-12
        if lowest is not None:
            assert named["worst"][i] == pytest.approx(lowest)
            assert named["best"][i] == pytest.approx(named["highest"][i])
            assert named["floor"][i] == pytest.approx(named["all lists"][i])
    for k, m, floor, found, lists in result.more["curve"].rows:
        assert floor == pytest.approx(found)
        assert lists == math.comb(k + m, k)


def test_trials_of_earlier_versions_are_found():
    """These are the names that e50cb6d gave its files."""
    schedule = stretched(BRIEF, 2000, 10_000)
    assert Trial(2000, 1, schedule).name("posterior-8") == "posterior-8-2000samples-seed1-settings4f96e2ed"
    assert Trial(20_000, 0, None).name("posterior-16") == "posterior-16-20000samples-seed0-settings56fe9eb1"


def test_a_table_of_records():
    records = [{"x": 1.0, "x, paper": 2.0, "y": 3, "y, paper": None, "paper": 4.0}]
    result = Result.of("T", records, "", lambda: None, paper={"paper": None})
    assert result.columns == ["x", "x, paper", "y", "paper"]  # the paper has nothing for y
    assert result.rows == [[1.0, 2.0, 3, 4.0]]
    assert result.paper == {"x, paper": "x", "paper": None}


def test_every_text_can_be_read():
    names = [file.stem for file in (files("lbhash.reproduce") / "texts").iterdir() if file.name.endswith(".md")]
    assert len(names) == 27
    assert text("map", "losses").startswith("Mean average precision")
    assert "\n\nThree losses" in text("map", "losses")
    with pytest.raises(KeyError, match="length"):
        text("theory-curve")


def test_tables():
    rows = [["a", Interval.of([1.0, 2.0]), 0.25, None], ["b", None, math.inf, 1200]]
    result = Result("T", ("name", "kl", "x", "n"), rows, "Words.", lambda: None)
    lines = as_csv(result).splitlines()
    assert lines[0] == "name,kl,kl ± 95 %,kl infinite,x,n"
    assert lines[1].startswith("a,1.5,6.353")
    assert lines[2] == "b,,,,inf,1200"
    page = as_markdown("t", result, "lbhash reproduce t")
    assert "| a | 1.5000 ± 6.3531 | 0.2500 |  |" in page
    assert "| b |  | ∞ | 1,200 |" in page
    assert "|:--|--:|--:|--:|" in page
    assert as_json("t", result)["tables"]["t"]["rows"][1]["x"] is None
    with pytest.raises(ValueError, match="a row of 'T' has 1 cells"):
        Result("T", ("name", "kl"), [["a"]], "", lambda: None)


def test_the_list_is_that_of_the_registry(command):
    status, out, error = command("reproduce", "--list")
    assert (status, error) == (0, "")
    for name, experiment in experiments().items():
        assert any(line.startswith(name) and experiment.summary in line for line in out.splitlines())
    status, out, _ = command("reproduce", "--list", "--json")
    assert [row["name"] for row in json.loads(out)["experiments"]] == [*experiments(), "all"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["posterior-9"], "name is 'posterior-9'; it must be one of map, "),
        ([], "give the name of an experiment"),
        (["theory", "--data", "digits"], "data is 'digits', and theory makes its own"),
        (["theory", "--seeds", "0"], "seeds is 0"),
        (["theory", "--seed", "-1"], "seed is -1"),
        (["posterior-2bits", "--data", "no.parquet"], "no.parquet"),
    ],
)
def test_bad_arguments_are_one_line(command, tmp_path, arguments, said):
    status, out, error = command("reproduce", *arguments, "--out", tmp_path / "out")
    assert (status, out) == (2, "")
    assert said in error
    assert error.count("\n") == 1
    assert not (tmp_path / "out").exists()


def test_a_file_in_the_way(command, tmp_path):
    (tmp_path / "out").write_text("")
    status, _, error = command("reproduce", "theory", "--out", tmp_path / "out")
    assert status == 2
    assert "which is a file; it must be a folder" in error
    with pytest.raises(ValueError, match="it must be one of map, "):
        run_experiment("x", Settings(), tmp_path)


def test_the_command_prints_and_writes(command, tmp_path):
    status, out, error = command("reproduce", "theory", "--out", tmp_path / "new")
    assert (status, error) == (0, "")
    assert "duplicated and mixed" in out
    assert {"theory.md", "theory.csv", "theory.png", "theory.svg"} <= {f.name for f in (tmp_path / "new").iterdir()}
