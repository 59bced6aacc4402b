"""The studies behind the figures of the docs: their tables, and trials that go on."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from itertools import combinations
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from benchmarks.experiments import centers_effect, centers_table, default, like_for_like, methods_table, pulls, shared

from lbhash.centers.distance import minimum_distance
from lbhash.centers.targets import centers_fingerprint
from lbhash.utils.parallel import read_run, run_missing, write_run

pytestmark = pytest.mark.end_to_end


def execute(number: int, factor: int) -> dict[str, int]:
    return {"product": number * factor, "process": os.getpid()}


@pytest.mark.slow
def test_only_missing_runs_are_run(tmp_path, capsys):
    write_run(tmp_path / "b.json", {"product": -1, "process": 0})
    runs = {"a": (2, 3), "b": (4, 5), "c": (6, 7)}
    done = run_missing(runs, execute, tmp_path, 2)
    assert {name: result["product"] for name, result in done.items()} == {"a": 6, "b": -1, "c": 42}
    assert os.getpid() not in {result["process"] for result in done.values()}
    assert read_run(tmp_path / "c.json") == done["c"]
    assert "3/3 runs" in capsys.readouterr().err
    assert run_missing({"d": (1, 1)}, execute, None, progress=False) == {"d": {"product": 1, "process": os.getpid()}}


def test_centers_have_a_fingerprint():
    marks = {kind: centers_fingerprint(10, 16, kind, 0) for kind in ("best", "hadamard", "bch", "random")}
    assert len(set(marks.values())) == 4
    assert centers_fingerprint(10, 16, "random", 1) != marks["random"]


@pytest.fixture
def page_with(tmp_path):
    """A function that returns a page with parts, in a folder of its own."""

    def make(name, *parts):
        page = tmp_path / name
        page.write_text("Before.\n" + "".join(f"<!-- {part}: begin -->\n<!-- {part}: end -->\n" for part in parts))
        return page

    return make


def test_the_table_of_methods(page_with, tmp_path, capsys):
    page, new = page_with("numbers.md", "methods-table"), page_with("new-classes.md", "new-classes")
    settings = ["--data", "digits@100=digits", "--methods", "csq", "ridge", "--bits", "8", "--epochs", "1"]
    settings += ["--page", str(page), "--out", str(tmp_path / "trials"), "--seeds"]
    methods_table.main([*settings, "2"])
    cells = pd.read_csv(tmp_path / "methods-table.csv", keep_default_na=False).set_index(["protocol", "method"])
    assert (cells["map_worst"] <= cells["map"]).all()
    assert (cells["map"] <= cells["map_best"]).all()
    for file, protocol in ((page, ""), (new, "unseen")):
        told = 100 * cells.loc[protocol, ["map", "half"]]
        shown = [f"{one.map:.1f}±{one.half:.1f}" for one in told.loc[["csq", "csq_d", "ridge"]].itertuples()]
        text = file.read_text(encoding="utf-8")
        assert f"| csq | {shown[0]} | {shown[1]} |\n| ridge | {shown[2]} | – |" in text
        assert file.with_name({"numbers": "methods-table", "new-classes": file.stem}[file.stem] + ".png").exists()
    plain, guided = (100 * cells.loc["unseen", name]["map"] for name in ("csq", "csq_d"))
    assert f"best of the {len(methods_table.METHODS)} with a network | {plain:.1f} | {guided:.1f} |" in text
    before, files = page.read_text(encoding="utf-8"), set((tmp_path / "trials").iterdir())
    methods_table.main([*settings, "1"])  # the cells of two seeds say more
    assert page.read_text(encoding="utf-8") == before
    assert set((tmp_path / "trials").iterdir()) == files
    with pytest.raises(SystemExit):
        methods_table.main(["--data", "digits@x=digits", "--page", str(page)])
    assert "data is 'digits@x=digits'; its R must be an integer of at least 1" in capsys.readouterr().err


def test_means_over_data_sets():
    line = {"method": "csq", "bits": "16", "map": "0.5", "half": "0.03", "data": "a"}
    lines = pd.DataFrame([line, line | {"data": "b", "map": "0.7", "half": "0.04"}, line | {"bits": "32"}])
    found = methods_table.means(lines)  # 32 bits are not on all sets
    assert found.index.tolist() == [("csq", 16, "plain")]
    assert found.iloc[0].tolist() == pytest.approx([60, 2.5])
    lines.loc[1, "half"] = ""
    assert methods_table.means(lines)["half"].isna().all()


def test_a_comparison_goes_on_and_prints_its_table(page_with, tmp_path, capsys):
    page, out = page_with("page.md", "like-for-like", "searched-pulls"), tmp_path / "trials"
    given = ["--data", "digits", "--out", str(out), "--methods", "csq", "--bits", "8", "--epochs", "1"]
    given += ["--seeds", "2", "--page", str(page)]
    like_for_like.main(given)
    printed = capsys.readouterr().out
    assert "| pull bits | paper | with centers |" in printed
    assert printed in page.read_text()
    assert page.with_suffix(".png").read_bytes().startswith(b"\x89PNG")
    assert len(list(out.iterdir())) == 10  # five forms, two seeds
    for file in out.iterdir():  # the cells are in the page's CSV
        file.unlink()
    like_for_like.main(["--out", str(out), "--page", str(page)])  # nor are data needed then
    assert capsys.readouterr().out == printed
    lines = page.with_suffix(".csv").read_text().splitlines(keepends=True)
    page.with_suffix(".csv").write_text("".join(lines[:-1]))  # which one of them is run anew
    like_for_like.main(given)
    assert page.with_suffix(".csv").read_text() == "".join(lines)
    assert {file.name.split("-")[1] for file in out.iterdir()} == {lines[-1].split(",")[1]}


def test_the_default_s_table():
    found = [
        {"data": data, "bits": bits, "way": way, "seed": seed, "map": at / 10 + seed / 100, "seconds": 2.0 + at}
        for data in ("b", "a")
        for bits in (16, 32)
        for at, way in enumerate(default.WAYS)
        for seed in (0, 1)
    ]
    lines = default.cells(pd.DataFrame(found))
    assert lines.loc[1].tolist() == ["b", 16, "csq", 2, 0.1, 0.11, pytest.approx(0.105), 3.0]
    assert default.table(lines).splitlines()[2] == "| b | 0.5 | 10.5 | 20.5 | 30.5 | **40.5** | 0.50 |"


@pytest.mark.slow
def test_the_default_s_study_trains(tmp_path):
    default.main(["--data", "digits=digits", "--bits", "8", "--seeds", "1", "--out", str(tmp_path / "trials")])
    names = [
        line for file in (tmp_path / "trials").iterdir() for line in file.read_text().split('"') if line in default.WAYS
    ]
    assert set(names) == set(default.WAYS)


@pytest.mark.slow
def test_the_benchmark_of_threads_measures():
    script = Path(shared.__file__).parents[1] / "threads.py"
    found = json.loads(subprocess.check_output([sys.executable, script, "--measure"]))
    assert {name.split(",")[0] for name in found} >= {"build flat", "build ivf", "search flat", "search ivf"}


def test_one_seed_has_no_interval():
    maps = pd.Series([0.5, 0.7, 0.6], name="map").groupby(["a", "b", "b"])
    assert shared.half_widths(maps).isna().tolist() == [True, False]


def test_the_table_of_distances():
    cells = pd.DataFrame([centers_table.cell(classes, bits) for classes in (10, 21) for bits in (8, 16)])
    page = centers_table.grid(cells, [10, 21], [8, 12, 16])
    assert "| 10 | **4** | – | **8** |" in page
    assert "| 21 | 2 | – | **8** |" in page
    assert "3 of the 4 distances are proven optimal." in page


def test_the_words_of_which_the_effect_is_asked():
    for classes, bits in ((10, 16), (100, 16), (100, 32)):
        words = {kind: centers_effect.words_of(kind, classes, bits, 1) for kind in centers_effect.KINDS[:-1]}
        least = {kind: minimum_distance(one) for kind, one in words.items()}
        pairs = {kind: sum((a == -b).all() for a, b in combinations(one, 2)) for kind, one in words.items()}
        assert least["in order"] == least["signs"] == least["pairs"] <= least["best-ratio"]
        assert pairs == {"in order": 0, "signs": 0, "pairs": classes // 2, "best-ratio": 0}
        assert not np.array_equal(words["signs"], centers_effect.words_of("signs", classes, bits, 2))


def test_the_effect_of_centers_goes_on(page_with, tmp_path, capsys):
    page = page_with("centers.md", "effect")
    settings = ["--data", "digits=digits", "--bits", "8", "--epochs", "1", "--page", str(page), "--out", str(tmp_path)]
    centers_effect.main([*settings, "--seeds", "1"])
    files = set(tmp_path.glob("*.json"))
    assert len(files) == 15
    before = {file: file.stat().st_mtime_ns for file in files}
    centers_effect.main([*settings, "--seeds", "2"])
    assert {file: file.stat().st_mtime_ns for file in files} == before
    assert len(set(tmp_path.glob("*.json"))) == 30
    text = page.read_text(encoding="utf-8")
    assert "| data | bits | no opposites | signs | distance | arrangement |" in text
    assert text.count(" ± ") == 4
    assert page.with_name("centers-effect.csv").read_text().count(" ± ") == 12


def test_the_effects_are_differences_with_the_same_seed():
    index = pd.MultiIndex.from_product([["z", "a"], [16], ["alone"], [0, 1]], names=centers_effect.KEY)
    maps = pd.DataFrame(50.0, index, centers_effect.KINDS)
    maps["pairs"] = [49.0, 45.0, 50.0, 50.0]
    maps["arranged"] = [51.0, 51.0, 48.0, 52.0]
    shown = centers_effect.effects(maps, centers_effect.KEY[:2])
    assert shown["data"].tolist() == ["z", "a"]
    assert shown["no opposites"].tolist() == ["3.0 ± 25.4", "0.0 ± 0.0"]  # t is 12.7 for one degree of freedom
    assert shown["arrangement"].tolist() == ["1.0 ± 0.0", "0.0 ± 25.4"]


@pytest.mark.parametrize("module", [centers_effect, centers_table, methods_table])
def test_pages_without_their_markers_are_refused(module, tmp_path, capsys):
    page = tmp_path / "page.md"
    page.write_text("no markers")
    with pytest.raises(SystemExit) as ended:
        module.main(["--page", str(page)])
    assert ended.value.code == 2
    assert "it must hold <!-- " in capsys.readouterr().err


def test_held_out_rows_are_asked_for_all_others():
    from lbhash.codes import hamming_distances
    from lbhash.evaluation.metrics import average_precision
    from lbhash.evaluation.ranking import ranking_of
    from lbhash.hasher import Hasher

    source = shared.Source.of("digits")
    train, question = shared.held_out(source)
    (store,) = shared.fitted(train, hasher=Hasher(8, method="itq"))
    (stored,) = store(question)
    codes, labels = stored.codes[0], np.asarray(question.base.labels)
    distances = hamming_distances(codes, codes)
    each = [
        average_precision(
            ranking_of(np.delete(distances[[row]], row, 1), np.delete(labels == label, row)[None]), len(labels) - 1
        )[0]
        for row, label in enumerate(labels)
    ]
    assert question.answers(stored)["map"] == pytest.approx([np.mean(each)])


def test_the_study_of_the_class_posterior(tmp_path, capsys, short_trainings):
    from benchmarks.experiments import class_posterior

    class_posterior.main(["--data", "digits", "--bits", "8", "--out", str(tmp_path)])
    lines = capsys.readouterr().out.splitlines()
    assert [line.split(" | ")[0].strip("| ") for line in lines[2:]] == [
        *(f"a classifier's answer, {count}" for count in ("1 class", "2 classes", "3 classes", "all classes")),
        *(f"8 bits, {how}" for how in ("by distance", "by outputs", "through centers")),
    ]
    values = [float(line.split(" | ")[1].strip("| ")) for line in lines[2:]]
    assert all(value > 50 for value in values)


def test_pulls_and_the_parts_of_the_guidance(page_with, tmp_path):
    page = page_with("guidance.md", "pulls")
    words = ["--data", "digits=digits", "--bits", "8", "--epochs", "1", "--seeds", "1", "--methods", "csq"]
    pulls.main([*words, "--page", str(page), "--out", str(tmp_path / "trials")])
    lines = pd.read_csv(page.with_name("pulls.csv")).set_index("form")
    assert list(lines.index) == list(pulls.FORMS)
    assert len(set(lines["by outputs"])) >= 5  # every part changes the codes
    main, parts = (line.split(" | ") for line in page.read_text().splitlines() if line.startswith("| digits"))
    shown = [f"{lines.loc[form, 'by bits']:.1f}" for form in pulls.MAIN]
    assert (main[:3], main[3]) == (["| digits", "csq", "8"], "/".join(shown))
    assert float(parts[3].split("/")[1]) == round(lines.loc["guidance", "by outputs"], 1)
    tried = [read_run(file)[0]["figures"]["map"][0] for file in sorted((tmp_path / "trials").glob("*guidance-*"))]
    assert len(set(tried)) == len(pulls.WEIGHTS) + 1


def test_a_frozen_surrogate_pulls_and_does_not_learn():
    torch.manual_seed(0)
    frozen, logits = pulls.Frozen(8), torch.randn(4, 8, requires_grad=True)
    index = frozen.block_index(torch.randn(4, 8))
    fit, pull = frozen.losses(logits, index, index, torch.arange(4))
    (fit + pull).backward()
    assert logits.grad.abs().sum() > 0
    assert all(not parameter.grad.any() for parameter in frozen.parameters())
