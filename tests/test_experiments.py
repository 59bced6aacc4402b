"""The tables of the docs: their pages, and the pool that fills them."""

from __future__ import annotations

import json
import os
from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy.stats import norm

from lbhash.experiments import ablation, centers_effect, centers_table, margins, results
from lbhash.objectives import CSQ, Task, build_objective
from lbhash.pool import centers_mark, run_missing


def execute(number: int, factor: int) -> dict[str, int]:
    return {"product": number * factor, "process": os.getpid()}


def test_only_missing_runs_are_run_each_in_a_process(tmp_path, capsys):
    (tmp_path / "b.json").write_text('{"product": -1, "process": 0}')
    runs = {"a": (2, 3), "b": (4, 5), "c": (6, 7)}
    done, minutes = run_missing(runs, execute, tmp_path, 1, lambda result: f"product {result['product']}")
    assert {name: result["product"] for name, result in done.items()} == {"a": 6, "b": -1, "c": 42}
    assert minutes is None
    assert os.getpid() not in {result["process"] for result in done.values()}
    assert json.loads((tmp_path / "c.json").read_text()) == done["c"]
    assert "[1/2] a: product 6" in capsys.readouterr().err


def test_a_run_is_named_after_its_centers():
    marks = {kind: centers_mark(10, 16, kind, 0) for kind in ("best", "hadamard", "bch", "random")}
    assert len(set(marks.values())) == 4
    assert centers_mark(10, 16, "random", 1) != marks["random"]
    run = results.Run("cifar10", "dch", True, 16, 30, 0)
    assert run.name(10) == f"cifar10-dch_d-16bits-30epochs-seed0-{marks['best']}"
    assert results.Run("cifar10", "dch", False, 16, 30, 0).name(10) == "cifar10-dch-16bits-30epochs-seed0"


def test_the_table_of_distances():
    cells = {(classes, bits): centers_table.cell(classes, bits) for classes in (10, 21) for bits in (8, 16)}
    page = centers_table.grid(cells)
    assert "| 10 | **4** | – | **8** |" in page
    assert "4 of the 4 distances are proven optimal." in page
    rows = centers_table.details(cells).splitlines()
    assert len(rows) == 6
    assert rows[3].startswith("| 10 | 16 | 8 | 8 | Plotkin | Hadamard C_16 | ")


@pytest.fixture(scope="module")
def effect():
    rng = np.random.default_rng(0)
    table = {}
    for cell in centers_effect._cells(3):
        distance = cell.bits // 4 + 2 * centers_effect.KINDS.index(cell.kind)
        noise = 0.01 * rng.random()
        table[cell] = {
            "minimum_distance": distance,
            "map": 0.5 + 0.1 * distance / cell.bits + noise,
            "ratio_of_most": 0.5 + noise,
        }
    return table


def test_the_page_of_the_effect(effect):
    page = centers_effect.report(effect, 12, 360, 60.4)
    assert page.startswith("360 runs of 12 epochs, seeds 0, 1, 2, 60 minutes.")
    line = next(line for line in page.splitlines() if line.startswith("| 16 | csq_d |"))
    assert line.count("±") == len(centers_effect.KINDS)
    assert "(4)" in line
    assert "(12)" in line
    last = page.splitlines()[-1]
    assert last.startswith("| mosaic | csq_d | +0.")
    # "best" has the smallest distance here, and distance is made to help.
    assert "| -" in last


def test_the_picture_of_the_effect(effect, tmp_path):
    from matplotlib.image import imread

    centers_effect.draw(effect, tmp_path / "p.png")
    picture = imread(tmp_path / "p.png")
    assert picture.shape[0] > 500
    assert len(np.unique(picture.reshape(-1, picture.shape[-1]), axis=0)) > 100


@pytest.mark.parametrize("module", [centers_effect, centers_table])
def test_pages_without_their_markers_are_refused(module, tmp_path, monkeypatch, capsys):
    page, data = tmp_path / "page.md", tmp_path / "data.parquet"
    page.write_text("no markers")
    data.write_bytes(b"")
    arguments = ["--out", str(page)]
    if module is centers_effect:
        arguments += ["--cifar10", str(data), "--tiny-imagenet", str(data), "--mosaic", str(data)]
    monkeypatch.setattr("sys.argv", ["program", *arguments])
    with pytest.raises(SystemExit) as ended:
        module.main()
    assert ended.value.code == 2
    assert "it must hold <!-- " in capsys.readouterr().err


def test_margins_of_known_outputs():
    """Every figure of four rows against what can be said of them by hand."""
    centers = np.array([[1, 1, 1], [-1, -1, -1]], np.int8)
    outputs = np.array([[2.0, 1.0, 0.5], [-2.0, 1.0, 0.5], [-1.0, -1.0, -1.0], [-0.5, -0.5, -3.0]])
    labels = np.array([0, 0, 0, 1])
    looked = margins.seen(0.5, outputs, labels, centers)
    assert looked.at.tolist() == [0, -1, 1, 1]
    assert (looked.margins < 0).sum() == 4
    (row,) = margins.rows({"csq": {"plain": looked}})
    assert row[:6] == ["CSQ", "plain", "50.00", "33.3%", "50.0%", "25.0%"]
    assert set(row[6:]) == {"–"}


def test_margins_of_a_guidance():
    """The certainty against sums over the outcomes, and the pull against differences of the loss."""
    torch.manual_seed(0)
    centers = np.array([[1, -1] * 5, [-1, -1, 1, 1, 1] * 2], np.int8)
    guided = build_objective("csq", Task(10, 2, False, torch.as_tensor(centers)), guided=True)
    outputs, labels = np.random.default_rng(0).normal(size=(6, 10)), np.array([0, 1, 1, 0, 1, 0])
    looked = margins.seen(0.5, outputs, labels, centers, guided)

    def probabilities(logits):
        return guided.surrogate.joint(torch.as_tensor(logits, dtype=torch.float32)).detach().numpy().astype(float)

    def loss(row, logits):
        joint = probabilities(logits[None])[0]
        bits = (centers[labels[row]] > 0).astype(int)
        index = [sum(bit << place for place, bit in enumerate(block)) for block in (bits[:8], bits[8:])]
        return -sum(np.log(joint[block, outcome]) for block, outcome in enumerate(index))

    joint = probabilities(outputs)
    for row in range(6):
        for bit in range(10):
            block, place = divmod(bit, 8)
            chance = sum(p for outcome, p in enumerate(joint[row, block]) if outcome >> place & 1)
            sign = centers[labels[row], bit]
            assert looked.certainty[row, bit] == pytest.approx(chance if sign > 0 else 1 - chance, abs=1e-5)
            step = np.zeros(10)
            step[bit] = 0.05 * sign
            slope = (loss(row, outputs[row] + step) - loss(row, outputs[row] - step)) / 0.1
            assert looked.pull[row, bit] == pytest.approx(-slope, abs=2e-3)


def test_the_half_width_of_phi_is_one():
    rng = np.random.default_rng(0)
    outputs = rng.uniform(-3, 3, size=(4000, 2))
    blank = np.full(outputs.shape, np.nan)
    looked = margins.Looked(0.5, outputs, np.zeros(4000, int), np.zeros(4000, int), norm.cdf(outputs), blank)
    assert margins.half_width(looked) == pytest.approx(1, abs=0.02)
    assert np.isnan(margins.half_width(replace(looked, certainty=blank)))
    both = margins.together([looked, replace(looked, mean_ap=0.7)])
    assert (both.mean_ap, both.margins.shape) == (pytest.approx(0.6), (8000, 2))


def test_the_page_of_the_margins(tmp_path, monkeypatch, capsys):
    page = tmp_path / "guidance.md"
    page.write_text("a\n<!-- margins: begin -->\n<!-- margins: end -->\nb\n")
    command = ["margins", "--methods", "csq", "--bits", "8", "--epochs", "1", "--seeds", "1", "--out", str(page)]
    monkeypatch.setattr("sys.argv", command)
    margins.main()
    printed = capsys.readouterr().out
    assert [line.split(" | ")[1] for line in printed.splitlines()[2:]] == ["plain", "paper", "distilled"]
    assert page.read_text() == f"a\n<!-- margins: begin -->\n{printed}<!-- margins: end -->\nb\n"
    assert (tmp_path / "guidance-margins.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize("multi", [False, True])
def test_taught_csq_is_csq_with_other_targets(multi):
    rng = np.random.default_rng(0)
    centers = torch.from_numpy(rng.choice([-1.0, 1.0], (3, 6))).float()
    labels = torch.tensor([0, 2, 1, 1])
    if multi:
        labels = torch.tensor([[1.0, 0, 1], [0, 1, 0], [0, 0, 0], [1, 1, 1]])
    says = torch.from_numpy(rng.random((4, 3))).float()
    task = Task(6, 3, labels, centers, teacher=lambda: says)
    logits, index = torch.from_numpy(rng.normal(size=(3, 6))).float(), torch.tensor([3, 0, 2])
    untaught = ablation.TaughtCSQ(task, share=0.0)
    torch.testing.assert_close(untaught(logits, labels[index], index), CSQ(task)(logits, labels[index], index))
    expected, rows = 0.0, 0
    for row, at in zip(logits.tolist(), index.tolist(), strict=True):
        if multi and not labels[at].any():
            continue
        rows += 1
        hard = CSQ(task).targets(labels[[at]])[0]
        for k in range(6):
            mean = sum(says[at, c] * centers[c, k] for c in range(3)) / says[at].sum()
            one = 0.25 * (mean + 1) / 2 + 0.75 * (hard[k] + 1) / 2
            u = 1 / (1 + np.exp(-2 * row[k]))
            expected -= (one * np.log(u) + (1 - one) * np.log(1 - u)) / 6
    found = ablation.TaughtCSQ(task, share=0.25)(logits, labels[index], index)
    quantisation = untaught.lam * (logits.tanh().abs() - 1).square().mean()
    assert float(found - quantisation) == pytest.approx(float(expected) / rows, abs=1e-5)


@pytest.mark.parametrize("experiment", [ablation, margins])
@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (["--seeds", "0"], "seeds is 0; it must be at least 1"),
        (["--bits", "0"], "bits is 0; it must be from 1"),
        (["--epochs", "0"], "epochs is 0; it must be at least 1"),
        (["--data", "some=missing.parquet"], "data is 'missing.parquet', and there is no such file"),
    ],
)
def test_what_an_experiment_refuses_is_a_line(tmp_path, monkeypatch, capsys, experiment, wrong, said):
    page = tmp_path / "guidance.md"
    page.write_text(f"<!-- {experiment.PART}: begin -->\n<!-- {experiment.PART}: end -->\n")
    monkeypatch.setattr("sys.argv", ["experiment", *wrong, "--out", str(page)])
    with pytest.raises(SystemExit) as stopped:
        experiment.main()
    assert stopped.value.code == 2
    assert said in capsys.readouterr().err


def test_the_page_of_the_ablation(tmp_path, monkeypatch, capsys):
    page = tmp_path / "guidance.md"
    page.write_text("a\n<!-- ablation: begin -->\n<!-- ablation: end -->\nb\n")
    monkeypatch.setattr("sys.argv", ["ablation", "--bits", "8", "--epochs", "1", "--seeds", "2", "--out", str(page)])
    ablation.main()
    printed = capsys.readouterr().out
    header, _, line = printed.splitlines()
    assert header.count("|") == line.count("|") == 3 + len(ablation.VARIANTS)
    assert line.startswith("| digits | 8 | ")
    assert len(set(line.split(" | ")[3:])) == len(ablation.VARIANTS) - 1  # no two variants are the same
    assert page.read_text() == f"a\n<!-- ablation: begin -->\n{printed}<!-- ablation: end -->\nb\n"
