from __future__ import annotations

import numpy as np
import pytest

from lbhash import evaluate
from lbhash.codes import pack
from test_cli import assert_refused

pytestmark = pytest.mark.end_to_end


@pytest.fixture(scope="module")
def codes(tmp_path_factory):
    """Codes of another program: ±1 in .npy files with labels beside them."""
    folder = tmp_path_factory.mktemp("codes")
    rng = np.random.default_rng(0)
    for name, n in (("q", 20), ("b", 150)):
        np.save(folder / f"{name}.npy", rng.choice(np.array([-1, 1], np.int8), (n, 20)))
        np.save(folder / f"{name}l.npy", rng.integers(0, 3, n))
        np.save(folder / f"{name}m.npy", (rng.random((n, 6)) < 0.3).astype(np.int64))
    return folder


def files(folder, labels="l"):
    named = {"--queries": "q", "--base": "b", "--query-labels": f"q{labels}", "--base-labels": f"b{labels}"}
    return [part for option, name in named.items() for part in (option, folder / f"{name}.npy")]


def arrays(folder, labels="l"):
    q, ql, b, bl = (np.load(folder / f"{name}.npy") for name in ("q", f"q{labels}", "b", f"b{labels}"))
    return pack(q), ql, pack(b), bl


@pytest.mark.parametrize("labels", ["l", "m"])
def test_every_option_reaches_the_evaluation(codes, json_of, labels):
    options = {"radius": 5, "ties": "stable", "normalize": "all", "empty": "zero"}
    given = [part for option, value in options.items() for part in (f"--{option}", value)]
    found = json_of("evaluate", *files(codes, labels), *given, "--top-k", 30, "-k", 9, "--rank", 7, "--rank", 50)
    report = evaluate(*arrays(codes, labels), top_k=30, bits=20, k=9, ranks=[7, 50], **options)
    assert found == report.as_dict()
    assert (found["ties"], found["ranks"], found["k"], found["top_k"], found["radius"]) == ("stable", [7, 50], 9, 30, 5)
    assert found["bits"] == 20


def test_the_table_has_the_range_of_ties_beside_the_map(codes, command):
    status, out, errors = command("evaluate", *files(codes), "--top-k", 30, "--probe")
    assert (status, errors) == (0, "")
    report = evaluate(*arrays(codes), top_k=30, bits=20, probe=True)
    lines = out.splitlines()
    place = next(i for i, line in enumerate(lines) if "mAP@30, expected over ties" in line)
    assert f"{report.map:.4f}" in lines[place]
    assert f"{report.map_worst:.4f} to {report.map_best:.4f}" in lines[place + 1]
    for part in (
        f"{report.probe_accuracy:.4f}",
        f"{report.knn_accuracy:.4f}",
        f"{report.empty_within_radius:.4f}",
        f"{report.mean_misrank:,.1f}",
        "precision, recall, F1 at 100",
        "99.9 % of pairs",
        "20, 150, 20",
    ):
        assert part in out
    assert "NDCG" not in out
    several = command("evaluate", *files(codes, "m"), "--ties", "stable")[1]
    assert "NDCG" in several
    assert "mAP, ties in the order of the base" in several
    assert "a vote" not in several
    assert "a row counts as found if it shares any label with the query" in several
    found = evaluate(*arrays(codes, "m"), bits=20, ties="stable").by_class
    worst = found.map.argmin()
    figures = [str(found.label[worst]), f"{found.map[worst]:.3f}", str(found.base[worst]), str(found.queries[worst])]
    assert [*figures, f"{found.chance[worst]:.3f}"] in [line.split() for line in several.splitlines()]
    assert "shares any label" not in out


def test_curves(codes, succeed, json_of, tmp_path):
    out, _ = succeed("evaluate", *files(codes), "--curves", tmp_path / "out")
    assert f"curves are in {tmp_path / 'out'}" in out.replace("\n", "")
    names = ["precision_at_k.png", "precision_recall.png", "precision_within_radius.png", "radii.csv", "ranks.csv"]
    assert sorted(file.name for file in (tmp_path / "out").iterdir()) == names
    quiet = json_of("evaluate", *files(codes), "--curves", tmp_path / "more")
    assert quiet["curve"]["precision"] == evaluate(*arrays(codes), bits=20).as_dict()["curve"]["precision"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--rank", 151), "--rank is 151; it must be from 1 to the size of the base (150)"),
        (("--bits", 16), "codes of queries has 20 columns; with 16 bits it must have 16"),
        (("--query-labels", "no.npy"), "labels of queries is 'no.npy', and there is no such file"),
    ],
)
def test_bad_arguments(codes, command, arguments, said):
    given = files(codes)[: 4 if "--query-labels" in arguments else None]
    assert_refused(command("evaluate", *given, *arguments), said)


def test_missing_arguments(codes, command, tmp_path):
    assert_refused(command("evaluate", "--queries", codes / "q.npy"), "base is missing; an evaluation needs two files")
    assert_refused(command("evaluate"), "codes: give --queries and --base, or --protocol")
    assert_refused(command("evaluate", *files(codes)[:6]), "base has no labels; an evaluation needs them")
    assert_refused(command("evaluate", *files(codes, "m"), "--probe"), "probe is True, and the labels are multi-label")


def test_a_few_packed_codes_of_only_0_and_1_are_packed(tmp_path, json_of):
    """Beside a base of 16 bits, and not codes of two bits."""
    base = np.random.default_rng(0).integers(0, 256, (60, 2)).astype(np.uint8)
    for name, codes in (("query", np.array([[0, 1]], np.uint8)), ("base", base)):
        np.save(tmp_path / f"{name}.npy", codes)
        np.save(tmp_path / f"{name}_labels.npy", np.arange(len(codes)) % 3)
    files = ["--queries", tmp_path / "query.npy", "--base", tmp_path / "base.npy"]
    found = json_of("evaluate", *files)
    assert found["bits"] == 16
